"""How much memory requests take that are not handled yet: Kafka's `queued.max.request.bytes`.

A request counts with the size that it declares from when its beginning has come, and one that was read and has to wait for
earlier ones of its connection until it is handled. Where the bound is reached no connection begins another request; those
that have begun one go on, so that there is an end to it: the bound is exceeded by one request of each that began at the same
moment. What has to wait goes on in the order in which it came.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

__all__ = ["RequestMemory", "Waiting"]


class Waiting(Protocol):
    """A connection that waits for memory."""

    def memory_is_free(self) -> None:
        """Go on."""
        ...


class RequestMemory:
    """Counts what all connections of an event loop hold of requests; without a bound nobody waits."""

    __slots__ = ("_loop", "_max", "_waiting", "_waking", "held", "is_full")

    def __init__(self, bytes_max: int = -1, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Let requests have so many bytes, with 0 and less as many as they want; a bound needs the loop."""
        assert loop is not None or bytes_max <= 0
        self._loop = loop
        self._max = bytes_max
        self._waiting: OrderedDict[Waiting, None] = OrderedDict()
        self._waking = False
        self.held = 0
        """Bytes that requests have now."""
        self.is_full = False
        """True where no request may begin."""

    @property
    def waiting(self) -> int:
        """Connections that wait."""
        return len(self._waiting)

    @property
    def free(self) -> int:
        """Bytes that are left; the largest number there is where there is no bound."""
        return max(0, self._max - self.held) if self._max > 0 else (1 << 63) - 1

    def add(self, size: int) -> None:
        """Count so many bytes more; below 0 less."""
        self.held += size
        if self._max > 0:
            self._look()

    def wait(self, who: Waiting) -> None:
        """Call `memory_is_free` once there is some, first come, first served."""
        self._waiting[who] = None
        self._look()

    def give_up(self, who: Waiting) -> None:
        """Leave the queue."""
        self._waiting.pop(who, None)
        self._look()

    def _look(self) -> None:
        self.is_full = 0 < self._max <= self.held
        if self._waiting and not self.is_full and not self._waking:
            assert self._loop is not None
            self._waking = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        """Let one go on; the loop has its turn before the next."""
        self._waking = False
        if self._waiting and not self.is_full:
            self._waiting.popitem(last=False)[0].memory_is_free()
        self._look()
