"""What takes long is done in a thread, so that others have their turn: statements of many words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ottla.sql import SqlError

__all__ = ["TOO_LARGE", "TURN_SECONDS_MAX", "in_turn"]

T = TypeVar("T")
TURN_SECONDS_MAX = 0.01
"""Of work over rows on the loop, before others get a turn."""
LONG = 16_000
"""Characters of a text from which on it is read in a thread."""
TOO_LARGE = (
    "Error processing statement: Statement is too large to parse. This may be caused by having too many nested expressions "
    "in the statement."
)


async def in_turn(text: str, call: Callable[[], T]) -> T:
    """Return what a call over a text gives; raises SqlError for one that no stack holds, and what the call raises."""
    try:
        return call() if len(text) < LONG else await asyncio.to_thread(call)
    except RecursionError:
        raise SqlError(TOO_LARGE) from None
