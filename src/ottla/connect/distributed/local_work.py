"""The connectors and tasks that run on this worker: started, stopped and brought into their target states."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ottla.background import count_failure, end, supervise
from ottla.base import OttlaError
from ottla.connect.distributed.settings import DistributedSettings
from ottla.connect.errors import ConnectError
from ottla.connect.herder import TaskRunner
from ottla.connect.plugin_host import Hosting
from ottla.connect.storage import ConfigState, State, Status, TargetState, TaskId

__all__ = ["LocalWork"]

log = logging.getLogger(__name__)
RETRY_S, RETRY_S_MAX = 0.5, 60.0
"""How long behind a fence that did not come to pass another is asked for, at first and at most."""
CONNECTOR_STOP_SECONDS_MAX = 5.0
"""How long a connector may take to stop before its worker goes on without it, as in Kafka."""


class LocalWork:
    """Runs what the worker is told to. A connector's calls follow one another; those of several do not wait for each other.

    `tell` is called with states, `fence` before a source task under exactly once begins, `started` when a connector can be
    asked for its tasks, `stored` behind the end of tasks, until nothing is being stored for them. `current` gives the newest
    configurations that were read: what is asked of a connector or task may change while its worker waits for another call,
    for a fence or for a plugin, so it is looked up behind each wait.
    """

    def __init__(
        self,
        settings: DistributedSettings,
        hosting: Hosting,
        runner: TaskRunner,
        *,
        worker_id: str,
        current: Callable[[], ConfigState],
        tell: Callable[[Status], None],
        fence: Callable[[str], Awaitable[None]],
        started: Callable[[str], None],
        offsets_topic: Callable[[ConfigState, str], str],
        stored: Callable[[Collection[str]], Awaitable[None]],
    ) -> None:
        self._settings, self._hosting, self._runner, self._worker_id = settings, hosting, runner, worker_id
        self._current = current
        self._tell, self._fence, self._started, self._offsets_topic = tell, fence, started, offsets_topic
        self._stored = stored
        self._lanes: dict[str, asyncio.Lock] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._preparing: dict[TaskId, asyncio.Task[None]] = {}
        self._stopping = asyncio.Lock()
        self.connectors: set[str] = set()
        """The connectors that this worker runs, or tries to."""

        self.tasks: dict[TaskId, int] = {}
        """The tasks that this worker runs, or tries to, with the generation of their configurations."""

    def later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something in the background; what it raises is logged."""

        async def watched() -> None:
            try:
                await work
            except OttlaError as error:
                log.error("A worker's request has failed: %s", error)
            except Exception:  # our own mistake: nobody awaits this, so it is said here
                log.exception("A worker's request has failed")
                count_failure("the worker")

        task = supervise(watched(), name="a request", serves="the worker")
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda _: work.close())  # cancelled before its first step, it has not begun the work
        return task

    async def close(self) -> None:
        """Stop everything that runs here."""
        await self.stop(self.connectors, self.tasks)
        await end(*self._background)

    def _lane(self, name: str) -> asyncio.Lock:
        return self._lanes.setdefault(name, asyncio.Lock())

    # Connectors

    def launch(self, name: str, generation: int) -> asyncio.Task[None]:
        """Start a connector, or start it anew, in the background."""
        self.connectors.add(name)
        return self.later(self._launch(name, generation))

    async def _launch(self, name: str, generation: int) -> None:
        try:
            await self.start_connector(name, generation)
        except OttlaError as error:
            log.error("Connector %s does not start: %s", name, error)

    async def start_connector(self, name: str, generation: int) -> None:
        """Start a connector (anew); raises ConnectError where that fails, which its status tells too."""
        async with self._lane(name):
            await self._hosting.connectors.remove(name)
            state = self._current()
            if name not in self.connectors:
                return
            if name not in state.configs:  # it is begun anew where another is made under its name before a rebalance
                self.connectors.discard(name)
                self._tell(Status(name, State.UNASSIGNED, self._worker_id, generation))
                return
            try:
                await self._hosting.start(state, name, generation)
            except Exception as error:  # a configuration that no longer fits, a plugin that is not installed here
                if not self._hosting.connectors.knows(name):
                    self._failed(name, error, generation)
                raise
        self._started(name)

    def _failed(self, of: str | TaskId, error: BaseException, generation: int) -> None:
        trace = "".join(traceback.format_exception(error))
        self._tell(Status(of, State.FAILED, self._worker_id, generation, trace))

    async def _remove(self, name: str, generation: int) -> None:
        async with self._lane(name):
            if name in self.connectors:
                return  # it has been given back in the meantime
            await self._hosting.connectors.remove(name)
            self._tell(Status(name, State.UNASSIGNED, self._worker_id, generation))

    def _target(self, name: str) -> TargetState:
        return self._current().target_state(name) or TargetState.STARTED

    async def bring(self, name: str, generation: int) -> None:
        """Bring what runs here of a connector into its target state."""
        target = self._target(name)
        mine = [task for task in self.tasks if task.connector == name]
        if mine and target is not TargetState.STOPPED:
            await self._runner.pause_or_resume(mine, target)
        if name in self.connectors:
            self.later(self._bring(name, generation))

    async def _bring(self, name: str, generation: int) -> None:
        async with self._lane(name):
            target = self._target(name)
            await self._hosting.connectors.bring(name, target, generation)
        if target is TargetState.STARTED:
            self._started(name)

    # Tasks

    def progress(self) -> Mapping[TaskId, Mapping[str, Any]]:
        """Return what is shown of the progress of the tasks that run here."""
        return self._runner.progress()

    async def start_tasks(self, tasks: Collection[TaskId], generation: int) -> None:
        """Start tasks; those that cannot start are FAILED, and those that are set anew are left to the next round."""
        for task in tasks:
            state = self._current()
            self.tasks[task] = state.generations.get(task.connector, 0)
            config = state.configs.get(task.connector, {})
            if self._settings.exactly_once_sources and not self._is_sink(config):
                self._preparing[task] = self.later(self._fence_and_start(task, generation))
            else:
                await self._start_task(task, generation)

    def _is_sink(self, config: Any) -> bool:
        try:
            return self._hosting.is_sink(config)
        except ConnectError:
            return True  # starting it will say what is wrong

    def _is_current(self, task: TaskId) -> bool:
        """Return whether a task is still to run, with the configurations that it was begun for."""
        state = self._current()
        if task not in state.tasks(task.connector) or state.target_state(task.connector) is TargetState.STOPPED:
            return False
        return self.tasks.get(task) == state.generations.get(task.connector, 0)

    async def _fence_and_start(self, task: TaskId, generation: int) -> None:
        """Start a task behind a fence; where none comes to pass the task is FAILED, and another is asked for.

        The leader that was asked may be going, or may not be the leader any more.
        """
        retry_s = RETRY_S
        try:
            while True:
                try:
                    await self._fence(task.connector)
                    break
                except (OttlaError, TimeoutError) as error:
                    log.error("Task %s cannot be fenced, which is tried again: %s", task, error)
                    if not self._is_current(task):
                        return  # it is about to be stopped, or started anew
                    self._failed(task, error, generation)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)
            await self._start_task(task, generation, exactly_once=True)
        finally:
            if self._preparing.get(task) is asyncio.current_task():
                del self._preparing[task]

    async def _start_task(self, task: TaskId, generation: int, *, exactly_once: bool = False) -> None:
        if not self._is_current(task):
            return
        state = self._current()
        try:
            [start] = self._hosting.task_starts(state, [task], generation)
            if exactly_once:
                start = replace(
                    start,
                    transactional_id=self._settings.task_transactional_id(task.connector, task.task),
                    offsets_topic=self._offsets_topic(state, task.connector),
                )
            await self._runner.start([start])
        except Exception as error:  # a placeholder without a value, a plugin that is not installed, no slot
            log.error("Task %s does not start: %s", task, error)
            self._failed(task, error, generation)
            return
        target = self._target(task.connector)
        if target is not start.target and target is not TargetState.STOPPED and task in self.tasks:
            await self._runner.pause_or_resume([task], target)  # that came while the runner did not know the task yet

    async def stop_tasks(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        """Stop those of these tasks that are here; returns them when their offsets are stored.

        What another call is stopping already is waited for, and is not here any more then: a rebalance revokes the tasks
        that a deletion, a restart or a new configuration is about to end.
        """
        async with self._stopping:
            return await self._stop_tasks(tasks)

    async def _stop_tasks(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        mine = [task for task in tasks if task in self.tasks]
        waiting = [self._preparing.pop(task) for task in mine if task in self._preparing]
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if mine:
            await self._runner.stop(mine)
            await self._stored({task.connector for task in mine})
        for task in mine:
            del self.tasks[task]
        return mine

    async def stop_stale(self, connectors: Collection[str], generation: int) -> None:
        """Stop what runs of these connectors by older configurations; a rebalance begins anew what there is of it still.

        Each is told as UNASSIGNED, also where it waits for its fence or could not begin, so that its runner tells nothing:
        what its connector has no more would be shown as RESTARTING or FAILED for ever.
        """
        generations = self._current().generations
        mine = [task for task in self.tasks if task.connector in connectors]
        await self.stop(
            [], [each for each in mine if self.tasks[each] != generations.get(each.connector, 0)], generation
        )

    async def restart_task(self, task: TaskId, generation: int) -> None:
        """Stop a task and start it again, unless it has been given back in the meantime."""
        async with self._stopping:  # whoever is to stop it meanwhile finds it afterwards, and not between two lives
            await self.start_tasks(await self._stop_tasks([task]), generation)

    # Both

    async def stop(self, connectors: Iterable[str], tasks: Iterable[TaskId], generation: int = 0) -> None:
        """Stop connectors and tasks, all at once; returns when they have, but for connectors that do not come to an end."""
        gone = [name for name in connectors if name in self.connectors]
        self.connectors -= set(gone)
        stopping = [self.later(self._remove(name, generation)) for name in gone]
        mine = [task for task in tasks if task in self.tasks]
        await self.stop_tasks(mine)
        for task in mine:
            self._tell(Status(task, State.UNASSIGNED, self._worker_id, generation))
        if stopping:
            _, late = await asyncio.wait(stopping, timeout=CONNECTOR_STOP_SECONDS_MAX)
            if late:
                log.error("%d connectors do not stop in time; the worker goes on without them", len(late))
