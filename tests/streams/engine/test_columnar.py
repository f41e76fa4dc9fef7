"""Blocks of columns have the results of single records, byte by byte: outputs, changelogs, order, counts and stream time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.streams import (
    KStream,
    Materialized,
    ResidentState,
    SlidingWindows,
    StreamsBuilder,
    TimeWindowedSerde,
    TimeWindows,
    Topology,
    agg,
    evaluated,
    serde_of,
    task_groups,
    vectorised,
)
from ottla.streams.engine import (
    BlockRecords,
    ChangeColumns,
    EngineSettings,
    Executor,
    Output,
    OutputColumns,
    Progress,
    Record,
    StoreChange,
)

SIZES = st.integers(0, 12)
MINUTE = TimeWindows.of_size(minutes=1, grace="30s")
HOPPING = MINUTE.advance_by("20s")


@vectorised
def shouted(values: pa.Array) -> pa.Array:
    return pa.compute.utf8_upper(values)


def doubled(key: str | None, value: str | None) -> str | None:
    return None if value is None else f"{key}:{value}"


def picky(key: str, value: str, total: int) -> int:
    if value.startswith("x"):
        raise ValueError("x is not taken")
    return total + len(value)


def builder() -> StreamsBuilder:
    return StreamsBuilder(default_key_serde="string", default_value_serde="string")


Make = Callable[[KStream[Any, Any]], Any]
TOTALS = Materialized("totals", key_serde="string", value_serde="long")


def counted(stream: KStream[Any, Any]) -> None:
    stream.group_by_key().count(materialized="counts").to_stream().to("out", value_serde="long")


def words(stream: KStream[Any, Any]) -> None:
    stream.flat_map_values("split(lower(value), ' ')").group_by("value").count(materialized="c").to_stream().to(
        "out", value_serde="long"
    )


def windowed(windows: Any) -> Make:
    def make(stream: KStream[Any, Any]) -> None:
        found = stream.group_by_key().windowed_by(windows).count(materialized="counts")
        found.to_stream().to("out", key_serde=TimeWindowedSerde(serde_of("string")), value_serde="long")

    return make


def summed(stream: KStream[Any, Any]) -> None:
    stream.group_by_key().aggregate(lambda: 0, picky, materialized=TOTALS).to_stream().map_values(
        lambda total: total * 2, value_serde="long"
    ).to("out", value_serde="long")


def declared(kind: str) -> Make:
    def make(stream: KStream[Any, Any]) -> None:
        found = getattr(agg, kind)("length(value)")
        stream.group_by_key().aggregate(found, materialized=TOTALS).to_stream().to("out", value_serde="long")

    return make


def branched(stream: KStream[Any, Any]) -> None:
    split = stream.split()
    split.branch("value like 'a%'", to=lambda each: each.to("first"))
    split.branch(lambda key, value: key == "k1", to=lambda each: each.map_values(doubled).to("second"))
    split.default_branch(to=lambda each: each.to("third"))


def merged(stream: KStream[Any, Any]) -> None:
    stream.filter("value <> 'b'").merge(stream.filter_not("value <> 'b'")).to("out")


def several(stream: KStream[Any, Any]) -> None:
    stream.map_values(doubled).to("mapped")
    stream.group_by_key().count(materialized="counts").to_stream().to("out", value_serde="long")


PLANS: dict[str, Make] = {
    "expression": lambda stream: stream.map_values("upper(value)").to("out"),
    "function": lambda stream: stream.map_values(doubled).to("out"),
    "vectorised": lambda stream: stream.map_values(shouted).to("out"),
    "key and value": lambda stream: stream.map(lambda key, value: (value, key)).to("out"),
    "filters": lambda stream: stream.filter("value > 'b'").filter_not("length(value) = 2").to("out"),
    "flat map": lambda stream: stream.flat_map(lambda key, value: [(value, "1")] * len(key or "")).to("out"),
    "flat list": lambda stream: stream.flat_map_values(lambda value: (value or "").split()).to("out"),
    "select": lambda stream: stream.select_key("concat(value, '!')").to("out"),
    "branches": branched,
    "merged": merged,
    "count": counted,
    "words": words,
    "tumbling": windowed(MINUTE),
    "hopping": windowed(HOPPING),
    "sliding": windowed(SlidingWindows.of_difference("20s", grace="30s")),
    "Python's sum": summed,
    "sum": declared("sum"),
    "min": declared("min"),
    "max": declared("max"),
    "argument": declared("count"),
    "several": several,
}
COLUMNS_ONLY = ("expression", "function", "vectorised", "count", "words", "tumbling", "hopping", "sum", "filters")


@cache
def topology(name: str) -> Topology:
    made = builder()
    PLANS[name](made.stream("in"))
    return evaluated(made.build())


def block_of(records: list[Record]) -> BlockRecords:
    headers = [each.headers for each in records]
    return BlockRecords(
        pa.array([each.key for each in records], pa.binary()),
        pa.array([each.value for each in records], pa.binary()),
        np.array([each.timestamp for each in records], np.int64),
        headers if any(headers) else None,
        lambda row: (records[row].topic, records[row].partition, records[row].offset),
        lambda: records,
    )


@dataclass
class Result:
    outputs: dict[str, list[Output]]
    changes: list[StoreChange]
    progress: list[Progress]
    error: str | None


class Runs:
    """An application's sub-topologies, one after the other, over the same batches in one of the two ways."""

    def __init__(self, plan: Topology, *, columns: bool, skips: bool) -> None:
        self.columns = columns
        chosen = EngineSettings(skip_failing=skips, column_rows_min=1 if columns else 0)
        self.executors = [
            (
                {name: plan.nodes[name].topics for name in group.sources},
                Executor(plan, group.nodes, ResidentState(), task=0, settings=chosen, application_id="app"),
            )
            for group in task_groups(plan)
        ]
        self.result = Result({}, [], [], None)

    def batch(self, blocks: list[list[Record]]) -> None:
        topics: dict[str, list[list[Record]]] = {"in": blocks}
        for sources, executor in self.executors:
            for source, names in sources.items():
                for name in names:
                    for block in topics.pop(name, []):
                        self._enter(executor, source, block)
            outputs, changes, progress = executor.finish_batch()
            self.result.progress.append(progress)
            for each in changes:
                self.result.changes += each.changes() if isinstance(each, ChangeColumns) else [each]
            told: dict[str, list[Output]] = {}
            for each in outputs:
                many = each.outputs() if isinstance(each, OutputColumns) else [each]
                told.setdefault(each.topic, []).extend(many)
            for topic, found in told.items():
                self.result.outputs.setdefault(topic, []).extend(found)
                records = [Record(o.key, o.value, o.timestamp, o.headers, topic, 0, n) for n, o in enumerate(found)]
                topics.setdefault(topic.removeprefix("app-"), []).append(records)

    def _enter(self, executor: Executor, source: str, block: list[Record]) -> None:
        if self.columns and block:
            executor.process_block(source, block_of(block))
        else:
            executor.process(source, block)


