"""The simulated clock and off-loop work; `random.Random(seed)` is the Rng seam as it is."""

from __future__ import annotations

import asyncio
import io
import pickle
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from ottla.base import Millis
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop

__all__ = ["EPOCH_MS", "SimClock", "SimOffload"]

T = TypeVar("T")
EPOCH_MS = 1_750_000_000_000
"""Wall time when a world begins."""
OFFLOAD_SECONDS_MAX = 0.004


class SimClock:
    """Wall time of one host: virtual time plus a skew that faults may change, backwards too."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.skew_ms = 0

    def now_ms(self) -> Millis:
        """Return milliseconds since the Unix epoch."""
        return Millis(EPOCH_MS + int(self._loop.time() * 1000) + self.skew_ms)


class SimOffload:
    """Off-loop work: it runs at a moment of the seed's choice between the call and the answer.

    What goes to a process must be picklable, arguments and result, as it must in the real world.
    """

    def __init__(self, rng: Random, *, seconds_max: float = OFFLOAD_SECONDS_MAX) -> None:
        self._rng = rng
        self._seconds_max = seconds_max

    async def thread(self, call: Callable[..., T], /, *args: object) -> T:
        """Run a call as if on a thread."""
        await self._pass_time()
        try:
            return call(*args)
        finally:
            await self._pass_time()

    async def process(self, call: Callable[..., T], /, *args: object) -> T:
        """Run a call as if in a worker process."""
        sent_call, sent_args = _sent((call, args))
        await self._pass_time()
        error: Exception | None = None
        result: T | None = None
        try:
            result = _sent(sent_call(*sent_args))
        except Exception as raised:  # it travels back as the result would
            error = pickle.loads(pickle.dumps(raised))
        await self._pass_time()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    async def background(self, call: Callable[..., T], /, *args: object) -> T:
        """Run a call as if in a worker process for long work."""
        return await self.process(call, *args)

    async def _pass_time(self) -> None:
        await asyncio.sleep(self._seconds_max * self._rng.random())


def _sent(what: Any) -> Any:
    """Return what another process gets: a copy, but for the disk, which is the same host's."""
    data = io.BytesIO()
    disks: list[SimDisk] = []

    class Sender(pickle.Pickler):
        def persistent_id(self, each: object) -> int | None:
            if not isinstance(each, SimDisk):
                return None
            disks.append(each)
            return len(disks) - 1

    class Receiver(pickle.Unpickler):
        def persistent_load(self, at: int) -> SimDisk:
            return disks[at]

    Sender(data).dump(what)
    data.seek(0)
    return Receiver(data).load()
