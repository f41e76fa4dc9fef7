"""Processors of one's own: stores, schedules, named children."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.streams import ProcessorNode, StoreSpec, Topology
from ottla.streams import operations as op
from ottla.streams.engine import ProcessingError
from ottla.streams.processor_api import FixedKeyProcessor, Processor, ProcessRecord, PunctuationType, ValueAndTimestamp
from tests.streams.engine.plans import LONG, STRING, Run, record, sink, source, topology

PLAIN = StoreSpec("store", "key_value", STRING, STRING)


def processing(supplier: Any, *stores: StoreSpec, fixed_key: bool = False) -> Topology:
    return topology(
        source(),
        ProcessorNode("mine", op.Process(supplier, fixed_key), ("source",), tuple(store.name for store in stores)),
        sink("mine"),
        sink("mine", name="other"),
        stores=stores,
    )


class Last(Processor):
    """Forwards what the key had before."""

    def process(self, record: ProcessRecord) -> None:
        store = self.context.get_state_store("store")
        before = store.get(record.key)
        store.put(record.key, record.value)
        self.context.forward(record.with_value(before), "sink")


@pytest.mark.parametrize("reload", [False, True])
def test_a_processor_keeps_state_from_batch_to_batch(reload: bool) -> None:
    run = Run(processing(Last, PLAIN), reload=reload)
    assert run.rows([record("a", "1", 1), record("a", "2", 2)]) == [("a", None, 1), ("a", "1", 2)]
    assert run.rows([record("a", "3", 3)]) == [("a", "2", 3)]
    assert [(each.key, each.value, each.timestamp) for each in run.changes] == [(b"a", b"2", 2), (b"a", b"3", 3)]


def test_a_store_that_the_step_was_not_given_is_refused_by_name() -> None:
    with pytest.raises(ProcessingError, match="mine has no store 'store'"):
        Run(processing(Last)).batch([record("a", "1", 1)])


class Ticker(Processor):
    """Tells when it is called, and where from."""

    kind = PunctuationType.STREAM_TIME

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(10, self.kind, self.tick)

    def tick(self, now_ms: int) -> None:
        where = self.context.record_metadata()
        self.context.forward(ProcessRecord("tick", str(where), now_ms), child="other")

    def process(self, record: ProcessRecord) -> None:
        pass


class ClockTicker(Ticker):
    kind = PunctuationType.WALL_CLOCK_TIME


@pytest.mark.parametrize("reload", [False, True])
def test_stream_time_schedules_begin_with_the_first_record_and_make_up_for_missed_intervals_by_one_call(
    reload: bool,
) -> None:
    run = Run(processing(Ticker), reload=reload)
    ticks = [row[2] for time in (3, 9, 10, 47, 49, 50) for row in run.rows([record("a", "1", time)])]
    assert ticks == [3, 10, 47, 50]


def test_clock_schedules_begin_an_interval_after_the_start() -> None:
    run = Run(processing(ClockTicker))
    times = []
    for now in (9, 10, 35, 39, 40):
        run.executor.advance_wall_clock(now)
        times += [(each.target, each.timestamp) for each in run.finish()]
    assert times == [("other", 10), ("other", 35), ("other", 40)]


class Wrong(FixedKeyProcessor):
    def process(self, record: ProcessRecord) -> None:
        self.context.forward(record.with_key("b"))


def test_process_values_may_not_change_the_key() -> None:
    with pytest.raises(ProcessingError, match="own key"):
        Run(processing(Wrong, fixed_key=True)).batch([record("a", "1", 1)])


def face(spec: StoreSpec, **settings: Any) -> tuple[Run, Any]:
    found: list[Any] = []

    class Grab(Processor):
        def init(self, context: Any) -> None:
            found.append(context.get_state_store(spec.name))

        def process(self, record: ProcessRecord) -> None:
            pass

    run = Run(processing(Grab, spec), **settings)
    return run, found[0]


def test_ranges_of_a_key_value_store_go_by_the_bytes_of_keys() -> None:
    run, store = face(PLAIN, block_entries=2)
    store.put_all((f"k{number}", str(number)) for number in range(9))
    run.finish()
    store.put("k2", None)
    store.put("k10", "new")
    assert [key for key, _ in store.range("k1", "k4")] == ["k1", "k10", "k3", "k4"]
    assert [key for key, _ in store.reverse_range("k7", None)] == ["k8", "k7"]
    assert list(store.prefix_scan("k1")) == [("k1", "1"), ("k10", "new")]
    assert (store.delete("k1"), store.get("k1"), store.put_if_absent("k3", "x")) == ("1", None, "3")
    assert store.approximate_num_entries() == 8


def test_a_timestamped_store_holds_values_with_timestamps() -> None:
    _, store = face(StoreSpec("store", "timestamped_key_value", STRING, LONG))
    store.put("a", ValueAndTimestamp(5, 77))
    assert store.get("a") == ValueAndTimestamp(5, 77)


def test_a_window_store_with_duplicates_keeps_them_in_order() -> None:
    spec = StoreSpec("store", "window", STRING, STRING, retention_ms=50, window_size_ms=10, retain_duplicates=True)
    run, store = face(spec)
    for value, start in (("x", 5), ("y", 5), ("z", 4)):
        store.put("a", value, start)
    run.finish()
    store.put("a", "w", 5)
    assert list(store.fetch("a", 0, 10)) == [(4, "z"), (5, "x"), (5, "y"), (5, "w")]
    assert [change.key for change in run.changes][:2] == [
        b"a" + (5).to_bytes(8, "big") + number.to_bytes(4, "big") for number in (1, 2)
    ]
    store.put("a", "late", 80)
    assert list(store.fetch("a", 0, 100)) == [(80, "late")]


def test_a_versioned_store_answers_as_of_a_time_within_its_history() -> None:
    spec = StoreSpec("store", "versioned", STRING, STRING, retention_ms=100)
    run, store = face(spec)
    assert [store.put("a", value, time) for value, time in (("x", 10), ("z", 50), ("y", 30))] == [None, None, 50]
    run.finish()
    store.put("a", None, 60)
    asked = {time: store.get("a", time) for time in (9, 29, 30, 59, 60)}
    assert [None if found is None else found.value for found in asked.values()] == [None, "x", "y", "z", None]
    assert store.put("b", "v", 200) is None
    assert store.put("a", "late", 99) == -2
    assert store.get("a", 59) is None
