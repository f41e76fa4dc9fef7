"""What happens when a deadline of a consumer group's member has passed, and which deadlines begin on a new coordinator."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.groups.consumer.draft import REBALANCE, SESSION
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.leave import fence
from ottla.groups.consumer.member import MemberState
from ottla.groups.consumer.settings import settings_of
from ottla.groups.decision import NOTHING, Decision, DecisionContext, Group, Timer, TimerChange

__all__ = ["expired", "loaded"]


def expired(group: Group, timer: Timer, context: DecisionContext) -> Decision:
    """Fence the member whose time is up; it may be gone by now, or have given its partitions back."""
    assert isinstance(group, ConsumerGroup)
    member = group.members.get(timer.member_id)
    if member is None:
        return NOTHING
    if timer.kind == REBALANCE and member.state != MemberState.UNREVOKED_PARTITIONS:
        return NOTHING
    return fence(group, [member], context, None)


def loaded(group: Group, context: DecisionContext) -> Iterator[TimerChange]:
    """Yield the deadlines of a group that was read from its log: nobody is late on a coordinator that just began."""
    assert isinstance(group, ConsumerGroup)
    session_ms = settings_of(group.group_id, context).session_timeout_ms
    for member in group.members.values():
        timeout_ms = session_ms if member.classic is None else member.classic.session_timeout_ms
        yield TimerChange(Timer(group.group_id, SESSION, member.id), context.now_ms + timeout_ms)
        if member.classic is None and member.state == MemberState.UNREVOKED_PARTITIONS:
            at_ms = context.now_ms + max(member.rebalance_timeout_ms, 0)
            yield TimerChange(Timer(group.group_id, REBALANCE, member.id), at_ms)
