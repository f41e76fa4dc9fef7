"""Suppression: until windows close, for a time, with bounded buffers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.streams import StoreSpec, TimeWindows, Topology, Windowed
from ottla.streams import operations as op
from ottla.streams.engine import ProcessingError
from tests.streams.engine.plans import LONG, STRING, Codec, Run, record, sink, source, step, topology


def _windowed(data: bytes) -> Windowed:
    key, start, end = data.decode().rsplit("/", 2)
    return Windowed(key, int(start), int(end))


WINDOWED = Codec("windowed", lambda window: f"{window.key}/{window.start_ms:08}/{window.end_ms}".encode(), _windowed)


def held_until_close(grace: int = 0) -> Topology:
    return topology(
        source(),
        step(
            "count",
            op.WindowAggregate("store", op.Aggregator("count"), TimeWindows(10, 10, grace), send_old=True),
            "source",
            "store",
        ),
        step("suppress", op.Suppress("window_close", grace, store="buffer"), "count", "buffer"),
        step("to-stream", op.TableToStream(), "suppress"),
        sink("to-stream", key=WINDOWED, value=LONG),
        stores=[
            StoreSpec("store", "timestamped_window", STRING, LONG, retention_ms=10 + grace, window_size_ms=10),
            StoreSpec("buffer", "suppress_buffer", WINDOWED, LONG),
        ],
    )


def held(**fields: Any) -> Topology:
    return topology(
        source(),
        step("table", op.TableSource("store", send_old=True), "source", "store"),
        step("suppress", op.Suppress("time_limit", store="buffer", **fields), "table", "buffer"),
        step("to-stream", op.TableToStream(), "suppress"),
        sink("to-stream"),
        stores=[
            StoreSpec("store", "timestamped_key_value", STRING, STRING),
            StoreSpec("buffer", "suppress_buffer", STRING, STRING),
        ],
    )


def closed(run: Run, *records: tuple[str, int]) -> list[tuple[Windowed, int, int]]:
    return run.rows([record(key, "x", at) for key, at in records], key=WINDOWED, value=LONG)


def test_a_windows_result_leaves_once_when_stream_time_has_passed_its_end_and_grace() -> None:
    run = Run(held_until_close(grace=5), reload=True)
    assert closed(run, ("b", 1), ("a", 2), ("b", 3), ("c", 14), ("a", 4)) == []
    assert closed(run, ("c", 15)) == [(Windowed("a", 0, 10), 2, 4), (Windowed("b", 0, 10), 2, 3)]
    assert closed(run, ("c", 30)) == [(Windowed("c", 10, 20), 2, 15)]


def test_a_time_limit_counts_from_the_first_change_and_the_latest_leaves() -> None:
    run = Run(held(wait_ms=10))
    assert run.rows([record("a", "1", 0), record("a", "2", 9)]) == []
    assert run.rows([record("b", "1", 10)]) == [("a", "2", 9)]


def test_a_deletion_leaves_under_a_time_limit() -> None:
    run = Run(held(wait_ms=10))
    assert run.rows([record("a", "1", 0), record("a", None, 5), record("b", "1", 10)]) == [("a", None, 5)]


def test_a_full_buffer_lets_the_earliest_go() -> None:
    run = Run(held(wait_ms=100, max_records=2), reload=True)
    assert run.rows([record("b", "1", 3), record("a", "1", 3)]) == []
    assert run.rows([record("c", "1", 4)]) == [("a", "1", 3)]


def test_a_full_buffer_by_bytes_reckons_as_kafka_does() -> None:
    # Each record: time 8, key 1, value 1, context 8 + 8 + 4 and no topic = 30.
    assert Run(held(wait_ms=100, max_bytes=60)).rows([record(key, "1", 0) for key in "ab"]) == []
    assert Run(held(wait_ms=100, max_bytes=59)).rows([record(key, "1", 0) for key in "ab"]) == [("a", "1", 0)]


def test_a_full_buffer_that_must_not_leak_stops_the_task() -> None:
    with pytest.raises(ProcessingError, match="suppress: the buffer holds 2 records"):
        Run(held(wait_ms=100, max_records=1, on_full="stop")).batch([record("a", "1", 0), record("b", "1", 0)])


def test_the_changelog_of_a_buffer_is_in_kafkas_third_format_and_restores_it() -> None:
    run = Run(held(wait_ms=100))
    run.batch([record("a", "1", 7, topic="in", offset=3, headers=(("h", b"x"),))])
    change = next(each for each in run.changes if each.store == "buffer")
    assert change.headers == (("v", b"\x03"),)
    assert change.value == bytes.fromhex(
        "0000000000000007"
        "0000000000000003"
        "00000002"
        "696e"
        "00000000"
        "00000001"
        "00000001"
        "68"
        "00000001"
        "78"
        "ffffffff"
        "ffffffff"
        "00000001"
        "31"
        "0000000000000007"
    )
    other = Run(held(wait_ms=100))
    other.executor.restore(run.changes)
    other.finish()
    assert other.rows([record("b", "2", 107)]) == [("a", "1", 7)]


@settings(max_examples=40, deadline=None)
@given(
    events=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=40),
    cuts=st.sets(st.integers(0, 40), max_size=5),
    bound=st.one_of(st.none(), st.integers(0, 3)),
    reload=st.booleans(),
)
def test_batches_and_reloads_do_not_change_what_leaves(
    events: list[tuple[str, int]], cuts: set[int], bound: int | None, reload: bool
) -> None:
    records = [record(key, str(at), at + jump) for at, (key, jump) in enumerate(events)]
    for plan in (held(wait_ms=4, max_records=bound), held_until_close(grace=3)):
        whole = Run(plan).batch(records)
        run = Run(plan, reload=reload, block_entries=2)
        edges = [0, *sorted(cuts), len(records)]
        assert [each for low, high in pairwise(edges) for each in run.batch(records[low:high])] == whole
