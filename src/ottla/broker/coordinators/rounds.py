"""Work that is done every so often for as long as a coordinator lives: one round that fails does not end the rounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

__all__ = ["rounds"]

log = logging.getLogger(__name__)

INTERVAL_S_MAX = 86_400.0


async def rounds(name: str, interval_ms: Callable[[], int], work: Callable[[], Awaitable[None]]) -> None:
    """Do this work again and again, after an interval that is asked for anew each time, at most a day."""
    while True:
        await asyncio.sleep(min(interval_ms() / 1000, INTERVAL_S_MAX))
        try:
            await work()
        except Exception:  # our own mistake: it is said, and the next round comes
            log.exception("%s failed, and is done again in its next round", name)
