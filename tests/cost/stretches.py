"""How much work the event loop does for what is asked, and how much of it between two looks at its other connections."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.cost.work import work

__all__ = ["Stretches"]

BACKGROUND = ("/housekeeping.py", "/isr.py", "/log_cleaner.py")
"""Where a broker's own rounds are, which come when it is time, and walk all partitions in slices."""
QUIET_TURNS, TURNS_MAX = 2, 2000
QUIET_S, QUIET_WORK = 0.0005, 25
"""Turns of the loop with so little work are those in which nothing is left to do."""


class Stretches:
    """Watches every callback of asyncio's loop, but for rounds in the background."""

    def __init__(self) -> None:
        self.longest = self.total = 0
        run = asyncio.Handle._run  # type: ignore[attr-defined]

        def counted(handle: Any) -> None:
            before = work()
            run(handle)
            done = work() - before
            if done and not _file_of(handle).endswith(BACKGROUND):
                self.total += done
                self.longest = max(self.longest, done)

        asyncio.Handle._run = counted  # type: ignore[attr-defined]

    def begin(self) -> None:
        """Forget what was seen."""
        self.longest = self.total = 0

    async def quiet(self) -> None:
        """Return when what was begun is done, behind the answer too."""
        turns = 0
        for _ in range(TURNS_MAX):
            before = self.total
            await asyncio.sleep(QUIET_S)
            turns = turns + 1 if self.total - before < QUIET_WORK else 0
            if turns >= QUIET_TURNS:
                return


def _file_of(handle: Any) -> str:
    """Return the file of the code that a callback runs, as far as it can be told."""
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    code = getattr(owner.get_coro(), "cr_code", None) if isinstance(owner, asyncio.Task) else None
    code = code or getattr(getattr(callback, "__func__", callback), "__code__", None)
    return "" if code is None else str(code.co_filename)
