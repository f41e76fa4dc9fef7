"""The partitions that this broker holds, kept as the metadata image says.

Topics are found by name or id without building a key: names and partition numbers come straight from requests. What the
image gives to this broker is created or opened here, what it takes away is deleted, and leaderships and configurations
follow it, before anyone is answered from the new image.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ottla.base import (
    CorruptionError,
    ErrorCode,
    KafkaError,
    MissingFileError,
    NodeId,
    NoSpaceError,
    Offload,
    StorageError,
    TopicPartition,
    Uuid,
)
from ottla.broker.configuration import Configuration
from ottla.broker.meters import Traffic
from ottla.broker.replicas.failures import Failures
from ottla.broker.replicas.leader_lease import LeaderLease
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.replicas.storage import Storage
from ottla.log import LogDir
from ottla.metadata import EMPTY_IMAGE, Delta, Image, Partition, Topic
from ottla.replica import NO_EPOCH, Replica, Role

__all__ = ["Partitions"]

log = logging.getLogger(__name__)


class Partitions:
    """Every hosted partition, by topic name and index; the one owner of their logs."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        storage: Storage,
        configuration: Configuration,
        purgatory: Purgatory,
        offload: Offload,
        lease: LeaderLease,
    ) -> None:
        self._node_id = node_id
        self.lease = lease
        self._storage = storage
        self._configuration = configuration
        self._purgatory = purgatory
        self._offload = offload
        self._by_topic: dict[str, dict[int, LocalPartition]] = {}
        self._image: Image = EMPTY_IMAGE
        self.traffic = Traffic()
        self._unopened: dict[tuple[str, int], StorageError] = {}
        """Partitions that are to be here and could not be opened, and why."""
        self._leaving: dict[tuple[TopicPartition, str], _Leaving] = {}
        """Folders of partitions that are held no longer, until no thread uses them."""
        self.reopened: Callable[[tuple[str, ...]], None] = lambda topics: None
        """Called with the topics of which partitions were opened that could not be when the image gave them."""
        self.dropped: Callable[[LocalPartition], None] = lambda partition: None
        """Called when a partition is let go of, before its folder is set aside and before another of its name is opened."""
        self.went_offline: Callable[[], None] = lambda: None
        """Called when partitions have gone offline with their directory."""
        self.lost: Callable[[TopicPartition], None] = lambda key: None
        """Called when a partition cannot be served any more in a directory that is well (`is_lost`)."""
        self.failures = Failures(
            storage,
            is_held=lambda partition: self.get(*partition.key) is partition,
            dir_failed=self.dir_failed,
            partition_failed=self._partition_failed,
        )
        """What a failure of the disk costs."""
        self.any_recompresses = False
        """True where some topic has a codec of its own, so that Produce has to look."""

    def __iter__(self) -> Iterator[LocalPartition]:
        for partitions in list(self._by_topic.values()):
            yield from list(partitions.values())

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    # -- finding

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""
        return self._image.topic_names.get(Uuid(topic_id))

    def get(self, topic: str, index: int) -> LocalPartition | None:
        """Return a partition where this broker holds it."""
        partitions = self._by_topic.get(topic)
        return partitions.get(index) if partitions is not None else None

    def leader_of(self, topic: str, index: int, current_leader_epoch: int = NO_EPOCH) -> LocalPartition:
        """Return a partition that this broker leads, in the epoch that the asker knows if it names one.

        Raises KafkaError with UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH or KAFKA_STORAGE_ERROR.
        """
        partitions = self._by_topic.get(topic)
        found = partitions.get(index) if partitions is not None else None
        if found is None:
            raise self._absent(topic, index)
        if found.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {found.key} is in an offline log directory")
        if current_leader_epoch != NO_EPOCH or found.replica.role is not Role.LEADER:
            code = found.replica.check_leader(current_leader_epoch)
            if code is not ErrorCode.NONE:
                raise KafkaError(code)
        return found

    def readable(self, topic: str, index: int, current_leader_epoch: int = NO_EPOCH) -> LocalPartition:
        """Return a partition that this broker leads or follows: consumers may read from followers, too (KIP-392).

        Raises the errors of `leader_of` except that of not being the leader.
        """
        partitions = self._by_topic.get(topic)
        found = partitions.get(index) if partitions is not None else None
        if found is None:
            raise self._absent(topic, index)
        if found.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {found.key} is in an offline log directory")
        if current_leader_epoch != NO_EPOCH:
            code = found.replica.check_epoch(current_leader_epoch)
            if code is not ErrorCode.NONE:
                raise KafkaError(code)
        if not self.lease.covers(found.replica):
            raise _unsure()
        return found

    def serving(self, topic: str, index: int, current_leader_epoch: int = NO_EPOCH) -> LocalPartition:
        """Return a partition that this broker leads, for who must not be answered by a leader that has been replaced.

        Raises KafkaError as `leader_of`; NOT_LEADER_OR_FOLLOWER also where this broker cannot know that it leads still.
        """
        found = self.leader_of(topic, index, current_leader_epoch)
        if not self.lease.covers(found.replica):
            raise _unsure()
        return found

    def writable(self, topic: str, index: int) -> LocalPartition:
        """Return a partition that this broker leads, for who writes: what a replaced leader takes is never acknowledged.

        Raises KafkaError as `serving`.
        """
        found = self.leader_of(topic, index)
        if not self.lease.covers_writes(found.replica):
            raise _unsure()
        return found

    def _absent(self, topic: str, index: int) -> KafkaError:
        """Return the error for a partition that is not held here."""
        if (topic, index) in self._unopened:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {topic}-{index} could not be opened")
        if self._image is not EMPTY_IMAGE and self._image.partition(topic, index) is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- following the image

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Hold what the image gives to this broker, drop what it no longer does."""
        self._image = image
        all_changed = self._configuration.image_changed(image, delta)
        for topic in delta.topics_deleted:
            self._unopened = {each: why for each, why in self._unopened.items() if each[0] != topic.name}
            self._delete_topic(topic)
        for name in delta.topics_changed:
            topic, before = image.topics[name], old.topics.get(name)
            known = before.partitions if before is not None and before.id == topic.id else {}
            for index, partition in topic.in_order():
                if known.get(index) is not partition:
                    self._follow(topic, index, partition)
        self._bar(image, delta)
        changed = {resource.name for resource in delta.configs_changed}
        for name, partitions in self._by_topic.items():
            if all_changed or name in changed:
                for each in partitions.values():
                    self._configure(each)
        if all_changed or delta.configs_changed or delta.topics_changed or delta.topics_deleted:
            self.any_recompresses = any(each.recompress_to is not None for each in self)

    def _bar(self, image: Image, delta: Delta) -> None:
        """Have no high watermark wait for a copy to join whose broker is gone, or going."""
        gone = [
            NodeId(each)
            for each in delta.brokers_changed
            if each not in image.brokers or not image.brokers[each].active
        ]
        if gone:
            for partition in self:
                if partition.replica.bar(gone):
                    partition.high_watermark_moved()

    def _follow(self, topic: Topic, index: int, state: Partition) -> None:
        """Bring one partition to what the image says of it."""
        partition = self.get(topic.name, index)
        if self._node_id not in state.replicas:
            self._unopened.pop((topic.name, index), None)
            if partition is not None:
                self._drop(partition)
            return
        if partition is None:
            try:
                partition = self._open(topic, index, state)
            except StorageError as error:
                before = self._unopened.get((topic.name, index))
                self._unopened[topic.name, index] = error
                if str(before) != str(error):  # once, however often it is tried
                    log.error("Partition %s-%s cannot be opened: %s", topic.name, index, error)
                    self.failures.met(error)
                if self.is_lost(TopicPartition(topic.name, index)):
                    self.lost(TopicPartition(topic.name, index))
                return
            self._unopened.pop((topic.name, index), None)
        partition.wake_followers()
        replica = partition.replica
        was_leader, high_watermark = replica.is_leader, replica.high_watermark
        began = replica.become(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            eligible=state.eligible_leader_replicas,
            is_departing=self._node_id in state.removing_replicas,
            now_s=self._purgatory.now_s(),
        )
        if replica.is_leader and replica.is_departing:
            self.lease.departing.add(partition.key)
        else:
            self.lease.departing.discard(partition.key)
        if began:
            partition.begin_epoch()
        elif was_leader and not replica.is_leader:
            self._purgatory.interrupt(partition.key)
        elif replica.high_watermark > high_watermark:  # a smaller ISR has everything that it waited for
            partition.high_watermark_moved()

    def _open(self, topic: Topic, index: int, state: Partition) -> LocalPartition:
        """Open a partition's log, which the start has loaded, or create it."""
        key = TopicPartition(topic.name, index)
        if self._is_in_the_way(key):
            raise NoSpaceError(f"{key}: the folder of the topic that had this name is in the way")
        config = self._configuration.log_config(topic.name)
        stored = self._storage.open_log(key, topic.id, config, state.directory_of(self._node_id))
        replica = Replica(self._node_id, high_watermark=stored.high_watermark, log_end_offset=stored.log.log_end_offset)
        replica.log_start_moved(stored.log.log_start_offset)
        partition = LocalPartition(
            key,
            topic.id,
            stored.log,
            stored.log_dir,
            replica,
            purgatory=self._purgatory,
            offload=self._offload,
            failed=self.failures.met,
            traffic=self.traffic.of(topic.name),
        )
        self._configure(partition)
        self._by_topic.setdefault(topic.name, {})[index] = partition
        return partition

    def _configure(self, partition: LocalPartition) -> None:
        settings = self._configuration.broker.settings
        partition.verifies = settings.transaction_partition_verification_enable
        partition.replica.lag_max_s = settings.replica_lag_time_max_ms / 1000
        partition.configure(
            self._configuration.topic(partition.key.topic).settings, self._configuration.log_config(partition.key.topic)
        )

    def _delete_topic(self, topic: Topic) -> None:
        for partition in list(self._by_topic.get(topic.name, {}).values()):
            if partition.topic_id == topic.id:
                self._drop(partition)

    def _drop(self, partition: LocalPartition) -> None:
        """Let go of a partition; its folder is set aside now and removed after `file.delete.delay.ms`."""
        partitions = self._by_topic[partition.key.topic]
        del partitions[partition.key.partition]
        if not partitions:
            del self._by_topic[partition.key.topic]
            self.traffic.forget(partition.key.topic)
        self.lease.departing.discard(partition.key)
        partition.go_offline()
        partition.damage = None
        self.dropped(partition)
        self.leave(
            partition.key,
            partition.log_dir,
            delay_ms=partition.log.config.file_delete_delay_ms,
            after=partition.when_idle,
        )

    def leave(
        self,
        key: TopicPartition,
        log_dir: LogDir,
        *,
        delay_ms: int,
        after: Callable[[Callable[[], None]], None] = lambda act: act(),
    ) -> None:
        """Have a partition's folder removed from a directory: set aside now, or when that is possible.

        `after` calls when no thread uses the files by their names any more: one that did would write into the folder of a
        topic that is made again with this name.
        """
        leaving = self._leaving[key, log_dir.path] = _Leaving(log_dir, delay_ms)

        def set_aside() -> None:
            self._set_aside(key, leaving)
            if leaving.is_late:
                self.try_again()

        after(set_aside)
        leaving.is_late = True

    def _set_aside(self, key: TopicPartition, leaving: _Leaving) -> None:
        try:
            self._storage.delete_log(key, leaving.log_dir, delay_ms=leaving.delay_ms)
        except StorageError as error:  # not for want of room: then the directory tries again
            self.failures.met(error)
        del self._leaving[key, leaving.log_dir.path]

    def _is_in_the_way(self, key: TopicPartition) -> bool:
        online = self._storage.online
        return any(each == key and leaving.log_dir in online for (each, _), leaving in self._leaving.items())

    # -- what could not be done, and may be possible now

    def try_again(self) -> None:
        """Open partitions for which there was no room."""
        lacking = [key for key, why in self._unopened.items() if isinstance(why, NoSpaceError)]
        for name, index in lacking:
            topic = self._image.topics.get(name)
            state = None if topic is None else topic.partitions.get(index)
            if topic is not None and state is not None and not self._is_in_the_way(TopicPartition(name, index)):
                self._follow(topic, index, state)
        opened = dict.fromkeys(name for name, index in lacking if (name, index) not in self._unopened)
        if opened:
            self.reopened(tuple(opened))

    # -- failing

    @property
    def unopened(self) -> Mapping[tuple[str, int], StorageError]:
        """Partitions that are to be here and could not be opened, and why."""
        return self._unopened

    def dir_failed(self, log_dir: LogDir, error: StorageError) -> None:
        """Take everything in a log directory offline: a disk that has failed once is not trusted again (fsyncgate)."""
        if not self._storage.fail(log_dir, error):
            return
        for partition in self:
            if partition.log_dir is log_dir:
                partition.go_offline()
        self.went_offline()

    def _partition_failed(self, partition: LocalPartition) -> None:
        partition.is_lost = True
        partition.go_offline()
        self.went_offline()
        self.lost(partition.key)

    def is_lost(self, key: TopicPartition) -> bool:
        """Return whether a partition's own files are what keeps it from being served, until a restart at least."""
        partition = self.get(*key)
        if partition is not None:
            return partition.is_lost
        why = self._unopened.get((key.topic, key.partition))
        if not isinstance(why, CorruptionError | MissingFileError):
            return False
        log_dir = self._storage.directory_of(why.path)
        return log_dir is None or log_dir in self._storage.online


@dataclass(slots=True)
class _Leaving:
    """The folder of a partition that is held no longer."""

    log_dir: LogDir
    delay_ms: int
    is_late: bool = False
    """True where it is not set aside at once."""


def _unsure() -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker has not heard from a controller for too long.")
