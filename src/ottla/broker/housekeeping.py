"""What a broker does by the clock: retention, rolling, flushing, checkpoints, expiry of producers, compaction.

One task walks all partitions, a few at a time, so that no round of work holds up the loop for longer than a slice. What
waits for the disk's own pace (fsync, unlink) is done on threads. Compaction is the log cleaner's own task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from ottla.base import Clock, KafkaError, Offload, StorageError
from ottla.broker.configuration import Configuration
from ottla.broker.hosted_partition import HostedPartition
from ottla.broker.log_cleaner import LogCleaner
from ottla.broker.partitions import Partitions
from ottla.broker.storage import Storage
from ottla.config import BrokerSettings
from ottla.log import NoSpaceError

__all__ = ["Housekeeping"]

log = logging.getLogger(__name__)

SLICE_S = 0.002
"""How long housekeeping may hold the loop before requests have their turn."""
FLUSH_CHECK_MS_MAX = 1000
"""How often `flush.ms` is looked at, at least: Kafka's default looks never, so that no topic's is heard."""
DELETION_CHECK_MS = 1000
"""How often deleted partitions are looked at."""
INTERVAL_S_MAX = 86_400.0
"""Intervals that mean "never" are counted in days, so that a live change is noticed within one."""


@dataclass(slots=True)
class _Duty:
    """One kind of work and how often it is done."""

    interval_ms: Callable[[BrokerSettings], int]
    work: Callable[[], Awaitable[None]]
    due_s: float = 0.0


class Housekeeping:
    """Runs the duties until it is stopped."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        storage: Storage,
        configuration: Configuration,
        clock: Clock,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._partitions = partitions
        self._storage = storage
        self._configuration = configuration
        self._clock = clock
        self._offload = offload
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self.cleaner = LogCleaner(
            partitions=partitions,
            storage=storage,
            configuration=configuration,
            clock=clock,
            offload=offload,
            loop=loop,
        )
        self._duties = (
            _Duty(lambda settings: settings.log_retention_check_interval_ms, self._retain),
            _Duty(lambda settings: min(settings.log_flush_scheduler_interval_ms, FLUSH_CHECK_MS_MAX), self._flush),
            _Duty(lambda settings: settings.log_flush_offset_checkpoint_interval_ms, self._store_recovery_points),
            _Duty(lambda settings: settings.log_flush_start_offset_checkpoint_interval_ms, self._store_start_offsets),
            _Duty(lambda settings: settings.replica_high_watermark_checkpoint_interval_ms, self._store_high_watermarks),
            _Duty(lambda settings: DELETION_CHECK_MS, self._delete),
        )

    def start(self) -> None:
        """Begin; the first round of each duty comes after its interval."""
        for duty in self._duties:
            self._schedule(duty)
        self._task = self._loop.create_task(self._run())
        self.cleaner.start()

    async def stop(self) -> None:
        """End after the work at hand."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        await self.cleaner.stop()

    def _schedule(self, duty: _Duty) -> None:
        interval_ms = duty.interval_ms(self._configuration.broker.settings)
        duty.due_s = self._loop.time() + min(interval_ms / 1000, INTERVAL_S_MAX)

    async def _run(self) -> None:
        while True:
            duty = min(self._duties, key=lambda each: each.due_s)
            await asyncio.sleep(max(duty.due_s - self._loop.time(), 0))
            try:
                await duty.work()
            except StorageError as error:
                log.error("Housekeeping could not finish a round: %s", error)
            self._schedule(duty)

    async def _sliced(self) -> AsyncIterator[HostedPartition]:
        """Yield every partition that is online, letting requests have their turn after each slice of time."""
        until_s = self._loop.time() + SLICE_S
        for held in self._partitions:
            if self._loop.time() >= until_s:
                await asyncio.sleep(0)
                until_s = self._loop.time() + SLICE_S
            if not held.is_offline:
                yield held

    # -- duties

    async def _retain(self) -> None:
        """Apply retention by time and size, forget expired producers, unlink what was set aside long enough ago."""
        now_ms = self._clock.now_ms()
        async for held in self._sliced():
            try:
                gone = held.housekeep(now_ms)
                for path in gone:
                    await self._offload.thread(self._storage.disk.unlink, path)
            except NoSpaceError as error:  # nothing has failed: what it had to write is written when there is room
                log.warning("Retention of %s has no room to write: %s", held.key, error)
            except StorageError as error:
                self._partitions.dir_failed(held.log_dir, error)

    async def _flush(self) -> None:
        """Make durable what `flush.ms` asks for, and sealed segments, so that a recovery never reads more than one."""
        now_ms = self._clock.now_ms()
        async for held in self._sliced():
            if held.log.is_flush_due(now_ms):
                try:
                    await held.flush()
                except KafkaError as error:
                    log.debug("%s went offline while it was flushed: %s", held.key, error)

    async def _store_recovery_points(self) -> None:
        async with self._storage.checkpoints:
            await self._offload.thread(self._storage.write_recovery_points)

    async def _store_start_offsets(self) -> None:
        await self._offload.thread(self._storage.write_start_offsets)

    async def _store_high_watermarks(self) -> None:
        offsets = {each.path: self._partitions.high_watermarks(each) for each in self._storage.online}
        await self._offload.thread(self._storage.write_high_watermarks, offsets)

    async def _delete(self) -> None:
        """Remove the folders of deleted partitions whose delay is over."""
        for remove in self._storage.take_deleted(self._clock.now_ms()):
            await self._offload.thread(remove)
