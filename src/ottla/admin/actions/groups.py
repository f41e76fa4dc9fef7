"""Groups: what they have committed, or where share groups begin, is set, taken back, and deleted with them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    delete_offsets,
    partitions_in_scope,
    plan_offset_deletion,
    plan_offset_reset,
    plan_reset_to_offsets,
    reset_offsets,
)
from ottla.admin.groups import GroupDescription, describe_group
from ottla.admin.share_groups import alter_share_starts, delete_share_starts, describe_share_group, share_starts
from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["GROUPS"]

_OF_SHARE = (ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.TIME, ResetKind.OFFSET)
"""Where a share group can be reset to, which has committed nothing to count from."""
NO_COMMAND = "# no command of Kafka's or Ottla's sets single offsets of a share group"


@dataclass(frozen=True)
class _Group:
    """A group that plans are made of: of consumers, or one whose members share partitions (KIP-932)."""

    described: GroupDescription
    is_share: bool

    @classmethod
    def of(cls, client: BlockingClient, name: str) -> _Group:
        """Ask for it; raises AdminError where it has members, GROUP_ID_NOT_FOUND where there is none."""
        try:
            found = cls(describe_group(client, name), is_share=False)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            try:
                found = cls(describe_share_group(client, name), is_share=True)
            except KafkaError:  # none of these either, or a broker that knows nothing of share groups
                raise error from None
        described = found.described
        if not described.is_inactive:
            names = ", ".join(sorted(each.client_id or each.member_id for each in described.members)[:5])
            raise AdminError(f"Group {name} is {described.state}: stop its members first ({names})")
        return found

    def offsets(self, client: BlockingClient) -> dict[TopicPartition, Offset]:
        """Return where it goes on in each partition that it knows."""
        name = self.described.group
        if self.is_share:
            return share_starts(client, name)
        return {each: found.offset for each, found in client.committed_offsets(name).items()}


def _reset_offsets(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    group, topic = text(arguments, "group"), text(arguments, "topic")
    given = arguments.get("partitions")
    scope = {topic: list(given) if isinstance(given, Sequence) and not isinstance(given, str) else None}
    found = _Group.of(client, group)
    try:
        kind = ResetKind(text(arguments, "to"))
    except ValueError:
        raise AdminError(f"to is one of {', '.join(each.value for each in ResetKind)}") from None
    if found.is_share and kind not in _OF_SHARE:
        raise AdminError(f"A share group is reset to one of {', '.join(each.value for each in _OF_SHARE)}")
    value = number(arguments, "value") or 0
    offsets = offsets_of(arguments, topic)
    if offsets is None:
        partitions = partitions_in_scope(client, scope)
        offsets = dict(plan_offset_reset(client, group, partitions, ResetTarget(kind, value)).offsets)
    place = f"{topic}:{','.join(map(str, given))}" if isinstance(given, Sequence) else topic
    cli = (_share_reset if found.is_share else _reset)(group, place, kind, value)
    return _offsets_plan(client, "reset-offsets", arguments, found, topic, offsets, cli)


def _share_reset(group: str, place: str, kind: ResetKind, value: int) -> str:
    """Return the command of Kafka's own tool."""
    where = {ResetKind.EARLIEST: ["--to-earliest"], ResetKind.LATEST: ["--to-latest"]}.get(kind)
    if kind is ResetKind.OFFSET:
        return NO_COMMAND
    words = ["--group", group, "--reset-offsets", "--topic", place, *(where or ["--to-datetime", _iso(value)])]
    return shlex.join(("kafka-share-groups.sh", *words, "--execute"))


def _reset(group: str, place: str, kind: ResetKind, value: int) -> str:
    where = {
        ResetKind.EARLIEST: ["--to-earliest"],
        ResetKind.LATEST: ["--to-latest"],
        ResetKind.CURRENT: ["--to-current"],
        ResetKind.OFFSET: ["--to-offset", str(value)],
        ResetKind.SHIFT: ["--shift-by", str(value)],
    }.get(kind) or ["--to-datetime", _iso(value)]
    return command("consumer-groups", "--reset-offsets", "--group", group, "--topic", place, *where, "--execute")


def _iso(at_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03}"


