"""`ottla console-consumer`: print a topic's records, with the flags and texts of `kafka-console-consumer`.

Without `--group` every partition is read from the start or the end, and nothing is committed. Kafka's tool makes a
group of a random name for that, which nobody needs.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from ottla.base import ConfigError
from ottla.cli.options import (
    Options,
    UsageError,
    key_values,
    open_client,
    output_option,
    properties_file,
    warn,
    whole_number,
)
from ottla.cli.records.formatters import Formatter, formatter, json_formatter
from ottla.cli.records.group_printing import GroupPrinting
from ottla.cli.records.positions import POSITIONS, Kind, Position, now_ms, parse_position
from ottla.cli.records.printing import Printing, Reading
from ottla.cli.records.record_format import format_renderer
from ottla.cli.records.schemas import decoded, reading_options, take_properties

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import Isolation

__all__ = ["main"]

DEPRECATED = {
    "consumer-property": "command-property",
    "consumer.config": "command-config",
    "property": "formatter-property",
}
DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


def main(argv: list[str]) -> int:
    """Print records until told to stop; how many there were is said on standard error at the end."""
    args = options().parse(argv)
    check(args)
    properties = properties_file(args.command_config or args.consumer_config)
    properties |= key_values(args.consumer_property + args.command_property)
    if args.group is not None:
        properties["group.id"] = check_group(args.group, properties.get("group.id"))
    check_reset(args, properties)
    take_properties(args, formatter_properties(args))
    render = decoded(renderer(args), args)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return read(args, properties, render)
    finally:
        if args.enable_systest_events:
            sys.stdout.buffer.write(b"shutdown_complete\n")


def renderer(args: Namespace) -> Formatter:
    """Return what writes each record: a format string, JSON, or one of Kafka's formatters."""
    as_asked = formatter_properties(args)
    if args.format_string is not None:
        if args.output != "text":
            raise UsageError("-f and --output cannot be used together")
        return format_renderer(args.format_string)
    return json_formatter(as_asked) if args.output in ("json", "jsonl") else formatter(args.formatter, as_asked)


def read(args: Namespace, properties: dict[str, str], render: Formatter) -> int:
    """Print as a member of the group, where one is named, or else every partition."""
    if properties.get("group.id") is not None and args.partition is None:
        properties["bootstrap.servers"] = args.bootstrap_server
        return GroupPrinting(properties, reading(args, properties), render).run()
    with open_client(args.bootstrap_server, properties, "console-consumer") as client:
        return Printing(client, reading(args, properties), render).run()


def options() -> Options:
    """Return the parser."""
    parser = Options("console-consumer", "Print a topic's records.")
    parser.connection()
    parser.add_argument("--topic", metavar="TOPIC", help="the topic to read")
    parser.add_argument("--include", metavar="REGEX", help="topics to read, by a regular expression")
    parser.add_argument("--partition", type=whole_number, metavar="N", help="one partition only")
    parser.add_argument("--offset", metavar="OFFSET", help=f"where to begin: {POSITIONS} (default: latest)")
    parser.add_argument("--from-beginning", action="store_true", help="begin with the earliest record")
    parser.add_argument("--max-messages", type=whole_number, metavar="N", help="stop after so many records")
    parser.add_argument("--timeout-ms", type=whole_number, metavar="MS", help="stop when no record comes for so long")
    parser.add_argument("--isolation-level", metavar="LEVEL", help=" or ".join(ISOLATION_LEVELS))
    parser.add_argument("--skip-message-on-error", action="store_true", help="go on after a record that does not read")
    parser.add_argument(
        "-f", dest="format_string", metavar="FORMAT", help="such as '%%k %%v\\n', as `ottla consume` takes it"
    )
    parser.add_argument("--formatter", default=DEFAULT_FORMATTER, metavar="CLASS", help="default, logging or noop")
    parser.add_argument("--formatter-config", metavar="FILE", help="properties file for the formatter")
    parser.add_argument("--key-deserializer", metavar="CLASS", help="String (default), Integer, Long, Double, …")
    parser.add_argument("--value-deserializer", metavar="CLASS", help="as --key-deserializer")
    parser.add_argument("--enable-systest-events", action="store_true", help="print the consumer's events too")
    parser.add_argument("--group", metavar="GROUP", help="read as a member of this consumer group")
    for new, old, meaning in (
        ("--formatter-property", "--property", "print.key=true, key.separator=:, …; repeatable"),
        ("--command-property", "--consumer-property", "a setting of the consumer, key=value; repeatable"),
    ):
        parser.add_argument(new, action="append", default=[], metavar="KEY=VALUE", help=meaning)
        parser.add_argument(old, action="append", default=[], metavar="KEY=VALUE", help=f"old name of {new}")
    parser.add_argument(
        "--consumer.config", dest="consumer_config", metavar="FILE", help="old name of --command-config"
    )
    output_option(parser, "text", "json", "jsonl")
    reading_options(parser)
    return parser


