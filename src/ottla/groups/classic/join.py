"""JoinGroup: who may enter a group, when that makes everyone join again, and how static members come back.

Answers and their order of precedence are those of Kafka 4.3's group coordinator. KIP-62 (rebalance timeout), KIP-345
(static members), KIP-394 (MEMBER_ID_REQUIRED), KIP-814 (SkipAssignment).
"""

from __future__ import annotations

from dataclasses import replace

from ottla.base import ErrorCode, KafkaError
from ottla.groups.classic.draft import HEARTBEAT, Draft
from ottla.groups.classic.group import NO_MEMBER_ID, ClassicGroup, Member, State, group_record
from ottla.groups.decision import Decision, DecisionContext, RequestOrigin, new_uuid_text
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

__all__ = ["join", "join_refused"]

MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9
TEXT_BYTES_MAX = 32_767
"""What a record's texts can hold."""
PENDING_JOINS_MAX = 50_000
"""Ids given out to one group and not used yet: each is remembered for a session, whoever asked for it."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long somebody new may wait for its first generation: without an id it cannot send heartbeats."""


def join_refused(code: ErrorCode, member_id: str = NO_MEMBER_ID) -> JoinGroupResponse:
    """Return a JoinGroup's error answer."""
    return JoinGroupResponse(error_code=int(code), member_id=member_id, protocol_name=None)


