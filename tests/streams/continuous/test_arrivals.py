"""Records of several partitions go in the order of their times, and none before one that is still to come."""

from __future__ import annotations

import random

import pytest

from ottla.base import TopicPartition
from ottla.spark.continuous.arrivals import Arrivals, Queue
from ottla.streams import Record

LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)


def record(time: int, offset: int) -> Record:
    return Record(None, None, time, (), "", 0, offset)


def both() -> tuple[Arrivals, Queue, Queue]:
    left, right = Queue(LEFT, "l", 0), Queue(RIGHT, "r", 0)
    return Arrivals([left, right], waits=True), left, right


def times(found: dict[str, list[Record]]) -> dict[str, list[int]]:
    return {source: [each.timestamp for each in records] for source, records in found.items()}


def test_what_a_partition_that_is_behind_could_still_precede_waits() -> None:
    arrivals, left, right = both()
    left.end, right.end = 3, 2
    left.add([record(time, offset) for offset, time in enumerate((5, 10, 20))], 3, 30)
    assert arrivals.take() == {} and not arrivals.waiting and left.position == 0
    right.add([record(10, 0)], 1, 10)
    assert times(arrivals.take()) == {"l": [5, 10], "r": [10]}
    assert (left.position, right.position) == (2, 1)
    right.add([record(30, 1)], 2, 10)
    assert times(arrivals.take()) == {"l": [20], "r": [30]}


def test_a_partition_that_has_nothing_more_is_not_waited_for() -> None:
    arrivals, left, right = both()
    left.end = 1
    left.add([record(5, 0)], 1, 10)
    assert times(arrivals.take()) == {"l": [5]} and right.position == 0


def test_a_late_record_goes_when_the_one_before_it_has_gone() -> None:
    arrivals, left, right = both()
    left.end = right.end = 9
    left.add([record(10, 0), record(3, 1)], 2, 20)
    right.add([record(8, 0)], 1, 10)
    assert times(arrivals.take()) == {"r": [8]}


def test_the_position_passes_what_holds_no_records() -> None:
    queue = Queue(LEFT, "l", 4)
    queue.add([], 7, 0)
    assert queue.position == 7 and queue.lag == 0


@pytest.mark.parametrize("seed", range(30))
def test_every_record_goes_once_in_its_partitions_order(seed: int) -> None:
    rng = random.Random(seed)
    arrivals, left, right = both()
    logs = {queue.source: [record(rng.randrange(50), n) for n in range(20)] for queue in (left, right)}
    taken: dict[str, list[Record]] = {"l": [], "r": []}
    left.end = right.end = 20
    while left.position < 20 or right.position < 20:
        queue = rng.choice((left, right))
        until = min(20, queue.fetched + rng.randrange(4))
        queue.add(logs[queue.source][queue.fetched : until], until, 10)
        for source, records in arrivals.take().items():
            taken[source] += records
    assert taken == logs, f"seed {seed}"
