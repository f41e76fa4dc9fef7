"""Offsets that are being stored for tasks: a task may be ended in the midst of that, when its request is on its way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any

from ottla.background import awaited

__all__ = ["StoresUnderWay"]

log = logging.getLogger(__name__)
SECONDS_MAX = 10.0
"""How long a store is waited for when its task has ended; a broker that has not answered by then may never."""


class StoresUnderWay:
    """Sees to it that nothing is stored for a task that was stopped.

    What was sent cannot be taken back. It would come behind what the next task has read, or behind offsets that somebody has
    set meanwhile, and be the newer one.
    """

    def __init__(self) -> None:
        self._of: dict[str, set[asyncio.Task[None]]] = {}

    async def run(self, connector: str, store: Coroutine[Any, Any, None]) -> None:
        """Store offsets to the end, also where whoever asks for it is cancelled meanwhile; raises what `store` raises."""
        task = awaited(store, name=f"storing offsets of {connector}")
        self._of.setdefault(connector, set()).add(task)
        task.add_done_callback(lambda done: self._ended(connector, done))
        await asyncio.wait([task])
        task.result()

    def _ended(self, connector: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # seen, where nobody waits for it any more
        self._of[connector].discard(task)
        if not self._of[connector]:
            del self._of[connector]

    async def ended(self, connectors: Collection[str]) -> None:
        """Return when what is being stored now for tasks of these connectors is stored, or has failed, or takes too long."""
        found = [task for name in connectors for task in self._of.get(name, ())]
        if not found:
            return
        _, late = await asyncio.wait(found, timeout=SECONDS_MAX)
        if late:
            log.error("%d stores of offsets do not end in time; they may come behind what is stored next", len(late))
