"""The doors to the world that production and simulation both implement (with `Disk` in `log`, `Network` in `net`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ottla.base.ids import Millis

__all__ = ["Clock", "Offload", "Rng"]

T = TypeVar("T")


class Clock(Protocol):
    """Wall time for timestamps; timeouts use the event loop's own monotonic time."""

    def now_ms(self) -> Millis:
        """Return milliseconds since the Unix epoch."""
        ...


class Rng(Protocol):
    """The part of `random.Random` that decisions may use; seeded in simulation."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...

    def randrange(self, stop: int, /) -> int:
        """Return an int in [0, stop)."""
        ...

    def randbytes(self, n: int, /) -> bytes:
        """Return n random bytes."""
        ...


class Offload(Protocol):
    """Runs work off the event loop, so that the loop never waits for a disk or for long Python code."""

    async def thread(self, call: Callable[..., T], /, *args: object) -> T:
        """Run a call that releases the GIL (fsync, a cold read, unlink) on a thread."""
        ...

    async def process(self, call: Callable[..., T], /, *args: object) -> T:
        """Run picklable Python work (recompression, index rebuilding) in a worker process."""
        ...

    async def background(self, call: Callable[..., T], /, *args: object) -> T:
        """Run picklable Python work that takes long (log compaction) in another worker process, behind everything else."""
        ...
