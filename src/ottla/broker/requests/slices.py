"""Work that would hold the event loop for long, done in slices between which it serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from time import perf_counter
from typing import TypeVar

__all__ = ["in_slices"]

SLICE_S = 0.002
T = TypeVar("T")


async def in_slices(work: Generator[None, None, T]) -> T:
    """Return what a generator returns; where it yields, the loop may go on once a slice is over."""
    until_s = perf_counter() + SLICE_S
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: T = done.value
            return found
        if perf_counter() >= until_s:
            await asyncio.sleep(0)
            until_s = perf_counter() + SLICE_S
