"""Rounds of fencing (KIP-618): before new tasks of a source connector write, older ones are made unable to."""

from __future__ import annotations

import asyncio

from ottla.background import awaited
from ottla.connect.distributed.group_loop import GroupLoop
from ottla.connect.distributed.settings import DistributedSettings
from ottla.connect.errors import BadRequestError, ConnectError, NotFoundError
from ottla.connect.plugin_host import Hosting
from ottla.connect.storage import TaskCount

__all__ = ["Fencing"]


class Fencing:
    """The leader's rounds, one at a time for each connector, which whoever asks meanwhile shares."""

    def __init__(self, settings: DistributedSettings, loop: GroupLoop) -> None:
        self._settings, self._loop = settings, loop
        self._rounds: dict[str, asyncio.Task[None]] = {}

    def check(self, name: str, hosting: Hosting) -> None:
        """Raise where a connector has no tasks that could be fenced."""
        config = self._loop.configs.state.configs.get(name)
        if config is None:
            raise NotFoundError(f"Connector {name} not found")
        if hosting.is_sink(hosting.resolved(config)):
            raise BadRequestError(f"Connector {name} is not a source connector")

    async def fence(self, name: str) -> None:
        """Return when no older task of a connector can write; raises ConnectError where that does not come to pass.

        A round that has begun before is waited for; where its tasks are not those of now, another begins.
        """
        while (found := self._rounds.get(name)) is not None:
            await asyncio.wait([found])
            if not found.cancelled() and found.exception() is None and name not in self._pending:
                return
        found = self._rounds[name] = awaited(self._fence(name))
        found.add_done_callback(lambda done: self._end(name, done))
        await asyncio.shield(found)

    def _end(self, name: str, done: asyncio.Task[None]) -> None:
        """Let another round begin; who has asked for this one may have been stopped meanwhile, and hears nothing of it."""
        self._rounds.pop(name, None)
        if not done.cancelled():
            done.exception()

    @property
    def _pending(self) -> frozenset[str]:
        return self._loop.configs.state.pending_fencing

    async def _fence(self, name: str) -> None:
        configs, seconds = self._loop.configs, self._settings.sync_timeout_ms / 1000
        await configs.read(seconds, before="performing zombie fencing")
        state = configs.state
        if name not in state.pending_fencing:
            return
        tasks, before = state.task_counts.get(name, 0), state.task_count_records.get(name)
        if before is not None and (before, tasks) != (1, 1):  # a single task's own producer fences the one before
            await configs.fence([self._settings.task_transactional_id(name, task) for task in range(before)])
        async with self._loop.turn:
            await configs.read(seconds, before="performing zombie fencing")
            now = configs.state
            if (now.generations.get(name), now.task_counts.get(name, 0)) != (state.generations.get(name), tasks):
                raise ConnectError("Fencing failed because new task configurations were generated for the connector")
            await self._loop.write_as_leader([TaskCount(name, tasks)])
