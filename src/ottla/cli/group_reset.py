"""`ottla consumer-groups --reset-offsets`: where a group shall go on, planned first and committed with `--execute`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin import by_topic, describe_group, words
from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.cli.group_description import print_columns
from ottla.cli.options import UsageError, warn
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from ottla.client import BlockingClient

__all__ = ["SCENARIOS", "ParsedScope", "parse_duration", "parse_scope", "reset_offsets"]

SCENARIOS = (
    "shift-by",
    "to-offset",
    "to-earliest",
    "to-current",
    "to-latest",
    "by-duration",
    "to-datetime",
    "from-file",
)
"""The options that say where to, in the order in which Kafka lists them."""
DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
UNIT_MS = (86_400_000, 3_600_000, 60_000, 1000)
DATETIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{1,3})(Z|[+-]\d\d:?\d\d)?", re.ASCII)
Plan = dict[TopicPartition, Offset]
ParsedScope = dict[str, list[int] | None]
"""Topic -> its partitions, or None for all of them."""


@dataclass(frozen=True)
class Scenario:
    """Where to: the option's name and its value."""

    name: str
    value: str | int | bool


def parse_scope(topics: Iterable[str]) -> ParsedScope:
    """Parse `topic` and `topic:0,1`; raises UsageError for a partition that is no number."""
    found: ParsedScope = {}
    for text in topics:
        name, colon, partitions = text.partition(":")
        if not colon:
            found[name] = None
            continue
        for part in partitions.split(","):
            if not part.isdecimal():
                raise UsageError(f"Invalid partition '{part}' specified in topic arg '{text}''")
            already = found.setdefault(name, [])
            if already is not None:
                already.append(int(part))
    return found


def parse_duration(text: str) -> Millis:
    """Return the milliseconds of `PnDTnHnMnS` as Java's Duration reads it; raises KafkaError for what is none."""
    match = DURATION.fullmatch(text)
    numbers = match.group(2, 4, 5, 6) if match else ()
    if match is None or not any(numbers) or (match[3] or "").upper() == "T":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Text cannot be parsed to a Duration")
    total = sum(int(number) * unit for number, unit in zip(numbers, UNIT_MS, strict=True) if number)
    fraction = int((match[7] or "0").ljust(9, "0")) // 1_000_000
    total += -fraction if (match[6] or "").startswith("-") else fraction
    return Millis(-total if match[1] == "-" else total)


def parse_datetime(text: str) -> Millis:
    """Return the time of `YYYY-MM-DDThh:mm:ss.sss` with or without a zone (UTC); raises KafkaError for anything else."""
    from datetime import UTC, datetime

    if "T" not in text:
        message = (
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    match = DATETIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        zone = "+00:00" if match[3] in (None, "Z") else match[3]
        moment = datetime.fromisoformat(match[1] + zone)
    except ValueError:
        shown = text if re.search(r"(Z|[+-]\d\d:?\d\d)$", text) else f"{text}Z"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f'java.text.ParseException: Unparseable date: "{shown}"') from None
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return Millis((since.days * 86_400 + since.seconds) * 1000 + int(match[2]))


def reset_offsets(client: BlockingClient, args: Namespace, groups: Sequence[str]) -> bool:
    """Plan, commit where asked to, and print; returns False where a group was left out because it is active."""
    if not (args.execute or args.dry_run):
        warn("WARN: No action will be performed as the --execute option is missing.")
    plans: dict[str, Plan] = {}
    complete = True
    for group in groups:
        state = state_of(client, group)
        if state not in ("Empty", "Dead"):
            complete = False
            text = (
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
            )
            if args.output == "text":
                print(f"\nError: {text}")
            else:
                warn(f"Error: {text}")
            plans[group] = {}
            continue
        plan = plan_of(client, args, group)
        if args.execute and plan:
            client.commit_offsets(group, plan)
        plans[group] = dict(sorted(plan.items()))
    show(args, plans)
    return complete


def state_of(client: BlockingClient, group: str) -> str:
    """Return a group's state; a group that does not exist yet is as good as dead."""
    try:
        return describe_group(client, group).state
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise


def plan_of(client: BlockingClient, args: Namespace, group: str) -> Plan:
    """Return the new offset of every partition in the options' scope."""
    scenario = scenario_of(args)
    if scenario.name == "from-file":
        return in_range(client, from_file(str(scenario.value), group))
    partitions = [*client.committed_offsets(group)] if args.all_topics else in_scope(client, parse_scope(args.topic))
    match scenario.name:
        case "to-earliest" | "to-latest":
            return ends(client, partitions, earliest=scenario.name == "to-earliest")
        case "to-offset":
            return in_range(client, dict.fromkeys(partitions, Offset(int(scenario.value))))
        case "shift-by":
            return in_range(client, shifted(client, group, partitions, int(scenario.value)))
        case "to-current":
            current = {
                each: found.offset for each, found in client.committed_offsets(group).items() if each in partitions
            }
            return current | ends(client, [each for each in partitions if each not in current], earliest=False)
        case "to-datetime":
            return at_time(client, partitions, parse_datetime(str(scenario.value)))
    from ottla.cli.records.positions import now_ms

    return at_time(client, partitions, Millis(now_ms() - parse_duration(str(scenario.value))))


