"""`ottla transactions`: list, describe, find and abort transactions, with the flags and texts of `kafka-transactions`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.admin import (
    PartitionProducer,
    TransactionAbort,
    abort_transaction,
    describe_producers,
    describe_transaction,
    find_hanging_transactions,
    led_partitions,
    list_transactions,
    plan_abort,
    terminate_transaction,
)
from ottla.base import ErrorCode, KafkaError, OttlaError, TopicPartition
from ottla.cli.actions import parse_action
from ottla.cli.confirmation import confirmed, destruction_options
from ottla.cli.options import (
    Options,
    UsageError,
    check_required,
    open_client,
    output_option,
    properties_file,
    whole_number,
)
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["main", "parsers"]

MINUTE_MS = 60_000
MAX_TRANSACTION_MINUTES = 15
"""`transaction.max.timeout.ms` as it is by default: what is open for longer has been forgotten by its coordinator."""
NONE = "None"
REQUIRED = {
    "list": (),
    "describe": ("transactional-id",),
    "describe-producers": ("topic",),
    "abort": ("topic",),
    "find-hanging": (),
    "forceTerminateTransaction": ("transactional-id",),
}

Head = Sequence[tuple[str, str]]
"""Columns: Kafka's head, and the key in a row."""


def main(argv: list[str]) -> int:
    """Run one action; a failure of the cluster's is one line on standard error."""
    action, args = parse_action("transactions", {each.prog.split()[-1]: each for each in parsers()}, argv)
    check_required(args, "bootstrap-server", *REQUIRED[action])
    if action in ("describe-producers", "abort") and args.partition is None:
        raise UsageError('Missing required argument "[partition]"')
    run = {
        "list": run_list,
        "describe": run_describe,
        "describe-producers": run_describe_producers,
        "abort": run_abort,
        "find-hanging": run_find_hanging,
        "forceTerminateTransaction": run_force_termination,
    }[action]
    if action == "find-hanging" and args.topic is None:
        check_scope(args)
    try:
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            run(client, args)
    except OttlaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def check_scope(args: Namespace) -> None:
    """Raise UsageError where find-hanging would have to look at every partition of the cluster."""
    if args.partition is not None:
        raise UsageError("The --partition argument requires --topic to be provided")
    if args.broker_id is None:
        raise UsageError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )


def parsers() -> list[Options]:
    """Return the actions' parsers."""
    listing = _parser("list", "List transactions.")
    listing.add_argument("--duration-filter", type=whole_number, metavar="MS", help="those open for longer (KIP-994)")
    listing.add_argument("--transactional-id-pattern", metavar="REGEX", help="those with such an id (KIP-1152)")
    describing = _parser("describe", "Describe the state of a transactional id.")
    describing.add_argument("--transactional-id", metavar="ID", help="the transactional id (required)")
    producers = _parser("describe-producers", "Describe the producers that a partition knows.")
    _of_partition(producers)
    producers.add_argument("--broker-id", type=whole_number, metavar="ID", help="ask this broker, not the leader")
    aborting = _parser("abort", "Abort a hanging transaction.", output=False)
    _of_partition(aborting)
    aborting.add_argument("--start-offset", type=whole_number, metavar="OFFSET", help="where the transaction begins")
    aborting.add_argument("--producer-id", type=whole_number, metavar="ID", help="in its place: the producer's id,")
    aborting.add_argument("--producer-epoch", type=whole_number, metavar="EPOCH", help="its epoch,")
    aborting.add_argument("--coordinator-epoch", type=whole_number, metavar="EPOCH", help="and its coordinator's epoch")
    destruction_options(aborting)
    finding = _parser("find-hanging", "Find transactions that nobody will end.")
    finding.add_argument(
        "--broker-id", type=whole_number, metavar="ID", help="in the partitions that this broker leads"
    )
    finding.add_argument("--topic", metavar="TOPIC", help="in this topic")
    finding.add_argument("--partition", type=whole_number, metavar="N", help="in this partition of it")
    finding.add_argument(
        "--max-transaction-timeout",
        type=whole_number,
        metavar="MINUTES",
        default=MAX_TRANSACTION_MINUTES,
        help=f"those without a record for so long (default {MAX_TRANSACTION_MINUTES})",
    )
    terminating = _parser(
        "forceTerminateTransaction", "Fence a transactional id, and abort its transaction.", output=False
    )
    terminating.add_argument("--transactional-id", metavar="ID", help="the transactional id (required)")
    destruction_options(terminating)
    return [listing, describing, producers, aborting, finding, terminating]


def _parser(action: str, description: str, *, output: bool = True) -> Options:
    parser = Options(f"transactions {action}", description)
    parser.connection()
    if output:
        output_option(parser)
    return parser


def _of_partition(parser: Options) -> None:
    parser.add_argument("--topic", metavar="TOPIC", help="topic (required)")
    parser.add_argument("--partition", type=whole_number, metavar="N", help="partition (required)")


# -- actions


def run_list(client: BlockingClient, args: Namespace) -> None:
    """Print the transactional ids of every coordinator."""
    duration_ms = -1 if args.duration_filter is None else args.duration_filter
    found = list_transactions(client, duration_ms=duration_ms, pattern=args.transactional_id_pattern)
    head = (
        ("TransactionalId", "transactionalId"),
        ("Coordinator", "coordinator"),
        ("ProducerId", "producerId"),
        ("TransactionState", "state"),
    )
    rows = [
        {
            "transactionalId": each.transactional_id,
            "coordinator": each.coordinator,
            "producerId": each.producer_id,
            "state": each.state,
        }
        for each in found
    ]
    show(args.output, head, rows)


