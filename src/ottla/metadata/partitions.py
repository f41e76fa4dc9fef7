"""Folding partition records: creating a partition needs thousands of them in a row, so a run of them is folded at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from immutables import MapMutation

from ottla.base import CorruptionError, LeaderEpoch, NodeId, Uuid
from ottla.metadata.image import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, Image, Partition, Topic
from ottla.wire.messages.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.partition_record import PartitionRecord

__all__ = ["PartitionRun", "changed_partition", "created_partition", "known_topic", "uuids"]

LEADER_UNCHANGED = -2
"""A PartitionChangeRecord's leader where it says nothing of the leader."""


class PartitionRun:
    """The partitions that consecutive records touch, put into the image once, at the run's end."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._touched: dict[bytes, tuple[Topic, MapMutation[int, Partition]]] = {}

    def take(self, record: PartitionRecord | PartitionChangeRecord) -> None:
        """Fold one record; raises CorruptionError where it cannot follow what came before."""
        touched = self._touched.get(record.topic_id)
        if touched is None:
            topic = known_topic(self._image, record.topic_id, record)
            touched = self._touched[topic.id] = (topic, topic.partitions.mutate())
        topic, partitions = touched
        index = record.partition_id
        if isinstance(record, PartitionRecord):
            partitions[index] = created_partition(record)
            return
        old = partitions.get(index)
        if old is None:
            raise CorruptionError(f"PartitionChangeRecord names {topic.name}-{index}, which does not exist")
        partitions[index] = changed_partition(old, record)

    def finish(self) -> Image:
        """Return the image with every touched partition as it is now."""
        topics = self._image.topics.mutate()
        for topic, partitions in self._touched.values():
            topics[topic.name] = Topic(topic.name, topic.id, partitions.finish())
        return replace(self._image, topics=topics.finish())


def known_topic(image: Image, topic_id: bytes, record: Any) -> Topic:
    """Return the topic that a record names by id; raises CorruptionError where there is none."""
    topic = image.topic_by_id(Uuid(bytes(topic_id)))
    if topic is None:
        raise CorruptionError(f"{type(record).__name__} names topic id {bytes(topic_id).hex()}, which does not exist")
    return topic


def ids(values: Iterable[int] | None) -> tuple[NodeId, ...]:
    """Return node ids as an image holds them."""
    return cast("tuple[NodeId, ...]", tuple(values)) if values else ()


def uuids(values: Iterable[bytes] | None) -> tuple[Uuid, ...]:
    """Return ids as an image holds them."""
    return cast("tuple[Uuid, ...]", tuple(map(bytes, values))) if values else ()


def created_partition(record: PartitionRecord) -> Partition:
    """Return the partition that a record describes in whole."""
    replicas = ids(record.replicas)
    return Partition(
        replicas=replicas,
        isr=ids(record.isr),
        leader=NodeId(record.leader),
        leader_epoch=LeaderEpoch(record.leader_epoch),
        partition_epoch=record.partition_epoch,
        directories=uuids(record.directories) or (DIRECTORY_MIGRATING,) * len(replicas),
        removing_replicas=ids(record.removing_replicas),
        adding_replicas=ids(record.adding_replicas),
        leader_recovery_state=record.leader_recovery_state,
        eligible_leader_replicas=ids(record.eligible_leader_replicas),
        last_known_elr=ids(record.last_known_elr),
    )


def changed_partition(old: Partition, record: PartitionChangeRecord) -> Partition:
    """Return the partition after a change; what the record leaves null stays, and the partition epoch rises by one."""
    moved = record.leader != LEADER_UNCHANGED
    elr, last_known = record.eligible_leader_replicas, record.last_known_elr
    removing, adding = record.removing_replicas, record.adding_replicas
    recovery = record.leader_recovery_state
    return Partition(
        replicas=old.replicas if record.replicas is None else ids(record.replicas),
        isr=old.isr if record.isr is None else ids(record.isr),
        leader=NodeId(record.leader) if moved else old.leader,
        leader_epoch=LeaderEpoch(old.leader_epoch + 1) if moved else old.leader_epoch,
        partition_epoch=old.partition_epoch + 1,
        directories=_directories(old, record),
        removing_replicas=old.removing_replicas if removing is None else ids(removing),
        adding_replicas=old.adding_replicas if adding is None else ids(adding),
        leader_recovery_state=old.leader_recovery_state if recovery == -1 else recovery,
        eligible_leader_replicas=old.eligible_leader_replicas if elr is None else ids(elr),
        last_known_elr=old.last_known_elr if last_known is None else ids(last_known),
    )


def _directories(old: Partition, record: PartitionChangeRecord) -> tuple[Uuid, ...]:
    """Return the replicas' directories: those named, else each replica keeps its own."""
    if record.directories is not None:
        return uuids(record.directories)
    if record.replicas is None:
        return old.directories
    known = dict(zip(old.replicas, old.directories, strict=False))
    return tuple(known.get(NodeId(each), DIRECTORY_UNASSIGNED) for each in record.replicas)