def outcome(plan: Topology, batches: list[list[list[Record]]], *, columns: bool, skips: bool) -> Result:
    run = Runs(plan, columns=columns, skips=skips)
    try:
        for each in batches:
            run.batch(each)
    except Exception as error:
        run.result.error = str(error)
    return run.result


TEXT = st.sampled_from(
    [b"a b", b"b", b"", b"xy", b"Axe c", "\N{LATIN SMALL LETTER SHARP S}".encode(), b"\xff\xfe", None]
)
KEYS = st.sampled_from([b"k1", b"k2", b"", b"\xc3\x28", None, b"k3"])
TIMES = st.integers(0, 400_000)
HEADERS = st.sampled_from([(), (), (("h", b"1"),), (("h", None), ("g", b""))])
RECORDS = st.builds(Record, KEYS, TEXT, TIMES, HEADERS)
BATCHES = st.lists(st.lists(st.lists(RECORDS, max_size=12), max_size=3), max_size=4)


def numbered(batches: list[list[list[Record]]]) -> list[list[list[Record]]]:
    offset = iter(range(10_000))
    return [
        [[each._replace(topic="in", partition=0, offset=next(offset)) for each in block] for block in batch]
        for batch in batches
    ]


@pytest.mark.parametrize("skips", [False, True], ids=["fails", "skips"])
@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=25, deadline=None)
@given(batches=BATCHES)
def test_blocks_have_the_results_of_single_records(name: str, skips: bool, batches: list[list[list[Record]]]) -> None:
    plan, given_ = topology(name), numbered(batches)
    one, other = (outcome(plan, given_, columns=columns, skips=skips) for columns in (False, True))
    assert other.error == one.error
    if one.error is None:
        assert other == one


@pytest.mark.parametrize("name", COLUMNS_ONLY)
def test_plans_that_are_measured_go_as_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executor, "process", lambda self, source, records: pytest.fail("a record went alone"))
    run = Runs(topology(name), columns=True, skips=False)
    run.batch([[Record(b"k%d" % (n % 3), b"bcd e", 1000 * n) for n in range(50)]])
    assert sum(map(len, run.result.outputs.values()))


def test_a_sum_beyond_64_bits_is_said_as_for_single_records() -> None:
    made = StreamsBuilder(default_key_serde="string", default_value_serde="long")
    made.stream("in").group_by_key().aggregate(agg.sum("value"), materialized=TOTALS).to_stream().to("out")
    plan, large = evaluated(made.build()), struct.pack(">q", 2**62)
    batches = [[[Record(b"k", large, 1, (), "in", 0, n) for n in range(3)]]]
    one, other = (outcome(plan, batches, columns=columns, skips=False) for columns in (False, True))
    assert one.error is not None and other.error == one.error


def test_numbers_of_another_length_are_undecodable_in_both_ways() -> None:
    made = StreamsBuilder(default_key_serde="string", default_value_serde="long")
    made.stream("in").map_values("value + 1").to("out")
    plan = evaluated(made.build())
    batches = [[[Record(b"k", struct.pack(">q", 2), 1), Record(b"k", b"short", 2, (), "in", 0, 7)]]]
    one, other = (outcome(plan, batches, columns=columns, skips=False) for columns in (False, True))
    assert one.error is not None and other.error == one.error and "offset 7" in one.error
