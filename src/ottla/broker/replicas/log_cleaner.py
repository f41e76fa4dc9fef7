"""Log compaction by the clock: the dirtiest log first, cleaned in a worker process, put in place on the loop.

As in Kafka the log with the largest share of dirty bytes above its `min.cleanable.dirty.ratio` goes first, and before any
share counts, one whose oldest dirty record has waited for `max.compaction.lag.ms`. When nothing is due the cleaner rests
for `log.cleaner.backoff.ms`. `log.cleaner.threads` says how many logs are cleaned at once, each in a process of its own.

The loop's part is small: a plan, and at the end the exchange of segments in memory. What that needs of files, opening,
renaming and removing, is done on threads around it. A log that is truncated, deleted or taken offline meanwhile takes back
the lease of its cleaning, and what that wrote is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from typing import NamedTuple

from ottla.background import awaited, count_failure, keep_running, supervise
from ottla.base import Clock, CorruptionError, Offload, StorageError, TopicPartition
from ottla.broker.configuration import Configuration
from ottla.broker.metrics import Metrics
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.storage import Storage
from ottla.broker.replicas.throttled_cleaning import clean_throttled
from ottla.config import BrokerSettings
from ottla.log import (
    Cleanable,
    CleanerBuffers,
    CleaningAborted,
    CleaningPlan,
    CleaningResult,
    Installation,
    LogDir,
    NoSpaceError,
    cleanable,
    is_as_planned,
    join,
    plan_cleaning,
)

__all__ = ["LogCleaner"]

log = logging.getLogger(__name__)

SLICE_S = 0.002
"""How long the search for the dirtiest log may hold the loop before requests have their turn."""
WATCH_S = 0.5
"""How often a log that is being cleaned is looked at: has it changed, so that the cleaning is in vain?"""
BACKOFF_S_MIN = 0.01
"""A backoff of 0 must not keep the loop busy."""
LEASE = "cleaning.tmp"
"""Kafka ignores a file of this name, and a start removes it."""


class _Done(NamedTuple):
    """One finished cleaning, for the metrics."""

    result: CleaningResult
    seconds: float


class LogCleaner:
    """Runs until it is stopped; one for all log directories."""

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
        self._running: dict[asyncio.Task[None], str] = {}
        """Cleanings under way, and their leases."""
        self._uncleanable: dict[TopicPartition, LocalPartition] = {}
        self._paused: dict[TopicPartition, float] = {}
        """Logs whose last cleaning failed for a reason that may pass, and until when they are left alone."""
        self._last: _Done | None = None
        self._last_run_s: float | None = None
        self._dirtiest_ratio = 0.0
        self._delay_ms = 0

    def start(self) -> None:
        """Begin, unless `log.cleaner.enable` is false."""
        if self._settings.log_cleaner_enable:
            self._task = keep_running(self._run, name="compaction", serves="compacted logs", loop=self._loop)

    async def stop(self) -> None:
        """Take every lease back and return when no worker writes any more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        for lease in self._running.values():
            self._withdraw(lease)
        if self._running:
            await asyncio.wait(tuple(self._running))

    @property
    def _settings(self) -> BrokerSettings:
        return self._configuration.broker.settings

    @property
    def _pause_s(self) -> float:
        return max(self._settings.log_cleaner_backoff_ms / 1000, BACKOFF_S_MIN)

    async def _run(self) -> None:
        while True:
            self._last_run_s = self._loop.time()
            started = False
            try:
                if len(self._running) < self._settings.log_cleaner_threads:
                    started = await self._start_filthiest()
            except Exception:  # our own mistake: it is said, and compaction goes on
                log.exception("The log cleaner has failed, and goes on")
                count_failure("compacted logs")
            if started:
                continue
            if self._running:
                await asyncio.wait(tuple(self._running), timeout=self._pause_s, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(self._pause_s)

    # -- choosing

    async def _start_filthiest(self) -> bool:
        """Begin to clean the log that needs it most; False where none does."""
        best: tuple[LocalPartition, Cleanable] | None = None
        dirtiest, delay_ms = 0.0, 0
        until_s = self._loop.time() + SLICE_S
        for partition in self._partitions:
            if self._loop.time() >= until_s:
                await asyncio.sleep(0)
                until_s = self._loop.time() + SLICE_S
            found = self._look_at(partition)
            if found is None:
                continue
            dirtiest, delay_ms = max(dirtiest, found.ratio), max(delay_ms, found.delay_ms)
            is_due = found.is_due(partition.log.config.min_cleanable_dirty_ratio)
            if is_due and (best is None or found.ratio > best[1].ratio):
                best = partition, found
        self._dirtiest_ratio, self._delay_ms = dirtiest, delay_ms
        if best is None or best[0].is_offline:
            return False
        self._begin(*best)
        return True

    def _look_at(self, partition: LocalPartition) -> Cleanable | None:
        """Return what could be cleaned of a partition; None where it must not be touched."""
        if partition.is_offline or partition.being_cleaned or not partition.log.config.compacts:
            return None
        if (
            self._uncleanable.get(partition.key) is partition
            or self._paused.get(partition.key, 0.0) > self._loop.time()
        ):
            return None
        try:
            return self._cleanable(partition)
        except CorruptionError as error:
            self._mark_uncleanable(partition, error)
        except StorageError as error:
            self._partitions.failures.met(error, partition)
            self._pause(partition)
        except Exception as error:  # our own mistake: the other logs are looked at all the same
            self._mark_uncleanable(partition, error)
            log.exception("The log cleaner has failed at %s, and goes on", partition.key)
            count_failure("compacted logs")
        return None

    def _cleanable(self, partition: LocalPartition) -> Cleanable:
        return cleanable(partition.log, last_stable_offset=partition.last_stable_offset(), now_ms=self._clock.now_ms())

    # -- cleaning

    def _begin(self, partition: LocalPartition, found: Cleanable) -> None:
        lease = join(partition.log.folder, LEASE)
        partition.being_cleaned = True
        serves = f"compaction of {partition.key}"
        task = supervise(self._clean(partition, found, lease), name="clean", serves=serves, loop=self._loop)
        self._running[task] = lease
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]

    async def _clean(self, partition: LocalPartition, found: Cleanable, lease: str) -> None:
        """Clean one log, and say what came of it."""
        try:
            await self._clean_and_install(partition, found, lease)
        except CleaningAborted:
            log.info("The cleaning of %s was given up: its log changed, or the broker stops", partition.key)
        except CorruptionError as error:
            self._mark_uncleanable(partition, error)
        except NoSpaceError as error:
            log.error("%s cannot be compacted, and stays as it is, while its disk is full: %s", partition.key, error)
            self._pause(partition)
        except StorageError as error:
            self._partitions.failures.met(error, partition)
            self._pause(partition)
        except BrokenExecutor as error:
            log.error("The worker process that compacted %s died (%s); it is tried again later", partition.key, error)
            self._pause(partition)
        except (
            Exception
        ) as error:  # our own mistake: the loop's handler names it, and the next round must not repeat it
            self._mark_uncleanable(partition, error)
            raise
        finally:
            partition.being_cleaned = False
            await self._offload.thread(self._withdraw, lease)

    def _pause(self, partition: LocalPartition) -> None:
        """Keep a log that could not be cleaned from being chosen again at once."""
        self._paused[partition.key] = self._loop.time() + self._pause_s

    async def _clean_and_install(self, partition: LocalPartition, found: Cleanable, lease: str) -> None:
        began_s = self._loop.time()
        disk = self._storage.disk
        await partition.know_aborted(int(partition.log.segments[0].base_offset), found.end_offset)
        if partition.is_offline or self._task is None:
            raise CleaningAborted(str(partition.key))
        plan = plan_cleaning(
            partition.log, found, now_ms=self._clock.now_ms(), lease=lease, buffers=_buffers(self._settings)
        )
        await partition.on_thread(lambda: disk.open(lease, create=True).close())
        if partition.is_offline or self._task is None:  # who took leases back meanwhile found none here
            raise CleaningAborted(str(partition.key))
        result = await self._in_worker(partition, plan)
        async with self._storage.checkpoints:  # so that no recovery begins below what is about to get gaps
            await self._offload.thread(partition.log_dir.write_recovery_points)
        if not await self._install(partition, Installation(disk, partition.log, plan, result)):
            raise CleaningAborted(str(partition.key))
        async with self._storage.checkpoints:
            await self._offload.thread(partition.log_dir.write_cleaned_offsets)
        self._last = _Done(result, self._loop.time() - began_s)
        log.info(
            "Compacted %s up to offset %d: %d bytes became %d, %d of %d records were kept",
            *(partition.key, result.cleaned_to, result.bytes_before, result.bytes_after),
            *(result.records_kept, result.records_read),
        )
        if result.records_without_key:
            log.warning("%s: %d records without a key were removed", partition.key, result.records_without_key)

    async def _install(self, partition: LocalPartition, work: Installation) -> bool:
        """Put what a cleaning wrote in place; False, and what is not in place is gone, where the log has changed.

        Raises StorageError.
        """
        try:
            good = not partition.is_offline and work.begin()
            while good and not work.is_done:
                good = await partition.instead_of_flush(self._install_next(partition, work))
        except StorageError:
            with suppress(StorageError):  # the next cleaning writes over them, or a start removes them
                await partition.on_thread(work.give_up)
            raise
        if good:
            work.end()
        else:
            await partition.on_thread(work.give_up)
        return good

    async def _install_next(self, partition: LocalPartition, work: Installation) -> bool:
        now_ms = self._clock.now_ms()
        if partition.is_offline or not await partition.on_thread(work.promise, now_ms):
            return False
        if partition.is_offline or not work.exchange():
            return False
        await partition.on_thread(work.complete, now_ms)
        return True

    async def _in_worker(self, partition: LocalPartition, plan: CleaningPlan) -> CleaningResult:
        """Clean in the worker process; the lease is taken back when the log is not what was planned for any more."""
        settings = self._settings
        share = settings.log_cleaner_io_max_bytes_per_second / max(settings.log_cleaner_threads, 1)
        work = awaited(self._offload.background(clean_throttled, self._storage.disk, plan, share))
        while not work.done():
            await asyncio.wait((work,), timeout=WATCH_S)
            if not work.done() and (partition.is_offline or not is_as_planned(partition.log, plan)):
                self._withdraw(plan.lease)
        return work.result()

    def _withdraw(self, lease: str) -> None:
        try:
            self._storage.disk.unlink(lease)
        except StorageError as error:
            log.warning("A cleaning's lease could not be removed: %s", error)

    def _mark_uncleanable(self, partition: LocalPartition, error: Exception) -> None:
        """Leave a damaged log alone from now on: it would only fail again. A restart tries once more."""
        self._uncleanable[partition.key] = partition
        if isinstance(error, StorageError):
            self._partitions.failures.met(error, partition)
        log.error("%s cannot be compacted, and is left alone until a restart: %s", partition.key, error)

    # -- metrics

    def name_gauges(self, metrics: Metrics) -> None:
        """Offer Kafka's metrics of the cleaner."""
        manager, cleaner = "LogCleanerManager", "LogCleaner"
        metrics.gauge(f"{manager}.max-dirty-percent", lambda: int(100 * self._dirtiest_ratio))
        metrics.gauge(f"{manager}.time-since-last-run-ms", self._since_last_run_ms)
        metrics.gauge(f"{cleaner}.cleaner-recopy-percent", self._recopy_percent)
        metrics.gauge(f"{cleaner}.max-buffer-utilization-percent", self._utilization_percent)
        metrics.gauge(f"{cleaner}.max-clean-time-secs", lambda: int(self._last.seconds) if self._last else 0)
        metrics.gauge(f"{cleaner}.max-compaction-delay-secs", lambda: self._delay_ms // 1000)
        metrics.gauge(f"{cleaner}.DeadThreadCount", lambda: 0 if self._task is None or not self._task.done() else 1)
        for log_dir in self._storage.online:
            self._name_directory_gauges(metrics, log_dir)

    def _name_directory_gauges(self, metrics: Metrics, log_dir: LogDir) -> None:
        tag = f"logDirectory={log_dir.path}"
        metrics.gauge(
            f"LogCleanerManager.uncleanable-partitions-count,{tag}", lambda: len(self.uncleanable_in(log_dir))
        )
        metrics.gauge(
            f"LogCleanerManager.uncleanable-bytes,{tag}",
            lambda: sum(self._cleanable(each).cleanable_bytes for each in self.uncleanable_in(log_dir)),
        )

    def uncleanable_in(self, log_dir: LogDir) -> list[LocalPartition]:
        """Return a directory's partitions whose logs are damaged, as far as they are still held."""
        return [
            partition
            for key, partition in self._uncleanable.items()
            if partition.log_dir is log_dir and self._partitions.held(key.topic, key.partition) is partition
        ]

    def _since_last_run_ms(self) -> int:
        return 0 if self._last_run_s is None else int((self._loop.time() - self._last_run_s) * 1000)

    def _recopy_percent(self) -> int:
        done = self._last
        return int(100 * done.result.bytes_after / done.result.bytes_before) if done and done.result.bytes_before else 0

    def _utilization_percent(self) -> int:
        return int(100 * self._last.result.map_utilization) if self._last else 0


def _buffers(settings: BrokerSettings) -> CleanerBuffers:
    """Return one worker's part of the cleaner's memory."""
    workers = max(settings.log_cleaner_threads, 1)
    return CleanerBuffers(
        map_bytes=settings.log_cleaner_dedupe_buffer_size // workers,
        load_factor=settings.log_cleaner_io_buffer_load_factor,
        buffer_bytes=settings.log_cleaner_io_buffer_size // workers // 2,
    )
