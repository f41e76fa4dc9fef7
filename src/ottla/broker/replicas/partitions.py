"""The partitions that this broker holds, kept as the metadata image says.

Topics are found by name or id without building a key: names and partition numbers come straight from requests. What the
image gives to this broker is created or opened here, what it takes away is deleted, and leaderships and configurations
follow it, before anyone is answered from the new image. Where one change brings many new partitions, their logs are made a
few at a time beside the loop's other work, or when somebody asks for one. Who asks for very many at once is told to try
again, as Kafka tells everybody whose log is not there yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

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
from ottla.broker.replicas.leaving import AT_ONCE_MAX, Leaving, LeavingFolders
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.replicas.storage import Storage
from ottla.broker.replicas.topic_rules import TopicRules
from ottla.log import LogDir
from ottla.metadata import EMPTY_IMAGE, Delta, Image, Partition, Topic
from ottla.replica import NO_EPOCH, Replica, Role

__all__ = ["Partitions"]

log = logging.getLogger(__name__)

MADE_AT_ONCE_MAX = 64
"""New logs that one change of the image may bring without any of them being left for later."""
MADE_TOGETHER_MAX: Final = 8
"""Logs that are made before others have their turn."""
MAKING_S_MAX: Final = 0.002
"""Seconds after which others have their turn."""
ASKED_FOR_MAX: Final = 16
"""Logs that are made between two turns because somebody asks for them."""


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
        self._rules: dict[str, TopicRules] = {}
        """By topic."""
        self.traffic = Traffic()
        self._unopened: dict[tuple[str, int], StorageError] = {}
        """Partitions that are to be here and could not be opened, and why."""
        self._unmade: dict[str, dict[int, None]] = {}
        """Partitions whose logs are yet to be made, by topic."""
        self._made: list[str] = []
        """Topics of which all logs have been made, and nobody was told."""
        self._asked_for = 0
        """Logs that somebody has asked for since the last turn."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._making: asyncio.Handle | None = None
        self._leaving = LeavingFolders(self._set_aside, self.try_again)
        """Folders of partitions that are held no longer, until no thread uses them."""
        self.reopened: Callable[[tuple[str, ...]], None] = lambda topics: None
        """Called with the topics of which partitions were opened later than when the image gave them."""
        self.dropped: Callable[[LocalPartition], None] = lambda partition: None
        """Called when a partition is let go of, before its folder is set aside and before another of its name is opened."""
        self.went_offline: Callable[[], None] = lambda: None
        """Called when partitions have gone offline with their directory."""
        self.lost: Callable[[TopicPartition], None] = lambda key: None
        """Called when a partition cannot be served any more in a directory that is well (`is_lost`)."""
        self.failures = Failures(
            storage,
            is_held=lambda partition: self.held(*partition.key) is partition,
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
        """Return a partition where this broker holds it; its log is made now where it was yet to be."""
        found = self.held(topic, index)
        return found if found is not None else self._made_now(topic, index)

    def held(self, topic: str, index: int) -> LocalPartition | None:
        """Return a partition whose log is there, for who is told by `reopened` of those that are made later."""
        partitions = self._by_topic.get(topic)
        return partitions.get(index) if partitions is not None else None

    @property
    def unmade(self) -> int:
        """Partitions whose logs are yet to be made."""
        return sum(map(len, self._unmade.values()))

    def leader_of(self, topic: str, index: int, current_leader_epoch: int = NO_EPOCH) -> LocalPartition:
        """Return a partition that this broker leads, in the epoch that the asker knows if it names one.

        Raises KafkaError with UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH or KAFKA_STORAGE_ERROR.
        """
        partitions = self._by_topic.get(topic)
        found = partitions.get(index) if partitions is not None else None
        if found is None:
            found = self._made_now(topic, index)
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
            found = self._made_now(topic, index)
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
        are_many = sum(len(self._by_topic.get(each.name, ())) for each in delta.topics_deleted) > AT_ONCE_MAX
        if are_many and self._loop is not None:
            self._storage.note_deleted([each.id for each in delta.topics_deleted])
        for topic in delta.topics_deleted:
            self._unmade.pop(topic.name, None)
            self._unopened = {each: why for each, why in self._unopened.items() if each[0] != topic.name}
            self._delete_topic(topic, in_turn=are_many)
        changed_partitions = [
            (topic, index, state)
            for topic, known in ((image.topics[name], _known(old, image, name)) for name in delta.topics_changed)
            for index, state in topic.in_order()
            if known.get(index) is not state
        ]
        self._leave_for_later(old, image, changed_partitions)
        for topic, index, state in changed_partitions:
            self._follow(topic, index, state)
        self._bar(image, delta)
        changed = {resource.name for resource in delta.configs_changed}
        for name, partitions in self._by_topic.items():
            if all_changed or name in changed:
                rules = self._rules_of(name)
                for each in partitions.values():
                    self._configure(each, rules)
        if all_changed or delta.configs_changed or delta.topics_changed or delta.topics_deleted:
            self.any_recompresses = any(
                self._configuration.topic(name).settings.compression_type != "producer"
                for name in (*self._by_topic, *self._unmade)
            )

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
        partition = self.held(topic.name, index)
        if self._node_id not in state.replicas:
            self._unopened.pop((topic.name, index), None)
            self._no_longer_unmade(topic.name, index)
            if partition is not None:
                self._drop(partition)
            return
        if partition is None and index in self._unmade.get(topic.name, ()):
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

    # -- making logs later than the image gives them

    def make_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """From here on, make many new logs, and set many old ones aside, beside the other work of the loop."""
        self._loop = loop
        self._leaving.pause_on(loop)

    def make_no_more(self) -> None:
        """Leave the logs that are yet to be made to the next start; those that are to go, go now."""
        self._loop = None
        self._leaving.finish()
        self._unmade.clear()
        if self._making is not None:
            self._making.cancel()
            self._making = None

    def _leave_for_later(self, old: Image, image: Image, changed: Sequence[tuple[Topic, int, Partition]]) -> None:
        """Leave new logs for later where a change brings many, but those of topics that this broker coordinates by."""
        if self._loop is None or len(changed) <= MADE_AT_ONCE_MAX:
            return
        new = [
            (topic.name, index)
            for topic, index, state in changed
            if self._node_id in state.replicas
            and not topic.name.startswith("__")
            and index not in _known(old, image, topic.name)
            and (topic.name, index) not in self._unopened
            and not self._has_log(TopicPartition(topic.name, index))
        ]
        if len(new) <= MADE_AT_ONCE_MAX:
            return
        for name, index in new:
            self._unmade.setdefault(name, {})[index] = None
        self._go_on_making()

    def _has_log(self, key: TopicPartition) -> bool:
        """Return whether there is a log to open, which is not one that is held no longer."""
        return self._storage.has_log(key) and not any(
            self._leaving.is_idle(key, each.path) for each in self._storage.online
        )

    def _go_on_making(self) -> None:
        if self._making is None and self._loop is not None and (self._unmade or self._made):
            self._making = self._loop.call_soon(self._make_some)

    def _make_some(self) -> None:
        """Make some of the logs that are yet to be made, and tell of the topics that have all of theirs."""
        self._making, self._asked_for = None, 0
        assert self._loop is not None
        until_s = self._loop.time() + MAKING_S_MAX
        try:
            for _ in range(MADE_TOGETHER_MAX):
                if not self._unmade or self._loop.time() > until_s:
                    break
                name, indexes = next(iter(self._unmade.items()))
                self._make(name, next(iter(indexes)))
            made, self._made = tuple(dict.fromkeys(self._made)), []
            if made:
                self.reopened(tuple(name for name in made if name in self._image.topics))
        finally:
            self._go_on_making()

    def _made_now(self, name: str, index: int) -> LocalPartition | None:
        """Make a log that is yet to be made; None where it is not, or cannot be, or too many were asked for at once."""
        if index not in self._unmade.get(name, ()) or self._asked_for >= ASKED_FOR_MAX:
            return None
        self._asked_for += 1
        return self._make(name, index)

    def _make(self, name: str, index: int) -> LocalPartition | None:
        self._no_longer_unmade(name, index)
        topic = self._image.topics.get(name)
        state = None if topic is None else topic.partitions.get(index)
        if topic is None or state is None:
            return None
        self._follow(topic, index, state)
        return self.held(name, index)

    def _no_longer_unmade(self, name: str, index: int) -> None:
        indexes = self._unmade.get(name)
        if indexes is None or index not in indexes:
            return
        del indexes[index]
        if not indexes:
            del self._unmade[name]
            self._made.append(name)
            self._go_on_making()

    def _open(self, topic: Topic, index: int, state: Partition) -> LocalPartition:
        """Open a partition's log, which the start has loaded, or create it."""
        key = TopicPartition(topic.name, index)
        if not all(self._leaving.free(key, each.path) for each in self._storage.online):
            raise NoSpaceError(f"{key}: the folder of the topic that had this name is in the way")
        rules = self._rules_of(topic.name)
        stored = self._storage.open_log(key, topic.id, rules.log_config, state.directory_of(self._node_id))
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
        self._configure(partition, rules)
        self.any_recompresses |= partition.recompress_to is not None
        self._by_topic.setdefault(topic.name, {})[index] = partition
        return partition

    def _rules_of(self, name: str) -> TopicRules:
        """Return what a topic's configuration says to its partitions, worked out when it has changed."""
        settings = self._configuration.topic(name).settings
        known = self._rules.get(name)
        if known is None or known.settings is not settings:
            known = TopicRules.of(settings, self._configuration.log_config(name), self._node_id)
            self._rules[name] = known
        return known

    def _configure(self, partition: LocalPartition, rules: TopicRules) -> None:
        settings = self._configuration.broker.settings
        partition.verifies = settings.transaction_partition_verification_enable
        partition.replica.lag_max_s = settings.replica_lag_time_max_ms / 1000
        partition.configure(rules)

    def _delete_topic(self, topic: Topic, *, in_turn: bool) -> None:
        for partition in list(self._by_topic.get(topic.name, {}).values()):
            if partition.topic_id == topic.id:
                self._drop(partition, in_turn=in_turn)

    def _drop(self, partition: LocalPartition, *, in_turn: bool = False) -> None:
        """Let go of a partition; its folder is set aside now and removed after `file.delete.delay.ms`."""
        partitions = self._by_topic[partition.key.topic]
        del partitions[partition.key.partition]
        if not partitions:
            del self._by_topic[partition.key.topic]
            self._rules.pop(partition.key.topic, None)
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
            in_turn=in_turn,
        )

    def leave(
        self,
        key: TopicPartition,
        log_dir: LogDir,
        *,
        delay_ms: int,
        after: Callable[[Callable[[], None]], None] = lambda act: act(),
        in_turn: bool = False,
    ) -> None:
        """Have a partition's folder removed from a directory: set aside now, or when that is possible.

        `after` calls when no thread uses the files by their names any more: one that did would write into the folder of a
        topic that is made again with this name.
        """
        self._leaving.add(key, Leaving(log_dir, delay_ms, in_turn), after)

    def _set_aside(self, key: TopicPartition, leaving: Leaving) -> None:
        try:
            self._storage.delete_log(key, leaving.log_dir, delay_ms=leaving.delay_ms)
        except StorageError as error:  # not for want of room: then the directory tries again
            self.failures.met(error)

    def _is_in_the_way(self, key: TopicPartition) -> bool:
        return any(self._leaving.holds(key, each.path) for each in self._storage.online)

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
        partition = self.held(*key)
        if partition is not None:
            return partition.is_lost
        why = self._unopened.get((key.topic, key.partition))
        if not isinstance(why, CorruptionError | MissingFileError):
            return False
        log_dir = self._storage.directory_of(why.path)
        return log_dir is None or log_dir in self._storage.online


def _known(old: Image, image: Image, name: str) -> Mapping[int, Partition]:
    """Return the partitions that a topic had before."""
    before = old.topics.get(name)
    return before.partitions if before is not None and before.id == image.topics[name].id else {}


def _unsure() -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker has not heard from a controller for too long.")
