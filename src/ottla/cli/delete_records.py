"""`ottla delete-records`: drop what lies before an offset, with the flags and texts of `kafka-delete-records`.

The exit code is 1 where a partition failed; Kafka's own tool ends with 0 then.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError, NodeId, Offset, OttlaError, TopicPartition
from ottla.cli.confirmation import confirmed, destruction_options
from ottla.cli.group_queries import by_topic
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import Options, check_required, open_client, output_option, properties_file
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client import BlockingClient

__all__ = ["main", "parse_offsets"]

REQUEST_TIMEOUT_MS = 30_000
VERSION = 1
Outcome = tuple[int, ErrorCode]
"""The new log start offset, or the error."""


def main(argv: list[str]) -> int:
    """Delete, and say for each partition where it begins now."""
    args = options().parse(argv)
    check_required(args, "bootstrap-server", "offset-json-file")
    try:
        wanted = parse_offsets(Path(args.offset_json_file).read_bytes())
        if not confirmed(args, "delete the records before", [f"offset {o} of {p}" for p, o in wanted.items()]):
            return 0
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            if args.output == "text":
                print("Executing records delete operation")
            found = delete(client, wanted)
    except OttlaError as error:
        print(error, file=sys.stderr)
        return 1
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        print(f"Unable to read file {args.offset_json_file}", file=sys.stderr)
        return 1
    show(args.output, found)
    return 1 if any(code for _, code in found.values()) else 0


def options() -> Options:
    """Return the parser."""
    parser = Options("delete-records", "Delete the records before an offset of each partition.")
    parser.connection()
    parser.add_argument(
        "--offset-json-file",
        metavar="FILE",
        help='{"version":1,"partitions":[{"topic":"t","partition":0,"offset":3}]}; -1 is the end (required)',
    )
    output_option(parser)
    destruction_options(parser)
    return parser


def parse_offsets(text: str | bytes) -> dict[TopicPartition, Offset]:
    """Read the file's JSON; raises KafkaError for what is missing in it, or double."""
    try:
        document = json.loads(text)
    except ValueError:
        raise invalid("The input string is not a valid JSON") from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise invalid("Missing partitions field")
    version = document.get("version", VERSION)
    if version != VERSION:
        raise invalid(f"Not supported version field value {version}")
    found: dict[TopicPartition, Offset] = {}
    twice = []
    for each in document["partitions"]:
        partition = TopicPartition(str(field(each, "topic", str)), int(field(each, "partition", int)))
        if partition in found:
            twice.append(str(partition))
        found[partition] = Offset(int(field(each, "offset", int)))
    if twice:
        raise invalid(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return found


def field(each: Any, name: str, kind: type) -> Any:
    """Return a field of one entry; raises KafkaError where it is missing or of another kind."""
    if not isinstance(each, dict) or name not in each:
        raise invalid(f"No such field exists: `{name}`")
    if not isinstance(each[name], kind) or isinstance(each[name], bool):
        raise invalid(f"The field `{name}` is {each[name]!r}, which is not of type {kind.__name__}")
    return each[name]


def invalid(message: str) -> KafkaError:
    """Return the error of a file that cannot be used."""
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def delete(client: BlockingClient, wanted: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Outcome]:
    """Ask each partition's leader; what nobody leads fails alone."""
    cluster = client.metadata({each.topic for each in wanted})
    found: dict[TopicPartition, Outcome] = {}
    by_leader: dict[NodeId, dict[TopicPartition, Offset]] = {}
    for partition, offset in wanted.items():
        leader = cluster.leader_of(partition)
        if leader is None:
            known = partition in cluster.partitions_of(partition.topic)
            found[partition] = (
                -1,
                ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        else:
            by_leader.setdefault(leader, {})[partition] = offset
    for leader, offsets in by_leader.items():
        found |= ask(client, leader, offsets)
    return {each: found[each] for each in wanted}


def ask(
    client: BlockingClient, leader: NodeId, offsets: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, Outcome]:
    """Send one broker its partitions."""
    from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

    topics = [
        DeleteRecordsTopic(
            name=name,
            partitions=[DeleteRecordsPartition(partition_index=p.partition, offset=offsets[p]) for p in partitions],
        )
        for name, partitions in by_topic(offsets).items()
    ]
    response = client.request(DeleteRecordsRequest(topics=topics, timeout_ms=REQUEST_TIMEOUT_MS), node=leader)
    return {
        TopicPartition(topic.name, each.partition_index): (each.low_watermark, ErrorCode(each.error_code))
        for topic in response.topics
        for each in topic.partitions
    }


def show(form: str, found: Mapping[TopicPartition, Outcome]) -> None:
    """Print Kafka's lines, or another form."""
    if form == "text":
        print("Records delete operation completed:")
        for partition, (offset, code) in found.items():
            print(
                f"partition: {partition}\t" + (f"error: {exception_text(code)}" if code else f"low_watermark: {offset}")
            )
        return
    rows = [
        {**each._asdict(), "lowWatermark": None if code else offset, "error": code.name if code else None}
        for each, (offset, code) in found.items()
    ]
    columns = {"TOPIC": "topic", "PARTITION": "partition", "LOW-WATERMARK": "lowWatermark", "ERROR": "error"}
    print_answer(form, Answer(rows, columns))
