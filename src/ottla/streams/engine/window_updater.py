"""What aggregates over windows share."""

from __future__ import annotations

from typing import Any

from ottla.streams.engine.accumulators import Accumulator, accumulator
from ottla.streams.engine.forwarding import flush_once
from ottla.streams.engine.interface import Change, Headers
from ottla.streams.engine.task import Node
from ottla.streams.engine.values import Raw, is_fixed
from ottla.streams.engine.window_stores import WindowStore
from ottla.streams.windows import Windowed

__all__ = ["WindowUpdater"]


class WindowUpdater:
    """What window aggregates share: own stream time, updating one window, and emission."""

    def __init__(self, node: Node, size_ms: int, grace_ms: int, *, inclusive_end: bool = False) -> None:
        self.node = node
        self.task = node.task
        self.store: WindowStore = node.store(node.operation.store)
        self.how: Accumulator = accumulator(node.operation.aggregator, node)
        self.size_ms = size_ms
        self.grace_ms = grace_ms
        self.on_close: bool = node.operation.on_close
        self.close_lag = size_ms + (1 if inclusive_end else 0)
        self.stream_time = node.memory.get("stream_time", -1)
        self.coalesces = node.caches and self.store.caches and not self.on_close
        node.provide_getter(self.store.get)
        self.times = self.store.times if self.on_close else None
        if self.coalesces:
            flush_once(node, self.store.rows, self.store.windowed)
        node.on_finish(self._remember)

    def _remember(self) -> None:
        self.node.memory["stream_time"] = self.stream_time

    def advance(self, timestamp: int) -> int:
        """Take a record's timestamp in; return the time before which windows have closed."""
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        return self.stream_time - self.grace_ms

    def update(self, key: Any, value: Any, start: int, timestamp: int, headers: Headers) -> None:
        """Add a record to the window that starts at `start`."""
        store, rows, how = self.store, self.store.rows, self.how
        raw = store.key_bytes(key)
        live = rows.live.get(raw)
        entry = None if live is None else live.get(start)
        if entry is None:
            entry = rows.entry(raw, start, key)
        aggregate = entry[0]
        if type(aggregate) is Raw:
            aggregate = rows.deserialize(bytes(aggregate))
        if aggregate is None:
            if self.times is not None:
                self.times.add(start, raw)
            aggregate = how.initial()
            entry[1] = timestamp
        elif timestamp > entry[1]:
            entry[1] = timestamp
        old = aggregate if self.coalesces else self.snapshot(aggregate)
        entry[0] = new = how.add(key, value, aggregate)
        entry[3] = rows.turn()
        entry[5] = headers
        if start > store.observed.time:
            store.observed.note(start)
        if not self.coalesces:
            self.tell(key, start, old, new, entry[1], headers)

    def snapshot(self, aggregate: Any) -> Any:
        """Return an aggregate as it is now, whatever becomes of it; only where somebody will ask."""
        if not self.node.sends_old or is_fixed(aggregate):
            return aggregate
        return self.store.rows.deserialize(self.store.rows.serialize(aggregate))

    def tell(self, key: Any, start: int, old: Any, new: Any, timestamp: int, headers: Headers) -> None:
        """Forward an update, unless it waits for the end of the batch or of the window."""
        if self.coalesces or self.on_close:
            return
        change = Change(old if self.node.sends_old else None, new)
        self.node.forward(Windowed(key, start, self.store.end_of(start)), change, timestamp, headers)

    def emit(self, close_time: int, headers: Headers) -> None:
        """Forward the windows that have closed, by start and key (KIP-825)."""
        bound = close_time - self.close_lag
        store, rows, times = self.store, self.store.rows, self.times
        if times is None or bound < 0 or times.first() > bound:
            return
        tells, earliest = self.task.settings.tell_expired, store.observed.time - self.store.spec.retention_ms
        for start, raw in store.pop_closed(bound):
            if start < earliest and not tells:
                continue
            entry = rows.entry(raw, start, None)
            if entry[0] is not None:
                if entry[4] is None:
                    entry[4] = rows.deserialize_key(raw)
                self.node.forward(store.windowed(entry), Change(None, rows.value_of(entry)), entry[1], headers)
