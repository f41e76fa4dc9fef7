"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup for them.

A generation is the member's epoch. JoinGroup brings what a member owns and takes its next step, SyncGroup tells it what it
holds, and Heartbeat says REBALANCE_IN_PROGRESS whenever there is another step: the member joins again. No leader assigns.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.base import ErrorCode, KafkaError, Uuid, WireError
from ottla.groups import classic
from ottla.groups.consumer.classic_protocol import (
    assignment_bytes,
    assignment_version,
    read_subscription,
)
from ottla.groups.consumer.draft import JOIN, SESSION, SYNC, Draft
from ottla.groups.consumer.group import EMPTY_TARGET, PROTOCOL_TYPE, ConsumerGroup
from ottla.groups.consumer.heartbeat import check_group_size, check_instance, reconcile, replace_static
from ottla.groups.consumer.leave import fence
from ottla.groups.consumer.member import ClassicMember, Member, MemberState, target_of
from ottla.groups.consumer.migration import as_classic, can_downgrade, joined_decisions
from ottla.groups.consumer.reconcile import Owned
from ottla.groups.consumer.settings import settings_of
from ottla.groups.consumer.subscription import update_epoch, update_regexes, write_member
from ottla.groups.consumer.target import update_target
from ottla.groups.decision import Cluster, Decision, DecisionContext, RequestOrigin, new_uuid_text
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["classic_heartbeat", "classic_join", "classic_leave", "classic_sync"]

MEMBER_ID_REQUIRED_FROM = 4


def classic_join(
    group: ConsumerGroup, request: JoinGroupRequest, origin: RequestOrigin, context: DecisionContext
) -> Decision:
    """Answer a JoinGroup at once: what others still hold, the member gets when it joins again."""
    try:
        return _join(group, request, origin, context)
    except KafkaError as error:
        return Decision(response=classic.join_refused(error.code, request.member_id))


def _join(group: ConsumerGroup, request: JoinGroupRequest, origin: RequestOrigin, context: DecisionContext) -> Decision:
    broker = context.settings
    timeout_ms = request.session_timeout_ms
    if not broker.group_min_session_timeout_ms <= timeout_ms <= broker.group_max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    settings = settings_of(group.group_id, context)
    check_group_size(group, request.member_id, settings)
    _check_protocols(group, request)
    subscription = _subscription(request)
    is_unknown = not request.member_id
    member_id = request.member_id or new_uuid_text(context.rng)
    if is_unknown and request.group_instance_id is None and origin.api_version >= MEMBER_ID_REQUIRED_FROM:
        return Decision(response=classic.join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    static = group.static_member(request.group_instance_id)
    if static is not None and is_unknown and can_downgrade(group, {static.id}, context):
        return _downgrade_with(group, static, request, origin, context)
    draft = Draft(group)
    member = _member_of(draft, request, member_id, is_unknown=is_unknown)
    updated = _updated(member, request, subscription, origin)
    has_changed = write_member(draft, member, updated)
    has_changed = update_regexes(draft, settings, origin, context) or has_changed
    update_epoch(draft, context, has_changed=has_changed)
    update_target(draft, settings, context)
    owned = _owned(subscription, context.cluster)
    after = reconcile(draft, member_id, context, owned, has_subscription_changed=has_changed)
    draft.cancel(JOIN, member_id)
    draft.set_timer(SESSION, member_id, context.now_ms + timeout_ms)
    draft.set_timer(SYNC, member_id, context.now_ms + max(updated.rebalance_timeout_ms, 0))
    return draft.decision(
        JoinGroupResponse(
            member_id=member_id,
            generation_id=after.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
        )
    )


def _downgrade_with(
    group: ConsumerGroup, static: Member, request: JoinGroupRequest, origin: RequestOrigin, context: DecisionContext
) -> Decision:
    """Go back to a classic group, in which a static member of the new protocol is replaced by its classic self."""
    protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
    before = replace(static, classic=ClassicMember(request.session_timeout_ms, protocols))
    others = [each for each in group.members.values() if each.id != static.id]
    made = as_classic(group, [*others, before], context)
    return joined_decisions(group, made, classic.join(made, request, origin, context))


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """Raise INCONSISTENT_GROUP_PROTOCOL for another protocol type, and where no assignor is known to all classic members."""
    names = {each.name for each in request.protocols}
    if request.protocol_type != PROTOCOL_TYPE or not names:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    for member in group.classic_members():
        if member.id != request.member_id:
            assert member.classic is not None
            names &= {name for name, _ in member.classic.protocols}
    if not names:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except WireError as error:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The subscription is not understood: {error}"
        ) from error


