"""ConsumerGroupHeartbeat (KIP-848): members join, say what they own, are told what to hold, and leave, in one request."""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from ottla.base import ErrorCode, KafkaError, Uuid
from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer import records
from ottla.groups.consumer.draft import REBALANCE, SESSION, Draft
from ottla.groups.consumer.group import EMPTY_TARGET, ConsumerGroup, unknown_member
from ottla.groups.consumer.leave import fence
from ottla.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Assigned, Member, MemberState, assigned_from
from ottla.groups.consumer.migration import upgraded
from ottla.groups.consumer.reconcile import Owned, reconciled
from ottla.groups.consumer.settings import ConsumerSettings, settings_of
from ottla.groups.consumer.subscription import update_epoch, update_regexes, write_member
from ottla.groups.consumer.target import update_target
from ottla.groups.decision import Decision, DecisionContext, Group, RequestOrigin, new_uuid_text
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

__all__ = ["check_group_size", "check_instance", "heartbeat", "reconcile", "replace_static", "response_assignment"]

Request = ConsumerGroupHeartbeatRequest


def heartbeat(group: Group | None, request: Request, origin: RequestOrigin, context: DecisionContext) -> Decision:
    """Answer a heartbeat that `check_request` let pass.

    Raises GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION.
    """
    if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        return _leave(_existing(group, request), request, context)
    if isinstance(group, ClassicGroup) and request.member_epoch == 0:
        draft = upgraded(group, context)
    elif group is None and request.member_epoch == 0:
        draft = Draft(ConsumerGroup(request.group_id))
    else:
        draft = Draft(_existing(group, request))
    settings = settings_of(request.group_id, context)
    member_id = request.member_id or new_uuid_text(context.rng)
    check_group_size(draft.group, member_id, settings)
    member = _member_of(draft, request, member_id)
    has_changed = write_member(draft, member, _updated(member, request, origin))
    has_changed = update_regexes(draft, settings, origin, context) or has_changed
    update_epoch(draft, context, has_changed=has_changed)
    update_target(draft, settings, context)
    after = reconcile(draft, member_id, context, _owned(request), has_subscription_changed=has_changed)
    draft.set_timer(SESSION, member_id, context.now_ms + settings.session_timeout_ms)
    tells = request.member_epoch == 0 or _is_full(request) or member.assigned != after.assigned
    return draft.decision(
        ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=response_assignment(after.assigned) if tells else None,
        )
    )


def _existing(group: Group | None, request: Request) -> ConsumerGroup:
    """Return the consumer group; raises GROUP_ID_NOT_FOUND where there is none, or a group of another kind."""
    if isinstance(group, ConsumerGroup):
        return group
    reason = "does not exist" if group is None else f"is a {group.kind.value.lower()} group"
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {reason}")


def _is_full(request: Request) -> bool:
    """Return whether a member says all that it can, as it does when it is not sure what arrived."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def _owned(request: Request) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return {Uuid(bytes(each.topic_id)): frozenset(each.partitions) for each in request.topic_partitions}


def response_assignment(assigned: Assigned) -> Assignment:
    """Return what a member holds as a heartbeat's answer says it."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assigned.items(), key=lambda item: item[0])
        ]
    )


def check_group_size(group: ConsumerGroup, member_id: str, settings: ConsumerSettings) -> None:
    """Raise GROUP_MAX_SIZE_REACHED for a new member of a full group."""
    if len(group.members) >= settings.size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"Group {group.group_id} has {len(group.members)} members, as many as group.consumer.max.size allows",
        )


def _member_of(draft: Draft, request: Request, member_id: str) -> Member:
    """Return the member that asks, as it was; a new one has no record yet."""
    group, epoch = draft.group, request.member_epoch
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is None and epoch != 0:
            raise unknown_member(group.group_id, member_id)
        member = member or Member(member_id)
        _check_epoch(member, epoch, _owned(request))
        return member
    static = group.static_member(request.instance_id)
    if epoch != 0:
        member = check_instance(group, static, request.instance_id, member_id)
        _check_epoch(member, epoch, _owned(request))
        return member
    if static is None:
        return group.members.get(member_id) or Member(member_id)
    if static.classic is None and static.epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance id {request.instance_id} belongs to member {static.id}, which has not left",
        )
    return replace_static(draft, static, member_id)


def check_instance(group: ConsumerGroup, static: Member | None, instance_id: str, member_id: str) -> Member:
    """Return the static member; raises UNKNOWN_MEMBER_ID where there is none, FENCED_INSTANCE_ID for another's id."""
    if static is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"No member of group {group.group_id} has the instance id {instance_id}"
        )
    if static.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID, f"Instance id {instance_id} belongs to member {static.id}, not to {member_id}"
        )
    return static


def _check_epoch(member: Member, epoch: int, owned: Owned | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the member is in its epoch, or missed the answer that moved it on."""
    if epoch in (0, member.epoch):
        return
    missed = epoch == member.previous_epoch and epoch < member.epoch
    if not missed or owned is None or not _is_held(owned, member.assigned):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Member {member.id} is in epoch {member.epoch}, not {epoch}; it must give up its partitions and join again",
        )


def _is_held(owned: Owned, assigned: Assigned) -> bool:
    nothing: Map[int, int] = Map()
    return all(each in assigned.get(topic_id, nothing) for topic_id, owns in owned.items() for each in owns)


def replace_static(draft: Draft, old: Member, member_id: str) -> Member:
    """Put a static member that comes back in the place of its earlier self, with all that it had."""
    group_id = draft.group.group_id
    new = replace(old, id=member_id, epoch=0, previous_epoch=0)
    target = draft.group.target.get(old.id, EMPTY_TARGET)
    draft.cancel_all(old.id)
    draft.extend(records.member_tombstones(group_id, old.id))
    draft.add(
        records.member_metadata(group_id, new),
        records.target_assignment(group_id, member_id, target),
        records.current_assignment(group_id, new),
    )
    return new


def _updated(member: Member, request: Request, origin: RequestOrigin) -> Member:
    """Return the member with what the request says; what it leaves out stays."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_names=member.subscribed_names if names is None else frozenset(names),
        subscribed_regex=member.subscribed_regex if regex is None else regex,
        client_id=origin.client_id,
        client_host=origin.client_host,
        classic=None,
    )


def reconcile(
    draft: Draft, member_id: str, context: DecisionContext, owned: Owned | None, *, has_subscription_changed: bool
) -> Member:
    """Take a member's next step, write it, and give it the time to give partitions back where it has to."""
    member = draft.group.members[member_id]
    after = reconciled(draft.group, member, context.cluster, owned, has_subscription_changed=has_subscription_changed)
    if after == member:
        return after
    draft.add(records.current_assignment(draft.group.group_id, after))
    if after.classic is None and after.state == MemberState.UNREVOKED_PARTITIONS:
        draft.set_timer(REBALANCE, member_id, context.now_ms + max(after.rebalance_timeout_ms, 0))
    else:
        draft.cancel(REBALANCE, member_id)
    return after


def _leave(group: ConsumerGroup, request: Request, context: DecisionContext) -> Decision:
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        static = group.static_member(request.instance_id)
        member = check_instance(group, static, request.instance_id, request.member_id)
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == LEAVE_EPOCH or request.instance_id is None:
        return fence(group, [member], context, response)
    kept = assigned_from({topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()})
    nothing: Assigned = Map()
    away = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=kept, pending_revocation=nothing)
    draft = Draft(group)
    draft.add(records.current_assignment(group.group_id, away))
    draft.cancel(REBALANCE, member.id)
    return draft.decision(response)
