"""What classic consumers say and are told inside JoinGroup and SyncGroup: ConsumerProtocol's subscription and assignment.

A version in front, then the message; a version later than the last that is known begins as the last does.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from ottla.base import ErrorCode, KafkaError, Uuid, WireError
from ottla.groups.consumer.member import Target, target_from
from ottla.groups.decision import Cluster
from ottla.wire import decode, encode
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = [
    "NotConvertible",
    "assignment_bytes",
    "assignment_target",
    "assignment_version",
    "read_assignment",
    "read_subscription",
]

_SHORT = Struct(">h")


class NotConvertible(KafkaError):
    """A classic group that cannot become a consumer group; the consumer is told that there is none."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.GROUP_ID_NOT_FOUND, message)


def subscription_version(data: bytes) -> int:
    """Return the version in front of a subscription or assignment; raises WireError."""
    if len(data) < _SHORT.size:
        raise WireError("a consumer's subscription is shorter than its version")
    version = int(_SHORT.unpack_from(data)[0])
    if version < 0:
        raise WireError(f"version {version} of a consumer's subscription is not known")
    return version


def assignment_version(protocols: Sequence[tuple[str, bytes]]) -> int:
    """Return the version in which a member reads its assignment: that of its own words, 0 where they are not understood."""
    try:
        return subscription_version(protocols[0][1])
    except (WireError, IndexError):
        return 0


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return a subscription; raises WireError for what is none."""
    version = min(subscription_version(data), ConsumerProtocolSubscription.VERSIONS[1])
    return decode(ConsumerProtocolSubscription, data, version, _SHORT.size)[0]


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return an assignment; raises WireError for what is none."""
    if not data:
        return ConsumerProtocolAssignment()
    version = min(subscription_version(data), ConsumerProtocolAssignment.VERSIONS[1])
    return decode(ConsumerProtocolAssignment, data, version, _SHORT.size)[0]


def assignment_bytes(target: Target, version: int, cluster: Cluster) -> bytes:
    """Return partitions as a member of the classic protocol reads them; topics that are gone are left out."""
    version = min(version, ConsumerProtocolAssignment.VERSIONS[1])
    found = ((cluster.topic_by_id(topic_id), partitions) for topic_id, partitions in target.items())
    named = sorted((topic.name, sorted(partitions)) for topic, partitions in found if topic is not None)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=name, partitions=partitions) for name, partitions in named]
    )
    return _SHORT.pack(version) + encode(message, version)


def assignment_target(assignment: ConsumerProtocolAssignment, cluster: Cluster) -> Target:
    """Return the partitions of an assignment by topic id; topics that are gone are left out."""
    found: dict[Uuid, list[int]] = {}
    for each in assignment.assigned_partitions:
        topic = cluster.topic(each.topic)
        if topic is not None:
            found[topic.id] = list(each.partitions)
    return target_from(found)
