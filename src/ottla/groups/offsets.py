"""Committed offsets of the groups of a shard, and those of transactions that have yet to end (KIP-447).

An offset that is committed in a transaction is kept beside the group's others under its producer id, and takes their place
when the marker says so and nothing later was committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from immutables import Map

from ottla.base import ProducerId
from ottla.groups.decision import Committed, Record
from ottla.wire.messages.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.offset_commit_value import OffsetCommitValue

__all__ = ["NO_OFFSETS", "Offsets", "offset_record", "offset_tombstone"]

NO_PRODUCER = ProducerId(-1)

_Partitions = Map[int, Committed]
_Topics = Map[str, _Partitions]
_Place = tuple[str, str, int]
"""Group, topic and partition of an offset."""
_NO_TOPICS: _Topics = Map()
_NO_PARTITIONS: _Partitions = Map()


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a shard; `put`, `remove` and `end_transaction` return the next value."""

    groups: Map[str, _Topics] = field(default_factory=Map)
    pending: Map[ProducerId, Map[_Place, Committed]] = field(default_factory=Map)
    """Offsets of open transactions, by producer id."""
    waiting: Map[_Place, frozenset[ProducerId]] = field(default_factory=Map)
    """Producers whose open transaction has an offset for a place."""

    # -- looking

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """Return a group's offset for a partition."""
        return self.groups.get(group_id, _NO_TOPICS).get(topic, _NO_PARTITIONS).get(partition)

    def topics_of(self, group_id: str) -> _Topics:
        """Return a group's offsets by topic and partition."""
        return self.groups.get(group_id, _NO_TOPICS)

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, Committed]]:
        """Yield (topic, partition, offset) of a group, in order of their names."""
        topics = self.topics_of(group_id)
        for topic in sorted(topics):
            partitions = topics[topic]
            for partition in sorted(partitions):
                yield topic, partition, partitions[partition]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has an offset for a partition."""
        return bool(self.waiting) and (group_id, topic, partition) in self.waiting

    def has_pending(self, group_id: str) -> bool:
        """Return whether any open transaction has an offset of a group."""
        return any(place[0] == group_id for place in self.waiting)

    # -- folding

    def put(
        self, group_id: str, topic: str, partition: int, committed: Committed, producer_id: ProducerId = NO_PRODUCER
    ) -> Offsets:
        """Return the offsets with one committed, or pending where a transaction commits it."""
        if producer_id == NO_PRODUCER:
            topics = self.groups.get(group_id, _NO_TOPICS)
            partitions = topics.get(topic, _NO_PARTITIONS).set(partition, committed)
            return Offsets(self.groups.set(group_id, topics.set(topic, partitions)), self.pending, self.waiting)
        place = (group_id, topic, partition)
        pending = self.pending.set(producer_id, self.pending.get(producer_id, Map()).set(place, committed))
        waiting = self.waiting.set(place, self.waiting.get(place, frozenset()) | {producer_id})
        return Offsets(self.groups, pending, waiting)

    def remove(self, group_id: str, topic: str, partition: int) -> Offsets:
        """Return the offsets without one, nor what transactions have pending for it."""
        place = (group_id, topic, partition)
        pending, waiting = self.pending, self.waiting
        for producer_id in waiting.get(place, ()):
            left = pending[producer_id].delete(place)
            pending = pending.set(producer_id, left) if left else pending.delete(producer_id)
        if place in waiting:
            waiting = waiting.delete(place)
        topics = self.groups.get(group_id, _NO_TOPICS)
        partitions = topics.get(topic, _NO_PARTITIONS)
        if partition not in partitions:
            return Offsets(self.groups, pending, waiting)
        partitions = partitions.delete(partition)
        topics = topics.set(topic, partitions) if partitions else topics.delete(topic)
        groups = self.groups.set(group_id, topics) if topics else self.groups.delete(group_id)
        return Offsets(groups, pending, waiting)

    def end_transaction(self, producer_id: ProducerId, *, commit: bool) -> Offsets:
        """Return the offsets after a transaction's end: what it had pending counts from now on, or never did."""
        ended = self.pending.get(producer_id)
        if ended is None:
            return self
        waiting = self.waiting
        for place in ended:
            left = waiting[place] - {producer_id}
            waiting = waiting.set(place, left) if left else waiting.delete(place)
        offsets = Offsets(self.groups, self.pending.delete(producer_id), waiting)
        if commit:
            for (group_id, topic, partition), committed in ended.items():
                present = offsets.get(group_id, topic, partition)
                if present is None or present.record_offset < committed.record_offset:
                    offsets = offsets.put(group_id, topic, partition, committed)
        return offsets

    def apply(self, record: Record, record_offset: int, producer_id: ProducerId = NO_PRODUCER) -> Offsets:
        """Return the offsets after a record whose key is an `OffsetCommitKey`, or its form of long ago."""
        key, value = record
        group_id, topic, partition = key.group, key.topic, key.partition  # type: ignore[attr-defined]
        if value is None:
            return self.remove(group_id, topic, partition)
        assert isinstance(value, OffsetCommitValue)
        committed = Committed(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )
        return self.put(group_id, topic, partition, committed, producer_id)


NO_OFFSETS = Offsets()


def offset_record(group_id: str, topic: str, partition: int, committed: Committed) -> Record:
    """Return the record that commits an offset."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """Return the record that removes an offset."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
