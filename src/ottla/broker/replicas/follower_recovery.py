"""What a followed partition needs before it is fetched again, and what takes more than a moment.

A truncation has to be stored (`Log` says why), a log that is out of its leader's range has to be cut or begun anew, and a
topic may ask that what was appended is on the device before the leader may count on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ottla.base import ErrorCode, KafkaError, NodeId, Offload, StorageError
from ottla.broker.controller.peers import Peers
from ottla.broker.replicas.followed_partition import FollowedPartition
from ottla.broker.replicas.storage import Storage
from ottla.log import LogDir, NoSpaceError
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

__all__ = ["FollowerRecovery"]

log = logging.getLogger(__name__)

LATEST = -1
EARLIEST_LOCAL = -4
"""Where the leader's own disk begins, which is the log's start without tiers (KIP-405)."""
LEADER_EPOCH_FROM = 8
"""The lowest version that is used: the first that knows EARLIEST_LOCAL."""

FULL_S = 1.0
"""How long a full disk is given before it is tried again."""


class FollowerRecovery:
    """Mends partitions, for all fetchers of a broker."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        storage: Storage,
        offload: Offload,
        peers: Peers,
        failed: Callable[[StorageError], object],
    ) -> None:
        self._node_id = node_id
        self._storage = storage
        self._offload = offload
        self._peers = peers
        self._met = failed
        self._closed = False
        self._asking: dict[asyncio.Task[Any], None] = {}

    def close(self) -> None:
        """Wait no more for an answer, nor for a full disk to have room."""
        self._closed = True
        for task in tuple(self._asking):
            task.cancel()

    async def mend(self, leader: NodeId, partitions: Sequence[FollowedPartition]) -> list[FollowedPartition]:
        """Mend partitions that are left out of fetching; return those that can be fetched; the others come again."""
        failed = await self._bring_into_range(leader, [each for each in partitions if each.out_of_range])
        failed += await self._store_truncations([each for each in partitions if each.partition.stores_truncation])
        failed += await self._flush([each for each in partitions if each.partition.must_flush])
        return [each for each in partitions if each not in failed]

    async def _store_truncations(self, partitions: Sequence[FollowedPartition]) -> list[FollowedPartition]:
        """Store the recovery points of the directories in which something was cut."""
        failed: list[FollowedPartition] = []
        for log_dir in dict.fromkeys(each.partition.log_dir for each in partitions):
            here = [each for each in partitions if each.partition.log_dir is log_dir]
            if not await self._store(log_dir):
                failed += here
                continue
            for each in here:
                each.partition.truncation_stored()
        return failed

    async def _store(self, log_dir: LogDir) -> bool:
        """Store a directory's recovery points, however long its disk is full or lacks a name; False where it has failed."""
        while not self._closed:
            try:
                async with self._storage.checkpoints:
                    await self._offload.thread(log_dir.write_recovery_points)
            except NoSpaceError as error:
                log.warning("A truncation in %s cannot be stored while the disk is full: %s", log_dir.path, error)
                await asyncio.sleep(FULL_S)
            except StorageError as error:
                self._met(error)
                if log_dir not in self._storage.online:
                    return False
                await asyncio.sleep(FULL_S)  # it has cost no more than this call
            else:
                return True
        return False

    async def _flush(self, partitions: Sequence[FollowedPartition]) -> list[FollowedPartition]:
        """Make durable what topics with `flush.messages` ask for."""
        done = await asyncio.gather(*(each.partition.flush() for each in partitions), return_exceptions=True)
        failed = []
        for each, error in zip(partitions, done, strict=True):
            if isinstance(error, KafkaError):
                failed.append(each)
            elif error is not None:
                raise error
        return failed

    # -- a log that the leader's has outrun, or that outran the leader's

    async def _bring_into_range(
        self, leader: NodeId, partitions: Sequence[FollowedPartition]
    ) -> list[FollowedPartition]:
        """Cut logs to where the leader's end, or begin them anew where it begins."""
        if not partitions:
            return []
        task = asyncio.current_task()
        assert task is not None
        self._asking[task] = None
        try:
            ends = await self._ask(leader, partitions, LATEST)
            starts = await self._ask(leader, [each for each in partitions if id(each) in ends], EARLIEST_LOCAL)
        finally:
            del self._asking[task]
        failed = []
        for each in partitions:
            end, start = ends.get(id(each)), starts.get(id(each))
            if end is None or start is None or not self._is_current(each):
                failed.append(each)
                continue
            try:
                self._go_on_within(each, start, end)
                each.out_of_range = False
            except KafkaError as error:
                log.error("%s cannot be brought into its leader's range: %s", each.partition.key, error)
                failed.append(each)
        return failed

    @staticmethod
    def _is_current(followed: FollowedPartition) -> bool:
        replica = followed.partition.replica
        return (
            replica.leader_epoch == followed.leader_epoch
            and not replica.is_leader
            and not followed.partition.is_offline
        )

    @staticmethod
    def _go_on_within(followed: FollowedPartition, start: int, end: int) -> None:
        partition = followed.partition
        ours = partition.log.log_end_offset
        if end < ours:  # an unclean election has left the leader with less
            log.warning("%s ends at %d, its leader's at %d: what is beyond is cut", partition.key, ours, end)
            partition.truncate_to(end)
        elif start > ours:  # this broker was away for so long that the leader has deleted what would follow
            log.info("%s ends at %d, and its leader's begins at %d: it is begun anew there", partition.key, ours, start)
            partition.restart_at(start)

    async def _ask(self, leader: NodeId, partitions: Sequence[FollowedPartition], timestamp: int) -> dict[int, int]:
        """Return the leader's offsets, by the partition's identity; those that it does not tell are left out."""
        topics: dict[str, list[ListOffsetsPartition]] = {}
        asked: dict[tuple[str, int], FollowedPartition] = {}
        for each in partitions:
            key = each.partition.key
            asked[key] = each
            topics.setdefault(key.topic, []).append(
                ListOffsetsPartition(
                    partition_index=key.partition, current_leader_epoch=each.leader_epoch, timestamp=timestamp
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._node_id,
            topics=[ListOffsetsTopic(name=name, partitions=found) for name, found in topics.items()],
        )
        if not topics:
            return {}
        try:
            response = await self._peers.ask(leader, request, lowest=LEADER_EPOCH_FROM)
        except KafkaError as error:
            log.info("Broker %d does not tell where its logs begin and end: %s", leader, error)
            return {}
        return {
            id(asked[topic.name, each.partition_index]): each.offset
            for topic in response.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE and (topic.name, each.partition_index) in asked
        }
