"""`ottla leader-election`: have other copies lead, with the flags and texts of `kafka-leader-election`."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.admin import by_topic, duplicates, invalid_request, raise_code
from ottla.base import ErrorCode, KafkaError, OttlaError, TopicPartition
from ottla.cli.json_files import file_text, parsed, topic_partition
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import Options, UsageError, open_client, output_option, properties_file, whole_number
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["main"]

TYPES = ("PREFERRED", "UNCLEAN")
"""Kinds of elections; the place is the number in ElectLeaders."""
CHOICES = ("topic", "all-topic-partitions", "path-to-json-file")
TIMEOUT_MS = 30_000
IMPATIENCE = {"default.api.timeout.ms": "30000", "request.timeout.ms": "15000"}
Outcomes = dict[TopicPartition, tuple[ErrorCode, str | None]]


def main(argv: list[str]) -> int:
    """Hold the election and say what came of it; 1 where a partition could not be led."""
    if not argv:
        raise UsageError(
            "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported "
            "are preferred replicas and unclean replicas."
        )
    args = options().parse(argv)
    kind = check(args)
    try:
        wanted = partitions_of(args)
        if args.admin_config:
            print(
                "Option --admin.config has been deprecated and will be removed in a future version. "
                "Use --command-config instead."
            )
        properties = IMPATIENCE | properties_file(args.admin_config or args.command_config)
        with open_client(args.bootstrap_server, properties) as client:
            found = elect(client, kind, wanted)
    except OttlaError as error:
        if isinstance(error, KafkaError) and error.code is ErrorCode.REQUEST_TIMED_OUT:
            print("Timeout waiting for election results", file=sys.stdout if args.output == "text" else sys.stderr)
        print(error, file=sys.stderr)
        return 1
    return show(args, kind, found)


def options() -> Options:
    """Return the parser."""
    parser = Options("leader-election", "Have partitions led by their preferred copies, or by any that is left.")
    parser.connection()
    parser.add_argument("--admin.config", dest="admin_config", metavar="FILE", help="old name of --command-config")
    parser.add_argument(
        "--election-type",
        metavar="preferred|unclean",
        help="preferred: the first copy leads where it is in sync; unclean: any copy leads where none in sync is left, "
        "and records may be lost (required)",
    )
    parser.add_argument("--all-topic-partitions", action="store_true", help="every partition that needs it")
    parser.add_argument("--topic", metavar="TOPIC", help="a partition of this topic")
    parser.add_argument("--partition", type=whole_number, metavar="N", help="the partition of --topic")
    parser.add_argument(
        "--path-to-json-file", metavar="FILE", help='these: {"partitions":[{"topic":"t","partition":0}]}'
    )
    output_option(parser)
    return parser


def check(args: Namespace) -> int:
    """Return the kind of election; raises UsageError for options that are missing or do not go together."""
    kind = -1
    if args.election_type is not None:
        if args.election_type.upper() not in TYPES:
            raise UsageError(f"Cannot parse argument '{args.election_type}' of option election-type")
        kind = TYPES.index(args.election_type.upper())
    if kind < 0:
        raise UsageError("Missing required option(s): election-type")
    chosen = [name for name in CHOICES if getattr(args, name.replace("-", "_")) not in (None, False)]
    if len(chosen) != 1:
        raise UsageError(f"One and only one of the following options is required: {', '.join(CHOICES)}")
    if args.topic is not None and args.partition is None:
        raise UsageError("Missing required option(s): partition")
    if args.topic is None and args.partition is not None:
        raise UsageError("Option partition is only allowed if topic is used")
    return kind


def partitions_of(args: Namespace) -> list[TopicPartition] | None:
    """Return the partitions that were named, None for all; raises KafkaError for a file that names none."""
    if args.topic is not None:
        return [TopicPartition(args.topic, args.partition)]
    if args.path_to_json_file is None:
        return None
    document = parsed(file_text(args.path_to_json_file), "Replica election data is empty")
    if "partitions" not in document:
        raise invalid_request('Replica election data is missing "partitions" field')
    found = [topic_partition(each) for each in document["partitions"]]
    if twice := duplicates(found):
        raise invalid_request(f"Replica election data contains duplicate partitions: [{', '.join(map(str, twice))}]")
    return found


def elect(client: BlockingClient, kind: int, wanted: Collection[TopicPartition] | None) -> Outcomes:
    """Hold the election; raises KafkaError where it could not be held at all."""
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    topics = None
    if wanted is not None:
        topics = [
            TopicPartitions(topic=name, partitions=[each.partition for each in found])
            for name, found in by_topic(wanted).items()
        ]
    message = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=TIMEOUT_MS)
    response = client.request(message, lowest=kind)
    raise_code(response.error_code)
    return {
        TopicPartition(result.topic, each.partition_id): (ErrorCode(each.error_code), each.error_message)
        for result in response.replica_election_results
        for each in result.partition_result
    }


def show(args: Namespace, kind: int, found: Outcomes) -> int:
    """Print what came of it; return the exit code."""
    by_status: dict[str, list[TopicPartition]] = {"elected": [], "not needed": [], "failed": []}
    for partition, (code, _) in sorted(found.items()):
        by_status[status(code)].append(partition)
    failed = by_status["failed"]
    if args.output == "text":
        if elected := by_status["elected"]:
            listed = ", ".join(map(str, elected))
            print(f"Successfully completed leader election ({TYPES[kind]}) for partitions {listed}")
        if idle := by_status["not needed"]:
            print(f"Valid replica already elected for partitions {', '.join(map(str, idle))}")
        for partition in failed:
            reason = exception_text(*found[partition])
            print(f"Error completing leader election ({TYPES[kind]}) for partition: {partition}: {reason}")
    else:
        rows = [
            {**partition._asdict(), "status": status(code), "error": None if status(code) != "failed" else code.name}
            for partition, (code, _) in sorted(found.items())
        ]
        columns = {"TOPIC": "topic", "PARTITION": "partition", "STATUS": "status", "ERROR": "error"}
        print_answer(args.output, Answer(rows, columns))
    if failed:
        print(f"{len(failed)} replica(s) could not be elected", file=sys.stderr)
    return 1 if failed else 0


def status(code: ErrorCode) -> str:
    """Return in a word what came of one partition."""
    return {ErrorCode.NONE: "elected", ErrorCode.ELECTION_NOT_NEEDED: "not needed"}.get(code, "failed")
