"""Answers that wait for an offset or for a time, as data: the shell ticks them with one timer, not one each."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

__all__ = ["DeadlineQueue", "KeyedWaits", "Wait"]

K = TypeVar("K", bound=Hashable)

COMPACT_FROM = 64
"""Finished waits that the heap, or a partition's list, may carry before it is worth sweeping them out."""


class Wait:
    """One answer that waits; `finish` is called once, with True where what it waited for came and False at its
    deadline.

    `missing` counts down by key: a delayed produce misses offsets (`until`), a delayed fetch misses bytes (`need`).
    """

    __slots__ = ("deadline_s", "done", "finish", "missing_bytes", "required")

    def __init__(
        self,
        deadline_s: float,
        finish: Callable[[bool], None],
        *,
        required: dict[Hashable, int] | None = None,
        missing_bytes: int = 0,
    ) -> None:
        self.deadline_s = deadline_s
        self.finish = finish
        self.done = False
        self.required = required
        self.missing_bytes = missing_bytes

    def reached(self, key: Hashable, offset: int) -> bool:
        """Note a partition's high watermark; return True where every partition has reached what it has to."""
        required = self.required
        if required is None:
            return False
        wanted = required.get(key)
        if wanted is not None and offset >= wanted:
            del required[key]
        return not required

    def grew(self, size: int) -> bool:
        """Note that so many bytes more are readable; return True where that is enough."""
        self.missing_bytes -= size
        return self.missing_bytes <= 0


class DeadlineQueue:
    """Waits by deadline; those that finished early are swept out when they become the larger part."""

    __slots__ = ("_finished", "_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Wait]] = []
        self._sequence = 0
        self._finished = 0

    def __len__(self) -> int:
        return len(self._heap) - self._finished

    def add(self, wait: Wait) -> None:
        """Keep a wait until its deadline."""
        self._sequence += 1
        heappush(self._heap, (wait.deadline_s, self._sequence, wait))

    def finished(self, wait: Wait) -> None:
        """Note that a wait ended before its deadline."""
        wait.done = True
        self._finished += 1
        heap = self._heap
        if self._finished > COMPACT_FROM and self._finished * 2 > len(heap):
            self._heap = [entry for entry in heap if not entry[2].done]
            heapify(self._heap)
            self._finished = 0

    def expire(self, now_s: float) -> list[Wait]:
        """Take out the waits whose deadline has come, oldest first."""
        heap = self._heap
        expired: list[Wait] = []
        while heap and (heap[0][2].done or heap[0][0] <= now_s):
            wait = heappop(heap)[2]
            if wait.done:
                self._finished -= 1
            else:
                wait.done = True
                expired.append(wait)
        return expired

    def next_deadline_s(self) -> float | None:
        """Return when the earliest unfinished wait expires."""
        heap = self._heap
        while heap and heap[0][2].done:
            heappop(heap)
            self._finished -= 1
        return heap[0][0] if heap else None


class KeyedWaits(Generic[K]):
    """Waits by the partitions that can end them; a wait of several partitions is listed under each."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[K, list[Wait]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, key: K, wait: Wait) -> None:
        """List a wait under a partition; now and then those are swept that another partition or their deadline has ended."""
        waits = self._by_key.get(key)
        if waits is None:
            self._by_key[key] = [wait]
        elif waits[0].done or (len(waits) >= COMPACT_FROM and len(waits) & (len(waits) - 1) == 0):  # a power of two
            self._by_key[key] = [*(each for each in waits if not each.done), wait]
        else:
            waits.append(wait)

    def reached(self, key: K, offset: int) -> list[Wait]:
        """Return the produce waits that end now that a partition's high watermark is at `offset`."""
        return self._end(key, lambda wait: wait.reached(key, offset))

    def grew(self, key: K, size: int) -> list[Wait]:
        """Return the fetch waits that end now that `size` more bytes of a partition can be read."""
        return self._end(key, lambda wait: wait.grew(size))

    def take(self, key: K) -> list[Wait]:
        """Return every wait of a partition, which has gone or changed its leader."""
        return [wait for wait in self._by_key.pop(key, ()) if not wait.done]

    def sweep(self, key: K) -> None:
        """Forget a partition's waits that are done, after others have ended them."""
        self._end(key, lambda wait: False)

    def _end(self, key: K, is_over: Callable[[Wait], bool]) -> list[Wait]:
        waits = self._by_key.get(key)
        if waits is None:
            return []
        ended: list[Wait] = []
        left: list[Wait] = []
        for wait in waits:
            if not wait.done:
                (ended if is_over(wait) else left).append(wait)
        if left:
            self._by_key[key] = left
        else:
            del self._by_key[key]
        return ended
