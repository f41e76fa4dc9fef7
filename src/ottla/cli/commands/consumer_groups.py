"""`ottla consumer-groups`: list, describe, delete and reset groups, with the flags and texts of `kafka-consumer-groups`.

Where something fails the exit code is 1; Kafka's own tool ends most of its failures with 0.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.admin import (
    OffsetDeletionResult,
    consumer_groups,
    delete_groups,
    delete_offsets,
    list_groups,
    plan_offset_deletion,
    words,
)
from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.cli.confirmation import confirmed, destruction_options
from ottla.cli.group_reset import SCENARIOS, parse_scope, reset_groups
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import (
    Options,
    UsageError,
    check_invalid,
    check_required,
    open_client,
    output_option,
    properties_file,
    whole_number,
)
from ottla.cli.output import Answer, print_answer
from ottla.cli.watch import watch_option, watched

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["main"]

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
STATES = ("PreparingRebalance", "Assigning", "Reconciling", "CompletingRebalance", "Stable", "Dead", "Empty")
TYPES = ("Consumer", "Classic")
TIMEOUT_MS = 30_000
REFUSAL_ORDER = (
    *("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by", "from-file"),
)
"""In which order Kafka's tool finds scenarios that do not go together."""


def main(argv: list[str]) -> int:
    """Run one action; a failure of the cluster's is one line on standard output, as Kafka's tool prints it."""
    if not argv:
        raise UsageError("List all consumer groups, describe a group, delete its data, or reset its offsets.")
    args = options().parse(argv)
    check(args)
    if args.validate_regex is not None:
        return validate_regex(args.validate_regex)
    properties = properties_file(args.command_config)
    for key in ("default.api.timeout.ms", "request.timeout.ms"):
        if args.timeout is not None:
            properties[key] = str(args.timeout)
        properties.setdefault(key, str(TIMEOUT_MS))
    try:
        with open_client(args.bootstrap_server, properties) as client:
            codes: list[int] = []
            watched(args, lambda: codes.append(run(client, args)))
            return codes[-1]
    except (OttlaError, OSError) as error:
        return failed(args, failure_text(error))


def failure_text(error: OttlaError | OSError) -> str:
    """Return what is said of a failure; the exception's name stands where Kafka's tool writes it too."""
    if isinstance(error, KafkaError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        said = exception_text(error.code, error.message)
    elif isinstance(error, OSError):
        said = f"java.io.IOException: Unable to read file {error.filename}"
    else:
        said = str(error)
    return f"Executing consumer group command failed due to {said}"


def failed(args: Namespace, text: str) -> int:
    """Print an error where Kafka's tool prints it, or beside the output of another form; returns exit code 1."""
    if args.output == "text":
        print(f"\nError: {text}")
    else:
        print(f"Error: {text}", file=sys.stderr)
    return 1


def run(client: BlockingClient, args: Namespace) -> int:
    """Run the action; returns the exit code."""
    if args.list:
        return list_(client, args)
    groups = consumer_groups(client) if args.all_groups else list(dict.fromkeys(args.group))
    if args.describe:
        from ottla.cli.group_description import describe_groups

        describe_groups(client, args, groups)
        return 0
    if args.delete:
        return delete(client, args, groups)
    if args.delete_offsets:
        return forget_offsets(client, args, groups)
    return 0 if reset_groups(client, args, groups) else 1


def options() -> Options:
    """Return the parser."""
    parser = Options("consumer-groups", "List, describe and delete consumer groups, and reset their offsets.")
    parser.connection()
    for name, meaning in (
        ("list", "list the groups"),
        ("describe", "describe groups: their offsets and lag, their members, or their state"),
        ("delete", "delete groups with everything that they committed"),
        ("reset-offsets", "plan new offsets for groups without members; --execute commits them"),
        ("delete-offsets", "delete what a group committed for topics"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=meaning)
    parser.add_argument("--validate-regex", metavar="REGEX", help="say whether a subscription's expression is valid")
    parser.add_argument("--group", action="append", default=[], metavar="GROUP", help="the group; repeatable")
    parser.add_argument("--all-groups", action="store_true", help="all consumer groups")
    parser.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="a topic, or some partitions; repeatable"
    )
    parser.add_argument("--all-topics", action="store_true", help="with --reset-offsets: all that the group committed")
    parser.add_argument("--offsets", action="store_true", help="with --describe: offsets and lag (default)")
    parser.add_argument("--members", action="store_true", help="with --describe: the members")
    parser.add_argument(
        "--state", nargs="?", const="", metavar="STATES", help="with --describe: the state; with --list: also filters"
    )
    parser.add_argument(
        "--type", nargs="?", const="", metavar="TYPES", help="with --list: classic or consumer; also filters"
    )
    parser.add_argument("--verbose", action="store_true", help="with --describe: epochs and assignments too")
    parser.add_argument(
        "--timeout", type=whole_number, metavar="MS", help=f"patience (default: {TIMEOUT_MS}, or the properties file's)"
    )
    scenario_options(parser)
    output_option(parser)
    watch_option(parser)
    destruction_options(parser)
    return parser


def scenario_options(parser: Options) -> None:
    """Declare where --reset-offsets may go, and what is done with the plan."""
    parser.add_argument("--to-earliest", action="store_true", help="to the first records")
    parser.add_argument("--to-latest", action="store_true", help="to the end")
    parser.add_argument("--to-current", action="store_true", help="to what is committed, or the end without that")
    parser.add_argument("--to-offset", type=whole_number, metavar="N", help="to this offset, or the nearest end")
    parser.add_argument("--shift-by", type=whole_number, metavar="N", help="by so many records, also backwards")
    parser.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help="to the first record since then")
    parser.add_argument("--by-duration", metavar="PnDTnHnMnS", help="to the first record since so long ago")
    parser.add_argument("--from-file", metavar="CSV", help="to what a file from --export says")
    parser.add_argument("--execute", action="store_true", help="commit the plan (default: only show it)")
    parser.add_argument("--export", action="store_true", help="print the plan as CSV")


