"""How records change a consumer group: the only way in which one changes, on the leader and on replay.

A compacted log may have lost older records of a key, never the newest: a member's assignment can come before the member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from immutables import Map

from ottla.base import Uuid
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import (
    LEAVE_EPOCH,
    Assigned,
    ClassicMember,
    Member,
    MemberState,
    assigned_from,
    target_from,
)
from ottla.groups.consumer.regex import ResolvedRegex
from ottla.groups.decision import Group, Record
from ottla.wire import Message
from ottla.wire.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from ottla.wire.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.wire.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.wire.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ottla.wire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.wire.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.wire.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.wire.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from ottla.wire.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from ottla.wire.messages.consumer_group_target_assignment_member_value import ConsumerGroupTargetAssignmentMemberValue
from ottla.wire.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from ottla.wire.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

__all__ = ["KEYS", "apply", "apply_to"]

T = TypeVar("T")


def apply(group: ConsumerGroup | None, record: Record) -> ConsumerGroup | None:
    """Return the group after a record; None where there is none (any more)."""
    key, value = record
    assert type(key) in _FOLDS, f"{type(key).__name__} is no record of a consumer group"
    if group is None:
        if value is None:
            return None
        group = ConsumerGroup(key.group_id)  # type: ignore[attr-defined]
    return _FOLDS[type(key)](group, key, value)


def apply_to(groups: Map[str, Group], record: Record) -> Map[str, Group]:
    """Return the groups of a shard after a record of a consumer group.

    What stands under its id as another kind is in its way only until the group's first record: an empty classic group
    holds the place of offsets whose group was not read yet, and a classic group is converted by a tombstone and then this.
    """
    group_id: str = record.key.group_id  # type: ignore[attr-defined]
    found = groups.get(group_id)
    before = found if isinstance(found, ConsumerGroup) else None
    if before is None and record.value is None:
        return groups
    after = apply(before, record)
    return groups.delete(group_id) if after is None else groups.set(group_id, after)


def _group_metadata(
    group: ConsumerGroup, _: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> ConsumerGroup | None:
    if value is None:
        return None
    return replace(group, epoch=value.epoch, metadata_hash=value.metadata_hash)


def _partition_metadata(group: ConsumerGroup, _: object, value: Message | None) -> ConsumerGroup:
    return replace(group, has_subscription_metadata=value is not None)


def _member_metadata(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> ConsumerGroup:
    old = group.members.get(key.member_id)
    if value is None:
        return group if old is None else _without(group, old)
    classic = value.classic_member_metadata
    member = replace(
        old or Member(key.member_id),
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_names=frozenset(value.subscribed_topic_names),
        subscribed_regex=value.subscribed_topic_regex or "",
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMember(
            classic.session_timeout_ms, tuple((each.name, bytes(each.metadata)) for each in classic.supported_protocols)
        ),
    )
    return _with(group, old, member)


def _current_assignment(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> ConsumerGroup:
    old = group.members.get(key.member_id)
    if value is None:
        if old is None:
            return group
        nothing: Assigned = Map()
        left = replace(
            old,
            epoch=LEAVE_EPOCH,
            previous_epoch=LEAVE_EPOCH,
            state=MemberState.STABLE,
            assigned=nothing,
            pending_revocation=nothing,
        )
        return _with(group, old, left)
    member = replace(
        old or Member(key.member_id),
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=_state(value.state),
        assigned=_assigned(value.assigned_partitions, value.member_epoch),
        pending_revocation=_assigned(value.partitions_pending_revocation, value.member_epoch),
    )
    return _with(group, old, member)


def _state(code: int) -> MemberState:
    try:
        return MemberState(code)
    except ValueError:
        return MemberState.UNKNOWN


def _assigned(topics: Iterable[TopicPartitions], member_epoch: int) -> Assigned:
    """Return the partitions of a record; where it has no epochs (before 4.3), the member's own stands for them."""
    found: dict[Uuid, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        found[Uuid(bytes(topic.topic_id))] = dict(zip(topic.partitions, epochs, strict=True))
    return assigned_from(found)


def _target_member(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> ConsumerGroup:
    if value is None:
        return replace(group, target=_dropped(group.target, key.member_id))
    target = target_from({Uuid(bytes(each.topic_id)): each.partitions for each in value.topic_partitions})
    return replace(group, target=group.target.set(key.member_id, target))


def _target_metadata(
    group: ConsumerGroup,
    _: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> ConsumerGroup:
    if value is None:
        return replace(group, assignment_epoch=-1, assignment_timestamp_ms=0)
    return replace(group, assignment_epoch=value.assignment_epoch, assignment_timestamp_ms=value.assignment_timestamp)


def _regular_expression(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> ConsumerGroup:
    if value is None:
        return replace(group, regexes=_dropped(group.regexes, key.regular_expression))
    resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    return replace(group, regexes=group.regexes.set(key.regular_expression, resolved))


_FOLDS: dict[type[Message], Callable[[ConsumerGroup, Any, Any], ConsumerGroup | None]] = {
    ConsumerGroupMetadataKey: _group_metadata,
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupMemberMetadataKey: _member_metadata,
    ConsumerGroupTargetAssignmentMetadataKey: _target_metadata,
    ConsumerGroupTargetAssignmentMemberKey: _target_member,
    ConsumerGroupCurrentMemberAssignmentKey: _current_assignment,
    ConsumerGroupRegularExpressionKey: _regular_expression,
}
KEYS = frozenset(key.API_KEY for key in _FOLDS)
"""The types of a consumer group's keys."""


def _dropped(values: Map[str, T], key: str) -> Map[str, T]:
    return values.delete(key) if key in values else values


def _with(group: ConsumerGroup, old: Member | None, new: Member) -> ConsumerGroup:
    """Return the group with a member in a new state, and with everything that follows from members."""
    statics = group.static_members
    if old is not None and old.instance_id != new.instance_id:
        statics = _without_static(group, old)
    if new.instance_id is not None:
        statics = statics.set(new.instance_id, new.id)
    return replace(
        group,
        members=group.members.set(new.id, new),
        static_members=statics,
        owners=_owners(group.owners, new.id, old, new),
        topic_counts=_counts(group.topic_counts, old.subscribed_names if old else (), new.subscribed_names),
        regex_counts=_counts(group.regex_counts, _patterns(old), _patterns(new)),
    )


def _without(group: ConsumerGroup, old: Member) -> ConsumerGroup:
    return replace(
        group,
        members=group.members.delete(old.id),
        static_members=_without_static(group, old),
        owners=_owners(group.owners, old.id, old, None),
        topic_counts=_counts(group.topic_counts, old.subscribed_names, ()),
        regex_counts=_counts(group.regex_counts, _patterns(old), ()),
    )


def _without_static(group: ConsumerGroup, old: Member) -> Map[str, str]:
    """A static member that was replaced has left its instance id to its successor."""
    statics = group.static_members
    if old.instance_id is not None and statics.get(old.instance_id) == old.id:
        return statics.delete(old.instance_id)
    return statics


def _patterns(member: Member | None) -> tuple[str, ...]:
    return (member.subscribed_regex,) if member is not None and member.subscribed_regex else ()


def _counts(counts: Map[str, int], old: Iterable[str], new: Iterable[str]) -> Map[str, int]:
    before, after = set(old), set(new)
    if before == after:
        return counts
    draft = counts.mutate()
    for each in before - after:
        left = draft[each] - 1
        if left:
            draft[each] = left
        else:
            del draft[each]
    for each in after - before:
        draft[each] = draft.get(each, 0) + 1
    return draft.finish()


Owners = Map[Uuid, Map[int, str]]
_NOTHING: Map[int, int] = Map()


def _owners(owners: Owners, member_id: str, old: Member | None, new: Member | None) -> Owners:
    """Return who holds what after a member changed; what it gives up is free unless somebody has it by now."""
    for held in (old.assigned, old.pending_revocation) if old is not None else ():
        for topic_id, epochs in held.items():
            kept, revoked = (_NOTHING, _NOTHING) if new is None else new.held_of(topic_id)
            gone = [each for each in epochs if each not in kept and each not in revoked]
            owners = _set_owner(owners, topic_id, gone, None, member_id)
    for held in (new.assigned, new.pending_revocation) if new is not None else ():
        for topic_id, epochs in held.items():
            kept, revoked = (_NOTHING, _NOTHING) if old is None else old.held_of(topic_id)
            came = [each for each in epochs if each not in kept and each not in revoked]
            owners = _set_owner(owners, topic_id, came, member_id, member_id)
    return owners


def _set_owner(owners: Owners, topic_id: Uuid, partitions: list[int], owner: str | None, member_id: str) -> Owners:
    if not partitions:
        return owners
    of_topic: Map[int, str] = owners.get(topic_id, Map())
    draft = of_topic.mutate()
    for each in partitions:
        if owner is not None:
            draft[each] = owner
        elif draft.get(each) == member_id:
            del draft[each]
    of_topic = draft.finish()
    if of_topic:
        return owners.set(topic_id, of_topic)
    return owners.delete(topic_id) if topic_id in owners else owners
