"""New partitions: checking the replicas that a request names, choosing those it does not, and the records for both."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, NodeId, Rng
from ottla.metadata.decide.placement import place, replica_directory
from ottla.metadata.image import Image, Partition

__all__ = ["PARTITIONS_PER_REQUEST_MAX", "chosen", "new_partition", "validate_assignment"]

PARTITIONS_PER_REQUEST_MAX = 10_000
"""Kafka's bound on partitions created by one request: they are one atomic batch of records."""


def validate_assignment(image: Image, replicas: Sequence[int], replication_factor: int | None) -> tuple[NodeId, ...]:
    """Return a partition's requested replicas; raises INVALID_REPLICA_ASSIGNMENT where they cannot be.

    `replication_factor` is that of the partitions before, None for the first.
    """
    includes = "The manual partition assignment includes"
    if not replicas:
        raise _refused(f"{includes} an empty replica list.")
    seen: list[NodeId] = []
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise _refused(f"{includes} broker {broker_id}, but no such broker is registered.")
        if broker_id in seen:
            raise _refused(f"{includes} the broker {broker_id} more than once.")
        seen.append(NodeId(broker_id))
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refused(
            f"{includes} a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )
    return tuple(map(NodeId, replicas))


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def chosen(image: Image, *, partitions: int, replication_factor: int, rng: Rng) -> list[tuple[NodeId, ...]]:
    """Return replicas for new partitions that name none; raises INVALID_REPLICATION_FACTOR where there are too few."""
    brokers = [image.brokers[broker_id] for broker_id in sorted(image.brokers)]
    if not any(broker.active for broker in brokers):
        reason = "All brokers are currently fenced or in controlled shutdown."
    else:
        try:
            return place(brokers, partitions=partitions, replication_factor=replication_factor, rng=rng)
        except KafkaError as error:
            reason = error.message
    raise KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {reason}",
    )


def new_partition(image: Image, index: int, replicas: tuple[NodeId, ...]) -> Partition:
    """Return a partition at its birth: every active replica is in sync, the first of them leads."""
    isr = tuple(each for each in replicas if image.brokers[each].active)
    if not isr:
        raise _refused(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )
    return Partition(
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        directories=tuple(replica_directory(image, each) for each in replicas),
    )
