"""Requests of the classic protocol, sent on to the kind of group that they meet.

An empty consumer group makes room for a classic one; one with members takes classic members in (KIP-848, online migration).
"""

from __future__ import annotations

from dataclasses import replace

from ottla.base import ErrorCode
from ottla.groups import classic, consumer
from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.decision import Decision, DecisionContext, Group, RequestOrigin
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

__all__ = ["heartbeat", "join", "leave", "sync"]


def join(group: Group | None, request: JoinGroupRequest, origin: RequestOrigin, context: DecisionContext) -> Decision:
    """Decide about a JoinGroup."""
    if group is None or isinstance(group, ClassicGroup):
        return classic.join(group, request, origin, context)
    if group.is_empty():
        decision = classic.join(None, request, origin, context)
        return replace(decision, records=(*group.tombstones(), *decision.records)) if decision.records else decision
    if isinstance(group, ConsumerGroup):
        return consumer.classic_join(group, request, origin, context)
    return Decision(response=classic.join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))


def sync(group: Group | None, request: SyncGroupRequest, origin: RequestOrigin, context: DecisionContext) -> Decision:
    """Decide about a SyncGroup."""
    if isinstance(group, ConsumerGroup) and not group.is_empty():
        return consumer.classic_sync(group, request, context)
    return classic.sync(_classic(group), request, origin, context)


def heartbeat(group: Group | None, request: HeartbeatRequest, context: DecisionContext) -> Decision:
    """Decide about a Heartbeat."""
    if isinstance(group, ConsumerGroup):
        return consumer.classic_heartbeat(group, request, context)
    return classic.heartbeat(_classic(group), request, context)


def leave(group: Group | None, request: LeaveGroupRequest, context: DecisionContext) -> Decision:
    """Decide about a LeaveGroup."""
    if isinstance(group, ConsumerGroup):
        return consumer.classic_leave(group, request, context)
    return classic.leave(_classic(group), request, context)


def _classic(group: Group | None) -> ClassicGroup | None:
    """Return a classic group; groups of other kinds have no such members."""
    return group if isinstance(group, ClassicGroup) else None
