"""What the console changes: each action first says what would change, as a plan with a hash, and is then run by that hash.

A plan has the differences, what follows from them, what to be careful about, and the command that does the same. It is made
anew when it is run: where it would say something else by then, the world has moved and nothing is done. The functions take
a `BlockingClient`, as those of `ottla.admin`, of which they are made.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.admin import (
    AdminError,
    ConfigEntity,
    ResetKind,
    ResetTarget,
    TopicDescription,
    TopicToCreate,
    add_partitions,
    alter_config,
    create_topic,
    delete_groups,
    delete_topics,
    describe_config,
    describe_group,
    describe_topics,
    partitions_in_scope,
    plan_config_change,
    plan_offset_reset,
    plan_reset_to_offsets,
    reset_offsets,
)
from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient
from ottla.client import delete_records as delete_records_request

__all__ = ["ACTIONS", "ActionPlan", "Difference", "Undo", "plan_action"]

DIFFERENCES_MAX = 2000


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that changes; None stands for what is not there."""

    path: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Undo:
    """The action that takes a change back."""

    action: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What an action would do; `run` does it."""

    action: str
    arguments: Mapping[str, object]
    differences: tuple[Difference, ...]
    cli: str
    effects: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    typed: str | None = None
    """What has to be typed before: the name of what is lost for ever. None where the change can be taken back."""
    undo: Undo | None = None
    pinned: Mapping[str, object] | None = None
    """The arguments with what was found by them, where asking again would find something else: ends move on."""
    run: Callable[[BlockingClient], None] = field(repr=False, compare=False, kw_only=True)

    @property
    def hash(self) -> str:
        """What is the same as long as the action would change the same things."""
        said = [self.action, self.typed, [[each.path, each.before, each.after] for each in self.differences]]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()

    def shown(self) -> dict[str, object]:
        """Return the plan in JSON's terms."""
        return {
            "action": self.action,
            "hash": self.hash,
            "diff": [
                {"path": each.path, "before": each.before, "after": each.after}
                for each in self.differences[:DIFFERENCES_MAX]
            ],
            "left_out": max(0, len(self.differences) - DIFFERENCES_MAX),
            "effects": list(self.effects),
            "warnings": list(self.warnings),
            "cli": self.cli,
            "irreversible": self.typed is not None,
            "typed": self.typed,
            "undo": self.undo is not None,
        }


Arguments = Mapping[str, Any]
Planner = Callable[[BlockingClient, Arguments], ActionPlan]


def plan_action(client: BlockingClient, action: str, arguments: Arguments) -> ActionPlan:
    """Return the plan of an action; raises AdminError for one that makes no sense, KafkaError in the broker's words."""
    planner = ACTIONS.get(action)
    if planner is None:
        raise AdminError(f"There is no action {action}: there are {', '.join(sorted(ACTIONS))}")
    return planner(client, arguments)


def _text(arguments: Arguments, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise AdminError(f"{name} is needed: a text")
    return value


def _number(arguments: Arguments, name: str) -> int | None:
    value = arguments.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise AdminError(f"{name} is a whole number, not {value!r}")
    return value


def _settings(arguments: Arguments, name: str) -> dict[str, str]:
    value = arguments.get(name) or {}
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in (*value, *value.values())):
        raise AdminError(f"{name} maps names of settings to texts")
    return dict(value)


def _described(client: BlockingClient, topic: str) -> TopicDescription:
    for found in describe_topics(client, [topic]):
        return found
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}")


def _offsets(arguments: Arguments, topic: str) -> dict[TopicPartition, Offset] | None:
    """Return offsets that are given by partition, None where none are."""
    given = arguments.get("offsets")
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise AdminError("offsets maps partitions to offsets")
    try:
        return {TopicPartition(topic, int(index)): Offset(int(offset)) for index, offset in given.items()}
    except (TypeError, ValueError):
        raise AdminError("offsets maps partitions to offsets, both whole numbers") from None


def _pinned(arguments: Arguments, offsets: Mapping[TopicPartition, Offset]) -> dict[str, object]:
    return {**arguments, "offsets": {str(each.partition): int(offset) for each, offset in offsets.items()}}


def _command(*words: str) -> str:
    return shlex.join(("ottla", *words))


