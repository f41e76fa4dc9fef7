"""KStreamWindowAggregate and KStreamSessionWindowAggregate: aggregation by key and window.

Each processor has a stream time of its own, the latest timestamp it has seen; windows close when it has passed their end and
grace. A record whose window has closed is dropped and counted, once for each such window, as Kafka's sensor does. With
emission on close every window is told: Kafka's stores may have dropped one before, when stream time leaps, and so do these
where `EngineSettings.tell_expired` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.streams.engine.accumulators import accumulator
from ottla.streams.engine.forwarding import flush_once
from ottla.streams.engine.interface import Change, Headers
from ottla.streams.engine.sliding import sliding_aggregate
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.engine.window_stores import MAX_TIME, SessionStore
from ottla.streams.engine.window_updater import WindowUpdater
from ottla.streams.plan import operations
from ottla.streams.windows import SlidingWindows, TimeWindows, UnlimitedWindows, Windowed

__all__: list[str] = []


def _starts(windows: TimeWindows | UnlimitedWindows) -> Callable[[int], Iterable[int]]:
    """Return what tells the starts of the windows that a timestamp lies in, ascending."""
    if isinstance(windows, UnlimitedWindows):
        first = windows.start_ms
        return lambda timestamp: (first,) if timestamp >= first else ()
    size, advance = windows.size_ms, windows.advance_ms
    if size == advance:
        return lambda timestamp: (timestamp - timestamp % size,)

    def starts(timestamp: int) -> Iterable[int]:
        first = max(0, timestamp - size + advance) // advance * advance
        return range(first, timestamp + 1, advance)

    return starts


@builds(operations.WindowAggregate)
def _window_aggregate(node: Node) -> Process:
    """Records without key are dropped; records without value count (as in Kafka, except for sliding windows)."""
    windows = node.operation.windows
    if isinstance(windows, SlidingWindows):
        return sliding_aggregate(node, WindowUpdater(node, windows.difference_ms, windows.grace_ms, inclusive_end=True))
    unlimited = isinstance(windows, UnlimitedWindows)
    size = MAX_TIME if unlimited else windows.size_ms
    updater = WindowUpdater(node, size, 0 if unlimited else windows.grace_ms)
    if updater.coalesces:
        node.task.windowed[node.name] = updater
    task, starts_of, update, advance, on_close = (
        node.task,
        _starts(windows),
        updater.update,
        updater.advance,
        updater.on_close,
    )

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            task.dropped_null_key += 1
            return
        close_time = advance(timestamp)
        for start in starts_of(timestamp):
            if start + size > close_time:
                update(key, value, start, timestamp, headers)
            else:
                task.dropped_late += 1
        if on_close:
            updater.emit(close_time, headers)

    return process


class _Sessions:
    """One session aggregate: finds, merges, replaces."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.store: SessionStore = node.store(node.operation.store)
        self.how = accumulator(node.operation.aggregator, node)
        self.gap_ms: int = node.operation.windows.gap_ms
        self.grace_ms: int = node.operation.windows.grace_ms
        self.on_close: bool = node.operation.on_close
        self.stream_time = node.memory.get("stream_time", -1)
        self.coalesces = node.caches and self.store.caches and not self.on_close
        node.provide_getter(self.store.get)
        self.times = self.store.times if self.on_close else None
        if self.coalesces:
            flush_once(node, self.store.rows, self.store.windowed)
        node.on_finish(self._remember)

    def _remember(self) -> None:
        self.node.memory["stream_time"] = self.stream_time

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Put a record into the session that it belongs to or joins together."""
        if key is None:
            self.node.task.dropped_null_key += 1
            return
        self.stream_time = max(self.stream_time, timestamp)
        close_time = self.stream_time - self.grace_ms - self.gap_ms
        start = end = timestamp
        aggregate = self.how.initial()
        merged = self.store.find(key, timestamp - self.gap_ms, timestamp + self.gap_ms)
        for session, found in merged:
            aggregate = self.how.merge(key, aggregate, found)
            start, end = min(start, session.start_ms), max(end, session.end_ms)
        if end < close_time:
            self.node.task.dropped_late += 1
        else:
            if (start, end) != (timestamp, timestamp):
                for session, found in merged:
                    self._update(session, found, None, headers)
            self._update(Windowed(key, start, end), None, self.how.add(key, value, aggregate), headers)
        if self.on_close:
            self._emit(close_time, headers)

    def _update(self, session: Windowed[Any], old: Any, new: Any, headers: Headers) -> None:
        node, store = self.node, self.store
        store.put(session, new, timestamp=session.end_ms, headers=headers)
        if self.times is not None:
            note = self.times.discard if new is None else self.times.add
            note(session.end_ms, (session.start_ms, store.key_bytes(session.key)))
        elif not self.coalesces:
            node.forward(session, Change(old if node.sends_old else None, new), session.end_ms, ())

    def _emit(self, close_time: int, headers: Headers) -> None:
        """Forward the sessions that have closed, by end, start and key."""
        store, times = self.store, self.times
        if times is None or close_time < 1 or times.first() > close_time - 1:
            return
        tells = self.node.task.settings.tell_expired
        for end, (start, raw) in store.pop_closed(close_time - 1):
            if not tells and not store.observed.takes(end):
                continue
            key = store.rows.deserialize_key(raw)
            entry = store.rows.entry(raw, (end, start), key)
            if entry[0] is not None:
                self.node.forward(Windowed(key, start, end), Change(None, store.rows.value_of(entry)), end, headers)


@builds(operations.SessionAggregate)
def _session_aggregate(node: Node) -> Process:
    """Records without key are dropped; a late record's session may still be open because it joins a newer one."""
    return _Sessions(node).process
