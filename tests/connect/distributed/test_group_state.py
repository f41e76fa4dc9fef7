"""What a worker keeps between two rounds of its group: its work, what it has yet to follow, and its measures."""

from __future__ import annotations

import math
from dataclasses import replace

from immutables import Map

from ottla.connect.assignment import Assignment
from ottla.connect.distributed.group_state import SYNC_RETRIES_MAX, GroupPosition, PendingChanges, RebalanceMeasures
from ottla.connect.storage import (
    ConfigState,
    ConnectorRemoved,
    ConnectorUpdated,
    RestartRequest,
    TargetStateChanged,
    TaskId,
    TasksUpdated,
)

FIRST = Assignment("leader", "http://leader", 1, connectors=("a", "b"), tasks=(TaskId("a", 0), TaskId("b", 0)))
NEXT = Assignment(
    *("leader", "http://leader", 2),
    connectors=("c",),
    tasks=(TaskId("c", 0),),
    revoked_connectors=("a",),
    revoked_tasks=(TaskId("a", 0),),
)


def test_work_that_is_not_revoked_is_kept_beside_what_a_generation_gives() -> None:
    at = GroupPosition()
    at.take(FIRST, keeps=True)
    at.take(NEXT, keeps=True)
    assert at.assignment == replace(NEXT, connectors=("c", "b"), tasks=(TaskId("c", 0), TaskId("b", 0)))
    assert not at.is_resolved


def test_an_eager_generation_takes_the_place_of_the_one_before() -> None:
    at = GroupPosition(held=FIRST)
    at.take(NEXT, keeps=False)
    assert at.assignment == NEXT


def test_who_has_joined_nothing_has_nothing_to_do() -> None:
    assert GroupPosition().assignment.connectors == ()


def test_a_worker_joins_again_where_its_leader_holds_work_back() -> None:
    at = GroupPosition()
    at.take(replace(FIRST, delay_ms=60_000), keeps=True)
    assert at.rejoin_at_s < math.inf
    at.take(NEXT, keeps=True)
    assert at.rejoin_at_s == math.inf


def test_reading_the_topic_to_its_end_gives_all_retries_back() -> None:
    at = GroupPosition(is_behind=True, sync_retries=1)
    at.synced(ConfigState(offset=7))
    assert (at.known.offset, at.is_behind, at.sync_retries) == (7, False, SYNC_RETRIES_MAX)


def test_connectors_that_come_or_go_take_a_rebalance_and_changed_ones_do_not() -> None:
    known = ConfigState(configs=Map({"here": {}}))
    for change, rebalance, updated in (
        (ConnectorUpdated("here"), False, {"here"}),
        (ConnectorUpdated("new"), True, {"new"}),
        (ConnectorRemoved("here"), True, set()),
        (ConnectorRemoved("gone"), False, {"gone"}),
        (TasksUpdated("here", (TaskId("here", 0),)), True, set()),
    ):
        pending = PendingChanges()
        pending.add(change, known)
        assert (pending.rebalance, pending.updated) == (rebalance, updated), change


def test_what_is_taken_is_followed_once() -> None:
    pending = PendingChanges()
    pending.add(TargetStateChanged("a"), ConfigState())
    pending.add(TasksUpdated("b", (TaskId("b", 0),)), ConfigState())
    taken = pending.take()
    assert (taken.targets, taken.reconfigured, taken.rebalance) == ({"a"}, {"b"}, True)
    assert not pending


def test_of_several_restarts_of_a_connector_the_largest_is_carried_out() -> None:
    pending = PendingChanges()
    small, large = RestartRequest("a", only_failed=True, include_tasks=True), RestartRequest("a", only_failed=False)
    for each in (small, large, small):
        pending.add(each, ConfigState())
    assert not pending, "a restart needs no round of its own"
    assert pending.take_restarts() == [large]
    assert pending.take_restarts() == []


def test_a_rebalance_is_counted_once_however_often_it_begins() -> None:
    measures = RebalanceMeasures()
    measures.begin()
    measures.begin()
    assert measures.values(FIRST, 3)["worker-rebalance-rebalancing"] == 1
    measures.end()
    values = measures.values(FIRST, 3)
    assert values["worker-rebalance-rebalancing"] == 0
    assert values["worker-rebalance-completed-rebalances-total"] == 1
    assert values["worker-rebalance-epoch"] == 3
    assert values["coordinator-assigned-tasks"] == 2
    assert values["coordinator-rebalance-latency-max"] == values["coordinator-rebalance-latency-total"] >= 0
