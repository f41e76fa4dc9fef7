"""When a lane's works are saved, and how: what they hold is encoded in the loop, between two turns, and written beside it.

Only a work of which everything is committed is saved, so a checkpoint is never ahead of the group's offsets; and only where
it is known how far its changelogs are written. What cannot be written (a full disk, a folder that is not ours) costs later
restarts time, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.background import supervise
from ottla.base import TopicPartition
from ottla.spark.continuous.checkpoint_files import CheckpointFiles
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.spark.continuous.work import Work
from ottla.spark.failpoints import failpoint
from ottla.streams import ChangelogPosition, StateCheckpoint, StreamsWork

__all__ = ["Saving", "checkpoint_of", "files_of"]

log = logging.getLogger(__name__)
ENCODING_SHARE = 0.01
"""The interval widens until encoding takes no more than this part of the loop's time."""
SOON_SECONDS = 1.0
RESTORED_MANY = 10_000
"""A work that has read so many records is saved soon, and not only when the interval is over."""
Ends = Mapping[TopicPartition, "int | None"]
"""How far changelogs are written; None where a broker has not said it."""


@dataclass(slots=True)
class _Due:
    at_s: float
    commits: int | None
    """How many commits it had had when it was saved last; None where it was not."""


def files_of(plan: ApplicationPlan) -> CheckpointFiles | None:
    """Return the folder of an application's checkpoints; None where it has none."""
    folder = plan.checkpoints.folder
    return None if folder is None else CheckpointFiles(folder)


def checkpoint_of(work: Work, ends: Ends, now_ms: int) -> StateCheckpoint | None:
    """Return what a work holds, of which everything is committed; None where it is not known how far a changelog is."""
    committed = work.offsets_committed
    offsets: dict[TopicPartition, int] = {each: queue.position for each, queue in work.globals.queues.items()}
    for place, restored in work.restored_ends.items():
        end = committed[place] if place in committed else ends.get(place, restored)
        if end is None:
            return None
        offsets[place] = max(end, restored)
    ids = work.topic_ids
    changelogs = {place: ChangelogPosition(ids[place.topic], offset) for place, offset in offsets.items()}
    return StateCheckpoint(work.plan.identity(work.name), now_ms, dict(committed), changelogs, work.state.saved())


class Saving:
    """A lane's works, and when each is to be saved; at most one is being written at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[StreamsWork, _Due] = {}
        self._writing: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self.saved = 0
        self.encode_s_max = 0.0

    def begin(self, work: Work) -> None:
        """Save a work from now on, where it has state and a place for it."""
        if work.plan.checkpoints.folder is None or not (work.restored_ends or work.globals.queues):
            return
        is_soon = work.counts.restored > RESTORED_MANY
        wait_s = SOON_SECONDS if is_soon else work.plan.checkpoints.interval_ms / 1000
        self._due[work.name] = _Due(self._clock() + wait_s, None if is_soon else work.counts.commits)

    def look(self, works: Mapping[StreamsWork, Work], ends: Ends) -> None:
        """Begin to save a work that is due, has moved, and has nothing that is not committed."""
        if self._writing is not None and not self._writing.done():
            return
        now_s = self._clock()
        for name, due in self._due.items():
            work = works.get(name)
            if due.at_s <= now_s and work is not None and not work.is_dirty and work.counts.commits != due.commits:
                if (state := self._encoded(work, ends)) is not None:
                    self._writing = supervise(self._write(work.plan, state), name="save", serves=f"{work.name}")
                return

    def leave(self, work: Work, ends: Ends) -> None:
        """Save a work that is let go, where it has moved since it was saved last."""
        due = self._due.pop(work.name, None)
        if due is None or work.is_dirty or work.counts.commits == due.commits:
            return
        if (state := self._encoded(work, ends)) is not None:
            task = supervise(self._write(work.plan, state), name="save", serves=f"{work.name}")
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def finish(self, works: Mapping[StreamsWork, Work], ends: Ends) -> None:
        """Save what there is: the lane ends."""
        for work in works.values():
            self.leave(work, ends)
        left = [*self._leaving, *([] if self._writing is None else [self._writing])]
        if left:
            await asyncio.wait(left)

    def forget(self, works: Mapping[StreamsWork, Work]) -> None:
        """Forget the works that are not among these any more."""
        if self._due.keys() - works.keys():
            self._due = {name: due for name, due in self._due.items() if name in works}

    def _encoded(self, work: Work, ends: Ends) -> StateCheckpoint | None:
        began_s = time.perf_counter()
        state = checkpoint_of(work, ends, time.time_ns() // 1_000_000)
        took_s = time.perf_counter() - began_s
        self.encode_s_max = max(self.encode_s_max, took_s)
        wait_s = max(work.plan.checkpoints.interval_ms / 1000, took_s / ENCODING_SHARE)
        self._due[work.name] = _Due(self._clock() + wait_s, work.counts.commits)
        return state

    async def _write(self, plan: ApplicationPlan, state: StateCheckpoint) -> None:
        files = files_of(plan)
        assert files is not None, "it is due"
        try:
            failpoint("continuous: before a checkpoint")
            size = await asyncio.to_thread(files.write, state)
            failpoint("continuous: after a checkpoint")
        except OSError as error:
            log.warning("the state of %s is not saved: %s", state.identity.work, error)
            return
        self.saved += 1
        log.debug("the state of %s is saved: %d bytes", state.identity.work, size)
