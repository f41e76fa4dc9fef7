"""A standby: a work's state on another host, which follows the changelogs and does nothing else (`num.standby.replicas`).

Its executor has the steps of the work but those that run a user's processors, and never gets a record of the input: stores
are restored as the changelogs grow, to where they may be read. When the work comes here, what the standby has is what a
checkpoint would have been: only what is behind it is read. A source topic that serves as a changelog is followed to where
the group has committed, since what is behind that nobody has processed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from ottla.base import KafkaError, TopicPartition
from ottla.client import LATEST, Client
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.spark.continuous.restoring import (
    bounds_of,
    changelogs_of,
    changes_of,
    place_of,
    read_stretch,
    why_not,
)
from ottla.spark.continuous.saving import files_of
from ottla.spark.continuous.work import Place
from ottla.streams import (
    Bounds,
    ChangelogPosition,
    Executor,
    ResidentState,
    StateCheckpoint,
    StreamsWork,
    standby_nodes,
)

__all__ = ["Standby"]

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
"""Between two looks at how far the changelogs are."""
PLACE_SECONDS = 10.0
"""How often it is looked what the group has committed, and whether the topics are the same."""
BACKOFF_SECONDS = 2.0


class Standby:
    """See the module's description; `run` until it is cancelled, then `taken`."""

    def __init__(self, client: Client, plan: ApplicationPlan, name: StreamsWork) -> None:
        self.name, self._client, self._plan = name, client, plan
        self._group = plan.of_group(name.sub_topology)
        self._logs = changelogs_of(plan, self._group, name.partition)
        self._executor: Executor | None = None
        self._state = ResidentState()
        self._offsets: dict[TopicPartition, int] = {}
        self._ids: dict[TopicPartition, str] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._looked_at_s = 0.0
        self.updated = 0
        """Records of changelogs that were read."""
        self.lag: int | None = None
        """Records that the changelogs have more than this; None before the first look."""

    async def run(self) -> None:
        """Follow; what fails is tried again, anew where changelogs are not those that were followed."""
        while True:
            try:
                await self._look()
            except (KafkaError, OSError) as error:
                log.warning("standby of %s does not follow now: %s", self.name, error)
                await asyncio.sleep(BACKOFF_SECONDS)
            except Exception:  # a user's serde may raise anything: the work itself will say it
                log.warning("standby of %s follows no more", self.name, exc_info=True)
                self.lag = None
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        now_s = asyncio.get_running_loop().time()
        serves = any(each.topic in self._group.topics for each in self._logs)
        if self._executor is None or serves or now_s > self._looked_at_s + PLACE_SECONDS:
            await self._look_around()
            self._looked_at_s = now_s
        elif not serves:
            latest = await self._client.list_offsets(dict.fromkeys(self._logs, LATEST))
            self._ends = {each: int(found.offset) for each, found in latest.items()}
        assert self._executor is not None
        ends, ids = self._ends, {each.topic: found for each, found in self._ids.items()}
        async for answer in read_stretch(self._client, dict(self._offsets), ends, self._plan, ids, waits=False):
            changes = list(changes_of(answer, self._logs[answer.partition], ends[answer.partition]))
            self._executor.restore(changes)
            self._executor.finish_batch()
            self.updated += len(changes)
            self._offsets[answer.partition] = min(answer.next_offset, ends[answer.partition])
        self.lag = sum(max(0, end - self._offsets[each]) for each, end in self._ends.items())

    async def _look_around(self) -> None:
        """Look what the group has committed, and whether changelogs are those that are followed."""
        place = await place_of(self._client, self._plan, self.name)
        bounds = await bounds_of(self._client, self._logs, place)
        if self._executor is None or self._is_behind(bounds):
            await self._begin(bounds, place)
        assert self._executor is not None
        if place.memory is not None:
            self._executor.told(place.memory)
        self._ends = {each: found.end for each, found in bounds.items()}

    def _is_behind(self, bounds: Mapping[TopicPartition, Bounds]) -> bool:
        """Whether changelogs are others than those that were followed."""
        return any(
            self._ids[each] != found.topic_id or not found.begin <= self._offsets[each] <= found.end
            for each, found in bounds.items()
        )

    async def _begin(self, bounds: Mapping[TopicPartition, Bounds], place: Place) -> None:
        """Begin with the checkpoint on this machine, where there is one that may be used, or with nothing."""
        files, now_ms = files_of(self._plan), time.time_ns() // 1_000_000
        saved = None if files is None else await asyncio.to_thread(files.read, self.name)
        if saved is not None:  # a standby has nothing of global tables
            saved = replace(
                saved, changelogs={each: saved.changelogs[each] for each in bounds if each in saved.changelogs}
            )
        if saved is not None and why_not(saved, self._plan, self.name, place, bounds, now_ms):
            saved = None
        self._ids = {each: found.topic_id for each, found in bounds.items()}
        self._offsets = {
            each: found.begin if saved is None else saved.changelogs[each].offset for each, found in bounds.items()
        }
        self._state = ResidentState(None, None if saved is None else saved.blobs)
        self._executor = Executor(
            self._plan.topology,
            standby_nodes(self._plan.topology, self._group.group.nodes),
            self._state,
            task=self.name.partition,
            settings=self._plan.engine,
            application_id=self._plan.application_id,
            wall_clock_ms=now_ms,
        )

    def taken(self, now_ms: int) -> StateCheckpoint | None:
        """Return what there is, for the work itself; None where it has not begun."""
        if self._executor is None:
            return None
        self._executor.finish_batch()
        changelogs = {each: ChangelogPosition(self._ids[each], offset) for each, offset in self._offsets.items()}
        return StateCheckpoint(self._plan.identity(self.name), now_ms, {}, changelogs, self._state.saved())
