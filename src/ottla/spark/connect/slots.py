"""Which tasks hold a slot: a task is one Spark task for as long as it runs, so there are as many as Spark has slots."""

from __future__ import annotations

import asyncio

from ottla.connect import ConnectError, storage

__all__ = ["HEADROOM", "SLOTS_DEFAULT", "SLOTS_SETTING", "NoSlotError", "Slots"]

SLOTS_SETTING = "tasks.slots"
SLOTS_DEFAULT = 64
"""Tasks that a local worker runs at once unless told otherwise; a slot that nobody uses costs nothing."""
HEADROOM = 4
"""Spark's slots beyond those of tasks, for the batches of sinks that are streaming queries."""


class NoSlotError(ConnectError):
    """Every slot is taken."""


class Slots:
    """Counts the slots of one worker; those of a cluster come and go with its executors, and `total` with them."""

    def __init__(self, total: int, *, local: bool = True) -> None:
        self.total, self._local = total, local
        self._taken: set[storage.TaskId] = set()
        self._freed: asyncio.Event | None = None

    @property
    def taken(self) -> int:
        """How many are in use."""
        return len(self._taken)

    def take(self, task: storage.TaskId) -> None:
        """Take a slot for a task; raises NoSlotError where none is left, with the number and what to do."""
        if task not in self._taken and len(self._taken) >= self.total:
            raise NoSlotError(f"Task {task} finds no free slot: {self._why()}")
        self._taken.add(task)

    def _why(self) -> str:
        if not self.total:
            return (
                "the Spark cluster has no core for this worker now. Give the cluster more cores, or have its other "
                "applications, other Connect workers too, leave some (spark.cores.max in their properties)."
            )
        more = (
            f"set {SLOTS_SETTING} in the worker's properties to more than {self.total}"
            if self._local
            else "give the Spark cluster more cores (spark.cores.max and tasks.slots are limits, where they are set)"
        )
        return (
            f"all {self.total} of this worker's slots run other tasks. To run it, {more}, start another worker of the "
            "group, or stop a connector."
        )

    def give_back(self, task: storage.TaskId) -> None:
        """Let a task's slot be taken by others."""
        self._taken.discard(task)
        if self._freed is not None:
            self._freed.set()
            self._freed = None

    async def freed(self) -> None:
        """Return when a slot is given back."""
        if self._freed is None:
            self._freed = asyncio.Event()
        await self._freed.wait()