def _offsets_plan(
    client: BlockingClient,
    action: str,
    arguments: Arguments,
    group: _Group,
    topic: str,
    offsets: Mapping[TopicPartition, Offset],
    cli: str,
) -> ActionPlan:
    from ottla.client import LATEST

    known, name = group.offsets(client), group.described.group
    ends = client.list_offsets(dict.fromkeys(offsets, LATEST))
    moved = {each: offset for each, offset in offsets.items() if known.get(each) != offset}
    again = sum(max(0, int(known[each]) - int(offset)) for each, offset in moved.items() if each in known)
    left_out = sum(max(0, int(offset) - int(known[each])) for each, offset in moved.items() if each in known)
    lag = sum(max(0, int(ends[each].offset) - int(offset)) for each, offset in offsets.items())
    effects = [f"{lag:,} records of {topic} are then still to be read."]
    effects += [f"{again:,} records are read again."] if again else []
    effects += [f"{left_out:,} records are never read by this group."] if left_out else []
    plan = plan_reset_to_offsets(client, name, moved)
    undo = {str(each.partition): int(known[each]) for each in moved if each in known}
    return ActionPlan(
        action,
        dict(arguments),
        tuple(
            Difference(f"{each}/offset", int(known[each]) if each in known else None, int(offset))
            for each, offset in sorted(moved.items())
        ),
        cli,
        effects=tuple(effects),
        warnings=("Nothing would change.",) if not moved else (),
        undo=Undo("restore-offsets", {"group": name, "topic": topic, "offsets": undo})
        if moved and len(undo) == len(moved)
        else None,
        pinned=pinned(arguments, offsets),
        run=lambda each: (
            alter_share_starts(each.client, name, plan.offsets) if group.is_share else reset_offsets(each.client, plan)
        ),
    )


def _restore_offsets(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    group, topic = text(arguments, "group"), text(arguments, "topic")
    wanted = offsets_of(arguments, topic)
    if wanted is None:
        raise AdminError("offsets is needed: it maps partitions to offsets")
    found = _Group.of(client, group)
    if found.is_share:
        return _offsets_plan(client, "restore-offsets", arguments, found, topic, wanted, NO_COMMAND)
    lines = "".join(f"{each.topic},{each.partition},{offset}\\n" for each, offset in sorted(wanted.items()))
    words = command("consumer-groups", "--reset-offsets", "--group", group, "--from-file", "offsets.csv", "--execute")
    cli = f"printf '{lines}' > offsets.csv; {words}"
    return _offsets_plan(client, "restore-offsets", arguments, found, topic, wanted, cli)


def _delete_group(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    group = text(arguments, "group")
    found = _Group.of(client, group)
    known = found.offsets(client)
    reset = "share.auto.offset.reset" if found.is_share else "auto.offset.reset"
    cli = command("consumer-groups", "--delete", "--group", group)
    if found.is_share:
        cli = shlex.join(("kafka-share-groups.sh", "--delete", "--group", group))

    def run(each: Reach) -> None:
        code = delete_groups(each.client, [group])[group]
        if code:
            raise KafkaError(code, f"Group {group}: {code.name}")

    return ActionPlan(
        "delete-group",
        dict(arguments),
        tuple(Difference(f"{each}/offset", int(offset), None) for each, offset in known.items()),
        cli,
        effects=(f"How far it is is forgotten; who comes back begins by {reset}.",),
        typed=group,
        run=run,
    )


def _forget_topic(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    group, topic = text(arguments, "group"), text(arguments, "topic")
    found = _Group.of(client, group)
    known = {each: offset for each, offset in found.offsets(client).items() if each.topic == topic}
    if not known:
        raise AdminError(f"Group {group} has nothing of {topic} to forget")
    words = ("--delete-offsets", "--group", group, "--topic", topic)
    cli = shlex.join(("kafka-share-groups.sh", *words)) if found.is_share else command("consumer-groups", *words)

    def run(each: Reach) -> None:
        if found.is_share:
            delete_share_starts(each.client, group, topic)
            return
        scope = {topic: [place.partition for place in known]}
        result = delete_offsets(each.client, plan_offset_deletion(each.client, group, scope))
        for place, code in result.partitions.items():
            if code:
                raise KafkaError(code, f"{place} of group {group}: {code.name}")

    reset = "share.auto.offset.reset" if found.is_share else "auto.offset.reset"
    offsets = {str(each.partition): int(offset) for each, offset in known.items()}
    return ActionPlan(
        "forget-topic",
        dict(arguments),
        tuple(Difference(f"{each}/offset", int(offset), None) for each, offset in sorted(known.items())),
        cli,
        effects=(f"How far it is in {topic} is forgotten; who reads it again begins by {reset}.",),
        undo=Undo("restore-offsets", {"group": group, "topic": topic, "offsets": offsets}),
        run=run,
    )


GROUPS: Mapping[str, Planner] = {
    "reset-offsets": _reset_offsets,
    "restore-offsets": _restore_offsets,
    "forget-topic": _forget_topic,
    "delete-group": _delete_group,
}
