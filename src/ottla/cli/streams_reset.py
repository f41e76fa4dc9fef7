"""Resetting a Streams application as Kafka's StreamsResetter does, with its flags and words; the checkpoint goes too.

Reached as `ottla streams reset` and as `ottla streams-application-reset`, which Kafka's script runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.admin import (
    OffsetReset,
    ResetKind,
    ResetTarget,
    delete_topics,
    describe_group,
    list_groups,
    plan_offset_reset,
    plan_reset_to_offsets,
    remove_members,
    reset_offsets,
)
from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.cli.group_reset import from_file, parse_datetime, parse_duration
from ottla.cli.options import Options, UsageError, check_invalid, open_client, properties_file, warn, whole_number
from ottla.cli.records.positions import now_ms

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from ottla.client import BlockingClient

__all__ = ["internal_topics", "is_internal", "reset", "reset_options"]

POSITIONS = ("to-offset", "to-earliest", "to-latest", "shift-by", "to-datetime", "by-duration", "from-file")
INTERNAL = re.compile(
    r".*(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic|"
    r".-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic|-commits)"
)
"""Kafka's own pattern, and `-commits`: where queries note which batch they have delivered."""


def reset_options(noun: str = "streams-application-reset") -> Options:
    """Return the parser."""
    parser = Options(noun, "Have a Streams application process its input anew: offsets, internal topics, checkpoint.")
    parser.connection("--config-file")
    add = parser.add_argument
    add("--application-id", metavar="ID", help="the application (application.id); required")
    add("--input-topics", action="append", metavar="TOPIC,…", help="topics whose offsets are reset, to the earliest")
    add("--intermediate-topics", action="append", metavar="TOPIC,…", help="topics to go on with at their ends")
    add("--internal-topics", action="append", metavar="TOPIC,…", help="those to delete, in the place of all of them")
    add("--to-offset", type=whole_number, metavar="N", help="begin at an offset")
    add("--to-datetime", metavar="TIME", help="begin at a time: YYYY-MM-DDThh:mm:ss.sss")
    add("--by-duration", metavar="DURATION", help="begin so long ago: PnDTnHnMnS")
    add("--to-earliest", action="store_true", help="begin with the first record")
    add("--to-latest", action="store_true", help="begin behind the last record")
    add("--from-file", metavar="FILE", help="offsets from a CSV file: topic,partition,offset")
    add("--shift-by", type=whole_number, metavar="N", help="begin so many offsets further on, or back")
    add("--force", action="store_true", help="remove members that are left over in the group")
    add("--dry-run", action="store_true", help="print what would be done")
    add("--state-dir", metavar="FOLDER", help="the application's state.dir, whose checkpoint is removed")
    return parser


def reset(args: Namespace) -> int:
    """Reset an application; returns the exit code."""
    if args.application_id is None:
        raise UsageError("Missing required option(s) [application-id]")
    for name in POSITIONS:
        check_invalid(args, name, [each for each in POSITIONS if each != name])
    with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
        try:
            check_members(client, args.application_id, force=args.force)
        except KafkaError as error:
            warn(f"ERROR: {error.message}")
            return 1
        topics = set(client.metadata().topics)
        if args.dry_run:
            print("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
        code = reset_positions(client, args, topics)
        code |= delete_internal(client, args, topics)
        remove_checkpoint(client, args)
    return code


def check_members(client: BlockingClient, group: str, *, force: bool) -> None:
    """Raise KafkaError where somebody is in the group; with `force` throw classic members out."""
    try:
        view = describe_group(client, group)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise
    if not view.members:
        return
    names = ", ".join(each.member_id for each in view.members)
    if not force:
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"Consumer group '{group}' is still active and has following members: [{names}]. Make sure to stop all "
            "running application instances before running the reset tool. You can use option '--force' to remove "
            "active members from the group.",
        )
    print(f"Force deleting all active members in the group: {group}")
    remove_members(client, group, view.members, reason="reset by force")


# -- offsets


def names_of(given: list[str] | None) -> list[str]:
    """Return the names in repeated, comma-separated options."""
    return [name for text in given or () for name in text.split(",") if name]


def reset_positions(client: BlockingClient, args: Namespace, topics: set[str]) -> int:
    """Set the group's offsets of input and intermediate topics; returns 1 where a topic is not there."""
    inputs, between = names_of(args.input_topics), names_of(args.intermediate_topics)
    if not inputs and not between:
        print("No input or intermediate topics specified. Skipping seek.")
        return 0
    if between:
        print("WARN: `--intermediate-topics` is deprecated and will be removed in a future release")
    if inputs:
        print(f"Reset-offsets for input topics {java_list(inputs)}")
    if between:
        print(f"Seek-to-end for intermediate topics {java_list(between)}")
    code = 0
    for kind, names, head in (("input", inputs, "Topic: "), ("intermediate", between, "Topic:")):
        if missing := [name for name in names if name not in topics]:
            print(f"Following {kind} topics are not found, skipping them")
            for name in missing:
                print(f"{head}{name}")
            code = 1
    first = input_plan(client, args, [name for name in inputs if name in topics])
    last = end_plan(client, args, [name for name in between if name in topics])
    if not args.dry_run:
        reset_offsets(client, OffsetReset(args.application_id, {**first.offsets, **last.offsets}))
    print("Done.")
    return code


def partitions_of(client: BlockingClient, names: list[str]) -> list[TopicPartition]:
    """Return every partition of some topics."""
    cluster = client.metadata(names) if names else None
    return [each for name in names for each in cluster.partitions_of(name)] if cluster else []


