"""Reassignments: replicas that come, replicas that go, and going back."""

from __future__ import annotations

import pytest

from ottla.base import ErrorCode
from ottla.metadata import Image
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsTopics
from tests.metadata.clusters import after, cluster, topic, with_topics
from tests.metadata.moves import alter, fence, moving, part, reassign, reassigned


def two() -> Image:
    return with_topics(cluster(1, 2, 3, 4), topic("a", assignments={0: [1, 2]}))


def test_new_replicas_are_added_before_old_ones_go() -> None:
    image = two()
    decision = reassign(image, [2, 3])
    assert reassigned(decision) == (0, None)
    image = after(image, decision)
    now = part(image)
    assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((2, 3, 1), (3,), (1,))
    assert (now.leader, now.isr, now.leader_epoch) == (1, (1, 2), 0)
    assert now.directories == tuple(image.brokers[each].log_dirs[0] for each in (2, 3, 1))
    assert moving(image) == {("a", 0): ([2, 3, 1], [3], [1])}
    assert moving(image, [ListPartitionReassignmentsTopics(name="a", partition_indexes=[0, 5])]) == moving(image)
    assert moving(image, [ListPartitionReassignmentsTopics(name="b", partition_indexes=[0])]) == {}


def test_another_order_is_taken_at_once() -> None:
    image = after(two(), reassign(two(), [2, 1]))
    assert (part(image).replicas, part(image).leader, moving(image)) == ((2, 1), 1, {})


def test_fewer_replicas_are_taken_at_once_when_the_rest_is_in_sync() -> None:
    image = after(two(), reassign(two(), [2]))
    now = part(image)
    assert (now.replicas, now.isr, now.leader, now.leader_epoch) == ((2,), (2,), 2, 1)


def test_the_same_replicas_need_no_record() -> None:
    assert reassign(two(), [1, 2]).records == ()


def test_the_number_of_replicas_may_be_held_fixed() -> None:
    image = two()
    refused = reassign(image, [1, 2, 3], may_resize=False)
    assert reassigned(refused) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 3",
    )
    image = after(image, reassign(image, [3, 4], may_resize=False))
    assert reassigned(reassign(image, [2, 3], may_resize=False))[0] == 0, "while it moves, what is meant counts"


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ([], "The manual partition assignment includes an empty replica list."),
        ([1, 9], "The manual partition assignment includes broker 9, but no such broker is registered."),
        ([1, 1], "The manual partition assignment includes the broker 1 more than once."),
    ],
)
def test_replicas_that_cannot_be(replicas: list[int], message: str) -> None:
    assert reassigned(reassign(two(), replicas)) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def test_what_does_not_exist_is_unknown() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassigned(reassign(two(), [1], name="b")) == (unknown, "Unable to find a topic named b.")
    assert reassigned(reassign(two(), [1], index=3)) == (unknown, "Unable to find partition a:3.")


def test_a_cancelled_reassignment_goes_back() -> None:
    image = after(two(), reassign(two(), [3, 4]))
    image = after(image, alter(image, 1, 2, 3))
    assert part(image).replicas == (3, 4, 1, 2)
    decision = reassign(image, None)
    assert reassigned(decision) == (0, None)
    now = part(after(image, decision))
    assert (now.replicas, now.isr, now.leader) == ((1, 2), (1, 2), 1)
    assert (now.adding_replicas, now.removing_replicas) == ((), ())
    assert now.leader_epoch == 1, "who was to be added has to hear of it"


def test_there_is_nothing_to_cancel() -> None:
    assert reassigned(reassign(two(), None)) == (
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        "No partition reassignment is in progress.",
    )


def test_going_back_to_what_lacks_records_needs_leave() -> None:
    settings = {"unclean.leader.election.enable": "true"}
    for configs, code in ((None, ErrorCode.INVALID_REPLICA_ASSIGNMENT), (settings, ErrorCode.NONE)):
        image = with_topics(cluster(1, 2, 3, 4), topic("a", assignments={0: [1]}, configs=configs))
        image = after(image, reassign(image, [2, 3]))
        image = after(image, alter(image, 1, 2))
        image = fence(image, 1)
        assert (part(image).leader, part(image).isr) == (2, (2,))
        decision = reassign(image, None)
        assert reassigned(decision)[0] == code
        if code is ErrorCode.NONE:
            image = after(image, decision)
            assert part(image).replicas == (1,)


def test_a_new_target_replaces_the_one_before() -> None:
    image = after(two(), reassign(two(), [2, 3]))
    image = after(image, reassign(image, [2, 4]))
    now = part(image)
    assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((2, 4, 1, 3), (4,), (1, 3))
    image = after(image, alter(image, 1, 2, 4))
    assert (part(image).replicas, part(image).isr, part(image).leader) == ((2, 4), (2, 4), 2)


def test_going_back_by_a_new_target_ends_at_once() -> None:
    image = after(two(), reassign(two(), [2, 3]))
    image = after(image, reassign(image, [1, 2]))
    now = part(image)
    assert (now.replicas, now.isr, now.adding_replicas, now.removing_replicas) == ((1, 2), (1, 2), (), ())


def test_a_new_target_keeps_waiting_for_what_is_still_to_be_added() -> None:
    image = after(two(), reassign(two(), [2, 3]))
    image = after(image, reassign(image, [2, 3, 4]))
    assert part(image).adding_replicas == (3, 4) and part(image).removing_replicas == (1,)
    image = after(image, alter(image, 1, 2, 4))
    assert part(image).adding_replicas == (3, 4), "3 is missing"
    image = after(image, alter(image, 1, 2, 3, 4))
    assert (part(image).replicas, part(image).adding_replicas) == ((2, 3, 4), ())


def test_who_was_to_go_and_is_wanted_again_stays() -> None:
    image = after(two(), reassign(two(), [2, 3]))
    image = after(image, reassign(image, [1, 2, 3]))
    assert (part(image).adding_replicas, part(image).removing_replicas) == ((3,), ())
    image = after(image, alter(image, 1, 2, 3))
    assert (part(image).replicas, part(image).leader) == ((1, 2, 3), 1)