def check(args: Namespace) -> None:
    """Raise UsageError for options that are missing or do not go together."""
    actions = [name for name in ACTIONS if getattr(args, name.replace("-", "_")) not in (None, False)]
    if not actions:
        names = ", ".join(f"--{name}" for name in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {names}")
    if args.validate_regex is None:
        check_required(args, "bootstrap-server")
    if args.timeout is not None and args.timeout <= 0:
        raise UsageError(f"Cannot parse argument '{args.timeout}' of option timeout: milliseconds are expected")
    for name in ("describe", "delete", "reset_offsets"):
        if getattr(args, name) and not (args.group or args.all_groups):
            raise UsageError(f"Option [{name.replace('_', '-')}] takes one of these options: [all-groups], [group]")
    if args.describe:
        check_described(args)
    if args.delete and args.topic:
        raise UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if args.delete_offsets and not (args.topic and args.group):
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")
    if args.delete_offsets and len(args.group) > 1:
        raise UsageError("Found multiple arguments for option group, but you asked for only one")
    if args.reset_offsets:
        check_reset(args)
    check_invalid(args, "group", ["all-groups", "list"])
    check_invalid(args, "topic", ["list", "describe", "delete", *(["all-topics"] if args.reset_offsets else [])])
    if len(actions) > 1:
        names = ", ".join(f"--{name}" for name in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {names}")
    for name, of in (("members", "describe"), ("offsets", "describe"), ("verbose", "describe"), ("type", "list")):
        if getattr(args, name) not in (None, False) and not getattr(args, of):
            raise UsageError(f"Option(s) [{name}] are unavailable given other options on the command line")
    if args.state is not None and not (args.describe or args.list):
        raise UsageError("Option(s) [state] are unavailable given other options on the command line")
    check_invalid(args, "watch", ["delete", "reset-offsets", "delete-offsets", "validate-regex"])
    check_invalid(args, "dry-run", ["list", "describe"])


def check_described(args: Namespace) -> None:
    """Raise UsageError where it is not clear what of the groups is to be shown."""
    kinds = [args.members, args.offsets, args.state is not None]
    if sum(kinds) > 1:
        raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if args.state:
        raise UsageError("Option [describe] does not take a value for [state]")


def check_reset(args: Namespace) -> None:
    """Raise UsageError where it is not clear what to reset, or where to."""
    if args.dry_run and args.execute:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    given = [name for name in SCENARIOS if getattr(args, name.replace("-", "_")) not in (None, False)]
    if len(given) > 1:
        first, second, *_ = sorted(given, key=REFUSAL_ORDER.index)
        raise UsageError(f'Option "[{first}]" can\'t be used with option "[{second}]"')
    if not (args.topic or args.all_topics or args.from_file is not None):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    if not given:
        listed = ", ".join(f"[{name}]" for name in SCENARIOS)
        raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")


def list_(client: BlockingClient, args: Namespace) -> int:
    """Print the groups' names, with types and states where asked for."""
    states = chosen(args.state, STATES, "state")
    types = chosen(args.type, TYPES, "types")
    found = [each for each in list_groups(client, states=states, types=types) if each.is_consumer_group]
    if args.output != "text":
        rows = [{"group": each.group, "type": each.type, "state": each.state} for each in found]
        print_answer(args.output, Answer(rows, {"GROUP": "group", "TYPE": "type", "STATE": "state"}))
        return 0
    heads = ["GROUP", *(["TYPE"] if args.type is not None else []), *(["STATE"] if args.state is not None else [])]
    if len(heads) == 1:
        for each in found:
            print(each.group)
        return 0
    width = max([25, *(len(each.group) for each in found)])
    cells = [{"GROUP": each.group, "TYPE": each.type, "STATE": each.state} for each in found]
    for row in [dict(zip(heads, heads, strict=True)), *cells]:
        print(" ".join(row[head].ljust(width if head == "GROUP" else 20) for head in heads))
    return 0


def chosen(text: str | None, known: tuple[str, ...], what: str) -> list[str]:
    """Parse a filter in any case; raises UsageError for a value that there is not."""
    if not text:
        return []
    by_lower = {each.lower(): each for each in known}
    wanted = [by_lower.get(part.strip().lower()) for part in text.split(",")]
    if None in wanted:
        raise UsageError(f"Invalid {what} list '{text}'. Valid {what.removesuffix('s')}s are: {', '.join(known)}")
    return [each for each in wanted if each is not None]


def delete(client: BlockingClient, args: Namespace, groups: list[str]) -> int:
    """Delete groups one by one; 1 where any could not be."""
    if not confirmed(args, "delete group", groups, asked_for=args.group):
        return 0
    codes = delete_groups(client, groups)
    errors = {group: exception_text(code) for group, code in codes.items() if code}
    done = [group for group in groups if group not in errors]
    named = ", ".join(f"'{group}'" for group in done)
    if args.output != "text":
        rows = [
            {"group": group, "status": "deleted" if group in done else "failed", "error": errors.get(group)}
            for group in groups
        ]
        print_answer(args.output, Answer(rows, {"GROUP": "group", "STATUS": "status", "ERROR": "error"}))
    elif not errors:
        print(f"Deletion of requested consumer groups ({named}) was successful.")
    else:
        print("\nError: Deletion of some consumer groups failed:")
        for group, error in errors.items():
            print(f"* Group '{group}' could not be deleted due to: {error}")
        if done:
            print(f"\nThese consumer groups were deleted successfully: {named}")
    return 1 if errors else 0


def forget_offsets(client: BlockingClient, args: Namespace, groups: list[str]) -> int:
    """Delete what one group committed for topics or partitions; 1 where any could not be."""
    (group,) = groups
    plan = plan_offset_deletion(client, group, parse_scope(args.topic))
    if args.dry_run:
        confirmed(args, f"delete the offset of group {group} for", [str(each) for each in plan.partitions])
        return 0
    result = delete_offsets(client, plan)
    missing = exception_text(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rows: list[dict[str, object]] = [
        {"topic": name, "partition": None, "error": missing} for name in plan.unknown_topics
    ]
    for each, code in result.partitions.items():
        rows.append({**each._asdict(), "error": exception_text(code) if code else None})
    show_deletion(args, result, rows)
    return 1 if any(row["error"] for row in rows) else 0


def show_deletion(args: Namespace, result: OffsetDeletionResult, rows: list[dict[str, object]]) -> None:
    """Print Kafka's table of statuses, or another form of it."""
    if args.output != "text":
        print_answer(args.output, Answer(rows, {"TOPIC": "topic", "PARTITION": "partition", "ERROR": "error"}))
        return
    if result.group:
        print(f"\nError: {words(result.group)}")
    elif any(result.partitions.values()):
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {args.group[0]}.")
    width = max([15, *(len(str(row["topic"])) for row in rows)])
    print(f"\n{'TOPIC':{width}} {'PARTITION':10} {'STATUS':15}")
    for row in rows:
        partition = "-" if row["partition"] is None else row["partition"]
        status = "Successful" if row["error"] is None else f"Error: {row['error']}"
        print(f"{row['topic']!s:{width}} {partition!s:10} {status:15}")


def validate_regex(text: str) -> int:
    """Say whether an expression is one that subscriptions may use; Kafka's tool ends with 0 in either case."""
    from ottla.java import PatternError, compile_re2

    reason = None
    try:
        compile_re2(text)
    except PatternError as error:
        reason = str(error)
    print(f"The regular expression `{text}` is {'valid' if reason is None else f'invalid: {reason}'}.")
    return 0
