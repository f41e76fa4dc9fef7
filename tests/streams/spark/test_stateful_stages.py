"""Stages with state on Spark: the same results as the executors alone, whatever happens between batches."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.streams import Record, StoreSpec, Topology
from ottla.streams import operations as op
from tests.streams.engine.plans import JSON, LONG, STRING, sink, source, step, topology
from tests.streams.spark.entry_files import Alone, In, Out, Stage, plan_of, with_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNT = op.Aggregator("count")


def add(_key: str, value: str, found: list[str]) -> list[str]:
    return [*found, value]


LIST = op.Aggregator("aggregate", initializer=list, adder=add)
"""Every value in the order in which it came."""


def aggregate(aggregator: op.Aggregator = COUNT, value: Any = LONG) -> Topology:
    return topology(
        source(),
        step("aggregate", op.StreamAggregate("store", aggregator), "source", "store"),
        step("to-stream", op.TableToStream(), "aggregate"),
        sink("to-stream", value=value),
        stores=[StoreSpec("store", "timestamped_key_value", STRING, value)],
    )


def records(number: int, *, keys: int, first: int = 0, tasks: int = 2) -> list[In]:
    """Return records of `keys` keys, each key in one task, as a topic with a partition per task has them."""
    offsets = [count(first) for _ in range(tasks)]
    found = []
    for place in range(first, first + number):
        key = place * 7919 % keys
        task = key % tasks
        entry = Record(f"k{key}".encode(), f"v{place}".encode(), place, (), "in", task, next(offsets[task]))
        found.append(In(task, entry))
    return found


def sorted_rows(rows: list[Out]) -> list[Out]:
    """Return rows by task or key, each key's in their order."""
    return sorted(rows, key=lambda row: (row.topic, row.key or b""))


def test_results_and_changelog_equal_the_executors_own(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(aggregate(), block_entries=16)
    batches = [records(300, keys=90, first=first) for first in (0, 300, 600)]
    stage = Stage(spark, tmp_path, plan).add(*batches).go()
    alone = Alone(plan)
    assert [sorted_rows(rows) for rows in stage.batches] == [sorted_rows(alone.batch(rows)) for rows in batches]
    assert [(each.processed, each.stream_time) for each in stage.progress] == [(300, 299), (300, 599), (300, 899)]


def test_records_of_two_partitions_meet_in_kafkas_order(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(aggregate(LIST, JSON), tasks=1)
    rows = [
        In(0, Record(b"k", f"{topic}{timestamp}".encode(), timestamp, (), topic, partition, offset))
        for topic, partition, times in (("a", 0, [5, 3, 9]), ("a", 1, [4, 6, 1]), ("b", 0, [2, 5]))
        for offset, timestamp in enumerate(times)
    ]
    stage = Stage(spark, tmp_path, plan).add(list(reversed(rows))).go()
    (result, _) = stage.batches[0]
    assert result.value == b'["b2", "a4", "a5", "a3", "b5", "a6", "a1", "a9"]'


def test_what_one_record_became_keeps_its_order(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(aggregate(LIST, JSON), tasks=1)
    rows = [In(0, Record(b"k", bytes([97 + n]), 1, (), "in", 0, 0), step=n) for n in range(20)]
    stage = Stage(spark, tmp_path, plan).add(reversed(rows)).go()
    letters = ", ".join(f'"{chr(97 + n)}"' for n in range(20))
    assert stage.batches[0][0].value == f"[{letters}]".encode()


def test_a_query_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(aggregate(), block_entries=16)
    first, second = records(200, keys=50), records(200, keys=50, first=200)
    stage = Stage(spark, tmp_path, plan).add(first).go()
    stage.add(second).go()
    alone = Alone(plan)
    alone.batch(first)
    assert sorted_rows(stage.batches[1]) == sorted_rows(alone.batch(second))


def test_a_batch_that_failed_in_the_sink_is_done_again_with_the_same_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = plan_of(aggregate(LIST, JSON), block_entries=16)
    batches = [records(200, keys=50, first=first) for first in (0, 200, 400)]
    stage = Stage(spark, tmp_path, plan).add(*batches)
    failed: list[list[Out]] = []

    def sink(batch: Any, number: int) -> None:
        stage.keep(batch, number)
        if number == 1 and len(failed) < 2:
            failed.append(stage.batches[1])
            raise RuntimeError("the sink is away")

    for _ in range(2):
        with pytest.raises(Exception, match="the sink is away"):
            stage.start(sink, availableNow=True).awaitTermination()
    stage.start(sink, availableNow=True).awaitTermination()
    alone = Alone(plan)
    wanted = [sorted_rows(alone.batch(rows)) for rows in batches]
    assert [sorted_rows(rows) for rows in failed] == [wanted[1], wanted[1]]
    assert [sorted_rows(rows) for rows in stage.batches] == wanted


def test_another_number_of_tasks_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(aggregate())
    stage = Stage(spark, tmp_path, plan).add(records(10, keys=5)).go()
    stage.plan = with_tasks(plan, 3)
    with pytest.raises(Exception, match=r"stateful-0 was kept for 2 tasks .* there are 3 now"):
        stage.add(records(10, keys=5, first=10)).go()
    stage.plan = plan
    assert len(stage.go().batches[1]) == 10


def test_dropped_records_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        In(0, Record(None, b"v", 1, (), "in", 0, 0)),
        In(0, Record(b"\xff", b"v", 2, (("trace", b"1"), ("empty", None)), "in", 0, 1)),
        In(1, Record(b"a", b"v", 3, (("trace", b"2"),), "in", 1, 0)),
    ]
    plan = plan_of(aggregate(), skip_undecodable=True, dead_letter_topic="dead")
    stage = Stage(spark, tmp_path, plan).add(rows).go()
    (progress,) = stage.progress
    assert (progress.processed, progress.dropped_null_key, progress.skipped_poison) == (3, 1, 1)
    dead = [row for row in stage.batches[0] if row.topic == "dead"]
    assert [row.headers[:2] for row in dead] == [(("trace", b"1"), ("empty", None))]