def end_plan(client: BlockingClient, args: Namespace, names: list[str]) -> OffsetReset:
    """Return the ends of intermediate topics, and say so."""
    if not names:
        return OffsetReset(args.application_id, {})
    print(f"Following intermediate topics offsets will be reset to end (for consumer group {args.application_id})")
    for name in names:
        print(f"Topic: {name}")
    return plan_offset_reset(client, args.application_id, partitions_of(client, names), ResetTarget(ResetKind.LATEST))


def input_plan(client: BlockingClient, args: Namespace, names: list[str]) -> OffsetReset:
    """Return where input topics begin again, and print it."""
    if not names:
        return OffsetReset(args.application_id, {})
    print(f"Following input topics offsets will be reset to (for consumer group {args.application_id})")
    plan = wanted_offsets(client, args, partitions_of(client, names))
    tell_differences(plan)
    for each, offset in plan.offsets.items():
        print(f"Topic: {each.topic} Partition: {each.partition} Offset: {offset}")
    return plan


def wanted_offsets(client: BlockingClient, args: Namespace, partitions: list[TopicPartition]) -> OffsetReset:
    """Return the offsets that the one position option asks for; the earliest without one."""
    group = args.application_id
    if args.from_file is not None:
        found = from_file(args.from_file, group)
        return plan_reset_to_offsets(client, group, {each: found[each] for each in partitions if each in found})
    return plan_offset_reset(client, group, partitions, target_of(args), shift_from_earliest=True)


def target_of(args: Namespace) -> ResetTarget:
    """Return where the position option leads; to the earliest without one."""
    if args.to_offset is not None:
        return ResetTarget(ResetKind.OFFSET, args.to_offset)
    if args.to_latest:
        return ResetTarget(ResetKind.LATEST)
    if args.shift_by is not None:
        return ResetTarget(ResetKind.SHIFT, args.shift_by)
    if args.to_datetime is not None:
        return ResetTarget(ResetKind.TIME, parse_datetime(args.to_datetime))
    if args.by_duration is not None:
        return ResetTarget(ResetKind.TIME, now_ms() - parse_duration(args.by_duration))
    return ResetTarget(ResetKind.EARLIEST)


def tell_differences(plan: OffsetReset) -> None:
    """Say where a plan is not quite what was asked for."""
    for each in plan.without_records:
        print(
            f"Partition {each.partition} from topic {each.topic} is empty, without a committed record. "
            "Falling back to latest known offset."
        )
    for _, wanted, offset in plan.moved:
        which = "higher than latest" if wanted > offset else "lower than earliest"
        print(f"New offset ({wanted}) is {which} offset. Value will be set to {offset}")


# -- internal topics, checkpoint


def is_internal(application_id: str, topic: str) -> bool:
    """True for the internal topics of an application."""
    return topic.startswith(f"{application_id}-") and INTERNAL.fullmatch(topic) is not None


def internal_topics(application_id: str, topics: Iterable[str], groups: Iterable[str]) -> list[str]:
    """Return an application's internal topics, without those of other applications whose ids begin with `<its id>-`.

    Of `app` and `app-2`, whose group is there, the topic `app-2-counts-changelog` is the second's. Kafka's tool deletes it.
    """
    others = [each for each in groups if each.startswith(f"{application_id}-")]
    found = [each for each in topics if is_internal(application_id, each)]
    return sorted(each for each in found if not any(is_internal(other, each) for other in others))


def delete_internal(client: BlockingClient, args: Namespace, topics: set[str]) -> int:
    """Delete the internal topics, or those that are named; returns 1 where that fails."""
    groups = [each.group for each in list_groups(client)]
    inferred = internal_topics(args.application_id, topics, groups)
    named = names_of(args.internal_topics)
    if named and not set(named) <= set(inferred):
        words = (
            "Invalid topic specified in the --internal-topics option. Ensure that the topics specified are all internal "
            "topics. Do a dry run without the --internal-topics option to see the list of all internal topics that can "
            "be deleted."
        )
        warn(f"ERROR: {words}")
        return 1
    kind = "specified" if named else "inferred"
    wanted = named or inferred
    print(f"Deleting {kind} internal topics {java_list(wanted)}")
    code = 0 if args.dry_run else delete(client, wanted)
    print("Done.")
    return code


def delete(client: BlockingClient, names: list[str]) -> int:
    """Delete topics; returns 1 where one could not be."""
    failed = {name: error for name, error in delete_topics(client, names).items() if error is not None}
    for name, error in failed.items():
        print(f"ERROR: deleting topic {name}")
        print(error.message)
    return int(bool(failed))


def remove_checkpoint(client: BlockingClient, args: Namespace) -> None:
    """Remove the application's checkpoint where there is one on this machine; Kafka leaves its state folder behind."""
    from ottla.spark import Checkpoint
    from ottla.streams import StreamsSettings

    settings = StreamsSettings.of(
        {"application.id": args.application_id, "bootstrap.servers": args.bootstrap_server, "state.dir": args.state_dir}
    )
    checkpoint = Checkpoint.of(settings, client.metadata(()).cluster_id or "cluster")
    if checkpoint.is_local and checkpoint.exists:
        print(f"Deleting checkpoint {checkpoint.root}")
        if not args.dry_run:
            checkpoint.remove()


def java_list(names: list[str]) -> str:
    """Return names as Java prints a list."""
    return f"[{', '.join(names)}]"