def _create_topic(client: BlockingClient, arguments: Arguments) -> ActionPlan:
    name, configs = _text(arguments, "topic"), _settings(arguments, "configs")
    partitions, copies = _number(arguments, "partitions"), _number(arguments, "replication_factor")
    topic = TopicToCreate(name, partitions, copies, configs=configs)
    create_topic(client, topic, validate_only=True)
    words = ["topics", "--create", "--topic", name]
    words += [] if partitions is None else ["--partitions", str(partitions)]
    words += [] if copies is None else ["--replication-factor", str(copies)]
    for key, value in configs.items():
        words += ["--config", f"{key}={value}"]
    said = {"partitions": partitions or "the brokers' default", "replication factor": copies or "the brokers' default"}
    return ActionPlan(
        "create-topic",
        dict(arguments),
        (
            *(Difference(f"topic {name}/{key}", None, value) for key, value in said.items()),
            *(Difference(f"topic {name}/{key}", None, value) for key, value in configs.items()),
        ),
        _command(*words),
        effects=(f"Topic {name} is there, empty.",),
        run=lambda each: create_topic(each, topic),
    )


def _delete_topic(client: BlockingClient, arguments: Arguments) -> ActionPlan:
    name = _text(arguments, "topic")
    found = _described(client, name)

    def run(each: BlockingClient) -> None:
        if error := delete_topics(each, [name])[name]:
            raise error

    return ActionPlan(
        "delete-topic",
        dict(arguments),
        (Difference(f"topic {name}/partitions", len(found.partitions), None),),
        _command("topics", "--delete", "--topic", name),
        effects=(
            "All of its records are deleted, on every broker.",
            "Offsets that groups have committed for it go too.",
        ),
        warnings=("Clients that go on writing may make it anew, where auto.create.topics.enable is on.",),
        typed=name,
        run=run,
    )


def _add_partitions(client: BlockingClient, arguments: Arguments) -> ActionPlan:
    name, count = _text(arguments, "topic"), _number(arguments, "partitions")
    found = _described(client, name)
    if count is None or count <= len(found.partitions):
        raise AdminError(f"{name} has {len(found.partitions)} partitions: it can only get more")
    return ActionPlan(
        "add-partitions",
        dict(arguments),
        (Difference(f"topic {name}/partitions", len(found.partitions), count),),
        _command("topics", "--alter", "--topic", name, "--partitions", str(count)),
        effects=("Records with keys go to other partitions than before: the order by key breaks at this moment.",),
        warnings=("Partitions cannot be taken away again.",),
        typed=name,
        run=lambda each: add_partitions(each, [name], count=count),
    )


def _empty_topic(client: BlockingClient, arguments: Arguments) -> ActionPlan:
    name = _text(arguments, "topic")
    partitions = partitions_in_scope(client, {name: None})
    starts = client.list_offsets(dict.fromkeys(partitions, EARLIEST))
    before = _offsets(arguments, name)
    if before is None:
        ends = client.list_offsets(dict.fromkeys(partitions, LATEST))
        before = {each: Offset(ends[each].offset) for each in partitions if ends[each].offset > starts[each].offset}
    if not before:
        raise AdminError(f"{name} is empty")

    def run(each: BlockingClient) -> None:
        for done in each.run(delete_records_request(each.client, before)).values():
            if done.error:
                raise KafkaError(done.error, done.error.name)

    rows = [{"topic": each.topic, "partition": each.partition, "offset": offset} for each, offset in before.items()]
    return ActionPlan(
        "empty-topic",
        dict(arguments),
        tuple(
            Difference(f"{each}/first offset", int(starts[each].offset), int(offset)) for each, offset in before.items()
        ),
        f"echo {shlex.quote(json.dumps({'version': 1, 'partitions': rows}))} > offsets.json; "
        + _command("delete-records", "--offset-json-file", "offsets.json"),
        effects=("The records before these offsets are deleted; offsets go on from there.",),
        typed=name,
        pinned=_pinned(arguments, before),
        run=run,
    )