def join(
    group: ClassicGroup | None, request: JoinGroupRequest, origin: RequestOrigin, context: DecisionContext
) -> Decision:
    """Decide about a JoinGroup; a group that does not exist is made for whoever brings no member id."""
    settings = context.settings
    if not request.group_id:
        return Decision(response=join_refused(ErrorCode.INVALID_GROUP_ID, request.member_id))
    if not (
        settings.group_min_session_timeout_ms <= request.session_timeout_ms <= settings.group_max_session_timeout_ms
    ):
        return Decision(response=join_refused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
    if group is None:
        if request.member_id != NO_MEMBER_ID:
            return Decision(response=join_refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        made = ClassicGroup(group_id=request.group_id, state_since_ms=context.wall_ms)
        decision = _join(Draft(made, context), request, origin)
        return replace(decision, records=decision.records or (group_record(made, {}),))
    return _join(Draft(group, context), request, origin)


def _join(draft: Draft, request: JoinGroupRequest, origin: RequestOrigin) -> Decision:
    member_id = request.member_id
    if not _has_room(draft, member_id):
        draft.remove(member_id)
        return draft.decision(join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
    if not draft.supports(request.protocol_type, [each.name for each in request.protocols]):
        return draft.decision(join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    if member_id == NO_MEMBER_ID:
        return _join_as_new(draft, request, origin)
    if member_id in draft.pending_joins:
        return _add(draft, request, origin, member_id)
    try:
        draft.group().check_member(member_id, request.group_instance_id)
    except KafkaError as error:
        return draft.decision(join_refused(error.code, member_id))
    return _join_again(draft, request, origin)


def _has_room(draft: Draft, member_id: str) -> bool:
    """Return whether `group.max.size` lets it in: while a rebalance is prepared, only who has joined again counts."""
    largest = draft.context.settings.group_max_size
    member = draft.members.get(member_id)
    if draft.state is State.EMPTY:
        return True
    if draft.state is State.PREPARING_REBALANCE:
        return (member is not None and member.joining is not None) or draft.awaiting_join < largest
    return member is not None or len(draft.members) < largest


def _join_as_new(draft: Draft, request: JoinGroupRequest, origin: RequestOrigin) -> Decision:
    """Let in somebody who brings no member id: a new one, or a static member that has been restarted."""
    instance_id = request.group_instance_id
    member_id = f"{origin.client_id if instance_id is None else instance_id}-{new_uuid_text(draft.context.rng)}"
    if len(member_id.encode()) > TEXT_BYTES_MAX:
        return draft.decision(join_refused(ErrorCode.INVALID_REQUEST))
    if instance_id is not None:
        if draft.static_id(instance_id) is not None:
            return _replace_static(draft, request, origin, member_id)
        return _add(draft, request, origin, member_id)
    if origin.api_version >= MEMBER_ID_REQUIRED_FROM:
        if len(draft.pending_joins) >= PENDING_JOINS_MAX:
            return draft.decision(join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
        draft.pending_joins.add(member_id)
        draft.set_timer(HEARTBEAT, request.session_timeout_ms, member_id)
        return draft.decision(join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    return _add(draft, request, origin, member_id)


def _join_again(draft: Draft, request: JoinGroupRequest, origin: RequestOrigin) -> Decision:
    """Take a member's JoinGroup: it answers a rebalance, asks for one, or repeats what was lost on the way."""
    member_id = request.member_id
    is_same = draft.members[member_id].protocols == _protocols(request)
    if draft.state is State.EMPTY:
        return draft.decision(join_refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
    if draft.state is State.COMPLETING_REBALANCE and is_same:
        return draft.decision(draft.joined(member_id))
    if draft.state is State.STABLE and is_same and draft.leader != member_id:
        return draft.decision(draft.joined(member_id))
    _update(draft, request, origin, member_id)
    draft.rebalance_if_possible()
    return draft.decision()


def _add(draft: Draft, request: JoinGroupRequest, origin: RequestOrigin, member_id: str) -> Decision:
    """Take in a new member, and have everyone join again."""
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=origin.client_id,
        client_host=origin.client_host,
        rebalance_timeout_ms=_rebalance_timeout_ms(request, origin),
        session_timeout_ms=request.session_timeout_ms,
        protocols=_protocols(request),
        joining=origin.token,
        is_new=True,
    )
    if draft.state is State.PREPARING_REBALANCE and draft.was_empty:
        draft.member_added = True
    draft.add(member, request.protocol_type)
    draft.set_timer(HEARTBEAT, NEW_MEMBER_JOIN_TIMEOUT_MS, member_id)
    draft.rebalance_if_possible()
    return draft.decision()


def _update(draft: Draft, request: JoinGroupRequest, origin: RequestOrigin, member_id: str) -> None:
    """Take over what a member says now, and park its request in place of one that it has given up."""
    draft.answer_join(member_id, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
    member = replace(
        draft.members[member_id],
        protocols=_protocols(request),
        rebalance_timeout_ms=_rebalance_timeout_ms(request, origin),
        session_timeout_ms=request.session_timeout_ms,
        joining=origin.token,
    )
    draft.update(member)


def _replace_static(draft: Draft, request: JoinGroupRequest, origin: RequestOrigin, member_id: str) -> Decision:
    """Let a restarted static member take its old place; a stable group need not rebalance for that (KIP-345)."""
    assert request.group_instance_id is not None
    leader_before = draft.leader
    draft.replace_static(request.group_instance_id, member_id)
    draft.renew_session(member_id)
    _update(draft, request, origin, member_id)
    if draft.state is State.COMPLETING_REBALANCE:
        draft.prepare_rebalance()
        return draft.decision()
    if draft.state is not State.STABLE or draft.select_protocol() != draft.protocol:
        draft.rebalance_if_possible()
        return draft.decision()
    answer = draft.joined(member_id)
    if origin.api_version >= SKIP_ASSIGNMENT_FROM:
        answer = answer.replace(skip_assignment=draft.leader == member_id)
    else:
        answer = answer.replace(leader=leader_before or NO_MEMBER_ID, members=())
    draft.answer_join(member_id, answer)
    draft.record({each.member_id: each.assignment for each in draft.members.values()})
    return draft.decision()


def _protocols(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    return tuple((each.name, each.metadata) for each in request.protocols)


def _rebalance_timeout_ms(request: JoinGroupRequest, origin: RequestOrigin) -> int:
    """Return the rebalance timeout, which version 0 does not have: there the session's is meant."""
    return request.session_timeout_ms if origin.api_version == 0 else request.rebalance_timeout_ms
