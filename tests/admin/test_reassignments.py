"""Reassignments: which replicas a throttle holds back, and how new places are proposed."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.admin import (
    OngoingReassignment,
    ReplicaLogDir,
    ReplicaMove,
    TopicPartitionReplica,
    propose_reassignment,
    replica_moves,
)
from ottla.base import KafkaError, NodeId, TopicPartition
from ottla.cli.reassignment_files import parse_plan, plan_json
from ottla.cli.reassignment_texts import log_dir_text
from ottla.client import Address, Node

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def brokers(*racks: str | None) -> list[Node]:
    return [Node(NodeId(number), Address("h", number), rack) for number, rack in enumerate(racks, start=1)]


def test_a_plan_goes_through_its_json_and_back() -> None:
    log_dirs = {TopicPartitionReplica(2, *T0): "/d"}
    plan = parse_plan(plan_json({T1: [3], T0: [1, 2]}, log_dirs))
    assert (plan.replicas, plan.log_dirs) == ({T0: [1, 2], T1: [3]}, log_dirs)


def test_those_that_have_it_are_sources_and_only_those_that_lack_it_are_destinations() -> None:
    under_way = {
        T0: OngoingReassignment([2, 1], adding=[2], removing=[1]),
        T1: OngoingReassignment([3, 1], adding=[3], removing=[]),
    }
    found = replica_moves(under_way, {T0: [1, 2, 3]}, {T0: [2, 1]})
    assert found == {
        T0: ReplicaMove(frozenset({1}), frozenset({2, 3})),  # what was begun before counts from where it began
        T1: ReplicaMove(frozenset({1}), frozenset({3})),
    }


def test_a_proposal_keeps_the_number_of_copies_and_deals_leaders_evenly() -> None:
    current = {TopicPartition("t", index): [1, 2] for index in range(9)} | {TopicPartition("u", 0): [3]}
    found = propose_reassignment(current, brokers(None, None, None), rack_aware=True)
    assert {each: len(replicas) for each, replicas in found.items()} == {
        each: len(replicas) for each, replicas in current.items()
    }
    assert set(Counter(found[TopicPartition("t", index)][0] for index in range(9)).values()) == {3}


def test_copies_lie_in_different_racks_unless_that_is_not_wanted() -> None:
    current = {TopicPartition("t", index): [1, 2] for index in range(8)}
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    found = propose_reassignment(current, brokers(*racks.values()), rack_aware=True)
    assert all({racks[each] for each in replicas} == {"a", "b"} for replicas in found.values())
    with pytest.raises(KafkaError, match="Not all brokers have rack information"):
        propose_reassignment(current, brokers("a", None), rack_aware=True)
    assert len(propose_reassignment(current, brokers("a", None), rack_aware=False)) == len(current)


@pytest.mark.parametrize(
    ("moving", "said"),
    [
        (
            ReplicaLogDir(None, None),
            "is not found in any live log dir on broker 1. There is likely an offline log directory",
        ),
        (ReplicaLogDir("/d", None), "Reassignment of replica t-0-1 completed successfully."),
        (ReplicaLogDir("/c", None), "is not being moved from log dir /c to /d."),
        (ReplicaLogDir("/c", "/d"), "Reassignment of replica t-0-1 is still in progress."),
        (ReplicaLogDir("/c", "/e"), "is being moved to log dir /e instead of /d."),
    ],
)
def test_every_state_of_a_move_between_disks_has_its_sentence(moving: ReplicaLogDir, said: str) -> None:
    assert said in log_dir_text(moving, TopicPartitionReplica(1, *T0), "/d")
