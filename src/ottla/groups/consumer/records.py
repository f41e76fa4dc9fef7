"""The records of a consumer group: how each part of its state is written to `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.groups.consumer.member import Assigned, Member, Target
from ottla.groups.consumer.regex import ResolvedRegex
from ottla.groups.decision import Record
from ottla.wire.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from ottla.wire.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.wire.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.wire.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ottla.wire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.wire.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.wire.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.wire.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from ottla.wire.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from ottla.wire.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from ottla.wire.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from ottla.wire.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

__all__ = [
    "current_assignment",
    "group_epoch",
    "group_tombstones",
    "member_metadata",
    "member_tombstones",
    "regular_expression",
    "subscription_metadata_tombstone",
    "target_assignment",
    "target_epoch",
]


def member_metadata(group_id: str, member: Member) -> Record:
    """Return the record of what a member asked for."""
    classic = member.classic
    return Record(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_names),
            subscribed_topic_regex=member.subscribed_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
            ),
        ),
    )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of a group's epoch, with the hash of the topics for which it was bumped."""
    return Record(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_assignment(group_id: str, member_id: str, target: Target) -> Record:
    """Return the record of what a member shall hold."""
    topics = [
        TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(target.items())
    ]
    return Record(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Return the record of the group epoch for which the target assignment was computed, and when."""
    return Record(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def _partitions(assigned: Assigned) -> list[TopicPartitions]:
    found = []
    for topic_id, epochs in sorted(assigned.items(), key=lambda item: item[0]):
        in_order = sorted(epochs)
        found.append(
            TopicPartitions(
                topic_id=topic_id, partitions=in_order, assignment_epochs=[epochs[each] for each in in_order]
            )
        )
    return found


def current_assignment(group_id: str, member: Member) -> Record:
    """Return the record of what a member holds and how far it has been reconciled."""
    return Record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_partitions(member.assigned),
            partitions_pending_revocation=_partitions(member.pending_revocation),
        ),
    )


def regular_expression(group_id: str, pattern: str, resolved: ResolvedRegex | None) -> Record:
    """Return the record of the topics that an expression stands for; None takes it away."""
    return Record(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
        None
        if resolved is None
        else ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return what removes a member, in the order in which Kafka writes it."""
    return [
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def subscription_metadata_tombstone(group_id: str) -> Record:
    """Return what removes the topics' metadata that brokers before 4.1 kept with a group."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def group_tombstones(
    group_id: str, member_ids: Iterable[str], patterns: Iterable[str], *, has_subscription_metadata: bool
) -> list[Record]:
    """Return what removes a group and all its members."""
    members = sorted(member_ids)
    keys = (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
    )
    found = [Record(key(group_id=group_id, member_id=each), None) for key in keys for each in members]
    found.append(Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None))
    found += [Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=each), None) for each in members]
    found += [regular_expression(group_id, each, None) for each in sorted(patterns)]
    if has_subscription_metadata:
        found.append(subscription_metadata_tombstone(group_id))
    found.append(Record(ConsumerGroupMetadataKey(group_id=group_id), None))
    return found
