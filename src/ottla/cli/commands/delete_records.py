"""`ottla delete-records`: drop what lies before an offset, with the flags and texts of `kafka-delete-records`.

The exit code is 1 where a partition failed; Kafka's own tool ends with 0 then.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.admin import duplicates, invalid_request
from ottla.base import Offset, OttlaError, TopicPartition
from ottla.cli.confirmation import confirmed, destruction_options
from ottla.cli.json_files import field, file_text, parsed, topic_partition
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import Options, check_required, open_client, output_option, properties_file
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client import DeletedRecords

__all__ = ["main", "parse_offsets"]

VERSION = 1


def main(argv: list[str]) -> int:
    """Delete, and say for each partition where it begins now."""
    from ottla.client import delete_records

    args = options().parse(argv)
    check_required(args, "bootstrap-server", "offset-json-file")
    try:
        wanted = parse_offsets(file_text(args.offset_json_file))
        if not confirmed(args, "delete the records before", [f"offset {o} of {p}" for p, o in wanted.items()]):
            return 0
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            if args.output == "text":
                print("Executing records delete operation")
            found = client.run(delete_records(client.client, wanted))
    except OttlaError as error:
        print(error, file=sys.stderr)
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
    document = parsed(text)
    if not isinstance(document.get("partitions"), list):
        raise invalid_request("Missing partitions field")
    version = document.get("version", VERSION)
    if version != VERSION:
        raise invalid_request(f"Not supported version field value {version}")
    found: dict[TopicPartition, Offset] = {}
    partitions = [topic_partition(each) for each in document["partitions"]]
    for each, partition in zip(document["partitions"], partitions, strict=True):
        found[partition] = Offset(field(each, "offset", int))
    if twice := duplicates(partitions):
        raise invalid_request(f"Offset json file contains duplicate topic partitions: {','.join(map(str, twice))}")
    return found


def show(form: str, found: Mapping[TopicPartition, DeletedRecords]) -> None:
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