def scenario_of(args: Namespace) -> Scenario:
    """Return the one scenario that was asked for; raises UsageError without one."""
    for name in SCENARIOS:
        value = getattr(args, name.replace("-", "_"))
        if value not in (None, False):
            return Scenario(name, value)
    options = ", ".join(f"[{name}]" for name in SCENARIOS)
    raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{options}]")


def in_scope(client: BlockingClient, scope: ParsedScope) -> list[TopicPartition]:
    """Return the partitions of a scope; raises KafkaError for a topic or partition that does not exist."""
    cluster = client.metadata(scope)
    found: list[TopicPartition] = []
    missing: list[str] = []
    for name, partitions in scope.items():
        topic = cluster.topics.get(name)
        if topic is None or topic.error:
            code = topic.error if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, words(code))
        if partitions is None:
            found += cluster.partitions_of(name)
            continue
        found += [TopicPartition(name, index) for index in partitions]
        missing += [f"{name}-{index}" for index in partitions if index not in topic.partitions]
    if missing:
        text = f'The partitions "{",".join(missing)}" do not exist'
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return list(dict.fromkeys(found))


def ends(client: BlockingClient, partitions: Sequence[TopicPartition], *, earliest: bool) -> Plan:
    """Return the partitions' first or next offsets."""
    from ottla.client import EARLIEST, LATEST

    if not partitions:
        return {}
    time = EARLIEST if earliest else LATEST
    return {each: found.offset for each, found in client.list_offsets(dict.fromkeys(partitions, time)).items()}


def in_range(client: BlockingClient, wanted: Plan) -> Plan:
    """Return the offsets, moved to the nearest end where they lie outside, with a warning for each."""
    lows = ends(client, [*wanted], earliest=True)
    highs = ends(client, [*wanted], earliest=False)
    found: Plan = {}
    for partition, offset in wanted.items():
        low, high = lows[partition], highs[partition]
        if offset > high:
            warn(
                f"New offset ({offset}) is higher than latest offset for topic partition {partition}. "
                f"Value will be set to {high}"
            )
        elif offset < low:
            warn(
                f"New offset ({offset}) is lower than earliest offset for topic partition {partition}. "
                f"Value will be set to {low}"
            )
        found[partition] = max(low, min(high, offset))
    return found


def shifted(client: BlockingClient, group: str, partitions: Sequence[TopicPartition], by: int) -> Plan:
    """Return the committed offsets moved by a number; raises UsageError for a partition without one."""
    current = client.committed_offsets(group)
    for partition in partitions:
        if partition not in current:
            raise UsageError(
                f"Cannot shift offset for partition {partition} since there is no current committed offset"
            )
    return {each: Offset(current[each].offset + by) for each in partitions}


def at_time(client: BlockingClient, partitions: Sequence[TopicPartition], time: Millis) -> Plan:
    """Return the first offsets at or after a time; a partition with nothing so young goes to its end."""
    if not partitions:
        return {}
    found = {each: listed.offset for each, listed in client.list_offsets(dict.fromkeys(partitions, time)).items()}
    late = [each for each, offset in found.items() if offset < 0]
    for topic, index in late:
        print(f"\nWarn: Partition {index} from topic {topic} is empty. Falling back to latest known offset.")
    return found | ends(client, late, earliest=False)


def from_file(path: str, group: str) -> Plan:
    """Read `topic,partition,offset` or `group,topic,partition,offset`; raises KafkaError for a line that is neither."""
    import csv

    plan: Plan = {}
    with open(path, newline="", encoding="utf-8", errors="replace") as file:  # what is no text fails as a line below
        for number, row in enumerate(csv.reader(file), 1):
            if not row:
                continue
            *owner, topic, partition, offset = (
                [cell.strip() for cell in row] if len(row) in (3, 4) else ["", "", "", ""]
            )
            if not (topic and partition.isdecimal() and offset.lstrip("-").isdecimal()):
                expected = "topic,partition,offset or group,topic,partition,offset"
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}, line {number}: {expected} is expected")
            if not owner or owner[0] == group:
                plan[TopicPartition(topic, int(partition))] = Offset(int(offset))
    return plan


def show(args: Namespace, plans: dict[str, Plan]) -> None:
    """Print the plan: as CSV that `--from-file` takes, as Kafka's table, or in another form."""
    rows = [
        {"group": group, "topic": each.topic, "partition": each.partition, "newOffset": offset}
        for group, plan in plans.items()
        for each, offset in plan.items()
    ]
    columns = {"GROUP": "group", "TOPIC": "topic", "PARTITION": "partition", "NEW-OFFSET": "newOffset"}
    if args.export:
        keys = list(columns.values())[0 if len(plans) > 1 else 1 :]
        print(csv_text([[row[key] for key in keys] for row in rows]))
    elif args.output != "text":
        print_answer(args.output, Answer(rows, columns))
    else:
        group = max([15, *(len(name) for name in plans)])
        topic = max([15, *(len(name) for plan in plans.values() for name in by_topic(plan))])
        sizes = dict(zip(columns, (group, topic, 10, 0), strict=True))
        print_columns({head: (sizes[head], key) for head, key in columns.items()}, rows)


def csv_text(rows: Sequence[Sequence[object]]) -> str:
    """Return comma-separated lines, quoted where a value needs it."""
    import csv
    import io

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()