def check(args: Namespace) -> None:
    """Raise UsageError for options that are missing or do not go together."""
    for old, new in DEPRECATED.items():
        if getattr(args, old.replace("-", "_").replace(".", "_"), None):
            # Kafka's tool prints this among the records; here only records go to standard output.
            warn(f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    if args.bootstrap_server is None:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    if (args.topic is None) == (args.include is None):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if args.partition is not None and args.topic is None:
        raise UsageError("The topic is required when partition is specified.")
    position = None if args.offset is None else parse_position(args.offset, now_ms())
    if args.offset is not None and args.partition is None and (position is None or position.is_plain):
        raise UsageError("The partition is required when offset is specified.")
    if args.from_beginning and args.offset is not None:
        raise UsageError("Options from-beginning and offset cannot be specified together.")
    if args.group is not None and args.partition is not None:
        raise UsageError("Options group and partition cannot be specified together.")
    if args.offset is not None and position is None:
        raise UsageError(
            f"The provided offset value '{args.offset}' is incorrect. "
            "Valid values are 'earliest', 'latest', or a non-negative long."
        )


def check_group(named: str, configured: str | None) -> str:
    """Return the group; raises UsageError where two are named."""
    if configured is not None and configured != named:
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--command-property', or via "
            f"'--command-config') do not match. Detected group ids: '{named}', '{configured}'"
        )
    return named


def check_reset(args: Namespace, properties: dict[str, str]) -> None:
    """Let `--from-beginning` say where a group without offsets begins; raises UsageError for a contradiction."""
    reset = properties.get("auto.offset.reset")
    if args.from_beginning and reset not in (None, "earliest"):
        raise UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    if args.from_beginning:
        properties["auto.offset.reset"] = "earliest"


def reading(args: Namespace, properties: dict[str, str]) -> Reading:
    """Return what the options ask for; `check` has found them sound."""
    position = None if args.offset is None else parse_position(args.offset, now_ms())
    return Reading(
        noun="console-consumer",
        start=position or Position(Kind.FROM_START if args.from_beginning else Kind.FROM_END, 0),
        isolation=isolation_level(args.isolation_level, properties),
        topics=() if args.topic is None else (args.topic,),
        pattern=args.include,
        partitions=None if args.partition is None else frozenset([args.partition]),
        max_messages=None if args.max_messages in (None, -1) else max(0, args.max_messages),
        timeout_ms=None if args.timeout_ms is None or args.timeout_ms < 0 else args.timeout_ms,
        skip_message_on_error=args.skip_message_on_error,
    )


def formatter_properties(args: Namespace) -> dict[str, str]:
    """Return the formatter's properties: file, then single ones, then the two deserializer options."""
    found = properties_file(args.formatter_config) | key_values(args.property + args.formatter_property)
    for name in ("key", "value"):
        if named := getattr(args, f"{name}_deserializer"):
            found[f"{name}.deserializer"] = named
    return found


def isolation_level(given: str | None, properties: dict[str, str]) -> Isolation:
    """Return the level; raises ConfigError for a word that is none."""
    from ottla.client import Isolation

    level = given or properties.get("isolation.level", "read_uncommitted")
    if level not in ISOLATION_LEVELS:
        raise ConfigError("isolation.level", level, f"String must be one of: {', '.join(ISOLATION_LEVELS)}")
    return Isolation[level.upper()]


def _terminate(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
