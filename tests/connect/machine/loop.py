"""The machine's event loop: the simulation's, with threads that take their time, and the clock that workers ask."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ottla.connect.distributed import group_loop, group_state
from tests.schedules import Schedule
from tests.sim.loop import SimLoop

__all__ = ["WorkerLoop", "own_clock"]

EPOCH_S = 1_750_000_000
CALLS = ((0.0, 0.001), (0.0, 0.02), (0.0, 0.02), (0.0, 0.3))
"""How long a call in a thread takes, in seconds: each world has its own bounds."""
LONG, LONG_SECONDS = 0.01, (0.5, 7.0)
"""The part of calls that take long, as where a connector asks a database."""


class WorkerLoop(SimLoop):
    """`SimLoop` in which a call that is sent to a thread runs at some later moment, and its answer comes later still."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(Schedule.drawn(rng))
        self._rng, self._call_s = rng, rng.choice(CALLS)

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """As asyncio's, without a thread."""
        answer: asyncio.Future[Any] = self.create_future()

        def run() -> None:
            try:
                found, error = func(*args), None
            except Exception as raised:
                found, error = None, raised
            self.call_later(self._drawn_s(), reach, found, error)

        def reach(found: Any, error: Exception | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)

        self.call_later(self._drawn_s(), run)
        return answer

    def _drawn_s(self) -> float:
        bounds = LONG_SECONDS if self._rng.random() < LONG / 2 else self._call_s
        return self._rng.uniform(*bounds)


class _Clock:
    """Stands for the module `time` where workers ask for it."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        """See `time`."""
        return self._loop.time()

    def time_ns(self) -> int:
        """See `time`."""
        return int((EPOCH_S + self._loop.time()) * 1_000_000_000)


@contextmanager
def own_clock(loop: SimLoop) -> Iterator[None]:
    """Let workers have the loop's time, and keys that are the same each time."""
    clock, keys = _Clock(loop), random.Random(0)
    with (
        patch.object(group_loop, "time", clock),
        patch.object(group_state, "time", clock),
        patch.object(group_loop.secrets, "token_bytes", keys.randbytes),
    ):
        yield
