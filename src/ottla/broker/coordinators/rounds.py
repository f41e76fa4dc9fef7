"""Work that is done every so often for as long as a coordinator lives: one round that fails does not end the rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.background import note_failure

__all__ = ["rounds"]

INTERVAL_S_MAX = 86_400.0


async def rounds(name: str, interval_ms: Callable[[], int], work: Callable[[], Awaitable[None]]) -> None:
    """Do this work again and again, after an interval that is asked for anew each time, at most a day."""
    while True:
        await asyncio.sleep(min(interval_ms() / 1000, INTERVAL_S_MAX))
        try:
            await work()
        except Exception as error:  # our own mistake: it is said, and the next round comes
            note_failure("a coordinator", name, error, consequence="it is done again in the next round")
