"""Records of several partitions go in the order of their times, and none before one that is still to come."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ottla.base import TopicPartition
from ottla.spark.continuous.arrivals import TAKEN_MAX, Arrivals, Queue
from ottla.wire import Columns

LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)


def columns(*times: int, first: int = 0) -> list[Columns]:
    count = len(times)
    bounds, nulls = np.zeros(2 * count, np.int32), np.ones(count, np.bool_)
    offsets = np.arange(first, first + count, dtype=np.int64)
    return [Columns(b"", offsets, np.array(times, np.int64), ~nulls, bounds, nulls, bounds, nulls)]


def both() -> tuple[Arrivals, Queue, Queue]:
    left, right = Queue(LEFT, "l", 0), Queue(RIGHT, "r", 0)
    return Arrivals([left, right], waits=True), left, right


def taken(arrivals: Arrivals) -> dict[str, list[tuple[int, int]]]:
    """Return the (offset, time) of what may go, by source."""
    return {
        source: [
            row for _, each in pieces for row in zip(each.offsets.tolist(), each.timestamps_ms.tolist(), strict=True)
        ]
        for source, pieces in arrivals.take().items()
    }


def test_what_a_partition_that_is_behind_could_still_precede_waits() -> None:
    arrivals, left, right = both()
    left.end, right.end = 3, 2
    left.add(columns(5, 10, 20), 3, 30)
    assert arrivals.take() == {} and not arrivals.waiting and left.position == 0
    right.add(columns(10), 1, 10)
    assert taken(arrivals) == {"l": [(0, 5), (1, 10)], "r": [(0, 10)]}
    assert (left.position, right.position) == (2, 1)
    right.add(columns(30, first=1), 2, 10)
    assert taken(arrivals) == {"l": [(2, 20)], "r": [(1, 30)]}


def test_a_partition_that_has_nothing_more_is_not_waited_for() -> None:
    arrivals, left, right = both()
    left.end, right.end = 1, 0
    left.add(columns(5), 1, 10)
    assert taken(arrivals) == {"l": [(0, 5)]} and right.position == 0


def test_a_partition_whose_leader_has_not_said_where_it_ends_is_waited_for() -> None:
    arrivals, left, right = both()
    left.end = 1
    left.add(columns(5), 1, 10)
    assert arrivals.take() == {} and not arrivals.waiting and not arrivals.is_behind
    right.end = 2
    assert arrivals.take() == {}, "it has more, and that may be older"
    right.add(columns(3, 7), 2, 20)
    assert taken(arrivals) == {"l": [(0, 5)], "r": [(0, 3), (1, 7)]}


def test_where_no_partition_is_waited_for_unknown_ends_hold_nothing_up() -> None:
    left, right = Queue(LEFT, "l", 0), Queue(RIGHT, "r", 0)
    arrivals = Arrivals([left, right], waits=False)
    left.end = 1
    left.add(columns(5), 1, 10)
    assert taken(arrivals) == {"l": [(0, 5)]}


def test_a_late_record_goes_when_the_one_before_it_has_gone() -> None:
    arrivals, left, right = both()
    left.end = right.end = 9
    left.add(columns(10, 3), 2, 20)
    right.add(columns(8), 1, 10)
    assert taken(arrivals) == {"r": [(0, 8)]}


def test_the_position_passes_what_holds_no_records() -> None:
    queue = Queue(LEFT, "l", 4)
    queue.add([], 7, 0)
    assert queue.position == 7 and queue.lag == 0


def test_of_many_pieces_the_first_are_taken_and_the_others_stay_where_they_are() -> None:
    queue = Queue(LEFT, "l", 0)
    arrivals, many = Arrivals([queue], waits=True), TAKEN_MAX // 2 + 1
    for part in range(5):
        queue.add(columns(*range(many), first=part * many), (part + 1) * many, 100)
    taken(arrivals)
    assert queue.position == 2 * many and queue.waiting == 3 * many and arrivals.waiting
    while arrivals.waiting:
        taken(arrivals)
    assert queue.position == 5 * many and queue.size_bytes == 0


@pytest.mark.parametrize("seed", range(30))
def test_every_record_goes_once_in_its_partitions_order(seed: int) -> None:
    rng = random.Random(seed)
    arrivals, left, right = both()
    logs = {queue.source: [(offset, rng.randrange(50)) for offset in range(20)] for queue in (left, right)}
    found: dict[str, list[tuple[int, int]]] = {"l": [], "r": []}
    left.end = right.end = 20
    while left.position < 20 or right.position < 20:
        queue = rng.choice((left, right))
        until = min(20, queue.fetched + rng.randrange(4))
        times = [time for _, time in logs[queue.source][queue.fetched : until]]
        queue.add(columns(*times, first=queue.fetched), until, 10)
        for source, records in taken(arrivals).items():
            found[source] += records
    assert found == logs, f"seed {seed}"
