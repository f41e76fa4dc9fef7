"""What members do between joins: SyncGroup, Heartbeat, LeaveGroup, and what follows when their time is up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ottla.base import ErrorCode, KafkaError
from ottla.groups.classic.draft import HEARTBEAT, JOIN, SYNC, Draft
from ottla.groups.classic.group import NO_MEMBER_ID, ClassicGroup, State
from ottla.groups.decision import NOTHING, Decision, DecisionContext, RequestOrigin, Timer, TimerChange
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["expired", "heartbeat", "leave", "loaded", "session", "sync", "sync_refused"]

_ALIVE = HeartbeatResponse()
_REBALANCING = HeartbeatResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS))


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    """Return a SyncGroup's error answer."""
    return SyncGroupResponse(error_code=int(code), protocol_name=None)


def sync(
    group: ClassicGroup | None, request: SyncGroupRequest, origin: RequestOrigin, context: DecisionContext
) -> Decision:
    """Decide about a SyncGroup: the leader's brings the assignments and makes the group stable, the others' wait."""
    try:
        found = _member_of(group, request.member_id, request.group_instance_id)
        found.check_generation(request.generation_id)
        if _differs(request.protocol_type, found.protocol_type) or _differs(request.protocol_name, found.protocol):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if found.state is State.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    except KafkaError as error:
        return Decision(response=sync_refused(error.code))
    draft = Draft(found, context)
    _no_longer_awaited(draft, request.member_id)
    if found.state is State.STABLE:
        return draft.decision(draft.synced(found.members[request.member_id].assignment))
    draft.answer_sync(request.member_id, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))  # one that was given up
    draft.update(replace(draft.members[request.member_id], syncing=origin.token))
    if request.member_id != found.leader:
        return draft.decision()
    waiting = replace(draft.group(), members=dict(draft.members))
    _assign(draft, {each.member_id: each.assignment for each in request.assignments})
    return replace(draft.decision(), otherwise=lambda code: _unassigned(waiting, code, context))


def _unassigned(group: ClassicGroup, code: ErrorCode, context: DecisionContext) -> Decision:
    """Decide what happens where the assignments cannot be stored: who waits hears why, and everyone joins again."""
    draft = Draft(group, context)
    draft.refuse_syncs(code)
    draft.prepare_rebalance()
    return draft.decision()


def _assign(draft: Draft, assignments: dict[str, bytes]) -> None:
    """Store every member's assignment and answer who waits for it; a member that the leader left out gets nothing."""
    draft.record(assignments)
    for member_id in list(draft.members):
        assignment = assignments.get(member_id, b"")
        draft.update(replace(draft.members[member_id], assignment=assignment))
        if draft.answer_sync(member_id, draft.synced(assignment)):
            draft.renew_session(member_id)
    draft.transition(State.STABLE)


def _differs(named: str | None, current: str | None) -> bool:
    return named is not None and current is not None and named != current


def _no_longer_awaited(draft: Draft, member_id: str) -> None:
    draft.pending_syncs.discard(member_id)
    if not draft.pending_syncs:
        draft.cancel_timer(SYNC)


def _member_of(group: ClassicGroup | None, member_id: str, instance_id: str | None) -> ClassicGroup:
    """Return the group where somebody is a member of it; raises KafkaError otherwise."""
    if group is None or group.state is State.EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(member_id, instance_id)
    return group


def heartbeat(group: ClassicGroup | None, request: HeartbeatRequest, context: DecisionContext) -> Decision:
    """Decide about a Heartbeat: the session begins anew, and during a rebalance the member is told to join again."""
    try:
        found = _member_of(group, request.member_id, request.group_instance_id)
        found.check_generation(request.generation_id)
    except KafkaError as error:
        return Decision(response=HeartbeatResponse(error_code=int(error.code)))
    response = _REBALANCING if found.state is State.PREPARING_REBALANCE else _ALIVE
    return Decision(response=response, timers=session(found, request.member_id, context))


