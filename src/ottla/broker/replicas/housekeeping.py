"""What a broker does by the clock: retention, rolling, flushing, checkpoints, expiry of producers, compaction.

One task walks all partitions, a few at a time, so that no round of work holds up the loop for longer than a slice. What
waits for the disk's own pace (fsync, unlink) is done on threads. Compaction is the log cleaner's own task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ottla.background import count_failure, keep_running
from ottla.base import Clock, KafkaError, Offload, Offset, StorageError, TopicPartition
from ottla.broker.configuration import Configuration
from ottla.broker.replicas.failures import Cost
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.log_cleaner import LogCleaner
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.storage import Storage
from ottla.config import BrokerSettings
from ottla.log import Log, LogDir

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
        self._stuck: list[Callable[[], None]] = []
        """What removes files and folders whose time is over, until it has."""
        self.cleaner = LogCleaner(
            partitions=partitions,
            storage=storage,
            configuration=configuration,
            clock=clock,
            offload=offload,
            loop=loop,
        )
        self._duties = (
            _Duty(lambda settings: settings.log_retention_check_interval_ms, self.retain),
            _Duty(lambda settings: min(settings.log_flush_scheduler_interval_ms, FLUSH_CHECK_MS_MAX), self.flush),
            _Duty(lambda settings: settings.log_flush_offset_checkpoint_interval_ms, self.store_recovery_points),
            _Duty(lambda settings: settings.log_flush_start_offset_checkpoint_interval_ms, self.store_start_offsets),
            _Duty(lambda settings: settings.replica_high_watermark_checkpoint_interval_ms, self.store_high_watermarks),
            _Duty(lambda settings: DELETION_CHECK_MS, self.delete),
        )

    def start(self) -> None:
        """Begin; the first round of each duty comes after its interval."""
        for duty in self._duties:
            self._schedule(duty)
        self._task = keep_running(self._run, name="housekeeping", serves="all logs", loop=self._loop)
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
                self._partitions.failures.met(error)
            except Exception:  # our own mistake: it is said, and neither the other duties nor the next round end by it
                log.exception("Housekeeping has failed, and goes on")
                count_failure("housekeeping")
            self._schedule(duty)

    async def _sliced(self, *, with_offline: bool = False) -> AsyncIterator[LocalPartition]:
        """Yield every partition that is online, or all, letting requests have their turn after each slice of time."""
        until_s = self._loop.time() + SLICE_S
        for partition in self._partitions:
            if self._loop.time() >= until_s:
                await asyncio.sleep(0)
                until_s = self._loop.time() + SLICE_S
            if with_offline or not partition.is_offline:
                yield partition

    # -- duties: each also when it is asked for

    async def retain(self) -> None:
        """Apply retention by time and size, forget expired producers, unlink what was set aside long enough ago."""
        now_ms = self._clock.now_ms()
        async for partition in self._sliced():
            try:
                gone = partition.housekeep(now_ms)
            except (
                StorageError
            ) as error:  # without room nothing has failed: what it had to write is written another time
                self._partitions.failures.met(error, partition)
            except Exception:  # one log must not keep the others from their retention
                log.exception("Retention of %s has failed", partition.key)
                count_failure("housekeeping")
            else:
                self._stuck += [partial(self._storage.disk.unlink, path) for path in gone]
        await self._remove()

    async def flush(self) -> None:
        """Make durable what `flush.ms` asks for, and sealed segments, so that a recovery never reads more than one."""
        now_ms = self._clock.now_ms()
        async for partition in self._sliced():
            if partition.log.is_flush_due(now_ms):
                try:
                    await partition.flush()
                except KafkaError as error:
                    log.debug("%s went offline while it was flushed: %s", partition.key, error)

    async def store_recovery_points(self) -> None:
        """Write how far each log is on its device (`recovery-point-offset-checkpoint`)."""
        async with self._storage.checkpoints:
            await self._each_directory(LogDir.write_recovery_points)

    async def store_start_offsets(self) -> None:
        """Write where each log begins (`log-start-offset-checkpoint`)."""
        await self._each_directory(LogDir.write_start_offsets)

    async def _each_directory(self, write: Callable[[LogDir], None]) -> None:
        """Write a checkpoint of every directory on a thread; one that fails keeps no other from being written."""
        for log_dir in self._storage.online:
            try:
                await self._offload.thread(write, log_dir)
            except StorageError as error:
                log.error("A checkpoint of %s could not be written: %s", log_dir.path, error)
                self._partitions.failures.met(error)

    async def store_high_watermarks(self) -> None:
        """Write how far each partition is committed (`replication-offset-checkpoint`)."""
        offsets = await self.high_watermarks()
        await self._each_directory(lambda log_dir: log_dir.write_high_watermarks(offsets.get(log_dir, {})))

    async def high_watermarks(self) -> Mapping[LogDir, Mapping[TopicPartition, tuple[Log, Offset]]]:
        """Return what is checkpointed for each directory that is online: each watermark, and the log that it is of."""
        found: dict[LogDir, dict[TopicPartition, tuple[Log, Offset]]] = {each: {} for each in self._storage.online}
        async for each in self._sliced(with_offline=True):
            if each.log_dir in found:
                found[each.log_dir][each.key] = each.log, each.replica.high_watermark
        return found

    async def delete(self) -> None:
        """Remove the folders of deleted partitions whose delay is over; what had no room before is tried again."""
        self._stuck += self._storage.take_deleted(self._clock.now_ms())
        await self._remove()
        self._partitions.try_again()

    async def _remove(self) -> None:
        """Remove on threads what is to be removed; what fails stays for the next round, unless its directory has failed."""
        removals, self._stuck = self._stuck, []
        for at, remove in enumerate(removals):
            try:
                await self._offload.thread(remove)
            except StorageError as error:
                self._partitions.failures.met(error)
                if self._partitions.failures.cost_of(error) is Cost.ANSWER:
                    self._stuck.append(remove)
            except asyncio.CancelledError:
                self._stuck += removals[at:]
                raise
