"""Unwindowed aggregates of streams, and the state under them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.streams import StoreSpec, Topology
from ottla.streams import operations as op
from ottla.streams.engine import ProcessingError, StoreChange
from tests.streams.engine.plans import JSON, LONG, STRING, Codec, Run, record, sink, source, step, topology

COUNT = op.Aggregator("count")
APPEND = op.Aggregator("aggregate", initializer=list, adder=lambda _key, value, found: _push(found, value))


def _push(found: list[str], value: str) -> list[str]:
    found.append(value)
    return found


def aggregate(aggregator: op.Aggregator, value: Codec = LONG) -> Topology:
    return topology(
        source(),
        step("aggregate", op.StreamAggregate("store", aggregator), "source", "store"),
        step("to-stream", op.TableToStream(), "aggregate"),
        sink("to-stream", value=value),
        stores=[StoreSpec("store", "timestamped_key_value", STRING, value)],
    )


def test_without_cache_every_update_is_forwarded_with_the_latest_timestamp() -> None:
    rows = Run(aggregate(COUNT)).rows([record("a", "x", 5), record("b", "x", 6), record("a", "x", 3)], value=LONG)
    assert rows == [("a", 1, 5), ("b", 1, 6), ("a", 2, 5)]


def test_with_cache_a_batch_forwards_each_key_once_in_the_order_of_last_updates() -> None:
    run = Run(aggregate(COUNT), cache=True)
    assert run.rows([record(key, "x", 1) for key in "abca"], value=LONG) == [("b", 1, 1), ("c", 1, 1), ("a", 2, 1)]
    assert run.rows([record("c", "x", 9)], value=LONG) == [("c", 2, 9)]


def test_records_without_key_or_value_are_dropped_and_counted() -> None:
    run = Run(aggregate(COUNT))
    assert run.rows([record(None, "x", 1), record("a", None, 1), record("a", "x", 1)], value=LONG) == [("a", 1, 1)]
    assert (run.progress.processed, run.progress.dropped_null_key) == (3, 2)


def test_changes_of_the_store_are_in_the_changelogs_format() -> None:
    run = Run(aggregate(COUNT))
    run.batch([record("a", "x", 5), record("a", "x", 7)])
    assert run.changes == [StoreChange("store", b"a", (2).to_bytes(8, "big"), 7)]


def test_a_reduce_that_returns_none_deletes_the_row() -> None:
    drop = op.Aggregator("reduce", adder=lambda one, two: None if two == "-" else one + two)
    run = Run(aggregate(drop, STRING))
    records = [record("a", "x", 1), record("a", "y", 2), record("a", "-", 3), record("a", "z", 1)]
    assert [row[1] for row in run.rows(records)] == ["x", "xy", None, "z"]


def test_a_row_that_comes_and_goes_within_a_batch_is_not_told() -> None:
    drop = op.Aggregator("reduce", adder=lambda one, two: None)
    assert Run(aggregate(drop, STRING), cache=True).rows([record("a", "x", 1), record("a", "y", 2)]) == []


def test_an_aggregate_changed_in_place_is_stored_as_it_was_when_it_was_returned() -> None:
    run = Run(aggregate(APPEND, JSON))
    rows = run.rows([record("a", "x", 1), record("a", "y", 2)], value=JSON)
    assert [row[1] for row in rows] == [["x"], ["x", "y"]]


def test_a_store_is_rebuilt_from_its_changelog() -> None:
    run, other = Run(aggregate(COUNT)), Run(aggregate(COUNT))
    run.batch([record(key, "x", 5) for key in "aabbbc"])
    other.executor.restore(run.changes)
    assert other.rows([record("b", "x", 1)], value=LONG) == [("b", 4, 5)]


def test_a_record_that_cannot_be_decoded_stops_the_batch_or_goes_to_the_dead_letters() -> None:
    bad = record("a", "x", 1)._replace(key=b"\xff", topic="in", partition=2, offset=7)
    with pytest.raises(ProcessingError, match="in-2, offset 7"):
        Run(aggregate(COUNT)).batch([bad])
    run = Run(aggregate(COUNT), skip_undecodable=True, dead_letter_topic="dead")
    outputs = run.batch([bad, record("a", "x", 1)])
    assert [each.topic for each in outputs] == ["dead", "sink"]
    assert ("__streams.errors.offset", b"7") in outputs[0].headers
    assert run.progress.skipped_poison == 1


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("sum", 9), ("min", 2), ("max", 4), ("first", 3), ("last", 2), ("collect_list", [3, 4, 2])],
)
def test_declared_aggregators_take_values_that_are_not_none(kind: str, expected: Any) -> None:
    length = op.Aggregator(kind, argument=op.Function(call=lambda value: len(value) or None))
    run = Run(aggregate(length, JSON), cache=True)
    rows = run.rows([record("a", text, 1) for text in ("xxx", "", "xxxx", "xx")], value=JSON)
    assert rows == [("a", expected, 1)]


@settings(max_examples=60, deadline=None)
@given(
    keys=st.lists(st.integers(0, 40), max_size=120),
    cuts=st.sets(st.integers(0, 120), max_size=6),
    block_entries=st.integers(1, 8),
    reload=st.booleans(),
)
def test_batches_blocks_and_reloads_do_not_change_results(
    keys: list[int], cuts: set[int], block_entries: int, reload: bool
) -> None:
    records = [record(f"k{key}", str(at), at % 7) for at, key in enumerate(keys)]
    whole = Run(aggregate(APPEND, JSON)).batch(records)
    run = Run(aggregate(APPEND, JSON), reload=reload, block_entries=block_entries)
    edges = [0, *sorted(cuts), len(records)]
    parts = [each for low, high in pairwise(edges) for each in run.batch(records[low:high])]
    assert parts == whole
