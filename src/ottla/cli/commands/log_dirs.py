"""`ottla log-dirs`: what lies in the brokers' data folders, with the flags and texts of `kafka-log-dirs`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError, NodeId, OttlaError
from ottla.cli.options import Options, check_required, open_client, output_option, properties_file
from ottla.cli.output import Answer, print_answer, print_json
from ottla.cli.watch import watch_option, watched

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Ask the brokers and print, with `--watch` again and again; Kafka's two lines stand before its own JSON only."""
    args = options().parse(argv)
    check_required(args, "bootstrap-server", "describe")
    try:
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            watched(args, lambda: show(client, args))
    except OttlaError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


def show(client: BlockingClient, args: Namespace) -> None:
    """Ask the brokers and print what they said."""
    topics = [topic for topic in (args.topic_list or "").split(",") if topic]
    brokers = chosen_brokers(client, args.broker_list or "")
    if args.output == "text":
        print("Querying brokers for log directories information")
    found = [describe(client, broker, topics) for broker in brokers]
    if args.output == "text":
        print(f"Received log directory information from brokers {','.join(map(str, brokers))}")
        print_json({"brokers": found, "version": 1})
    else:
        print_answer(args.output, answer(found))


def options() -> Options:
    """Return the parser."""
    parser = Options("log-dirs", "Print what lies in the brokers' data folders.")
    parser.connection()
    parser.add_argument("--describe", action="store_true", help="describe the folders (required)")
    parser.add_argument("--topic-list", metavar="t1,t2", help="these topics only")
    parser.add_argument("--broker-list", metavar="0,1", help="these brokers only")
    output_option(parser)
    watch_option(parser)
    return parser


def chosen_brokers(client: BlockingClient, text: str) -> list[NodeId]:
    """Return the brokers to ask, all where none are named; raises KafkaError for one that does not exist."""
    existing = sorted(client.metadata(()).nodes)
    try:
        wanted = list(dict.fromkeys(NodeId(int(part)) for part in text.split(",") if part))
    except ValueError:
        bad = next(part for part in text.split(",") if part and not part.lstrip("-").isdecimal())
        raise KafkaError(ErrorCode.INVALID_REQUEST, f'For input string: "{bad}"') from None
    missing = [broker for broker in wanted if broker not in existing]
    if missing:
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"The given brokers do not exist from --broker-list: {','.join(map(str, missing))}. "
            f"Current existent brokers: {','.join(map(str, existing))}",
        )
    return wanted or existing


def describe(client: BlockingClient, broker: NodeId, topics: list[str]) -> dict[str, Any]:
    """Return one broker's folders, its keys in the order in which Kafka writes them."""
    from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

    response = client.request(DescribeLogDirsRequest(topics=None), node=broker)
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), f"broker {broker}: {ErrorCode(response.error_code).name}")
    return {
        "broker": broker,
        "logDirs": [
            {
                "partitions": [
                    {
                        "partition": f"{topic.name}-{each.partition_index}",
                        "size": each.partition_size,
                        "offsetLag": each.offset_lag,
                        "isFuture": each.is_future_key,
                    }
                    for topic in result.topics
                    if not topics or topic.name in topics
                    for each in topic.partitions
                ],
                "error": ErrorCode(result.error_code).name if result.error_code else None,
                "logDir": result.log_dir,
            }
            for result in response.results
        ],
    }


def answer(brokers: list[dict[str, Any]]) -> Answer:
    """Return the answer with one row per partition, and Kafka's own document."""
    rows = [
        {"broker": broker["broker"], "logDir": folder["logDir"], **each, "error": folder["error"]}
        for broker in brokers
        for folder in broker["logDirs"]
        for each in folder["partitions"]
    ]
    columns = {"BROKER": "broker", "LOG-DIR": "logDir", "PARTITION": "partition", "SIZE": "size"}
    wide = {"OFFSET-LAG": "offsetLag", "FUTURE": "isFuture", "ERROR": "error"}
    document = {"brokers": brokers, "version": 1}
    return Answer(rows, columns, wide, name="partition", document=document)
