"""Members that go: they leave, fall silent, do not give partitions back in time, or are taken out by an admin."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.groups.consumer import records
from ottla.groups.consumer.draft import Draft
from ottla.groups.consumer.group import ConsumerGroup, metadata_hash
from ottla.groups.consumer.member import Member
from ottla.groups.consumer.migration import can_downgrade, downgrade
from ottla.groups.consumer.subscription import bump_epoch, drop_unused_regexes
from ottla.groups.decision import Decision, DecisionContext
from ottla.wire import Message

__all__ = ["fence"]


def fence(
    group: ConsumerGroup, members: Sequence[Member], context: DecisionContext, response: Message | None
) -> Decision:
    """Take members out of their group: their partitions are free from now on, and the others get a new epoch.

    Where only members of the classic protocol stay, the group becomes a classic one.
    """
    if not members:
        return Decision(response=response)
    leaving = {member.id for member in members}
    if can_downgrade(group, leaving, context):
        return downgrade(group, leaving, context, response)
    draft = Draft(group)
    for member in members:
        draft.extend(records.member_tombstones(group.group_id, member.id))
        draft.cancel_all(member.id)
    drop_unused_regexes(draft)
    bump_epoch(draft, metadata_hash(draft.group.all_subscribed_names(), context.cluster))
    return draft.decision(response)