def _alter_config(client: BlockingClient, arguments: Arguments) -> ActionPlan:
    entity = ConfigEntity(_text(arguments, "type"), str(arguments.get("name", "")))
    added = _settings(arguments, "set")
    dropped = arguments.get("delete") or []
    if (
        not isinstance(dropped, Sequence)
        or isinstance(dropped, str)
        or not all(isinstance(each, str) for each in dropped)
    ):
        raise AdminError("delete is a list of names of settings")
    if entity.type not in ("topics", "brokers", "groups"):
        raise AdminError("type is topics, brokers or groups")
    if not added and not dropped:
        raise AdminError("Nothing would change: set or delete something")
    known = {each.name: each for each in describe_config(client, entity)}
    change = plan_config_change(client, entity, added, dropped)
    alter_config(client, change, validate_only=True)
    secret = {name for name in (*added, *dropped) if name in known and known[name].sensitive}
    own = {name: each.value for name, each in known.items() if each.is_set_for(entity) and each.value is not None}
    words = ["configs", "--alter", "--entity-type", entity.type]
    words += ["--entity-name", entity.name] if entity.name else ["--entity-default"]
    words += ["--add-config", ",".join(f"{key}={_bracketed(value)}" for key, value in added.items())] if added else []
    words += ["--delete-config", ",".join(dropped)] if dropped else []
    before = {name: known[name].value if name in known else None for name in (*added, *dropped)}
    undo = Undo(
        "alter-config",
        {
            "type": entity.type,
            "name": entity.name or "",
            "set": {name: own[name] for name in (*added, *dropped) if name in own},
            "delete": [name for name in added if name not in own],
        },
    )
    what = entity.singular if entity.name else f"all {entity.type}"
    return ActionPlan(
        "alter-config",
        dict(arguments),
        tuple(
            Difference(
                f"{what} {entity.name or ''}/{name}".replace(" /", "/"),
                "(hidden)" if name in secret else before[name],
                "(hidden)" if name in secret else added.get(name),
            )
            for name in (*added, *dropped)
        ),
        _command(*words),
        effects=("It holds at once, and after restarts.",),
        undo=None if secret else undo,
        run=lambda each: alter_config(each, change),
    )


def _bracketed(value: str) -> str:
    return f"[{value}]" if "," in value else value


def _reset_offsets(client: BlockingClient, arguments: Arguments) -> ActionPlan:
    group, topic = _text(arguments, "group"), _text(arguments, "topic")
    given = arguments.get("partitions")
    scope = {topic: list(given) if isinstance(given, Sequence) and not isinstance(given, str) else None}
    described = describe_group(client, group)
    if not described.is_inactive:
        names = ", ".join(sorted(each.client_id or each.member_id for each in described.members)[:5])
        raise AdminError(f"Group {group} is {described.state}: stop its members first ({names})")
    try:
        kind = ResetKind(_text(arguments, "to"))
    except ValueError:
        raise AdminError(f"to is one of {', '.join(each.value for each in ResetKind)}") from None
    value = _number(arguments, "value") or 0
    offsets = _offsets(arguments, topic)
    if offsets is None:
        partitions = partitions_in_scope(client, scope)
        offsets = dict(plan_offset_reset(client, group, partitions, ResetTarget(kind, value)).offsets)
    words = _reset_words(group, topic, given, kind, value)
    return _offsets_plan(client, "reset-offsets", arguments, group, topic, offsets, _command(*words))


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
        pinned=_pinned(arguments, offsets),
        run=lambda each: reset_offsets(each, plan),
    )


def _restore_offsets(client: BlockingClient, arguments: Arguments) -> ActionPlan:
    group, topic = _text(arguments, "group"), _text(arguments, "topic")
    wanted = _offsets(arguments, topic)
    if wanted is None:
        raise AdminError("offsets is needed: it maps partitions to offsets")
    described = describe_group(client, group)
    if not described.is_inactive:
        raise AdminError(f"Group {group} is {described.state}: stop its members first")
    lines = "".join(f"{each.topic},{each.partition},{offset}\\n" for each, offset in sorted(wanted.items()))
    command = _command(
        "consumer-groups", "--reset-offsets", "--group", group, "--from-file", "offsets.csv", "--execute"
    )
    cli = f"printf '{lines}' > offsets.csv; {command}"
    return _offsets_plan(client, "restore-offsets", arguments, group, topic, wanted, cli)


def _delete_group(client: BlockingClient, arguments: Arguments) -> ActionPlan:
    group = _text(arguments, "group")
    described = describe_group(client, group)
    if not described.is_inactive:
        raise AdminError(f"Group {group} is {described.state}: stop its members first")
    known = client.committed_offsets(group)

    def run(each: BlockingClient) -> None:
        code = delete_groups(each, [group])[group]
        if code:
            raise KafkaError(code, f"Group {group}: {code.name}")

    return ActionPlan(
        "delete-group",
        dict(arguments),
        tuple(Difference(f"{each}/offset", int(offset.offset), None) for each, offset in known.items()),
        _command("consumer-groups", "--delete", "--group", group),
        effects=("All that it has committed is forgotten; who comes back begins by auto.offset.reset.",),
        typed=group,
        run=run,
    )


ACTIONS: Mapping[str, Planner] = {
    "create-topic": _create_topic,
    "delete-topic": _delete_topic,
    "add-partitions": _add_partitions,
    "empty-topic": _empty_topic,
    "alter-config": _alter_config,
    "reset-offsets": _reset_offsets,
    "restore-offsets": _restore_offsets,
    "delete-group": _delete_group,
}
