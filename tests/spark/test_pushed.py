"""Work where records are fetched: how it is shared out among tasks, and counting there."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa

from ottla.base import Offset, TopicPartition
from ottla.spark.source.positions import Stretch
from ottla.spark.streams.lowering.partial import MERGED_ROWS, bucket_ms, counted, merged
from ottla.spark.streams.lowering.pushed import TASK_ROWS_MIN, shared_out
from ottla.streams import TimeWindows


def stretches(*sizes: int) -> list[Stretch]:
    return [Stretch(TopicPartition("t", at), Offset(7), Offset(7 + size)) for at, size in enumerate(sizes)]


def test_a_small_batch_is_one_task_whatever_its_partitions() -> None:
    assert [len(task) for task in shared_out(stretches(3, 1, 4, 1))] == [4]


def test_a_large_batch_has_a_task_for_each_partition() -> None:
    assert sorted(len(task) for task in shared_out(stretches(*[TASK_ROWS_MIN] * 4))) == [1, 1, 1, 1]


def test_every_stretch_goes_to_one_task_and_loads_are_about_equal() -> None:
    chance = Random(1)
    for _ in range(50):
        given = stretches(*(chance.randrange(1, 3 * TASK_ROWS_MIN) for _ in range(chance.randrange(1, 12))))
        tasks = shared_out(given)
        assert sorted((each for task in tasks for each in task), key=lambda each: each.partition) == given
        loads = [sum(each.end - each.start for each in task) for task in tasks]
        assert max(loads) - min(loads) <= max(each.end - each.start for each in given)


def test_a_batch_without_records_has_no_task() -> None:
    assert shared_out([]) == []


def test_counts_of_keys_and_windows_are_those_of_the_records_with_their_newest_time() -> None:
    chance = Random(2)
    rows = [(b"k%d" % chance.randrange(9), chance.randrange(-5_000, 90_000)) for _ in range(3_000)]
    keys, times = pa.array([key for key, _ in rows], pa.binary()), np.array([time for _, time in rows], np.int64)
    found = counted(keys, times, 10_000).to_pylist()
    wanted = Counter((key, time // 10_000) for key, time in rows)
    assert {(row["_base"], row["timestamp"] // 10_000): row["_argument"] for row in found} == wanted
    assert len(found) == len(wanted)
    assert max(row["timestamp"] for row in found) == int(times.max())


def test_counts_of_several_batches_are_added_up_and_given_on_where_they_stay_many() -> None:
    chance = Random(3)
    for spread in (7, MERGED_ROWS):
        rows = [(b"k%d" % chance.randrange(spread), chance.randrange(90_000)) for _ in range(3 * MERGED_ROWS)]
        parts = [rows[at : at + 9_000] for at in range(0, len(rows), 9_000)]
        batches = [
            counted(pa.array([key for key, _ in part], pa.binary()), np.array([time for _, time in part]), 30_000)
            for part in parts
        ]
        found = list(merged(batches, 30_000))
        totals: Counter[tuple[bytes, int]] = Counter()
        for row in (row for batch in found for row in batch.to_pylist()):
            totals[row["_base"], row["timestamp"] // 30_000] += row["_argument"]
        assert totals == Counter((key, time // 30_000) for key, time in rows)
        assert (len(found) == 1) == (spread == 7)
    assert list(merged([], 0)) == []


def test_counts_without_windows_have_a_row_for_each_key() -> None:
    found = counted(pa.array([b"a", b"b", b"a"], pa.binary()), np.array([5, 6, 7], np.int64), 0).to_pylist()
    assert sorted((row["_base"], row["_argument"], row["timestamp"]) for row in found) == [(b"a", 2, 7), (b"b", 1, 6)]


def test_no_bound_of_a_window_lies_within_a_stretch_that_is_counted_as_one() -> None:
    assert bucket_ms(TimeWindows(60_000, 60_000, 0)) == 60_000
    assert bucket_ms(TimeWindows(60_000, 25_000, 0)) == 5_000
    assert bucket_ms(None) == 0
