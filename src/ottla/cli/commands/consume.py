"""`ottla consume TOPIC…`: records as lines, JSON lines or by a format, from anywhere to anywhere."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NoReturn

from ottla.base import ErrorCode, KafkaError
from ottla.cli.commands.console_consumer import isolation_level
from ottla.cli.options import Options, UsageError, count_of, key_values, open_client, properties_file, whole_number
from ottla.cli.records.formatters import Formatter, json_formatter
from ottla.cli.records.group_printing import GroupPrinting
from ottla.cli.records.positions import POSITIONS, Kind, Position, now_ms, parse_position
from ottla.cli.records.printing import Printing, Reading
from ottla.cli.records.record_format import format_renderer
from ottla.cli.records.schemas import decoded, reading_options

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "options"]

END = Position(Kind.FROM_END, 0)


def main(argv: list[str]) -> int:
    """Print records until the end that was asked for, or until told to stop."""
    args = options().parse(argv)
    if not args.topic:
        raise UsageError("ottla consume TOPIC")
    if args.format is not None and args.output != "text":
        raise UsageError("--format and --output cannot be used together")
    if args.group is not None and (args.partition or args.exit or args.until is not None or args.tail is not None):
        raise UsageError("--group goes with none of --partition, --until, --exit, --tail: the group says what is read")
    properties = properties_file(args.command_config) | key_values(args.property)
    reading = Reading(
        noun="consume",
        start=Position(Kind.FROM_END, args.tail) if args.tail is not None else position(args.start, "--from"),
        isolation=isolation_level("read_committed" if args.read_committed else None, properties),
        topics=() if args.regex else tuple(dict.fromkeys(args.topic)),
        pattern=",".join(args.topic) if args.regex else None,
        partitions=None if not args.partition else frozenset(args.partition),
        until=END if args.exit or args.tail is not None else None,
        max_messages=args.number,
        timeout_ms=args.timeout_ms,
    )
    if args.until is not None:
        reading = _until(reading, args.until)
    render = decoded(renderer(args), args)
    signal.signal(signal.SIGTERM, _terminate)
    if args.group is not None:
        properties |= {"group.id": args.group, "bootstrap.servers": args.bootstrap_server}
        return GroupPrinting(properties, reading, render).run()
    with open_client(args.bootstrap_server, properties, "ottla-consume") as client:
        return Printing(client, reading, render).run()


def options() -> Options:
    """Return the parser."""
    parser = Options("consume", "Print records of topics, from the first one on unless told otherwise.")
    parser.connection()
    parser.add_argument("topic", nargs="*", metavar="TOPIC", help="the topics")
    parser.add_argument("-r", "--regex", action="store_true", help="TOPIC is a regular expression")
    parser.add_argument(
        "--from", dest="start", default="earliest", metavar="POSITION", help=f"{POSITIONS}; default: earliest"
    )
    parser.add_argument("--until", metavar="POSITION", help="where to stop, in the same words as --from")
    parser.add_argument("-e", "--exit", action="store_true", help="stop at what is the end now")
    parser.add_argument("--tail", type=count_of, metavar="N", help="the last N of each partition, and stop")
    parser.add_argument("-g", "--group", metavar="GROUP", help="as a member of this group, whose positions count")
    parser.add_argument("--timeout-ms", type=count_of, metavar="MS", help="stop when no record comes for so long")
    parser.add_argument("-n", "--number", type=count_of, metavar="N", help="stop after so many records")
    parser.add_argument(
        "-p", "--partition", type=whole_number, action="append", default=[], metavar="N", help="only this; repeatable"
    )
    parser.add_argument(
        "-f", "--format", metavar="FORMAT", help="such as '%%t %%p %%o %%k %%v %%h %%d\\n'; see docs/command-line.md"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "jsonl"), default="text", help="text: values; json: one line each"
    )
    parser.add_argument("--read-committed", action="store_true", help="leave out what aborted transactions wrote")
    parser.add_argument(
        "-X", "--property", action="append", default=[], metavar="KEY=VALUE", help="a setting of the consumer"
    )
    reading_options(parser)
    return parser


def position(text: str, option: str) -> Position:
    """Return what the text means; raises KafkaError where it means nothing."""
    found = parse_position(text, now_ms())
    if found is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{option} {text}: one of these is expected: {POSITIONS}")
    return found


def _until(reading: Reading, text: str) -> Reading:
    from dataclasses import replace

    return replace(reading, until=position(text, "--until"))


def renderer(args: Namespace) -> Formatter:
    """Return what writes each record."""
    if args.output != "text":
        return json_formatter({})
    return format_renderer("%v\\n" if args.format is None else args.format)


def _terminate(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
