"""`ottla e2e-latency`: from a record's sending to its arrival, with the flags and lines of `kafka-e2e-latency`."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError
from ottla.cli.options import Options, UsageError, open_client, properties_file, whole_number
from ottla.cli.records.librdkafka import consumer_settings, make_consumer, make_producer, producer_settings

if TYPE_CHECKING:
    from argparse import Namespace

    from confluent_kafka import Consumer, Producer

    from ottla.client import BlockingClient

__all__ = ["main"]

NOUN = "e2e-latency"
POSITIONAL = ("--bootstrap-server", "--topic", "--num-records", "--producer-acks", "--record-size", "--command-config")
USAGE = "bootstrap-server topic num-records producer-acks record-size [optional] command-config"
ARRIVAL_SECONDS_MAX = 60.0
APPEARS_SECONDS = 0.1
APPEARS_TRIES_MAX = 100
"""How often a new topic is looked for: brokers know it later than the controller."""
REPORT_EVERY = 1000
ACKS = ("1", "all")
LETTERS = bytes(range(ord("A"), ord("Z") + 1))


def main(argv: list[str]) -> int:
    """Send records one by one, wait for each, and print how long they took."""
    args = options().parse(named(argv))
    check(args)
    properties = properties_file(args.command_config)
    properties["bootstrap.servers"] = args.bootstrap_server
    partitions = prepare_topic(args, properties)
    consumer, producer = clients(args, properties)
    try:
        begin_at_end(consumer, args.topic, partitions)
        report([round_trip(consumer, producer, args, number) for number in range(args.num_records)])
    finally:
        consumer.close()
    return 0


def named(argv: list[str]) -> list[str]:
    """Return positional arguments, which Kafka's tool took before 4.2, as named ones (KIP-1172).

    Raises UsageError for a number of them that cannot be.
    """
    if not argv or argv[0].startswith("-"):
        return argv
    if len(argv) not in (5, 6):
        expected = f"Expected 5 or 6 positional arguments, but got {len(argv)}"
        raise UsageError(f"Invalid number of arguments. {expected}. Usage: {USAGE}")
    print(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. "
        f"Please use named arguments instead: {', '.join(POSITIONAL)}"
    )
    return [word for pair in zip(POSITIONAL, argv, strict=False) for word in pair]


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Measure how long records take from a producer to a consumer.")
    parser.connection()
    parser.add_argument("--topic", metavar="TOPIC", help="the topic (required); made where it is not there")
    parser.add_argument("--num-records", type=whole_number, metavar="N", help="how many (required)")
    parser.add_argument("--producer-acks", metavar="ACKS", help=f"{' or '.join(ACKS)} (required)")
    parser.add_argument("--record-size", type=whole_number, metavar="BYTES", help="of each value (required)")
    parser.add_argument("--record-key-size", type=whole_number, default=0, metavar="BYTES", help="0: no key")
    parser.add_argument("--num-headers", type=whole_number, default=0, metavar="N", help="headers of each record")
    parser.add_argument(
        "--record-header-key-size", type=whole_number, default=0, metavar="BYTES", help="of their names"
    )
    parser.add_argument("--record-header-size", type=whole_number, default=0, metavar="BYTES", help="-1: null values")
    return parser


def check(args: Namespace) -> None:
    """Raise UsageError for what is missing or cannot be."""
    for name in ("topic", "num-records", "producer-acks", "record-size"):
        if getattr(args, name.replace("-", "_")) is None:
            raise UsageError(f'Missing required argument "[{name}]"')
    if args.producer_acks not in ACKS:
        raise UsageError(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. "
            "Please use '1' or 'all'."
        )
    if args.num_records <= 0:
        raise UsageError("Value for --num-records must be a positive integer.")
    for name, least in (("record-size", 0), ("record-key-size", 0), ("num-headers", 0), ("record-header-size", -1)):
        if getattr(args, name.replace("-", "_")) < least:
            raise UsageError(f"Value for --{name} must be {least} or greater.")


def prepare_topic(args: Namespace, properties: dict[str, str]) -> list[int]:
    """Return the topic's partitions; the topic is made, with one, where it is not there."""
    with open_client(args.bootstrap_server, properties, NOUN) as client:
        cluster = client.metadata([args.topic])
        if not cluster.partitions_of(args.topic):
            print(
                f'Topic "{args.topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
            )
            create(client, args.topic)
            for _ in range(APPEARS_TRIES_MAX):
                cluster = client.metadata([args.topic])
                if cluster.partitions_of(args.topic):
                    break
                time.sleep(APPEARS_SECONDS)
        return [each.partition for each in cluster.partitions_of(args.topic)]


