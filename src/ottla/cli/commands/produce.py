"""`ottla produce TOPIC`: what standard input holds becomes records: lines, a format, or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base import ErrorCode, KafkaError
from ottla.cli.commands.console_producer import ACKS, CODECS, Sender
from ottla.cli.options import Options, UsageError, key_values, properties_file, warn, whole_number
from ottla.cli.records.json_lines import read_json_lines
from ottla.cli.records.librdkafka import check_reachable
from ottla.cli.records.line_reader import Line, LineReader, LineRules
from ottla.cli.records.record_format import FormatReader
from ottla.cli.records.schemas import encoded, writing_options

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "options"]


def main(argv: list[str]) -> int:
    """Send every record; 0 when all were acknowledged, 1 when one was refused."""
    args = options().parse(argv)
    if args.topic is None and args.form != "jsonl" and "%t" not in (args.format or ""):
        raise UsageError("ottla produce TOPIC: only JSON lines, and a format with %t, name each record's own topic")
    if args.format is not None and args.form == "jsonl":
        raise UsageError("--format and -o jsonl cannot be used together: each says what the input looks like")
    properties = client_properties(args)
    records = encoded(finished(read(args), args), args)
    topics = [] if args.topic is None else [args.topic]
    check_reachable(properties, timeout_ms=properties.get("max.block.ms", "60000"), topics=topics)
    sender = Sender(args.topic, properties, each_alone=False, noun="produce")
    code = sender.run(records)
    if sys.stderr.isatty():
        warn(f"{sender.delivered} records written")
    return code


def options() -> Options:
    """Return the parser."""
    parser = Options("produce", "Write records from standard input: one per line, by a format, or as JSON lines.")
    parser.connection()
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="the topic; JSON lines may name it themselves")
    parser.add_argument(
        "-o", "--form", choices=("text", "jsonl"), default="text", help="text (default), or what consume -o jsonl wrote"
    )
    parser.add_argument("-f", "--format", metavar="FORMAT", help="what a record looks like, such as '%%k:%%v\\n'")
    parser.add_argument("-k", "--key", metavar="KEY", help="the key of every record that has none")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="on every record")
    parser.add_argument("-Z", "--tombstone", action="store_true", help="an empty value is null: it deletes its key")
    parser.add_argument("-p", "--partition", type=whole_number, metavar="N", help="the partition of every record")
    parser.add_argument("--keep-partition", action="store_true", help="with -o jsonl: to the partition that they name")
    parser.add_argument("-z", "--compression", choices=CODECS, default="none", help="how batches are compressed")
    parser.add_argument("--acks", choices=ACKS, default="all", help="how many copies must have it (default: all)")
    parser.add_argument(
        "-X", "--property", action="append", default=[], metavar="KEY=VALUE", help="a setting of the producer"
    )
    writing_options(parser)
    return parser


def client_properties(args: Namespace) -> dict[str, str]:
    """Return the producer's settings by Kafka's names; its defaults, and what the options say."""
    given = properties_file(args.command_config) | key_values(args.property)
    own = {"acks": args.acks, "compression.type": args.compression, "retries": "2147483647", "linger.ms": "5"}
    return {"client.id": "ottla-produce"} | own | given | {"bootstrap.servers": args.bootstrap_server}


def read(args: Namespace) -> Iterator[Line]:
    """Yield the records as the input has them."""
    source = sys.stdin.buffer
    if args.form == "jsonl":
        return read_json_lines(source, keep_partition=args.keep_partition)
    if args.format is not None:
        return FormatReader(args.format).read(source)
    return LineReader(LineRules()).read(source)


def finished(records: Iterable[Line], args: Namespace) -> Iterator[Line]:
    """Yield the records with what the options lay on every one."""
    key = None if args.key is None else args.key.encode()
    common = []
    for header in args.header:
        name, equals, value = header.partition("=")
        if not equals:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"--header {header}: NAME=VALUE is expected")
        common.append((name, value.encode()))

    def each() -> Iterator[Line]:
        for record in records:
            yield replace(
                record,
                key=key if record.key is None else record.key,
                value=None if args.tombstone and not record.value else record.value,
                headers=[*record.headers, *common],
                partition=record.partition if args.partition is None else args.partition,
            )

    return each()
