from __future__ import annotations

from random import Random

import pytest

from ottla.base import ErrorCode
from ottla.metadata import Image, decide
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.metadata.clusters import after, cluster, topic, with_topics


def grow(image: Image, count: int, assignments: list[list[int]] | None = None, *, validate_only: bool = False):
    given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="a", count=count, assignments=given)], validate_only=validate_only
    )
    return decide.create_partitions(image, request, rng=Random(3))


def test_partitions_are_added_behind_the_old_ones() -> None:
    image = with_topics(cluster(1, 2), topic("a", 2, 2))
    old = image.topics["a"].partitions
    new = after(image, grow(image, 5)).topics["a"].partitions
    assert sorted(new) == [0, 1, 2, 3, 4]
    assert all(new[index] == old[index] for index in old)
    assert all(len(each.replicas) == 2 for each in new.values())


def test_added_partitions_go_where_they_are_told() -> None:
    image = with_topics(cluster(1, 2), topic("a", 1, 2))
    new = after(image, grow(image, 3, [[2, 1], [1, 2]])).topics["a"].partitions
    assert [new[1].replicas, new[2].replicas] == [(2, 1), (1, 2)]


def test_validate_only_adds_nothing() -> None:
    image = with_topics(cluster(1), topic("a"))
    assert grow(image, 3, validate_only=True).records == ()


@pytest.mark.parametrize(
    ("count", "assignments", "code", "message"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "The topic a currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            4,
            [[1]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            [[1, 2]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s).",
        ),
    ],
)
def test_counts_and_assignments_that_cannot_be(
    count: int, assignments: list[list[int]] | None, code: ErrorCode, message: str
) -> None:
    image = with_topics(cluster(1, 2), topic("a", 2, 1))
    (result,) = grow(image, count, assignments).response.results
    assert (result.error_code, result.error_message) == (code, message)


def test_a_topic_that_does_not_exist_is_refused() -> None:
    (result,) = grow(cluster(1), 3).response.results
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
