"""Faults that workers had, or that are near, put back: the worlds must find each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from ottla.base import OttlaError
from ottla.connect.decisions import changes
from ottla.connect.distributed.config_store import ConfigStore
from ottla.connect.distributed.group_loop import GroupLoop
from ottla.connect.distributed.herder import DistributedHerder
from ottla.connect.distributed.leading import Leading
from ottla.connect.distributed.local_work import LocalWork
from ottla.connect.distributed.status_store import StatusStore
from ottla.connect.storage import ConfigState, TargetState, TargetStateChange, TaskId
from ottla.connect.tasks.loop_sink import SinkLoop
from tests.connect.machine.sinks import run_sink_world
from tests.connect.machine.world import run_world
from tests.sim.mutations import Mutation, Surgeon

__all__ = ["MUTATIONS", "WORLDS", "found_in"]

WORLDS = 1_000
"""In so many worlds each is found."""
FIRST = 100_000
KIND, SINK = "workers", "sinks"


def found_in(mutation: Mutation, worlds: int = WORLDS, first: int = FIRST) -> tuple[int, str] | None:
    """Return in how many worlds a mutation is found, and what was seen; None where it is not."""
    with mutation.applied():
        for number in range(worlds):
            try:
                (run_sink_world if mutation.kind == SINK else run_world)(first + number)
            except AssertionError as error:
                return number + 1, str(error)
    return None


def _has_the_target_from_before_the_fence(surgeon: Surgeon) -> None:
    async def fence_and_start(self: Any, task: TaskId, generation: int) -> None:
        state, is_fenced = self._current(), False
        try:
            while not is_fenced:
                with suppress(OttlaError, TimeoutError):
                    await self._fence(task.connector)
                    is_fenced = True
                await asyncio.sleep(0 if is_fenced else 1)
            if self._is_current(task) and task in state.task_configs:
                [start] = self._hosting.task_starts(state, [task], generation)
                name = self._settings.task_transactional_id(task.connector, task.task)
                topic = self._offsets_topic(state, task.connector)
                await self._runner.start([replace(start, transactional_id=name, offsets_topic=topic)])
        except (OttlaError, TimeoutError) as error:
            self._failed(task, error, generation)

    surgeon.put(LocalWork, "_fence_and_start", fence_and_start)


def _alters_offsets_by_the_leaders_word(surgeon: Surgeon) -> None:
    surgeon.put(Leading, "has_tasks", lambda self, connector: False)


def _fences_nobody(surgeon: Surgeon) -> None:
    async def fence(self: Any, transactional_ids: Sequence[str]) -> None: ...

    async def confirm(self: Any, task: TaskId) -> None: ...

    surgeon.put(ConfigStore, "fence", fence)
    surgeon.put(DistributedHerder, "confirm", confirm)


def _asks_for_a_fence_once(surgeon: Surgeon) -> None:
    async def fence_and_start(self: Any, task: TaskId, generation: int) -> None:
        try:
            await self._fence(task.connector)
            await self._start_task(task, generation, exactly_once=True)
        except (OttlaError, TimeoutError) as error:
            if self._is_current(task):
                self._failed(task, error, generation)

    surgeon.put(LocalWork, "_fence_and_start", fence_and_start)


def _lets_late_words_stand(surgeon: Surgeon) -> None:
    surgeon.put(StatusStore, "_outdone", lambda self, key, value: [])


def _leads_by_what_it_has_read(surgeon: Surgeon) -> None:
    async def claim(self: Any) -> None:
        await self.configs.claim()

    surgeon.put(GroupLoop, "_claim", claim)


def _pauses_the_next_of_that_name(surgeon: Surgeon) -> None:
    real = changes.create_or_replace

    def create_or_replace(
        state: ConfigState, name: str, config: Mapping[str, Any], *, target: TargetState | None, may_replace: bool
    ) -> Any:
        found = real(state, name, config, target=target, may_replace=may_replace)
        if target is None:
            kept = tuple(each for each in found.records if not isinstance(each, TargetStateChange))
            return replace(found, records=kept)
        return found

    from ottla.connect import decisions

    surgeon.put(changes, "create_or_replace", create_or_replace)
    assert decisions.create_or_replace is create_or_replace


class _Hurried:
    """A herder that waits for nobody's turn."""

    def __init__(self, herder: Any) -> None:
        self._herder = herder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._herder, name)

    @asynccontextmanager
    async def _doing(self, what: str) -> AsyncIterator[None]:
        yield


def _restarts_between_two_stops(surgeon: Surgeon) -> None:
    async def stop_tasks(self: Any, tasks: Any) -> list[TaskId]:
        found: list[TaskId] = await self._stop_tasks(list(tasks))
        return found

    async def restart_task(self: Any, task: TaskId, generation: int) -> None:
        await self.start_tasks(await self._stop_tasks([task]), generation)

    async def restart_here(self: Any, request: Any) -> None:
        await real(_Hurried(self), request)

    surgeon.put(LocalWork, "stop_tasks", stop_tasks)
    surgeon.put(LocalWork, "restart_task", restart_task)
    real = surgeon.put(DistributedHerder, "_restart_here", restart_here)


def _tells_nothing_of_what_has_not_begun(surgeon: Surgeon) -> None:
    async def stop_stale(self: Any, connectors: Any, generation: int) -> None:
        made = self._current().generations
        await self.stop_tasks(
            [
                each
                for each, of in self.tasks.items()
                if each.connector in connectors and of != made.get(each.connector, 0)
            ]
        )

    surgeon.put(LocalWork, "stop_stale", stop_stale)


def _commits_by_name(surgeon: Surgeon) -> None:
    surgeon.put(SinkLoop, "_of_these_topics", lambda self, offsets: offsets)


MUTATIONS = {
    each.name: each
    for each in (
        Mutation(
            "target-before-fence",
            "a task that was paused while its fence was awaited goes on writing, and a resumed one stays paused",
            KIND,
            _has_the_target_from_before_the_fence,
        ),
        Mutation(
            "leaders-word",
            "offsets are altered while another worker's task still ends, which stores its own behind that",
            KIND,
            _alters_offsets_by_the_leaders_word,
        ),
        Mutation("no-fence", "older tasks of a source go on writing beside the new ones", KIND, _fences_nobody),
        Mutation(
            "one-fence",
            "a task whose fence was asked of a leader that is going is FAILED for good",
            KIND,
            _asks_for_a_fence_once,
        ),
        Mutation(
            "late-words",
            "a worker that was taken for dead says UNASSIGNED of what another has by now, and that stands",
            KIND,
            _lets_late_words_stand,
        ),
        Mutation(
            "unread-leader",
            "a worker that leads from now on decides by configurations that it has not read to their end",
            KIND,
            _leads_by_what_it_has_read,
        ),
        Mutation(
            "crossed-pause",
            "a pause that crosses a deletion pauses the next connector of that name",
            KIND,
            _pauses_the_next_of_that_name,
        ),
        Mutation(
            "two-stops",
            "what is stopped by two at once, or restarted meanwhile, runs on or ends its worker's round",
            KIND,
            _restarts_between_two_stops,
        ),
        Mutation(
            "untold-stop",
            "a task that is one too many before it has begun is shown as RESTARTING for ever",
            KIND,
            _tells_nothing_of_what_has_not_begun,
        ),
        Mutation(
            "old-offset",
            "a sink whose topic is made again during a put commits the old offset to the new one, and stops",
            SINK,
            _commits_by_name,
        ),
    )
}
