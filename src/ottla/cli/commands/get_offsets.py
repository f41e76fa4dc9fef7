"""`ottla get-offsets`: partitions' offsets, by time too, with the flags and texts of `kafka-get-offsets`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.base import INTERNAL_TOPICS, ErrorCode, KafkaError, Millis, OttlaError, TopicPartition
from ottla.cli.options import Options, UsageError, compiled_regex, open_client, output_option, properties_file
from ottla.cli.output import Answer, print_answer
from ottla.cli.records.positions import now_ms, parse_moment
from ottla.cli.watch import watch_option, watched

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient, ListedOffset

__all__ = ["main"]

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
"""Words for `--time`, and what stands for them on the wire (KIP-734, KIP-405, KIP-1005, KIP-1023)."""

RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
Selects = Callable[[TopicPartition], bool]


def main(argv: list[str]) -> int:
    """Print `topic:partition:offset` for what the options select."""
    args = options().parse(argv)
    if args.bootstrap_server is None:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    try:
        if args.topic_partitions is not None and (args.topic is not None or args.partitions is not None):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "--topic-partitions cannot be used with --topic or --partitions"
            )
        parse_time(args.time)
        selects = selection(args)
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            watched(args, lambda: show(offsets(client, parse_time(args.time), selects), args))
    except OttlaError as error:
        print(f"Error occurred: {error}", file=sys.stderr)
        return 1
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options("get-offsets", "Print partitions' offsets.")
    parser.connection()
    parser.add_argument("--broker-list", dest="bootstrap_server", metavar="HOST:PORT,…", help="its name before 4.0")
    parser.add_argument("--topic", metavar="REGEX", help="topics, by a regular expression (default: all)")
    parser.add_argument("--partitions", metavar="0,1", help="partitions of those topics (default: all)")
    parser.add_argument(
        "--topic-partitions", metavar="t1:1,t2:0-3,t3,t4:5-,t5:-3", help="rules of topic and partitions instead"
    )
    parser.add_argument(
        "--time",
        default="latest",
        metavar="TIME",
        help=f"{', '.join(TIMES)}, -1 to -6, a timestamp, -1h, or @2026-01-01T00:00",
    )
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave internal topics out")
    output_option(parser)
    watch_option(parser)
    return parser


def parse_time(text: str) -> Millis:
    """Return the timestamp that `--time` means; raises KafkaError for what is none."""
    if text in TIMES:
        return Millis(TIMES[text])
    if re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII) and abs(int(text)) < 1 << 63:
        return Millis(int(text))
    moment = parse_moment(text, now_ms())
    if moment is not None:
        return moment
    known = " / ".join(f"{number} or {word}" for word, number in TIMES.items())
    message = f"Malformed time argument {text}. Please use {known}, or a specified long format timestamp"
    raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def selection(args: Namespace) -> Selects:
    """Return what decides whether a partition is printed."""
    chosen = _by_rules(args.topic_partitions) if args.topic_partitions is not None else _by_topic(args)
    if not args.exclude_internal_topics:
        return chosen
    return lambda partition: partition.topic not in INTERNAL_TOPICS and chosen(partition)


def _by_topic(args: Namespace) -> Selects:
    expression = compiled_regex(args.topic or ".*")
    partitions: set[int] | None = None
    if args.partitions:
        parts = [part.strip() for part in args.partitions.split(",")]
        for part in parts:
            if not part.isdecimal():
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"--partitions expects a comma separated list of numeric partition ids, but received: {part}",
                )
        partitions = set(map(int, parts))
    return lambda each: bool(expression.fullmatch(each.topic)) and (partitions is None or each.partition in partitions)


def _by_rules(text: str) -> Selects:
    rules = [_rule(part) for part in text.split(",")]
    return lambda partition: any(rule(partition) for rule in rules)


def _rule(text: str) -> Selects:
    match = RULE.fullmatch(text)
    if match is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid rule specification: {text}")
    topic = compiled_regex(match[1] or ".*")
    if match[2]:
        low, high = int(match[2]), int(match[2]) + 1
    else:
        low, high = int(match[3] or 0), int(match[4]) if match[4] else sys.maxsize
    return lambda partition: bool(topic.fullmatch(partition.topic)) and low <= partition.partition < high


def offsets(client: BlockingClient, time: Millis, selects: Selects) -> list[ListedOffset]:
    """Ask for the selected partitions' offsets; a partition that cannot answer is left out with a line that says so."""

    cluster = client.metadata()
    wanted = [each for topic in cluster.topics for each in cluster.partitions_of(topic) if selects(each)]
    if not wanted:
        message = "Could not match any topic-partitions with the specified filters"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    found: list[ListedOffset] = []
    alone = [each for each in wanted if cluster.leader_of(each) is None]
    for partition in alone:
        print(f"Skip getting offsets for topic-partition {partition} due to error: it has no leader", file=sys.stderr)
    asked = {each: time for each in wanted if each not in alone}
    if asked:
        found += client.list_offsets(asked).values()
    return sorted(found, key=lambda each: str(each.partition))


def show(found: list[ListedOffset], args: Namespace) -> None:
    """Print what was found; a partition without such an offset is not printed."""
    rows = [(each.partition.topic, each.partition.partition, each.offset) for each in found if each.offset >= 0]
    if args.output == "text":
        for row in rows:
            print(*row, sep=":")
        return
    keys = ("topic", "partition", "offset")
    columns = {key.upper(): key for key in keys}
    print_answer(args.output, Answer([dict(zip(keys, row, strict=True)) for row in rows], columns))
