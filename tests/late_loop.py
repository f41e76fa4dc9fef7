"""The loop of asyncio that tests of services run on: what is ready runs in an order that the run's seed draws, and late.

It is asyncio's own loop, with real sockets and threads, and a `Schedule` between it and its tasks and futures, so that a
test finds what holds only for one number of turns between two things. `pytest --hypothesis-seed=N` (or HYPOTHESIS_SEED=N)
draws the same orders again; what sockets and threads do is the machine's choice still.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVarTuple
from unittest.mock import patch

import pytest

from tests.schedules import Schedule, is_step

__all__ = ["ROOMS", "LateLoop", "comes_late", "late_loops"]

Ts = TypeVarTuple("Ts")
ROOMS: Final = (
    "broker",
    "client",
    "cluster",
    "groups",
    "http",
    "net",
    "registry",
    "sql_server",
    "streams/continuous",
    "transactions",
)
"""Folders of tests whose loops are such ones; a test that counts turns says so by `@pytest.mark.in_order(reason)`."""
TURNS: Final = (0.25, 3)
WAITS: Final = (0.004, 0.004)
HOLDS: Final = (0.01, 0.001)
"""So short that the tests take no longer."""


class LateLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on which tasks and futures come late as a schedule says."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._order = schedule
        self._turn = 0

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's, for tasks and futures later: they say in which context, and cancel nothing that they scheduled."""
        if context is None or self._is_own(callback):
            return super().call_soon(callback, *args, context=context)
        steps = is_step(callback)
        if steps and not self.is_closed() and (wait_s := self._order.wait_s(args)):
            return self.call_later(wait_s, callback, *args, context=context)
        turns = self._order.turns(args, is_step=steps, now=self._turn)
        if turns:
            return super().call_soon(self._pass_over, turns - 1, callback, args, context, context=context)
        return super().call_soon(callback, *args, context=context)

    def _is_own(self, callback: Callable[..., object]) -> bool:
        """Return whether the loop cleans up behind a socket's call: late it meets another socket of that number."""
        return getattr(getattr(callback, "func", callback), "__self__", None) is self

    def _pass_over(
        self, turns: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        """Let so many more turns of the loop go by before a callback runs."""
        if turns:
            super().call_soon(self._pass_over, turns - 1, callback, args, context, context=context)
        else:
            super().call_soon(callback, *args, context=context)

    def _run_once(self) -> None:
        """One turn; now and then the loop was held before it, and more is ready."""
        self._turn += 1
        if hold_s := self._order.hold_s():
            time.sleep(hold_s)
        super()._run_once()  # type: ignore[misc]


def comes_late(item: pytest.Item) -> bool:
    """Return whether a test's loops are such ones."""
    tests = Path(__file__).parent
    folder = item.path.relative_to(tests).as_posix() if item.path.is_relative_to(tests) else ""
    return folder.startswith(tuple(f"{each}/" for each in ROOMS)) and item.get_closest_marker("in_order") is None


@contextmanager
def late_loops(seed: str) -> Iterator[None]:
    """Let every loop that is made without a factory of its own be such one, each with orders of its own from the seed."""
    numbers = count()

    def new_event_loop() -> LateLoop:
        rng = Random(f"{seed} {next(numbers)}")
        return LateLoop(Schedule(rng, turns=TURNS, waits=WAITS, holds=HOLDS))

    with patch("asyncio.events.new_event_loop", new_event_loop), patch("asyncio.new_event_loop", new_event_loop):
        yield
