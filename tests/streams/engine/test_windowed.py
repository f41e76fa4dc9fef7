"""Aggregates by window: tumbling, hopping, unlimited, sliding and session windows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.streams import SessionWindows, SlidingWindows, StoreSpec, TimeWindows, Topology, UnlimitedWindows, Windowed
from ottla.streams import operations as op
from tests.streams.engine.plans import JSON, LONG, STRING, Codec, Run, record, sink, source, step, topology

COUNT = op.Aggregator("count")
JOINED = op.Aggregator(
    "aggregate",
    initializer=str,
    adder=lambda _key, value, found: found + value,
    merger=lambda _key, one, other: one + other,
)
LISTED = op.Aggregator(
    "aggregate",
    initializer=list,
    adder=lambda _key, value, found: found.append(value) or found,
    merger=lambda _key, one, other: [*one, *other],
)
WINDOWED = Codec(
    "windowed",
    lambda window: f"{window.key}@{window.start_ms}/{window.end_ms}".encode(),
    lambda data: data.decode(),
)
Windows = TimeWindows | SlidingWindows | UnlimitedWindows | SessionWindows


def windowed(windows: Windows, aggregator: op.Aggregator, value: Codec = STRING, *, on_close: bool = False) -> Topology:
    operation: Any
    if isinstance(windows, SessionWindows):
        operation = op.SessionAggregate("store", aggregator, windows, on_close)
        spec = StoreSpec("store", "session", STRING, value, retention_ms=windows.gap_ms + windows.grace_ms)
    else:
        operation = op.WindowAggregate("store", aggregator, windows, on_close)
        size = getattr(windows, "size_ms", getattr(windows, "difference_ms", -1))
        kept = -1 if size < 0 else size + windows.grace_ms  # type: ignore[union-attr]
        spec = StoreSpec("store", "timestamped_window", STRING, value, retention_ms=kept, window_size_ms=size)
    return topology(
        source(),
        step("aggregate", operation, "source", "store"),
        step("to-stream", op.TableToStream(), "aggregate"),
        sink("to-stream", key=WINDOWED, value=value),
        stores=[spec],
    )


def rows(run: Run, *records: tuple[str | None, str | None, int]) -> list[tuple[Any, Any, int]]:
    found = run.rows([record(*each) for each in records], value=run.plan.stores["store"].value)  # type: ignore[arg-type]
    return [(key, value, timestamp) for key, value, timestamp in found]


def test_a_record_counts_in_every_hopping_window_that_holds_it() -> None:
    run = Run(windowed(TimeWindows(10, 5, 0), COUNT, LONG))
    assert rows(run, ("a", "x", 3), ("a", "x", 12)) == [("a@0/10", 1, 3), ("a@5/15", 1, 12), ("a@10/20", 1, 12)]


def test_a_late_record_within_grace_overwrites_the_result_and_a_later_one_is_dropped_and_counted() -> None:
    run = Run(windowed(TimeWindows(10, 10, 5), JOINED))
    found = rows(run, ("a", "x", 3), ("b", "y", 14), ("a", "z", 4), ("b", "y", 15), ("a", "-", 5))
    assert found == [("a@0/10", "x", 3), ("b@10/20", "y", 14), ("a@0/10", "xz", 4), ("b@10/20", "yy", 15)]
    assert run.progress.dropped_late == 1


def test_windows_keep_their_stream_time_over_batches_and_restarts() -> None:
    run = Run(windowed(TimeWindows(10, 10, 0), JOINED), reload=True)
    assert rows(run, ("b", "y", 25)) == [("b@20/30", "y", 25)]
    assert rows(run, ("a", "x", 3)) == []
    assert run.progress.dropped_late == 1


def test_a_record_without_value_counts_in_a_time_window_but_one_without_key_does_not() -> None:
    run = Run(windowed(TimeWindows(10, 10, 0), COUNT, LONG))
    assert rows(run, ("a", None, 3), (None, "x", 3)) == [("a@0/10", 1, 3)]
    assert run.progress.dropped_null_key == 1


def test_unlimited_windows_never_close() -> None:
    run = Run(windowed(UnlimitedWindows(5), JOINED))
    assert rows(run, ("a", "x", 900), ("a", "y", 5), ("a", "-", 4)) == [
        (f"a@5/{2**63 - 1}", "x", 900),
        (f"a@5/{2**63 - 1}", "xy", 900),
    ]


def test_on_close_a_window_is_told_once_by_start_and_key_when_stream_time_has_passed_its_grace() -> None:
    run = Run(windowed(TimeWindows(10, 10, 2), JOINED, on_close=True), reload=True)
    assert rows(run, ("b", "x", 3), ("a", "y", 4), ("b", "z", 11)) == []
    assert rows(run, ("c", "w", 12)) == [("a@0/10", "y", 4), ("b@0/10", "x", 3)]
    assert rows(run, ("c", "w", 90)) == [("b@10/20", "z", 11), ("c@10/20", "w", 12)]


def test_sessions_merge_and_the_merged_ones_are_deleted() -> None:
    run = Run(windowed(SessionWindows(5, 20), JOINED))
    assert rows(run, ("a", "x", 0), ("a", "y", 10), ("a", "z", 5)) == [
        ("a@0/0", "x", 0),
        ("a@10/10", "y", 10),
        ("a@0/0", None, 0),
        ("a@10/10", None, 10),
        ("a@0/10", "xyz", 10),
    ]
    assert [change.key[1:] for change in run.changes][-1] == (10).to_bytes(8, "big") + (0).to_bytes(8, "big")


def test_with_cache_a_session_that_grew_within_the_batch_is_told_once() -> None:
    run = Run(windowed(SessionWindows(5, 20), JOINED), cache=True)
    assert rows(run, ("a", "x", 0), ("a", "y", 3)) == [("a@0/3", "xy", 3)]
    assert rows(run, ("a", "z", 7)) == [("a@0/3", None, 3), ("a@0/7", "xyz", 7)]


def test_a_late_session_is_dropped_unless_it_joins_one_that_is_open() -> None:
    run = Run(windowed(SessionWindows(5, 0), JOINED))
    rows(run, ("b", "x", 20))
    assert rows(run, ("a", "-", 14)) == []
    assert rows(run, ("b", "y", 15))[-1] == ("b@15/20", "xy", 20)
    assert rows(run, ("b", "z", 11))[-1] == ("b@11/20", "xyz", 20)


def test_on_close_sessions_are_told_when_their_gap_and_grace_have_passed() -> None:
    run = Run(windowed(SessionWindows(5, 0), JOINED, on_close=True), reload=True)
    assert rows(run, ("a", "x", 0), ("a", "y", 3), ("b", "z", 8)) == []
    assert rows(run, ("b", "w", 9)) == [("a@0/3", "xy", 3)]


def test_the_windows_of_sliding_aggregation_in_kip_450s_example() -> None:
    run = Run(windowed(SlidingWindows(10, 50), JOINED))
    rows(run, ("a", "1", 8), ("a", "2", 9), ("a", "3", 11), ("a", "4", 12))
    held = {
        windowed.start_ms: "".join(sorted(value))
        for windowed, value, _ in run.executor.store("store").fetch_all()  # type: ignore[union-attr]
    }
    assert held == {0: "12", 1: "123", 2: "1234", 9: "234", 10: "34", 12: "4"}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True), st.integers(1, 15))
def test_sliding_windows_hold_what_lies_within_them_in_whatever_order_it_came(times: list[int], size: int) -> None:
    run = Run(windowed(SlidingWindows(size, 1000), LISTED, JSON))
    for time in times:
        rows(run, ("a", str(time), time))
    starts = {max(0, time - size) for time in times} | {time + 1 for time in times}
    expected = {
        start: sorted(time for time in times if start <= time <= start + size)
        for start in starts
        if any(start <= time <= start + size for time in times)
    }
    found = {
        windowed.start_ms: sorted(map(int, value))
        for windowed, value, _ in run.executor.store("store").fetch_all()  # type: ignore[union-attr]
    }
    assert found == expected


def test_expired_windows_leave_the_state() -> None:
    run = Run(windowed(TimeWindows(10, 10, 0), JOINED), block_entries=2)
    rows(run, *((f"k{number}", "x", 5) for number in range(20)))
    rows(run, ("a", "x", 1000))
    assert [window for window, _, _ in run.executor.store("store").fetch_all()] == [Windowed("a", 1000, 1010)]  # type: ignore[union-attr]
    assert sum(len(blob) for name, blob in run.backend.items() if name.startswith("store/")) < 400


@pytest.mark.parametrize("on_close", [False, True])
@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows(10, 10, 3),
        TimeWindows(10, 3, 3),
        SlidingWindows(7, 3),
        SessionWindows(4, 3),
        UnlimitedWindows(3),
    ],
)
@settings(max_examples=25, deadline=None)
@given(
    events=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), max_size=40),
    cuts=st.sets(st.integers(0, 40), max_size=5),
    block_entries=st.integers(1, 4),
    reload=st.booleans(),
)
def test_batches_blocks_and_reloads_do_not_change_results(
    windows: Windows,
    on_close: bool,
    events: list[tuple[str, int]],
    cuts: set[int],
    block_entries: int,
    reload: bool,
) -> None:
    if isinstance(windows, UnlimitedWindows) and on_close:
        return
    plan = windowed(windows, LISTED, JSON, on_close=on_close)
    records = [record(key, str(at), at + jump) for at, (key, jump) in enumerate(events)]
    whole = Run(plan).batch(records)
    run = Run(plan, reload=reload, block_entries=block_entries)
    edges = [0, *sorted(cuts), len(records)]
    parts = [each for low, high in pairwise(edges) for each in run.batch(records[low:high])]
    assert parts == whole
    coalesced = Run(plan, cache=True, reload=reload, block_entries=block_entries)
    for low, high in pairwise(edges):
        coalesced.batch(records[low:high])
    finals = {(change.key, change.value) for change in {each.key: each for each in run.changes}.values()}
    assert finals == {(change.key, change.value) for change in {each.key: each for each in coalesced.changes}.values()}


def test_on_close_what_kafkas_store_has_dropped_is_not_told_where_that_is_asked_for() -> None:
    """The results are those of Java's TopologyTestDriver for these records."""
    run = Run(windowed(TimeWindows(10, 10, 5), JOINED, on_close=True), tell_expired=False)
    found = rows(run, *(("k", "x", time) for time in (0, 16, 32)), ("j", "y", 45), ("k", "x", 60))
    assert found == [("k@0/10", "x", 0), ("k@30/40", "x", 32)]
    sessions = Run(windowed(SessionWindows(60_000, 0), JOINED, on_close=True), tell_expired=False)
    assert rows(sessions, ("k", "x", 0), ("k", "x", 70_000), ("k", "x", 200_000)) == [("k@0/0", "x", 0)]
