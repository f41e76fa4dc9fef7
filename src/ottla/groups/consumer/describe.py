"""ConsumerGroupDescribe: a group with its members, what they hold, and what they shall hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.base import ErrorCode, Uuid
from ottla.groups.consumer.group import EMPTY_TARGET, ConsumerGroup
from ottla.groups.consumer.member import Member, assigned_union, target_of
from ottla.groups.consumer.settings import assignor_names
from ottla.groups.consumer.target import preferred_assignor
from ottla.groups.decision import Cluster, DecisionContext, Group
from ottla.wire.messages import consumer_group_describe as wire

__all__ = ["describe"]

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""`MemberType` (KIP-1099): whether a member speaks the classic protocol."""


def describe(group: Group | None, group_id: str, context: DecisionContext) -> wire.DescribedGroup:
    """Return a group's description; GROUP_ID_NOT_FOUND where there is none of this kind."""
    if not isinstance(group, ConsumerGroup):
        return wire.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} does not exist"
            if group is None
            else f"Group {group_id} is not a consumer group",
            group_id=group_id,
        )
    return wire.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name(),
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, assignor_names(context.settings)),
        members=[_member(group, group.members[member_id], context.cluster) for member_id in sorted(group.members)],
    )


def _member(group: ConsumerGroup, member: Member, cluster: Cluster) -> wire.Member:
    held = assigned_union(member.assigned, member.pending_revocation)
    return wire.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_names),
        subscribed_topic_regex=member.subscribed_regex or None,
        assignment=_assignment(target_of(held).items(), cluster),
        target_assignment=_assignment(group.target.get(member.id, EMPTY_TARGET).items(), cluster),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Iterable[tuple[Uuid, frozenset[int]]], cluster: Cluster) -> wire.Assignment:
    return wire.Assignment(topic_partitions=list(_topics(partitions, cluster)))


def _topics(partitions: Iterable[tuple[Uuid, frozenset[int]]], cluster: Cluster) -> Iterator[wire.TopicPartitions]:
    """Yield topics that still exist."""
    for topic_id, indexes in sorted(partitions, key=lambda item: item[0]):
        topic = cluster.topic_by_id(topic_id)
        if topic is not None:
            yield wire.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
