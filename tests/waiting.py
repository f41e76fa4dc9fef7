"""How tests wait for what others do by themselves: until a claim holds, with a bound, and words on what never came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["until", "until_async"]

T = TypeVar("T")
SECONDS_MAX = 100.0
"""Much more than anything takes on a busy machine, and less than a test may take (`timeout` of pytest)."""


def until(
    holds: Callable[[], T],
    what: str | Callable[[], object] = "it",
    *,
    seconds: float = SECONDS_MAX,
    every: float = 0.02,
    past: tuple[type[Exception], ...] = (),
) -> T:
    """Return what `holds` returns once that is true; errors of the kinds `past` count as not yet.

    Raises AssertionError, with what was waited for, where that has not come after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := holds():
                return found
        except past:
            pass
        assert time.monotonic() < deadline, _said(what, seconds)
        time.sleep(every)


async def until_async(
    holds: Callable[[], T],
    what: str | Callable[[], object] = "it",
    *,
    seconds: float = SECONDS_MAX,
    every: float = 0.005,
) -> T:
    """Return what `holds` returns once that is true, and let the loop run meanwhile; see `until`."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, _said(what, seconds)
        await asyncio.sleep(every)
    return found


def _said(what: str | Callable[[], object], seconds: float) -> str:
    return f"{what if isinstance(what, str) else what()} did not come in {seconds:g} s"
