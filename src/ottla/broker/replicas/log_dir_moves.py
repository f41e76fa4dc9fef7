"""Moving replicas from one log directory of this broker to another (KIP-113), one task for all of them.

A copy (`…-future`) is filled from the log, slice by slice and no faster than allowed. Once it has everything, the controller
is told where the replica is going to lie (KIP-858); then, durable and under the log's own name, it takes the log's place
between two requests. A crash leaves one of them or both, and both only while one is a part of the other: a start keeps the
longer one, and goes on.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from ottla.background import count_failure, keep_running
from ottla.base import Clock, ErrorCode, KafkaError, Offload, StorageError, TopicPartition
from ottla.broker.controller.directory_assignments import DirectoryAssignments
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.storage import Storage
from ottla.broker.replicas.throttles import ReplicationThrottle
from ottla.log import Log, LogDir, NoSpaceError
from ottla.metadata import Delta, Image

__all__ = ["LogDirMoves", "Move"]

log = logging.getLogger(__name__)

COPY_BYTES = 1 << 20
"""What is copied at once, and the most that is copied while everybody waits."""
ASKED_S = 0.02
"""How long a move waits before it looks whether the controller has taken in where it goes."""
PAUSE_S = 0.2
"""How long a move waits where it cannot go on now: the log is being compacted, or its disk is full."""
ANY_EPOCH = 0x7FFFFFFF


@dataclass(eq=False)
class Move:
    """A replica on its way to another directory."""

    partition: LocalPartition
    future: Log
    log_dir: LogDir
    truncations: int
    """Of the log, when the copy was last compared with it."""
    not_before_s: float = 0.0
    is_named: bool = False
    """True where the copy has the log's own name, durably."""

    @property
    def lag(self) -> int:
        """Offsets that the copy does not have yet."""
        return max(0, self.partition.log.log_end_offset - self.future.log_end_offset)


