"""The event loop of a lanes' world: that of the simulation, where tasks that may go on do so when chance has it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

from tests.sim.loop import SimLoop

__all__ = ["LaneLoop"]

Ts = TypeVarTuple("Ts")
VERY_LATE = 0.002
"""The part of a task's steps that come seconds later than they could."""


class LaneLoop(SimLoop):
    """`SimLoop` in which a step of a task waits for some turns, now and then for seconds: an `await` may be a long one.

    Callbacks that are no task's step keep their order, which asyncio promises and transports need.
    """

    def __init__(self, rng: random.Random, late: float, late_s: float) -> None:
        """`late` is the part of steps that come later than they could, and `late_s` how much later at most."""
        super().__init__()
        self._rng, self._late, self._late_s = rng, late, late_s

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """See `SimLoop`."""
        if isinstance(getattr(callback, "__self__", None), asyncio.Task) or "Step" in type(callback).__name__:
            drawn = self._rng.random()
            if drawn < VERY_LATE:
                return self.call_later(self._rng.uniform(0.1, 3.0), callback, *args, context=context)
            if drawn < self._late:
                return self.call_later(self._rng.uniform(0.0, self._late_s), callback, *args, context=context)
        return super().call_soon(callback, *args, context=context)
