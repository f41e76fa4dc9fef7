"""What connectors say of the tasks that they want, in the order in which they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["TaskAnswers"]


class TaskAnswers:
    """Sees to it that of two answers of a connector the one that was asked for first is not written last."""

    def __init__(self) -> None:
        self._asked, self._newest = 0, dict[str, int]()
        """How often connectors were asked, and the newest such question of each that was answered."""
        self._writing: dict[str, asyncio.Lock] = {}

    def ask(self) -> int:
        """Note that a connector is asked; returns the number of the question."""
        self._asked += 1
        return self._asked

    @asynccontextmanager
    async def writing(self, name: str, number: int) -> AsyncIterator[bool]:
        """Wait until no other answer of a connector is being written; gives whether this one is the newest by then."""
        self._newest[name] = max(self._newest.get(name, 0), number)
        async with self._writing.setdefault(name, asyncio.Lock()):
            yield self._newest[name] == number