class LogDirMoves:
    """Every replica that is on its way."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        storage: Storage,
        assignments: DirectoryAssignments,
        throttle: ReplicationThrottle,
        clock: Clock,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._partitions = partitions
        self._storage = storage
        self._assignments = assignments
        self._throttle = throttle
        self._clock = clock
        self._offload = offload
        self._loop = loop
        self._moves: dict[TopicPartition, Move] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        partitions.dropped = self._dropped

    def __len__(self) -> int:
        return len(self._moves)

    def get(self, key: TopicPartition) -> Move | None:
        """Return a partition's move."""
        return self._moves.get(key)

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Go on with what an earlier process has begun, of partitions that are opened now."""
        for name in delta.topics_changed:
            for index in image.topics[name].partitions:
                key = TopicPartition(name, index)
                partition = self._partitions.held(name, index)
                log_dir = self._storage.future_of(key) if partition is not None and key not in self._moves else None
                if partition is None or log_dir is None:
                    continue
                try:
                    self.begin(partition, log_dir)
                except StorageError as error:
                    log.error("%s cannot be moved to %s: %s", key, log_dir.path, error)
                    self._partitions.failures.met(error, partition)

    def begin(self, partition: LocalPartition, log_dir: LogDir) -> None:
        """Move a replica to a directory; where it is on its way elsewhere, that ends. Raises StorageError."""
        move = self._moves.get(partition.key)
        if move is not None and move.log_dir is not log_dir:
            self._give_up(move)
        if log_dir is partition.log_dir or partition.key in self._moves:
            return
        future = self._storage.open_future(partition.key, log_dir, partition.topic_id, partition.log.config)
        self._moves[partition.key] = Move(partition, future, log_dir, truncations=-1)
        log.info("%s moves from %s to %s", partition.key, partition.log_dir.path, log_dir.path)
        if self._task is None and not self._closed:
            self._task = keep_running(
                self._run, name="moves between directories", serves="replicas that move", loop=self._loop
            )

    def _dropped(self, partition: LocalPartition) -> None:
        """Give up the move of a replica that goes, before another of its name may begin in the copy's folder."""
        move = self._moves.get(partition.key)
        if move is not None:
            self._give_up(move)

    async def close(self) -> None:
        """Leave the copies as they are, for the next start to go on with."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    # -- inside

    async def _run(self) -> None:
        try:
            while self._moves:
                now_s = self._loop.time()
                due = [each for each in self._moves.values() if each.not_before_s <= now_s]
                if not due:
                    await asyncio.sleep(max(0.0, min(each.not_before_s for each in self._moves.values()) - now_s))
                for move in due:
                    if self._moves.get(move.partition.key) is move:
                        await self._go_on(move)
        finally:
            self._task = None

    async def _go_on(self, move: Move) -> None:
        """Do one step of a move."""
        partition = move.partition
        if partition.is_offline:
            self._give_up(move)
            return
        try:
            self._follow(move)
            if (not move.lag or await self._copy(move)) and self._goes_on(move):
                await self._finish(move)
        except (KafkaError, NoSpaceError) as error:
            log.error("%s cannot be copied: %s", partition.key, error)
            move.not_before_s = self._loop.time() + PAUSE_S
        except StorageError as error:
            log.error("%s cannot be moved to %s: %s", partition.key, move.log_dir.path, error)
            self._partitions.failures.met(error, partition)  # by its path: this touches two directories
            if self._moves.get(partition.key) is move:
                self._give_up(move)
        except Exception:  # our own mistake: it must not end the other moves
            log.exception("The move of %s to %s has failed, and is tried again", partition.key, move.log_dir.path)
            count_failure("replicas that move")
            move.not_before_s = self._loop.time() + PAUSE_S
        await asyncio.sleep(0)

    def _give_up(self, move: Move) -> None:
        del self._moves[move.partition.key]
        self._assignments.withdraw(move.partition)
        if move.log_dir not in self._storage.online:
            return
        try:
            self._storage.drop_future(move.partition.key, move.log_dir)
        except StorageError as error:  # what is left of it is found, and goes, when a copy is begun there again
            log.warning("The copy of %s in %s is not removed: %s", move.partition.key, move.log_dir.path, error)
            self._partitions.failures.met(error)

    # -- filling the copy

    def _follow(self, move: Move) -> None:
        """Cut or advance the copy's ends as the log's were."""
        source, future = move.partition.log, move.future
        if move.truncations != source.truncations:
            move.truncations = source.truncations
            _cut_like(future, source)
        start = source.log_start_offset
        if start > future.log_end_offset:
            future.truncate_fully_and_start_at(start)
        elif start > future.log_start_offset:
            future.delete_records_before(start)

    async def _copy(self, move: Move) -> bool:
        """Copy the next slice, or wait where that would be too fast; return whether no more than a slice is left."""
        wait_s = self._throttle.wait_s()
        if wait_s:
            move.not_before_s = self._loop.time() + wait_s
            return False
        source = move.partition.log
        truncations = source.truncations
        found = source.read(move.future.log_end_offset, max_bytes=COPY_BYTES, min_one_batch=True)
        data = await move.partition.on_thread(found.read)
        if source is not move.partition.log or source.truncations != truncations or move.partition.is_offline:
            return False
        self._append(move, data)
        return len(data) < COPY_BYTES // 2

    def _append(self, move: Move, data: bytes) -> None:
        size = move.future.append_replicated(bytearray(data), leader_epoch=ANY_EPOCH, now_ms=self._clock.now_ms())
        if not size:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"nothing is found at {move.future.log_end_offset}")
        self._throttle.record(size)

    # -- putting it in place

    async def _finish(self, move: Move) -> None:
        """Put a copy that has everything in the log's place, or come again where that is not possible yet."""
        partition, log_dir = move.partition, move.log_dir
        assert log_dir.meta is not None
        if not self._assignments.announce(partition, log_dir.meta.directory_id):
            move.not_before_s = self._loop.time() + ASKED_S
            return
        await self._offload.thread(move.future.flush)
        if not self._goes_on(move):
            return
        if not move.is_named:
            log_dir.name_future(partition.key)
            move.is_named = True
            await self._offload.thread(log_dir.disk.fsync_dir, log_dir.path)
        await partition.quiet()
        if not self._goes_on(move):
            return
        self._follow(move)
        if move.lag:
            found = partition.log.read(move.future.log_end_offset, max_bytes=COPY_BYTES, min_one_batch=True)
            self._append(move, found.read())
        # what was durable before has to be durable after
        if (
            partition.being_cleaned
            or partition.stores_truncation
            or move.future.recovery_point < partition.log.recovery_point
        ):
            move.not_before_s = self._loop.time() + PAUSE_S
        elif not move.lag:
            await self._swap(move)

    def _goes_on(self, move: Move) -> bool:
        """Return whether it was not given up meanwhile, and need not be."""
        return self._moves.get(move.partition.key) is move and not move.partition.is_offline

    async def _swap(self, move: Move) -> None:
        partition, before = move.partition, move.partition.log_dir
        del self._moves[partition.key]
        config, delay_ms = partition.log.config, partition.log.config.file_delete_delay_ms
        partition.log, partition.log_dir = move.log_dir.take_future(partition.key), move.log_dir
        partition.log.config = config
        self._assignments.withdraw(partition)
        self._partitions.leave(partition.key, before, delay_ms=delay_ms, after=partition.when_idle)
        try:
            await self._offload.thread(before.disk.fsync_dir, before.path)
        except StorageError as error:
            self._partitions.failures.met(error)
        async with self._storage.checkpoints:
            await self._offload.thread(move.log_dir.write_recovery_points)
            await self._offload.thread(move.log_dir.write_start_offsets)
        log.info("%s lies in %s now", partition.key, move.log_dir.path)


def _cut_like(future: Log, source: Log) -> None:
    """Cut a copy where the log was cut and went on otherwise: as a follower does, epoch by epoch (KIP-279)."""
    ours, theirs = future.leader_epochs, source.leader_epochs
    while future.log_end_offset > future.log_start_offset:
        newest = min(ours.latest, theirs.latest)
        end = theirs.end_offset_for(newest)
        if end.epoch == ours.latest and end.end_offset >= future.log_end_offset:
            return
        before = (ours.latest, future.log_end_offset)
        future.truncate_to(ours.parts_from(end.epoch, end.end_offset))
        if (ours.latest, future.log_end_offset) == before:
            future.truncate_fully_and_start_at(source.log_start_offset)
