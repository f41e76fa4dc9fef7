"""A partition as clients are told of it: its leader and replicas, as far as they can be reached."""

from __future__ import annotations

from typing import NamedTuple

from ottla.base import ErrorCode, LeaderEpoch, NodeId
from ottla.metadata import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    Broker,
    Image,
    Partition,
)

__all__ = ["PartitionView", "partition_view"]


class PartitionView(NamedTuple):
    """A partition as Metadata and DescribeTopicPartitions answer it."""

    error: ErrorCode
    leader_id: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    offline: tuple[NodeId, ...]


def partition_view(image: Image, partition: Partition, listener: str) -> PartitionView:
    """Return what a client that came by this listener is told of a partition."""
    leader = image.brokers.get(partition.leader)
    error = ErrorCode.NONE
    if partition.leader == NO_LEADER or leader is None or leader.fenced:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    elif leader.endpoint(listener) is None:
        error = ErrorCode.LISTENER_NOT_FOUND
    return PartitionView(
        error,
        NO_LEADER if error else partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        tuple(each for each in partition.replicas if not _reachable(image, partition, each, listener)),
    )


def _reachable(image: Image, partition: Partition, broker_id: int, listener: str) -> bool:
    """Return whether a replica can be asked: its broker serves, by this listener, and its directory is online."""
    broker = image.brokers.get(broker_id)
    return (
        broker is not None
        and not broker.fenced
        and broker.endpoint(listener) is not None
        and _has_directory(broker, partition)
    )


def _has_directory(broker: Broker, partition: Partition) -> bool:
    """Return whether a replica's directory is online, as far as that is known (KIP-858)."""
    directory = partition.directory_of(broker.id)
    if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING) or not broker.log_dirs:
        return directory != DIRECTORY_LOST
    return directory in broker.log_dirs
