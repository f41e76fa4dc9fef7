"""What lies at which time: members (of any orderable, marshal-able kind) by timestamp, popped in order.

Stands beside a table where something has to be done with rows when time has passed: windows that close, rows that
suppression holds back, records that wait for a partner. All of it is in memory while it is used; it holds only what is still
pending.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from ottla.streams.engine.blocks import NEVER, Blocks
from ottla.streams.engine.interface import StateBackend

__all__ = ["TimeIndex"]

_SHIFT = 1 << 63


class TimeIndex:
    """A store's pending members by time, in milliseconds."""

    def __init__(self, backend: StateBackend, name: str, limit: int) -> None:
        self._blocks = Blocks(backend, f"{name}~times", limit)
        self._members: dict[int, set[Any]] = {}
        self._heap: list[int] = []
        self._touched: set[int] = set()
        for raw, members in self._blocks.items():
            self._members[int.from_bytes(raw, "big") - _SHIFT] = set(members)
        self._heap = list(self._members)
        heapify(self._heap)

    def add(self, time: int, member: Any) -> None:
        """Note a member at a time; noting it again changes nothing."""
        found = self._members.get(time)
        if found is None:
            found = self._members[time] = set()
            heappush(self._heap, time)
        if member not in found:
            found.add(member)
            self._touched.add(time)

    def discard(self, time: int, member: Any) -> None:
        """Take a member back, if it is there."""
        found = self._members.get(time)
        if found is not None and member in found:
            found.discard(member)
            self._touched.add(time)

    def first(self) -> int:
        """Return the earliest time that has a member, or NEVER."""
        heap = self._heap
        while heap:
            if self._members.get(heap[0]):
                return heap[0]
            self._members.pop(heappop(heap), None)
        return NEVER

    def peek(self) -> tuple[int, Any] | None:
        """Return the first member and its time."""
        time = self.first()
        return None if time == NEVER else (time, min(self._members[time]))

    def pop_until(self, bound: int) -> Iterator[tuple[int, Any]]:
        """Take out and return members with time <= `bound`, by time and then in their own order."""
        while (time := self.first()) <= bound:
            found = self._members[time]
            self._touched.add(time)
            for member in sorted(found):
                found.discard(member)
                yield time, member

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Return all members in order."""
        for time in sorted(self._members):
            for member in sorted(self._members[time]):
                yield time, member

    def finish(self) -> None:
        """Write what changed."""
        for time in self._touched:
            raw = (time + _SHIFT).to_bytes(8, "big")
            members = self._members.get(time)
            if members:
                self._blocks.changing(raw)[raw] = sorted(members)
            else:
                self._blocks.changing(raw).pop(raw, None)
        self._touched.clear()
        self._blocks.write()