def session(group: ClassicGroup, member_id: str, context: DecisionContext) -> tuple[TimerChange, ...]:
    """Return the timer of a session that begins anew; nothing for who is no member."""
    member = group.members.get(member_id)
    if member is None:
        return ()
    at_ms = context.now_ms + member.session_timeout_ms
    return (TimerChange(Timer(group.group_id, HEARTBEAT, member_id), at_ms),)


# -- leaving


def leave(group: ClassicGroup | None, request: LeaveGroupRequest, context: DecisionContext) -> Decision:
    """Decide about a LeaveGroup: each member by itself, and one rebalance for all who went."""
    if group is None:
        return Decision(response=_left((each, ErrorCode.UNKNOWN_MEMBER_ID) for each in request.members))
    draft = Draft(group, context)
    codes = [(each, _remove(draft, each)) for each in request.members]
    if any(code is ErrorCode.NONE for _, code in codes):
        if draft.state in (State.STABLE, State.COMPLETING_REBALANCE):
            draft.prepare_rebalance()
        else:
            draft.complete_join_if_ready()
    return draft.decision(_left(codes))


def _left(codes: Iterable[tuple[MemberIdentity, ErrorCode]]) -> LeaveGroupResponse:
    members = [
        MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=int(code))
        for each, code in codes
    ]
    return LeaveGroupResponse(members=members)


def _remove(draft: Draft, leaving: MemberIdentity) -> ErrorCode:
    """Remove who leaves; an administrator names a static member by its instance id alone (KIP-345)."""
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID:
        static_id = None if leaving.group_instance_id is None else draft.static_id(leaving.group_instance_id)
        if static_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = static_id
    elif member_id not in draft.pending_joins:
        try:
            draft.group().check_member(member_id, leaving.group_instance_id)
        except KafkaError as error:
            return error.code
    draft.remove(member_id)
    return ErrorCode.NONE


# -- when time is up


def expired(group: ClassicGroup, timer: Timer, context: DecisionContext) -> Decision:
    """Decide what follows from a timer of a classic group that has come."""
    draft = Draft(group, context)
    if timer.kind == HEARTBEAT:
        return _session_ended(draft, timer.member_id)
    if timer.kind == JOIN:
        return _join_phase_ended(draft)
    return _sync_phase_ended(draft)


def _session_ended(draft: Draft, member_id: str) -> Decision:
    """Remove a member that was silent for too long; one whose request is parked here is not silent."""
    if member_id in draft.pending_joins:
        draft.remove(member_id)
        draft.complete_join_if_ready()
        return draft.decision()
    member = draft.members.get(member_id)
    if member is None or (not member.is_new and (member.joining is not None or member.syncing is not None)):
        return NOTHING
    draft.remove(member_id)
    draft.rebalance_if_possible()
    return draft.decision()


def _join_phase_ended(draft: Draft) -> Decision:
    """End the join phase; the first one of a group is prolonged while new members come (KIP-134)."""
    if draft.state is not State.PREPARING_REBALANCE:
        return NOTHING
    if draft.was_empty and draft.member_added and draft.initial_remaining_ms:
        draft.member_added = False
        delay_ms = min(draft.context.settings.group_initial_rebalance_delay_ms, draft.initial_remaining_ms)
        draft.initial_remaining_ms = max(draft.initial_remaining_ms - draft.initial_delay_ms, 0)
        draft.initial_delay_ms = delay_ms
        draft.set_timer(JOIN, delay_ms)
    else:
        draft.complete_join()
    return draft.decision()


def _sync_phase_ended(draft: Draft) -> Decision:
    """Remove who joined and never asked for its assignment, and rebalance."""
    if draft.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not draft.pending_syncs:
        return NOTHING
    for member_id in sorted(draft.pending_syncs):
        draft.remove(member_id)
    draft.prepare_rebalance()
    return draft.decision()


def loaded(group: ClassicGroup, context: DecisionContext) -> Decision:
    """Decide about a group that was just loaded: sessions begin, and one that is too large by now rebalances."""
    draft = Draft(group, context)
    for member_id in group.members:
        draft.renew_session(member_id)
    if len(group.members) > context.settings.group_max_size:
        draft.prepare_rebalance()
    return draft.decision()
