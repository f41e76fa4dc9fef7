"""Windowed joins of two streams: each record is noted in its side's window store and looks into the other side's.

KStreamJoinWindow and KStreamKStreamJoin of Kafka Streams 4.3. Left and outer joins forward a record without partner when its
window and grace are over (KIP-633); until then it waits in the store that both sides share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.interface import Headers
from ottla.streams.engine.joins.calls import Joiner, joiner_of
from ottla.streams.engine.joins.outer_store import LEFT, RIGHT, OuterJoinStore
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.engine.window_stores import WindowStore
from ottla.streams.plan import operations
from ottla.streams.windows import JoinWindows

__all__: list[str] = []

_NEVER = 1 << 62


@builds(operations.WindowStore)
def _window_store(node: Node) -> Process:
    """KStreamJoinWindow: a record is noted after it has looked for partners, so it does not meet itself."""
    forward, store = node.forward, node.store(node.operation.store)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        forward(key, value, timestamp, headers)
        if key is not None:
            store.put(key, value, timestamp, timestamp=timestamp, headers=headers)

    return process


@builds(operations.StreamStreamJoin)
def _stream_stream_join(node: Node) -> Process:
    """One side of a join."""
    join = joiner_of(node, node.operation.joiner)
    both = join if node.operation.is_left else _turned(join)
    if node.operation.outer_store is not None:
        return _Side(node, both).process
    return _at_once(node, both) if _keeps(node.operation) else _inner(node, both)


def _turned(join: Joiner) -> Joiner:
    return lambda key, this, other: join(key, other, this)


def _reach(windows: JoinWindows, *, is_left: bool) -> tuple[int, int]:
    """Return how far before and after a side's record the other side's may lie."""
    return (windows.before_ms, windows.after_ms) if is_left else (windows.after_ms, windows.before_ms)


def _inner(node: Node, join: Joiner) -> Process:
    """A side of an inner join."""
    task, forward = node.task, node.forward
    fetch: Callable[[Any, int, int], list[tuple[int, Any, int]]] = node.store(node.operation.other).fetch_range
    before, after = _reach(node.operation.windows, is_left=node.operation.is_left)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            task.dropped_null_key += 1
            return
        for time, other, _ in fetch(key, max(0, timestamp - before), max(0, timestamp + after)):
            forward(key, join(key, value, other), max(timestamp, time), headers)

    return process


def _keeps(operation: operations.StreamStreamJoin) -> bool:
    """Return whether a side's records stay without a partner."""
    return operation.kind == "outer" or (operation.kind == "left" and operation.is_left)


def _at_once(node: Node, join: Joiner) -> Process:
    """A side whose records come at once without a partner (before KIP-633), and again with each that comes later."""
    task, forward, fetch = node.task, node.forward, node.store(node.operation.other).fetch_range
    before, after = _reach(node.operation.windows, is_left=node.operation.is_left)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if value is None:
            task.dropped_null_key += 1
            return
        found = () if key is None else fetch(key, max(0, timestamp - before), max(0, timestamp + after))
        for time, other, _ in found:
            forward(key, join(key, value, other), max(timestamp, time), headers)
        if not found:
            forward(key, join(key, value, None), timestamp, headers)

    return process


class _Side:
    """A side of a left or outer join. What both sides share lies in the outer store's memory: `time`, `earliest`."""

    def __init__(self, node: Node, join: Joiner) -> None:
        operation = node.operation
        self._task, self._forward, self._join = node.task, node.forward, join
        self._other: WindowStore = node.store(operation.other)
        self._own: WindowStore = node.store(operation.own)
        self._waiting: OuterJoinStore = node.store(operation.outer_store)
        self._shared = self._waiting.memory
        self._windows: JoinWindows = operation.windows
        self._before, self._after = _reach(operation.windows, is_left=operation.is_left)
        self._this, self._that = (LEFT, RIGHT) if operation.is_left else (RIGHT, LEFT)
        self._keeps = _keeps(operation)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        shared = self._shared
        now = shared["time"] = max(timestamp, shared.get("time", -1))
        if key is None or value is None:
            if self._keeps and value is not None:
                self._forward(key, self._join(key, value, None), timestamp, headers)
            else:
                self._task.dropped_null_key += 1
            return
        if timestamp == now and shared.get("earliest", _NEVER) + self._after + self._windows.grace_ms < now:
            self._emit_unmet(now, headers)
        latest = max(0, timestamp + self._after)
        found = self._other.fetch_range(key, max(0, timestamp - self._before), latest)
        raw = self._other.key_bytes(key)
        for time, other, _ in found:
            self._waiting.remove(time, self._that, raw)
            self._forward(key, self._join(key, value, other), max(timestamp, time), headers)
        if found or not self._keeps:
            return
        if latest < now:
            self._forward(key, self._join(key, value, None), timestamp, headers)
        else:
            shared["earliest"] = min(timestamp, shared.get("earliest", _NEVER))
            self._waiting.add(timestamp, self._this, raw, self._own.rows.serialize(value) or b"")

    def _emit_unmet(self, now: int, headers: Headers) -> None:
        """Forward the records whose windows are over, in order of time; `earliest` becomes what Kafka's `minTime` does.

        Kafka goes on until a record of each side is still open, and remembers the time of the record after that, or of the
        last of all.
        """
        windows, waiting, shared = self._windows, self._waiting, self._shared
        reach = {LEFT: windows.after_ms, RIGHT: windows.before_ms}
        still_open: set[int] = set()
        done: tuple[int, int, bytes] | None = None
        earliest = _NEVER
        for time, side, raw, data in waiting:
            earliest = time
            if len(still_open) == 2:
                break
            if time + reach[side] + windows.grace_ms >= now:
                still_open.add(side)
                if self._only_open_ones_follow(side):
                    earliest = waiting.last_time()
                    break
                continue
            self._forward_unmet(time, side, raw, data, headers)
            if done != (time, side, raw):
                done = (time, side, raw)
                waiting.remove(*done)
        shared["earliest"] = earliest

    def _only_open_ones_follow(self, side: int) -> bool:
        """True where nothing of the other side waits, so that Kafka would go on to the end and find nothing."""
        return self._waiting.count(RIGHT if side == LEFT else LEFT) == 0

    def _forward_unmet(self, time: int, side: int, raw: bytes, data: bytes, headers: Headers) -> None:
        own, other = self._own.rows, self._other.rows
        key = own.deserialize_key(raw)
        if side == self._this:
            result = self._join(key, own.deserialize(data), None)
        else:
            result = self._join(key, None, other.deserialize(data))
        self._forward(key, result, time, headers)
