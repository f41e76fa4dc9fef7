"""What takes long is done in threads beside the server's loop: planning, and expressions over rows.

A loop that evaluates answers nobody else meanwhile. So whatever a client can make long has a limit, and comes in slices with
others between them; and it ends soon after its client has gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

from ottla.sql import SqlError
from ottla.sql_server.errors import TOO_MANY, StatementError
from ottla.sql_server.workers import BUSY, Watch, Workers

__all__ = ["EVALUATING_SECONDS_MAX", "TOO_LARGE", "TURN_SECONDS_MAX", "Turns"]

T = TypeVar("T")
THREADS = 4
TURN_SECONDS_MAX = 0.01
"""Of work over rows, before others get a turn."""
EVALUATING_SECONDS_MAX = 10.0
"""Of what a statement says by itself, and of what it says of one row."""
WAIT_SECONDS_MAX = 30.0
"""For a thread, while other statements have them all."""
LONG = 2_000
"""Characters of a text from which on it is read in a thread."""
TOO_LARGE = (
    "Error processing statement: Statement is too large to parse. This may be caused by having too many nested expressions "
    "in the statement."
)


class Turns:
    """Threads that statements share; `close` at the end."""

    def __init__(self, threads: int = THREADS, *, seconds_max: float | None = None) -> None:
        """`seconds_max` bounds a call, and a row; EVALUATING_SECONDS_MAX by itself."""
        self._workers = Workers("evaluating", threads)
        self._seconds_max = EVALUATING_SECONDS_MAX if seconds_max is None else seconds_max

    def close(self) -> None:
        """Begin nothing more."""
        self._workers.close()

    async def run(self, call: Callable[[], T]) -> T:
        """Return what a call gives; raises what it raises, SqlError where it takes too long or no stack holds it."""
        return await self._threaded(Watch(self._seconds_max), call)

    async def read(self, text: str, call: Callable[[], T]) -> T:
        """Return what a call over a text gives, at once where the text is short; raises as `run` does."""
        if len(text) >= LONG:
            return await self.run(call)
        try:
            return call()
        except RecursionError:
            raise SqlError(TOO_LARGE) from None

    async def batches(self, rows: Iterator[T | None], most: int) -> AsyncGenerator[list[T], None]:
        """Rows in batches of so many at most, made in slices of time; what is None counts for nothing.

        Raises what the iterator raises, SqlError where one row takes too long.
        """
        watch = Watch(self._seconds_max, "The query")
        is_over = False
        while not is_over:
            batch, is_over = await self._threaded(watch, lambda: _slice(rows, most, watch))
            if batch:
                yield batch

    async def _threaded(self, watch: Watch, call: Callable[[], T]) -> T:
        limit = asyncio.timeout(WAIT_SECONDS_MAX + self._seconds_max)
        try:
            async with limit:
                return await self._workers.run(watch, call)
        except RecursionError:
            raise SqlError(TOO_LARGE) from None
        except TimeoutError:
            if not limit.expired():
                raise
            raise StatementError(TOO_MANY, BUSY) from None


def _slice(rows: Iterator[T | None], most: int, watch: Watch) -> tuple[list[T], bool]:
    """Take rows for one turn; returns them, and whether they were the last."""
    batch: list[T] = []
    end_s = time.monotonic() + TURN_SECONDS_MAX
    for row in rows:
        if row is not None:
            batch.append(row)
            if len(batch) >= most:
                return batch, False
        watch()
        if time.monotonic() > end_s:
            return batch, False
        watch.begin()
    return batch, True
