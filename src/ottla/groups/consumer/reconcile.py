"""A member's next step towards its target assignment (KIP-848): give back first, then receive.

A member keeps its epoch until it has given back what the target takes from it; only then it moves to the target's epoch
and receives what is free by now. What another member still holds it waits for (UNRELEASED_PARTITIONS).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from immutables import Map

from ottla.base import ErrorCode, KafkaError, Uuid
from ottla.groups.consumer.group import EMPTY_TARGET, ConsumerGroup
from ottla.groups.consumer.member import Assigned, Member, MemberState, assigned_from, assigned_union
from ottla.groups.decision import Cluster

__all__ = ["Owned", "owns_any", "reconciled", "subscribed_topic_ids"]

Owned = Mapping[Uuid, Set[int]]
"""What a member says that it owns, in a heartbeat."""
_NOTHING_GIVEN: Map[int, int] = Map()
_NO_PARTITIONS: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Step:
    """The partitions of one step, sorted by what happens to them."""

    kept: dict[Uuid, dict[int, int]]
    revoked: dict[Uuid, dict[int, int]]
    given: dict[Uuid, dict[int, int]]
    is_waiting: bool


def subscribed_topic_ids(group: ConsumerGroup, member: Member, cluster: Cluster) -> set[Uuid]:
    """Return the ids of the topics that a member asks for and that exist."""
    found = (cluster.topic(name) for name in group.subscribed_names(member))
    return {topic.id for topic in found if topic is not None}


def reconciled(
    group: ConsumerGroup, member: Member, cluster: Cluster, owned: Owned | None, *, has_subscription_changed: bool
) -> Member:
    """Return the member after its next step, or the same where there is none.

    `owned` is None where the request does not say; raises FENCED_MEMBER_EPOCH for a member in a state that is not known.
    """
    epoch = group.assignment_epoch
    if member.state == MemberState.STABLE:
        if member.epoch != epoch:
            return _next(group, member, cluster, owned, member.epoch)
        return _without_unsubscribed(group, member, cluster, owned) if has_subscription_changed else member
    if member.state == MemberState.UNREVOKED_PARTITIONS:
        if owns_any(owned, member.pending_revocation):
            return _without_unsubscribed(group, member, cluster, owned) if has_subscription_changed else member
        return _next(group, member, cluster, owned, min(member.epoch + 1, epoch))
    if member.state == MemberState.UNRELEASED_PARTITIONS:
        return _next(group, member, cluster, owned, member.epoch)
    if owned is None or any(owned.values()):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Member {member.id} is in a state of a later version; it must give up its partitions and join again",
        )
    return _next(group, member, cluster, owned, epoch)


def owns_any(owned: Owned | None, partitions: Assigned) -> bool:
    """Return whether a member may still own any of these; it may where it did not say."""
    if owned is None:
        return True
    return any(each in partitions.get(topic_id, _NOTHING_GIVEN) for topic_id, owns in owned.items() for each in owns)


def _next(group: ConsumerGroup, member: Member, cluster: Cluster, owned: Owned | None, epoch: int) -> Member:
    step = _step(group, member, subscribed_topic_ids(group, member, cluster))
    kept, revoked = assigned_from(step.kept), assigned_from(step.revoked)
    if revoked and owns_any(owned, revoked):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    state = MemberState.UNRELEASED_PARTITIONS if step.is_waiting else MemberState.STABLE
    assigned = assigned_union(kept, assigned_from(step.given)) if step.given else kept
    return _moved(member, group.assignment_epoch, state, assigned, Map())


def _moved(member: Member, epoch: int, state: MemberState, assigned: Assigned, revoked: Assigned) -> Member:
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        pending_revocation=revoked,
    )


def _step(group: ConsumerGroup, member: Member, topic_ids: set[Uuid]) -> _Step:
    target = group.target.get(member.id, EMPTY_TARGET)
    step = _Step({}, {}, {}, False)
    for topic_id in {*target, *member.assigned}:
        wanted = target.get(topic_id, _NO_PARTITIONS) if topic_id in topic_ids else _NO_PARTITIONS
        has = member.assigned.get(topic_id, _NOTHING_GIVEN)
        step.kept[topic_id] = {each: epoch for each, epoch in has.items() if each in wanted}
        step.revoked[topic_id] = {each: epoch for each, epoch in has.items() if each not in wanted}
        missing = [each for each in wanted if each not in has]
        free = [each for each in missing if group.owner(topic_id, each) in (None, member.id)]
        step.is_waiting = step.is_waiting or len(free) < len(missing)
        if free:
            step.given[topic_id] = dict.fromkeys(free, group.assignment_epoch)
    return step


def _without_unsubscribed(group: ConsumerGroup, member: Member, cluster: Cluster, owned: Owned | None) -> Member:
    """Return the member without topics that it no longer asks for, though no new target has been computed yet."""
    topic_ids = subscribed_topic_ids(group, member, cluster)
    gone = [topic_id for topic_id in member.assigned if topic_id not in topic_ids]
    if not gone:
        return member
    kept = assigned_from({topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in gone})
    dropped = assigned_from({topic_id: member.assigned[topic_id] for topic_id in gone})
    revoked = assigned_union(member.pending_revocation, dropped)
    if owns_any(owned, revoked):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked)
    return replace(member, assigned=kept)
