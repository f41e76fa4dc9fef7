"""What a group subscribes to, compared with the cluster: expressions are looked up, and changes bump the group epoch."""

from __future__ import annotations

from ottla.groups.consumer import records
from ottla.groups.consumer.draft import Draft
from ottla.groups.consumer.group import metadata_hash
from ottla.groups.consumer.member import Member
from ottla.groups.consumer.regex import REFRESH_MS_MIN, check_regex, resolve
from ottla.groups.consumer.settings import ConsumerSettings
from ottla.groups.decision import DecisionContext, RequestOrigin

__all__ = ["bump_epoch", "drop_unused_regexes", "update_epoch", "update_regexes", "write_member"]


def write_member(draft: Draft, member: Member, updated: Member) -> bool:
    """Write what a member asks for where it is new or differs; return whether its subscription changed."""
    if member == updated and member.id in draft.group.members:
        return False
    if updated.subscribed_regex and updated.subscribed_regex not in draft.group.regex_counts:
        check_regex(updated.subscribed_regex)
    draft.add(records.member_metadata(draft.group.group_id, updated))
    drop_unused_regexes(draft)
    return (member.subscribed_names, member.subscribed_regex) != (updated.subscribed_names, updated.subscribed_regex)


def drop_unused_regexes(draft: Draft) -> None:
    """Take away expressions that no member asks for any more."""
    group = draft.group
    if len(group.regexes) > len(group.regex_counts) or any(each not in group.regex_counts for each in group.regexes):
        unused = [each for each in group.regexes if each not in group.regex_counts]
        draft.extend(records.regular_expression(group.group_id, each, None) for each in sorted(unused))


def update_regexes(draft: Draft, settings: ConsumerSettings, origin: RequestOrigin, context: DecisionContext) -> bool:
    """Look up expressions that are new, or all of them when they may be out of date; return whether any changed.

    The topics of one expression are those that the asker may describe, whoever else uses the expression (as in Kafka).
    """
    group = draft.group
    if not group.regex_counts:
        return False
    cluster = context.cluster
    missing = [each for each in group.regex_counts if each not in group.regexes]
    is_stale = cluster.version != group.regexes_version or (
        context.now_ms >= group.regexes_checked_ms + settings.regex_refresh_interval_ms
    )
    if is_stale and context.now_ms >= group.regexes_checked_ms + REFRESH_MS_MIN:
        draft.note_regexes(cluster.version, context.now_ms)
        missing = list(group.regex_counts)
    names = list(cluster.topic_names()) if missing else []
    changed = False
    for pattern in sorted(missing):
        found = resolve(pattern, names, origin.may_describe, version=cluster.version, now_ms=context.now_ms)
        before = group.regexes.get(pattern)
        if before is None or before.topics != found.topics:
            draft.add(records.regular_expression(group.group_id, pattern, found))
            changed = True
    return changed


def update_epoch(draft: Draft, context: DecisionContext, *, has_changed: bool) -> None:
    """Bump the group epoch where subscriptions changed, or subscribed topics did since they were last compared."""
    group = draft.group
    if not has_changed and group.checked_version == context.cluster.version:
        return
    found = metadata_hash(group.all_subscribed_names(), context.cluster)
    if has_changed or found != group.metadata_hash:
        bump_epoch(draft, found)
    if draft.group.has_subscription_metadata:
        draft.add(records.subscription_metadata_tombstone(group.group_id))
    draft.note_topics(context.cluster.version)


def bump_epoch(draft: Draft, found: int) -> None:
    """Write the next group epoch with the hash of the topics for which it is."""
    draft.add(records.group_epoch(draft.group.group_id, draft.group.epoch + 1, found))