def run_describe(client: BlockingClient, args: Namespace) -> None:
    """Print one transactional id's state."""
    name = args.transactional_id
    try:
        found = describe_transaction(client, name)
    except KafkaError as error:
        why = str(error)
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            why = f"DescribeTransactions request for transactionalId `{name}` failed because the ID could not be found"
        text = f"Failed to describe transaction state of transactional-id `{name}`: {why}. "
        raise KafkaError(error.code, text + "Enable debug logging for additional detail.") from error
    head = (
        ("CoordinatorId", "coordinator"),
        ("TransactionalId", "transactionalId"),
        ("ProducerId", "producerId"),
        ("ProducerEpoch", "producerEpoch"),
        ("TransactionState", "state"),
        ("TransactionTimeoutMs", "timeoutMs"),
        ("CurrentTransactionStartTimeMs", "startTimeMs"),
        ("TransactionDurationMs", "durationMs"),
        ("TopicPartitions", "partitions"),
    )
    row = {
        "coordinator": found.coordinator,
        "transactionalId": found.transactional_id,
        "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "state": found.state,
        "timeoutMs": found.timeout_ms,
        "startTimeMs": found.started_ms,
        "durationMs": None if found.started_ms is None else now_ms() - found.started_ms,
        "partitions": ",".join(map(str, found.partitions)),
    }
    show(args.output, head, [row])


def run_describe_producers(client: BlockingClient, args: Namespace) -> None:
    """Print the producers that a partition knows."""
    partition = TopicPartition(args.topic, args.partition)
    try:
        found = describe_producers(client, partition, args.broker_id)
    except KafkaError as error:
        where = "" if args.broker_id is None else f"broker {args.broker_id} for "
        text = f"Failed to describe producers for {where}partition `{partition}`: {error}. "
        raise KafkaError(error.code, text + "Enable debug logging for additional detail.") from error
    head = (
        ("ProducerId", "producerId"),
        ("ProducerEpoch", "producerEpoch"),
        ("LatestCoordinatorEpoch", "coordinatorEpoch"),
        ("LastSequence", "lastSequence"),
        ("LastTimestamp", "lastTimestamp"),
        ("CurrentTransactionStartOffset", "startOffset"),
    )
    show(args.output, head, [_row(each) for each in found])


def _row(producer: PartitionProducer) -> dict[str, object]:
    return {
        "topic": producer.partition.topic,
        "partition": producer.partition.partition,
        "producerId": producer.producer_id,
        "producerEpoch": producer.epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "lastSequence": producer.last_sequence,
        "lastTimestamp": producer.last_timestamp,
        "startOffset": producer.start_offset if producer.start_offset >= 0 else None,
    }


def run_abort(client: BlockingClient, args: Namespace) -> None:
    """Have the transaction aborted that begins at an offset, or is a producer's."""
    partition = TopicPartition(args.topic, args.partition)
    if args.start_offset is not None:
        abort = plan_abort(client, partition, args.start_offset)
    elif None in (args.producer_id, args.producer_epoch, args.coordinator_epoch):
        raise UsageError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    else:
        abort = TransactionAbort(partition, args.producer_id, args.producer_epoch, args.coordinator_epoch)
    name = f"of producer {abort.producer_id} in {partition}"
    if not confirmed(args, "abort the transaction", [name], asked_for=[name]):
        return
    try:
        abort_transaction(client, abort)
    except KafkaError as error:
        raise KafkaError(error.code, f"Failed to abort the transaction {name}: {error}") from error


def run_find_hanging(client: BlockingClient, args: Namespace) -> None:
    """Print the open transactions that nobody will end."""
    found = led_partitions(client, args.topic, args.broker_id)
    wanted = [each for each in found if args.partition in (None, each.partition)]
    now = now_ms()
    hanging = find_hanging_transactions(
        client, wanted, older_than_ms=args.max_transaction_timeout * MINUTE_MS, now_ms=now
    )
    head = (
        ("Topic", "topic"),
        ("Partition", "partition"),
        ("ProducerId", "producerId"),
        ("ProducerEpoch", "producerEpoch"),
        ("CoordinatorEpoch", "coordinatorEpoch"),
        ("StartOffset", "startOffset"),
        ("LastTimestamp", "lastTimestamp"),
        ("Duration(min)", "minutes"),
    )
    rows = [{**_row(each), "minutes": (now - each.last_timestamp) // MINUTE_MS} for each in hanging]
    show(args.output, head, rows)


def run_force_termination(client: BlockingClient, args: Namespace) -> None:
    """Fence whoever has the transactional id."""
    name = args.transactional_id
    if confirmed(args, "terminate the transaction of", [name], asked_for=[name]):
        terminate_transaction(client, name)


# -- printing


def now_ms() -> int:
    """Return the wall clock's time."""
    return int(time.time() * 1000)


def show(form: str, head: Head, rows: list[dict[str, Any]]) -> None:
    """Print rows in a form; Kafka's own has a tab behind every padded cell."""
    if form != "text":
        print_answer(form, Answer(rows, {name.upper(): key for name, key in head}))
        return
    lines = [[name for name, _ in head]]
    lines += [[NONE if row[key] is None else str(row[key]) for _, key in head] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))
