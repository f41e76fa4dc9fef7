"""The target assignment: computed for a group epoch by the assignor that most members ask for."""

from __future__ import annotations

from collections import Counter

from immutables import Map

from ottla.base import Uuid
from ottla.groups.consumer import records
from ottla.groups.consumer.assignment import Subscriptions
from ottla.groups.consumer.assignors import ASSIGNORS
from ottla.groups.consumer.draft import Draft
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import Member, target_from
from ottla.groups.consumer.reconcile import subscribed_topic_ids
from ottla.groups.consumer.settings import ConsumerSettings
from ottla.groups.decision import Cluster, DecisionContext

__all__ = ["preferred_assignor", "update_target"]


def preferred_assignor(group: ConsumerGroup, names: tuple[str, ...]) -> str:
    """Return the assignor that most members ask for, of equals the one that is configured first."""
    votes = Counter(member.server_assignor for member in group.members.values() if member.server_assignor in names)
    return max(names, key=lambda name: votes[name])


def update_target(draft: Draft, settings: ConsumerSettings, context: DecisionContext) -> None:
    """Compute the target for the group's epoch where it has none yet.

    A group that changes again within the assignment interval waits for it, so that many members who come at once cost few
    computations: the first heartbeat after it computes for all of them.
    """
    group = draft.group
    if group.assignment_epoch >= group.epoch:
        return
    age_ms = context.wall_ms - group.assignment_timestamp_ms
    if group.assignment_timestamp_ms and 0 <= age_ms < settings.assignment_interval_ms:  # a clock may be set back
        return
    assign = ASSIGNORS[preferred_assignor(group, settings.assignors)]
    for member_id, partitions in assign(_subscriptions(group, context.cluster)).items():
        target = target_from(partitions)
        if group.target.get(member_id) != target:
            draft.add(records.target_assignment(group.group_id, member_id, target))
    draft.add(records.target_epoch(group.group_id, group.epoch, context.wall_ms))


def _subscriptions(group: ConsumerGroup, cluster: Cluster) -> Subscriptions:
    """Members come in the order of instance ids, then of member ids: a static member finds its old place again."""
    topic_ids: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}
    members: dict[str, frozenset[Uuid]] = {}
    for member in sorted(group.members.values(), key=_place):
        asks = member.subscribed_names, member.subscribed_regex
        if asks not in topic_ids:
            topic_ids[asks] = frozenset(subscribed_topic_ids(group, member, cluster))
        members[member.id] = topic_ids[asks]
    partitions: dict[Uuid, int] = {}
    for topic_id in frozenset[Uuid]().union(*topic_ids.values()):
        topic = cluster.topic_by_id(topic_id)
        partitions[topic_id] = topic.partitions if topic is not None else 0
    return Subscriptions(members=members, partitions=partitions, target=Map(group.target))


def _place(member: Member) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member.id)