def create(client: BlockingClient, topic: str) -> None:
    """Make the topic; raises KafkaError with the broker's words where it does not."""
    from ottla.client import NewTopic, create_topics

    for error in client.run(create_topics(client.client, [NewTopic(topic, 1, 1)])).values():
        raise error


def clients(args: Namespace, properties: dict[str, str]) -> tuple[Consumer, Producer]:
    """Return a consumer and a producer that wait for nothing but the record."""
    consumer = make_consumer(
        consumer_settings(
            properties
            | {
                "group.id": f"test-group-{time.time_ns() // 1_000_000}",
                "enable.auto.commit": "false",
                "auto.offset.reset": "latest",
                "fetch.max.wait.ms": "0",
            }
        )
        | {"fetch.error.backoff.ms": 0},
        NOUN,
    )
    settled = {"acks": args.producer_acks, "linger.ms": "0", "retries": "0", "max.block.ms": "60000"}
    return consumer, make_producer(producer_settings(properties | settled), NOUN)


def begin_at_end(consumer: Consumer, topic: str, partitions: list[int]) -> None:
    """Take every partition and begin behind what is there."""
    from confluent_kafka import TopicPartition

    ends = {index: consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1] for index in partitions}
    consumer.assign([TopicPartition(topic, index, end) for index, end in ends.items()])
    consumer.poll(0)


def round_trip(consumer: Consumer, producer: Producer, args: Namespace, number: int) -> float:
    """Send one record and wait until it has come back; returns the milliseconds.

    Raises KafkaError where it does not come, or another one does.
    """
    value = letters(args.record_size)
    key = letters(args.record_key_size) if args.record_key_size else None
    headers: list[tuple[str, str | bytes | None]] = [
        (letters(args.record_header_key_size).decode(), _header(args)) for _ in range(args.num_headers)
    ]
    failed: list[Any] = []
    begun_s = time.perf_counter()
    producer.produce(
        args.topic,
        value,
        key,
        headers=headers or None,
        on_delivery=lambda error, _: failed.append(error) if error else None,
    )
    producer.flush(ARRIVAL_SECONDS_MAX)
    if failed:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a record was not written: {failed[0].str()}")
    found = consumer.poll(ARRIVAL_SECONDS_MAX)
    elapsed_ms = (time.perf_counter() - begun_s) * 1000
    if found is None:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"poll() timed out before finding a result (timeout:[{ARRIVAL_SECONDS_MAX:.0f} s])",
        )
    error = found.error()
    if error is not None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.str())
    if found.value() != value or found.key() != key:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "another record came back: nothing else may write to the topic meanwhile"
        )
    if number % REPORT_EVERY == 0:
        print(f"{number}\t{elapsed_ms}", flush=True)
    return elapsed_ms


def _header(args: Namespace) -> bytes | None:
    return None if args.record_header_size < 0 else letters(args.record_header_size)


def letters(size: int) -> bytes:
    """Return random capital letters."""
    return bytes(random.choices(LETTERS, k=size))


def report(latencies_ms: list[float]) -> None:
    """Print the average and how late the latest were, in whole milliseconds as Kafka's tool does."""
    ordered = sorted(latencies_ms)
    late = [int(ordered[int(len(ordered) * share)]) for share in (0.5, 0.99, 0.999)]
    print(f"Avg latency: {sum(ordered) / len(ordered):.4f} ms")
    print(f"Percentiles: 50th = {late[0]}, 99th = {late[1]}, 99.9th = {late[2]}")
