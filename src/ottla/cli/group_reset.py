"""`ottla consumer-groups --reset-offsets`: where a group shall go on, planned first and committed with `--execute`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin import (
    OffsetReset,
    ResetKind,
    ResetTarget,
    TopicScope,
    by_topic,
    group_state,
    partitions_in_scope,
    plan_offset_reset,
    plan_reset_to_offsets,
    reset_offsets,
)
from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.cli.group_description import print_columns
from ottla.cli.options import UsageError, usage_errors, warn
from ottla.cli.output import Answer, print_answer
from ottla.cli.records.positions import now_ms

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.client import BlockingClient

__all__ = ["SCENARIOS", "from_file", "parse_datetime", "parse_duration", "parse_scope", "reset_groups"]

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
DIGITS_MAX = 20
DURATION_MS_MAX = 1 << 62
"""Beyond it, no time that is so long ago or ahead is one that a broker can be asked for."""
DATETIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{1,3})(Z|[+-]\d\d:?\d\d)?", re.ASCII)


@dataclass(frozen=True)
class Scenario:
    """Where to: the option's name and its value."""

    name: str
    value: str | int | bool


def parse_scope(topics: Iterable[str]) -> TopicScope:
    """Parse `topic` and `topic:0,1`; raises UsageError for a partition that is no number."""
    found: dict[str, list[int] | None] = {}
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
    if any(len(number) > DIGITS_MAX for number in numbers if number):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Text cannot be parsed to a Duration: it has too many digits")
    total = sum(int(number) * unit for number, unit in zip(numbers, UNIT_MS, strict=True) if number)
    fraction = int((match[7] or "0").ljust(9, "0")) // 1_000_000
    total += -fraction if (match[6] or "").startswith("-") else fraction
    if abs(total) > DURATION_MS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Text cannot be parsed to a Duration: {text[:100]} is too long")
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


def reset_groups(client: BlockingClient, args: Namespace, groups: Sequence[str]) -> bool:
    """Plan, commit where asked to, and print; returns False where a group was left out because it is active."""
    if not (args.execute or args.dry_run):
        warn("WARN: No action will be performed as the --execute option is missing.")
    plans: dict[str, OffsetReset] = {}
    complete = True
    for group in groups:
        state = group_state(client, group)
        if state not in ("Empty", "Dead"):
            complete = False
            text = (
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
            )
            if args.output == "text":
                print(f"\nError: {text}")
            else:
                warn(f"Error: {text}")
            plans[group] = OffsetReset(group, {})
            continue
        plans[group] = plan = plan_of(client, args, group)
        tell_differences(plan)
        if args.execute and plan.offsets:
            reset_offsets(client, plan)
    show(args, plans)
    return complete


def plan_of(client: BlockingClient, args: Namespace, group: str) -> OffsetReset:
    """Return the new offset of every partition in the options' scope."""
    scenario = scenario_of(args)
    if scenario.name == "from-file":
        return plan_reset_to_offsets(client, group, from_file(str(scenario.value), group))
    if args.all_topics:
        partitions = [*client.committed_offsets(group)]
    else:
        partitions = partitions_in_scope(client, parse_scope(args.topic))
    with usage_errors():
        return plan_offset_reset(client, group, partitions, target_of(scenario))


def target_of(scenario: Scenario) -> ResetTarget:
    """Return where a scenario leads."""
    match scenario.name:
        case "to-earliest":
            return ResetTarget(ResetKind.EARLIEST)
        case "to-latest":
            return ResetTarget(ResetKind.LATEST)
        case "to-current":
            return ResetTarget(ResetKind.CURRENT)
        case "to-offset":
            return ResetTarget(ResetKind.OFFSET, int(scenario.value))
        case "shift-by":
            return ResetTarget(ResetKind.SHIFT, int(scenario.value))
        case "to-datetime":
            return ResetTarget(ResetKind.TIME, max(parse_datetime(str(scenario.value)), 0))
    # further back than times go means everything; a negative one asks a broker for something else
    return ResetTarget(ResetKind.TIME, max(now_ms() - parse_duration(str(scenario.value)), 0))


def tell_differences(plan: OffsetReset) -> None:
    """Say where a plan is not quite what was asked for."""
    for partition, wanted, offset in plan.moved:
        which = "higher than latest" if wanted > offset else "lower than earliest"
        warn(f"New offset ({wanted}) is {which} offset for topic partition {partition}. Value will be set to {offset}")
    for topic, index in plan.without_records:
        print(f"\nWarn: Partition {index} from topic {topic} is empty. Falling back to latest known offset.")


def scenario_of(args: Namespace) -> Scenario:
    """Return the one scenario that was asked for; raises UsageError without one."""
    for name in SCENARIOS:
        value = getattr(args, name.replace("-", "_"))
        if value not in (None, False):
            return Scenario(name, value)
    options = ", ".join(f"[{name}]" for name in SCENARIOS)
    raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{options}]")


def from_file(path: str, group: str) -> dict[TopicPartition, Offset]:
    """Read `topic,partition,offset` or `group,topic,partition,offset`; raises KafkaError for a line that is neither."""
    import csv

    plan: dict[TopicPartition, Offset] = {}
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


def show(args: Namespace, plans: Mapping[str, OffsetReset]) -> None:
    """Print the plan: as CSV that `--from-file` takes, as Kafka's table, or in another form."""
    rows = [
        {"group": group, "topic": each.topic, "partition": each.partition, "newOffset": offset}
        for group, plan in plans.items()
        for each, offset in plan.offsets.items()
    ]
    columns = {"GROUP": "group", "TOPIC": "topic", "PARTITION": "partition", "NEW-OFFSET": "newOffset"}
    if args.export:
        keys = list(columns.values())[0 if len(plans) > 1 else 1 :]
        print(csv_text([[row[key] for key in keys] for row in rows]))
    elif args.output != "text":
        print_answer(args.output, Answer(rows, columns))
    else:
        group = max([15, *(len(name) for name in plans)])
        topic = max([15, *(len(name) for plan in plans.values() for name in by_topic(plan.offsets))])
        sizes = dict(zip(columns, (group, topic, 10, 0), strict=True))
        print_columns({head: (sizes[head], key) for head, key in columns.items()}, rows)


def csv_text(rows: Sequence[Sequence[object]]) -> str:
    """Return comma-separated lines, quoted where a value needs it."""
    import csv
    import io

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()
