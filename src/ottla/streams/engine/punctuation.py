"""Schedules of processors: what is called when stream time or the clock has passed a time (Kafka's PunctuationQueue)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

__all__ = ["PunctuationQueue", "Schedule"]


class Schedule:
    """One schedule; `memory[name]` is when it is due next, so that it goes on after a restart."""

    def __init__(self, interval_ms: int, call: Callable[[int], None], memory: dict[str, int], name: str) -> None:
        self.interval_ms = interval_ms
        self.call = call
        self.is_cancelled = False
        self._memory = memory
        self._name = name

    @property
    def due_ms(self) -> int:
        """When it is due next."""
        return self._memory[self._name]

    def advance(self, now_ms: int) -> None:
        """Set the next time: one interval on, or the first after now where intervals were missed."""
        due = self.due_ms
        missed = max(0, (now_ms - due) // self.interval_ms)
        self._memory[self._name] = due + (missed + 1) * self.interval_ms

    def cancel(self) -> None:
        """End it."""
        self.is_cancelled = True
        self._memory.pop(self._name, None)


class PunctuationQueue:
    """A task's schedules by one kind of time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Schedule]] = []
        self._number = count().__next__

    def add(self, schedule: Schedule) -> None:
        """Take a schedule in."""
        heappush(self._heap, (schedule.due_ms, self._number(), schedule))

    @property
    def due_ms(self) -> int | None:
        """When the next one is due; None where there is none."""
        while self._heap and self._heap[0][2].is_cancelled:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now_ms: int) -> None:
        """Call what is due, the earliest first."""
        while self._heap and self._heap[0][0] <= now_ms:
            schedule = heappop(self._heap)[2]
            if schedule.is_cancelled:
                continue
            schedule.call(now_ms)
            if not schedule.is_cancelled:
                schedule.advance(now_ms)
                self.add(schedule)
