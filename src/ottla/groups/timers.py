"""Deadlines of a shard's groups, by name: setting one again is a dictionary's work, since heartbeats do little else."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from ottla.groups.decision import Timer, TimerChange

__all__ = ["Timers"]


class Timers:
    """When each timer comes. The heap holds each at the earliest time it might, and looks again then."""

    def __init__(self) -> None:
        self._due: dict[Timer, int] = {}
        self._queued: dict[Timer, int] = {}
        self._heap: list[tuple[int, Timer]] = []

    def __len__(self) -> int:
        return len(self._due)

    def change(self, changes: Iterable[TimerChange]) -> None:
        """Set timers, and take away those without a time."""
        for timer, at_ms in changes:
            if at_ms is None:
                self._due.pop(timer, None)
                continue
            self._due[timer] = at_ms
            queued = self._queued.get(timer)
            if queued is None or at_ms < queued:
                self._queued[timer] = at_ms
                heappush(self._heap, (at_ms, timer))

    def due_ms(self, timer: Timer) -> int | None:
        """Return when a timer comes; None where it is not set."""
        return self._due.get(timer)

    def next_ms(self) -> int | None:
        """Return a time before which no timer comes; None where none is set."""
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int) -> Timer | None:
        """Take out one timer that has come; None where none has."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, timer = heappop(self._heap)
            if self._queued.get(timer) != queued_ms:
                continue
            del self._queued[timer]
            due_ms = self._due.get(timer)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due[timer]
                return timer
            self._queued[timer] = due_ms
            heappush(self._heap, (due_ms, timer))
        return None