def _member_of(draft: Draft, request: JoinGroupRequest, member_id: str, *, is_unknown: bool) -> Member:
    group, instance_id = draft.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id)
    static = group.static_member(instance_id)
    if not is_unknown:
        return check_instance(group, static, instance_id, member_id)
    return Member(member_id) if static is None else replace_static(draft, static, member_id)


def _updated(
    member: Member, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, origin: RequestOrigin
) -> Member:
    protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
    timeout_ms = request.rebalance_timeout_ms if origin.api_version >= 1 else request.session_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=timeout_ms,
        subscribed_names=frozenset(subscription.topics),
        subscribed_regex="",
        client_id=origin.client_id,
        client_host=origin.client_host,
        classic=ClassicMember(request.session_timeout_ms, protocols),
    )


def _owned(subscription: ConsumerProtocolSubscription, cluster: Cluster) -> Owned:
    found: dict[Uuid, frozenset[int]] = {}
    for each in subscription.owned_partitions:
        topic = cluster.topic(each.topic)
        if topic is not None:
            found[topic.id] = frozenset(each.partitions)
    return found


def classic_sync(group: ConsumerGroup, request: SyncGroupRequest, context: DecisionContext) -> Decision:
    """Tell a member what it holds."""
    try:
        member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    except KafkaError as error:
        return Decision(response=classic.sync_refused(error.code))
    assert member.classic is not None
    protocol = member.classic.protocols[0][0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol):
        return Decision(response=classic.sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    draft = Draft(group)
    if group.assignment_epoch > member.epoch and member.state != MemberState.UNREVOKED_PARTITIONS:
        draft.ask_to_join(member.id, context.now_ms + max(member.rebalance_timeout_ms, 0))
        return draft.decision(classic.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    draft.cancel(SYNC, member.id)
    draft.set_timer(SESSION, member.id, context.now_ms + member.classic.session_timeout_ms)
    version = assignment_version(member.classic.protocols)
    assignment = assignment_bytes(target_of(member.assigned), version, context.cluster)
    return draft.decision(SyncGroupResponse(protocol_type=PROTOCOL_TYPE, protocol_name=protocol, assignment=assignment))


def classic_heartbeat(group: ConsumerGroup, request: HeartbeatRequest, context: DecisionContext) -> Decision:
    """Let a session begin anew, and ask the member to join again where there is a step for it.

    As every member's heartbeat, it takes note of what has changed and computes the target: where no member of the new
    protocol is left, and the group may not go back, nobody else would give away what those held.
    """
    try:
        member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    except KafkaError as error:
        return Decision(response=HeartbeatResponse(error_code=int(error.code)))
    assert member.classic is not None
    draft = Draft(group)
    draft.set_timer(SESSION, member.id, context.now_ms + member.classic.session_timeout_ms)
    update_epoch(draft, context, has_changed=False)
    update_target(draft, settings_of(group.group_id, context), context)
    if not _has_step(draft.group, member):
        return draft.decision(HeartbeatResponse())
    draft.ask_to_join(member.id, context.now_ms + max(member.rebalance_timeout_ms, 0))
    return draft.decision(HeartbeatResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS)))


def _has_step(group: ConsumerGroup, member: Member) -> bool:
    if member.epoch < group.assignment_epoch or member.state == MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state == MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """Return whether something that the member shall hold is still held by another."""
    return any(
        group.owner(topic_id, each) not in (None, member.id)
        for topic_id, partitions in group.target.get(member.id, EMPTY_TARGET).items()
        for each in partitions
    )


def classic_leave(group: ConsumerGroup, request: LeaveGroupRequest, context: DecisionContext) -> Decision:
    """Take members out, each by itself; an administrator names a static member by its instance id alone."""
    answers: list[MemberResponse] = []
    leaving: dict[str, Member] = {}
    for each in request.members:
        code = ErrorCode.NONE
        try:
            member = _leaving(group, each)
            leaving[member.id] = member
        except KafkaError as error:
            code = error.code
        answers.append(
            MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=int(code))
        )
    return fence(group, list(leaving.values()), context, LeaveGroupResponse(members=answers))


def _leaving(group: ConsumerGroup, asked: MemberIdentity) -> Member:
    if asked.group_instance_id is None:
        return group.member(asked.member_id)
    static = group.static_member(asked.group_instance_id)
    member_id = asked.member_id or (static.id if static is not None else "")
    return check_instance(group, static, asked.group_instance_id, member_id)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
    """Return the member; raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_instance(group, group.static_member(instance_id), instance_id, member_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol")
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member
