"""KStreamSlidingWindowAggregate (KIP-450): a window for each distinct set of records within a time difference.

A record at time t makes two windows: [t - difference, t], which ends with it, and [t + 1, t + 1 + difference], which begins
behind it and exists once it holds something. Bounds are inclusive. A window's timestamp is its latest record's.
"""

from __future__ import annotations

from typing import Any

from ottla.streams.engine.interface import Headers
from ottla.streams.engine.task import Node, Process
from ottla.streams.engine.window_updater import WindowUpdater

__all__ = ["sliding_aggregate"]

_Row = tuple[int, Any, int]
"""Start, aggregate and timestamp of a window as it was before the record."""


class _Arrival:
    """One record on its way into the windows of its key."""

    def __init__(self, updater: WindowUpdater, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.updater = updater
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers
        self.close_time = updater.advance(timestamp)

    def update(self, start: int) -> None:
        """Add the record to a window, or count it as late there."""
        updater = self.updater
        if start + updater.size_ms >= self.close_time:
            updater.update(self.key, self.value, start, self.timestamp, self.headers)
        else:
            updater.task.dropped_late += 1

    def create(self, start: int, base: _Row | None) -> None:
        """Make a window of what another held and the record; of the record alone where `base` is None."""
        updater = self.updater
        if start + updater.size_ms < self.close_time:
            updater.task.dropped_late += 1
            return
        how = updater.how
        old = how.initial() if base is None else base[1]
        told = updater.snapshot(old)
        self._put(start, told, how.add(self.key, self.value, old), self.timestamp)

    def copy(self, start: int, base: _Row) -> None:
        """Make the window behind the record: it holds what lies after it."""
        self._put(start, None, base[1], base[2])

    def _put(self, start: int, old: Any, new: Any, timestamp: int) -> None:
        updater = self.updater
        updater.store.put(self.key, new, start, timestamp=timestamp, headers=self.headers)
        if updater.times is not None:
            updater.times.add(start, updater.store.key_bytes(self.key))
        updater.tell(self.key, start, old, new, timestamp, self.headers)

    def take_in(self) -> None:
        """Process a record that has a whole window before it (`processReverse`)."""
        time, size = self.timestamp, self.updater.size_ms
        found = self.updater.store.fetch_range(self.key, max(0, time - 2 * size), time + 1)
        starts: set[int] = set()
        left: _Row | None = None
        right: _Row | None = None
        has_left = has_right = False
        previous: int | None = None
        for row in reversed(found):
            start, end, latest = row[0], row[0] + size, row[2]
            starts.add(start)
            if start == time + 1:
                has_right = True
            elif end > time:
                right = right or row
                self.update(start)
            elif end == time:
                has_left = True
                self.update(start)
                if latest >= time:
                    return
                previous = latest
            else:
                left, previous = row, latest
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + size >= time:
            self.create(previous + 1, None)
        if not has_left:
            holds = previous is not None and time - size <= previous
            self.create(time - size, left if holds else None)
        self._right(right, has_right=has_right)

    def take_in_early(self) -> None:
        """Process a record before `difference_ms`: its left window is cut off at 0 and shared (`processEarly`)."""
        time = self.timestamp
        found = self.updater.store.fetch_range(self.key, 0, time + 1)
        starts = {row[0] for row in found}
        combined: _Row | None = None
        right: _Row | None = None
        previous: int | None = None
        for row in found:
            if row[0] == 0:
                combined = row
                if row[2] < time:
                    previous = row[2]
            elif row[0] <= time:
                right = row
                self.update(row[0])
        if right is None and combined is not None and combined[2] > time:
            right = combined
        self._right(right, has_right=time + 1 in starts)
        if previous is not None and previous + 1 not in starts:
            self.create(previous + 1, None)
        if combined is None:
            self.create(0, None)
        else:
            self.update(0)

    def _right(self, right: _Row | None, *, has_right: bool) -> None:
        if not has_right and right is not None and right[2] > self.timestamp:
            self.copy(self.timestamp + 1, right)


def sliding_aggregate(node: Node, updater: WindowUpdater) -> Process:
    """Return the processor; records without key or value are dropped."""
    task, size, grace = node.task, updater.size_ms, updater.grace_ms

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            task.dropped_null_key += 1
            return
        arrival = _Arrival(updater, key, value, timestamp, headers)
        if timestamp + size < updater.stream_time - grace:
            task.dropped_late += 1
            return
        if timestamp < size:
            arrival.take_in_early()
            return
        arrival.take_in()
        if updater.on_close:
            updater.emit(arrival.close_time, headers)

    return process
