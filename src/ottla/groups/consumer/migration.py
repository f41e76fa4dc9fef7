"""A group that changes its protocol while it is at work (KIP-848, "online migration"), in either direction.

The first consumer of the new protocol turns a classic group into a consumer group, in which classic members stay what they
are; when the last member of the new protocol has gone, the group is a classic one again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ottla.base import ErrorCode, Uuid, WireError
from ottla.groups import classic
from ottla.groups.classic import ClassicGroup, State
from ottla.groups.classic.draft import Draft as ClassicDraft
from ottla.groups.consumer import records
from ottla.groups.consumer.classic_protocol import (
    NotConvertible,
    assignment_bytes,
    assignment_target,
    assignment_version,
    read_assignment,
    read_subscription,
)
from ottla.groups.consumer.draft import JOIN, REBALANCE, SESSION, SYNC, Draft
from ottla.groups.consumer.group import EMPTY_TARGET, PROTOCOL_TYPE, ConsumerGroup, metadata_hash
from ottla.groups.consumer.member import ClassicMember, Member, assigned_from
from ottla.groups.consumer.settings import settings_of
from ottla.groups.decision import Cluster, Decision, DecisionContext, Reply, Timer, TimerChange
from ottla.wire import Message

__all__ = ["as_classic", "can_downgrade", "downgrade", "upgraded"]


def upgraded(group: ClassicGroup, context: DecisionContext) -> Draft:
    """Return the beginning of a decision in which a classic group has become a consumer group.

    Requests that are parked are told to join again, and an empty group just makes room for a new one. Raises
    GROUP_ID_NOT_FOUND where the group may not or cannot change.
    """
    draft = Draft(ConsumerGroup(group.group_id), before=group.tombstones())
    _drop_classic(draft, group)
    if group.state is State.EMPTY:
        return draft
    _check_upgrade(group, context)
    members = [_upgraded_member(group, each, context.cluster) for each in group.members.values()]
    draft.extend(records.member_metadata(group.group_id, each) for each in members)
    hashed = metadata_hash(draft.group.all_subscribed_names(), context.cluster)
    draft.add(records.group_epoch(group.group_id, group.generation, hashed))
    for each in members:
        target = {topic_id: frozenset(epochs) for topic_id, epochs in each.assigned.items()}
        draft.add(records.target_assignment(group.group_id, each.id, EMPTY_TARGET.update(target)))
    draft.add(records.target_epoch(group.group_id, group.generation, 0))
    for each in members:
        draft.add(records.current_assignment(group.group_id, each))
        assert each.classic is not None
        draft.set_timer(SESSION, each.id, context.now_ms + each.classic.session_timeout_ms)
    return draft


def _check_upgrade(group: ClassicGroup, context: DecisionContext) -> None:
    settings = settings_of(group.group_id, context)
    if not settings.migration.upgrades:
        raise NotConvertible(
            f"Classic group {group.group_id} may not be upgraded: group.consumer.migration.policy forbids it"
        )
    if group.protocol_type != PROTOCOL_TYPE:
        raise NotConvertible(
            f"Classic group {group.group_id} cannot be upgraded: its protocol type is {group.protocol_type}, not consumer"
        )
    if len(group.members) > settings.size_max:
        raise NotConvertible(
            f"Classic group {group.group_id} cannot be upgraded: group.consumer.max.size is {settings.size_max}"
        )


def _drop_classic(draft: Draft, group: ClassicGroup) -> None:
    """Answer what is parked at the classic group, and take its timers away."""
    for each in group.members.values():
        if each.joining is not None:
            refused = classic.join_refused(ErrorCode.REBALANCE_IN_PROGRESS, each.member_id)
            draft.replies.append(Reply(each.joining, refused))
        if each.syncing is not None:
            draft.replies.append(Reply(each.syncing, classic.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)))
    for member_id in (*group.members, *group.pending_joins):
        draft.cancel(classic.HEARTBEAT, member_id)
    draft.cancel(classic.JOIN, "")
    draft.cancel(classic.SYNC, "")


def _upgraded_member(group: ClassicGroup, member: classic.Member, cluster: Cluster) -> Member:
    """Return a classic member as a member of the consumer group, in the epoch of its generation."""
    metadata = member.metadata(group.protocol) or next((data for _, data in member.protocols), b"")
    try:
        assignment = read_assignment(member.assignment)
        subscription = read_subscription(metadata)
    except WireError as error:
        raise NotConvertible(
            f"Classic group {group.group_id} cannot be upgraded: member {member.member_id} is not understood: {error}"
        ) from error
    if assignment.user_data:
        raise NotConvertible(
            f"Classic group {group.group_id} cannot be upgraded: the data of a custom assignor would be lost"
        )
    held: dict[Uuid, dict[int, int]] = {
        topic_id: dict.fromkeys(partitions, group.generation)
        for topic_id, partitions in assignment_target(assignment, cluster).items()
    }
    return Member(
        member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_names=frozenset(subscription.topics),
        assigned=assigned_from(held),
        classic=ClassicMember(member.session_timeout_ms, member.protocols),
    )


# -- back


def can_downgrade(group: ConsumerGroup, leaving: Collection[str], context: DecisionContext) -> bool:
    """Return whether those who stay are classic members, at least one, and the group may go back for them."""
    staying = [each for each in group.members.values() if each.id not in leaving]
    if not staying or any(each.classic is None for each in staying):
        return False
    is_allowed = settings_of(group.group_id, context).migration.downgrades
    return is_allowed and len(staying) <= context.settings.group_max_size


def downgrade(
    group: ConsumerGroup, leaving: Collection[str], context: DecisionContext, response: Message | None
) -> Decision:
    """Make a classic group of those who stay; they join again, since what the others held is free."""
    made = as_classic(group, [each for each in group.members.values() if each.id not in leaving], context)
    draft = ClassicDraft(made, context)
    for member_id in made.members:
        draft.renew_session(member_id)
    draft.prepare_rebalance()
    return joined_decisions(group, made, draft.decision(response))


def joined_decisions(group: ConsumerGroup, made: ClassicGroup, after: Decision) -> Decision:
    """Return a decision that removes the consumer group, writes the classic group, and goes on as that one decided."""
    assignments = {each.member_id: each.assignment for each in made.members.values()}
    gone = [
        TimerChange(Timer(group.group_id, kind, member_id), None)
        for member_id in group.members
        for kind in (SESSION, REBALANCE, JOIN, SYNC)
    ]
    return replace(
        after,
        records=(*group.tombstones(), classic.group_record(made, assignments), *after.records),
        timers=(*gone, *after.timers),
    )


def as_classic(group: ConsumerGroup, members: Collection[Member], context: DecisionContext) -> ClassicGroup:
    """Return a stable classic group of classic members, who are assigned what they shall hold."""
    made = ClassicGroup(group.group_id, state=State.STABLE, generation=group.epoch, state_since_ms=context.wall_ms)
    draft = ClassicDraft(made, context)
    for each in sorted(members, key=lambda member: member.id):  # the first leads: the same on every coordinator
        assert each.classic is not None
        draft.add(
            classic.Member(
                member_id=each.id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                session_timeout_ms=each.classic.session_timeout_ms,
                protocols=each.classic.protocols,
                assignment=_assignment(group, each, context.cluster),
            ),
            PROTOCOL_TYPE,
        )
    draft.protocol = draft.select_protocol()
    subscribed = frozenset[str]().union(*(each.subscribed_names for each in members))
    return replace(draft.group(), subscribed=subscribed)


def _assignment(group: ConsumerGroup, member: Member, cluster: Cluster) -> bytes:
    assert member.classic is not None
    version = assignment_version(member.classic.protocols)
    return assignment_bytes(group.target.get(member.id, EMPTY_TARGET), version, cluster)
