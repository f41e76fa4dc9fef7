"""Groups: what they have committed is set, taken back, and deleted with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.admin.actions.plan import (
    ActionPlan,
    Arguments,
    Difference,
    Planner,
    Reach,
    Undo,
    command,
    number,
    offsets_of,
    pinned,
    text,
)
from ottla.admin.errors import AdminError
from ottla.admin.group_offsets import (
    ResetKind,
    ResetTarget,
    delete_groups,
    partitions_in_scope,
    plan_offset_reset,
    plan_reset_to_offsets,
    reset_offsets,
)
from ottla.admin.groups import describe_group
from ottla.base import KafkaError, Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["GROUPS"]


def _reset_offsets(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    group, topic = text(arguments, "group"), text(arguments, "topic")
    given = arguments.get("partitions")
    scope = {topic: list(given) if isinstance(given, Sequence) and not isinstance(given, str) else None}
    described = describe_group(client, group)
    if not described.is_inactive:
        names = ", ".join(sorted(each.client_id or each.member_id for each in described.members)[:5])
        raise AdminError(f"Group {group} is {described.state}: stop its members first ({names})")
    try:
        kind = ResetKind(text(arguments, "to"))
    except ValueError:
        raise AdminError(f"to is one of {', '.join(each.value for each in ResetKind)}") from None
    value = number(arguments, "value") or 0
    offsets = offsets_of(arguments, topic)
    if offsets is None:
        partitions = partitions_in_scope(client, scope)
        offsets = dict(plan_offset_reset(client, group, partitions, ResetTarget(kind, value)).offsets)
    words = _reset_words(group, topic, given, kind, value)
    return _offsets_plan(client, "reset-offsets", arguments, group, topic, offsets, command(*words))


def _reset_words(group: str, topic: str, partitions: object, kind: ResetKind, value: int) -> list[str]:
    where = {
        ResetKind.EARLIEST: ["--to-earliest"],
        ResetKind.LATEST: ["--to-latest"],
        ResetKind.CURRENT: ["--to-current"],
        ResetKind.OFFSET: ["--to-offset", str(value)],
        ResetKind.SHIFT: ["--shift-by", str(value)],
    }.get(kind) or ["--to-datetime", _iso(value)]
    place = f"{topic}:{','.join(map(str, partitions))}" if isinstance(partitions, Sequence) else topic
    return ["consumer-groups", "--reset-offsets", "--group", group, "--topic", place, *where, "--execute"]


def _iso(at_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03}"


def _offsets_plan(
    client: BlockingClient,
    action: str,
    arguments: Arguments,
    group: str,
    topic: str,
    offsets: Mapping[TopicPartition, Offset],
    cli: str,
) -> ActionPlan:
    from ottla.client import LATEST

    known = client.committed_offsets(group)
    ends = client.list_offsets(dict.fromkeys(offsets, LATEST))
    moved = {each: offset for each, offset in offsets.items() if each not in known or known[each].offset != offset}
    again = sum(max(0, int(known[each].offset) - int(offset)) for each, offset in moved.items() if each in known)
    left_out = sum(max(0, int(offset) - int(known[each].offset)) for each, offset in moved.items() if each in known)
    lag = sum(max(0, int(ends[each].offset) - int(offset)) for each, offset in offsets.items())
    effects = [f"{lag:,} records of {topic} are then still to be read."]
    effects += [f"{again:,} records are read again."] if again else []
    effects += [f"{left_out:,} records are never read by this group."] if left_out else []
    plan = plan_reset_to_offsets(client, group, moved)
    undo = {str(each.partition): int(known[each].offset) for each in moved if each in known}
    return ActionPlan(
        action,
        dict(arguments),
        tuple(
            Difference(f"{each}/offset", int(known[each].offset) if each in known else None, int(offset))
            for each, offset in sorted(moved.items())
        ),
        cli,
        effects=tuple(effects),
        warnings=("Nothing would change.",) if not moved else (),
        undo=Undo("restore-offsets", {"group": group, "topic": topic, "offsets": undo})
        if moved and len(undo) == len(moved)
        else None,
        pinned=pinned(arguments, offsets),
        run=lambda each: reset_offsets(each.client, plan),
    )


def _restore_offsets(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    group, topic = text(arguments, "group"), text(arguments, "topic")
    wanted = offsets_of(arguments, topic)
    if wanted is None:
        raise AdminError("offsets is needed: it maps partitions to offsets")
    described = describe_group(client, group)
    if not described.is_inactive:
        raise AdminError(f"Group {group} is {described.state}: stop its members first")
    lines = "".join(f"{each.topic},{each.partition},{offset}\\n" for each, offset in sorted(wanted.items()))
    words = command("consumer-groups", "--reset-offsets", "--group", group, "--from-file", "offsets.csv", "--execute")
    cli = f"printf '{lines}' > offsets.csv; {words}"
    return _offsets_plan(client, "restore-offsets", arguments, group, topic, wanted, cli)


def _delete_group(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    group = text(arguments, "group")
    described = describe_group(client, group)
    if not described.is_inactive:
        raise AdminError(f"Group {group} is {described.state}: stop its members first")
    known = client.committed_offsets(group)

    def run(each: Reach) -> None:
        code = delete_groups(each.client, [group])[group]
        if code:
            raise KafkaError(code, f"Group {group}: {code.name}")

    return ActionPlan(
        "delete-group",
        dict(arguments),
        tuple(Difference(f"{each}/offset", int(offset.offset), None) for each, offset in known.items()),
        command("consumer-groups", "--delete", "--group", group),
        effects=("All that it has committed is forgotten; who comes back begins by auto.offset.reset.",),
        typed=group,
        run=run,
    )


GROUPS: Mapping[str, Planner] = {
    "reset-offsets": _reset_offsets,
    "restore-offsets": _restore_offsets,
    "delete-group": _delete_group,
}
