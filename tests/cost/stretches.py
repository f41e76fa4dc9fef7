"""How much work the event loop does between two looks at its other connections."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.cost.work import work

__all__ = ["Stretches"]


class Stretches:
    """Watches every callback of asyncio's loop; `longest` is the one with most work since `begin`."""

    def __init__(self) -> None:
        self.longest = 0
        run = asyncio.Handle._run  # type: ignore[attr-defined]

        def counted(handle: Any) -> None:
            before = work()
            run(handle)
            self.longest = max(self.longest, work() - before)

        asyncio.Handle._run = counted  # type: ignore[attr-defined]

    def begin(self) -> None:
        """Forget what was seen."""
        self.longest = 0
