"""`ottla producer-perf-test`: how fast records can be written, with the flags and lines of `kafka-producer-perf-test`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError
from ottla.cli.client_properties import declare_client_properties, given_properties
from ottla.cli.options import Options, UsageError, warn, whole_number
from ottla.cli.records.librdkafka import await_topic, make_producer, producer_settings
from ottla.cli.records.throughput import Latencies, Throttle
from ottla.cli.records.too_large import fitted

if TYPE_CHECKING:
    from argparse import Namespace

    from confluent_kafka import Message, Producer

__all__ = ["main"]

NOUN = "producer-perf-test"
TRANSACTION_MS = 3000
"""How long a transaction lasts where only its id is given."""
LETTERS = bytes(range(ord("A"), ord("Z") + 1))
LETTERS_BYTES = 1 << 16
QUEUE_FULL_SECONDS = 0.1
SERVE_EVERY = 64
"""Records between two looks for answers."""
METRICS_SECONDS_MAX = 2.0
PRODUCER_ID_SECONDS = 0.6
"""How long the C library may take for its producer id, which it asks for twice a second; not the records' latency."""


@dataclass(frozen=True)
class Transactions:
    """The producer's id, and how long each transaction lasts."""

    transactional_id: str
    duration_ms: int


def main(argv: list[str]) -> int:
    """Send the records and print how it went; 1 where one was not written."""
    if not argv:
        options().print_help()
        return 0
    args = options().parse(argv)
    check(args)
    properties = {"client.id": "perf-producer-client"} | given_properties(args)
    transactions = transactions_of(args, properties)
    if transactions is not None:
        properties["transactional.id"] = transactions.transactional_id
    records = payloads(args)
    await_topic(properties, args.topic, timeout_ms=properties.get("max.block.ms", "60000"), noun=NOUN)
    return Sending(args, properties, transactions).run(records)


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Measure how fast records are written.")
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic to write to (required)")
    parser.add_argument("--num-records", required=True, type=whole_number, metavar="N", help="how many (required)")
    parser.add_argument(
        "--throughput",
        required=True,
        type=float,
        metavar="PER_SECOND",
        help="records per second; -1: as fast as can be",
    )
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=whole_number, metavar="BYTES", help="random letters, so many")
    payload.add_argument("--payload-file", metavar="FILE", help="values drawn from this UTF-8 file")
    payload.add_argument("--payload-monotonic", action="store_true", help="0, 1, 2, …")
    parser.add_argument("--payload-delimiter", default="\\n", metavar="TEXT", help="between the file's values")
    declare_client_properties(parser, old_config="producer.config", old_property="producer-props")
    parser.add_argument("--print-metrics", action="store_true", help="print the client's counters at the end")
    parser.add_argument("--transactional-id", metavar="ID", help="write in transactions of this producer")
    parser.add_argument("--transaction-duration-ms", type=whole_number, metavar="MS", help="how long each lasts")
    parser.add_argument("--warmup-records", type=whole_number, default=0, metavar="N", help="left out of a second sum")
    parser.add_argument("--reporting-interval", type=whole_number, default=5000, metavar="MS", help="between lines")
    return parser


def check(args: Namespace) -> None:
    """Raise UsageError for a number that cannot be."""
    for name, least in (
        ("num-records", 1),
        ("record-size", 1),
        ("transaction-duration-ms", 1),
        ("reporting-interval", 1),
        ("warmup-records", 0),
    ):
        value = getattr(args, name.replace("-", "_"))
        if value is not None and value < least:
            raise UsageError(f"--{name} should be {'greater than zero' if least else 'zero or greater'}.")
    if args.warmup_records >= args.num_records:
        raise UsageError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records."
        )
    if args.throughput == 0:
        raise UsageError("--throughput should be greater than zero, or -1 for no limit.")


def transactions_of(args: Namespace, properties: dict[str, str]) -> Transactions | None:
    """Return how to write in transactions, or None where neither an id nor a duration is given."""
    named = args.transactional_id or properties.get("transactional.id")
    if not named and args.transaction_duration_ms is None:
        return None
    from uuid import uuid4

    return Transactions(named or f"performance-producer-{uuid4()}", args.transaction_duration_ms or TRANSACTION_MS)


def payloads(args: Namespace) -> Iterator[bytes]:
    """Return the records' values, as many as there should be."""
    if args.payload_monotonic:
        found: Iterator[bytes] = (b"%d" % number for number in count())
    elif args.payload_file is not None:
        found = drawn(read_payloads(Path(args.payload_file), args.payload_delimiter))
    else:
        found = random_letters(args.record_size)
    return islice(found, args.num_records)


def read_payloads(path: Path, delimiter: str) -> list[bytes]:
    """Return the file's values; raises UsageError where there is none."""
    print(f"Reading payloads from: {path.absolute()}")
    if not delimiter:
        raise UsageError("--payload-delimiter must not be empty")
    between = delimiter.encode().decode("unicode_escape").encode()
    found = (path.read_bytes() if path.exists() else b"").split(between)
    if found and not found[-1]:
        found.pop()
    if not found:
        raise UsageError("File does not exist or empty file provided.")
    print(f"Number of records read: {len(found)}")
    return found


def drawn(values: list[bytes]) -> Iterator[bytes]:
    """Yield values by chance, without end."""
    while True:
        yield random.choice(values)


def random_letters(size: int) -> Iterator[bytes]:
    """Yield random capital letters without end: pieces of a long text that begin anywhere, which costs little."""
    text = bytes(random.choices(LETTERS, k=LETTERS_BYTES))
    text *= 2 + size // LETTERS_BYTES
    while True:
        begin = int(random.random() * LETTERS_BYTES)
        yield text[begin : begin + size]


class Sending:
    """One run: sends, takes the answers, reports."""

    def __init__(self, args: Namespace, properties: dict[str, str], transactions: Transactions | None) -> None:
        self._args = args
        self._transactions = transactions
        self._metrics: dict[str, Any] = {}
        settings = producer_settings(fitted(properties, args.topic))
        if args.print_metrics:
            settings |= {"statistics.interval.ms": 500, "stats_cb": self._keep_metrics}
        self._has_id = str(settings["enable.idempotence"]).lower() == "true"
        self._producer: Producer = make_producer(settings, NOUN)
        self._all = Latencies(args.num_records)
        self._steady: Latencies | None = None
        self._failed = 0
        self._first_error = ""
        self._reported_s = time.perf_counter()

    def run(self, records: Iterator[bytes]) -> int:
        """Send everything and print the figures; returns the exit code."""
        from confluent_kafka import KafkaException

        if self._args.warmup_records:
            print(
                f"Warmup first {self._args.warmup_records} records. "
                "Steady state results will print after the complete test summary."
            )
        try:
            self._send_all(records)
        except KafkaException as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.args[0].str()) from error
        print(self._all.total_line())
        if self._steady is not None:
            print(self._steady.total_line())
        if self._args.print_metrics:
            self._print_metrics()
        if self._failed:
            warn(f"ottla {NOUN}: {self._failed} records were not written: {self._first_error}")
        return 1 if self._failed else 0

    def _send_all(self, records: Iterator[bytes]) -> None:
        producer, topic = self._producer, self._args.topic
        if self._transactions is not None:
            producer.init_transactions()
            producer.begin_transaction()
        elif self._has_id:
            producer.list_topics(topic)
            producer.poll(PRODUCER_ID_SECONDS)
        throttle = Throttle(self._args.throughput, producer.poll)
        self._all.begun_s = transaction_begun_s = time.perf_counter()
        for sent, value in enumerate(records):
            throttle.wait(sent)
            self._send(topic, value)
            if sent % SERVE_EVERY == 0 or self._args.throughput >= 0:
                producer.poll(0)
                self._report()
            if self._transactions is not None and self._is_over(transaction_begun_s):
                producer.commit_transaction()
                producer.begin_transaction()
                transaction_begun_s = time.perf_counter()
        if self._transactions is not None:
            producer.commit_transaction()
        producer.flush()

    def _is_over(self, begun_s: float) -> bool:
        assert self._transactions is not None
        return (time.perf_counter() - begun_s) * 1000 >= self._transactions.duration_ms

    def _send(self, topic: str, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(topic, value, on_delivery=self._answered)
                return
            except BufferError:  # the queue is full: let answers come in
                self._producer.poll(QUEUE_FULL_SECONDS)
                self._report()

    def _answered(self, error: Any, message: Message) -> None:
        if error is not None:
            self._failed += 1
            self._first_error = self._first_error or error.str()
            return
        latency_ms, size = (message.latency() or 0.0) * 1000, len(message)
        self._all.record(latency_ms, size)
        if self._steady is not None:
            self._steady.record(latency_ms, size)
        elif self._args.warmup_records and self._all.count >= self._args.warmup_records:
            print("In steady state.")
            self._steady = Latencies(self._args.num_records - self._args.warmup_records, kind="steady state records")

    def _report(self) -> None:
        now_s = time.perf_counter()
        if (now_s - self._reported_s) * 1000 >= self._args.reporting_interval:
            self._reported_s = now_s
            print((self._steady or self._all).window_line(), flush=True)

    def _keep_metrics(self, text: str) -> None:
        self._metrics = json.loads(text)

    def _print_metrics(self) -> None:
        deadline_s = time.perf_counter() + METRICS_SECONDS_MAX
        self._metrics = {}
        while not self._metrics and time.perf_counter() < deadline_s:
            self._producer.poll(QUEUE_FULL_SECONDS)
        rows = client_metrics("producer", self._metrics)
        print_metrics(rows)


def client_metrics(kind: str, found: dict[str, Any]) -> dict[str, float]:
    """Return what librdkafka counts by the names that Kafka gives the same things, sorted."""
    if not found:
        return {}
    client = f"client-id={found['client_id']}"
    rows = {
        f"{kind}-metrics:request-total:{{{client}}}": found["tx"],
        f"{kind}-metrics:outgoing-byte-total:{{{client}}}": found["tx_bytes"],
        f"{kind}-metrics:response-total:{{{client}}}": found["rx"],
        f"{kind}-metrics:incoming-byte-total:{{{client}}}": found["rx_bytes"],
    }
    if kind == "producer":
        rows[f"producer-metrics:record-send-total:{{{client}}}"] = found["txmsgs"]
    else:
        rows[f"consumer-fetch-manager-metrics:records-consumed-total:{{{client}}}"] = found["rxmsgs"]
        rows[f"consumer-fetch-manager-metrics:bytes-consumed-total:{{{client}}}"] = found["rxmsg_bytes"]
    for topic in found["topics"].values() if kind == "producer" else ():
        name = f"{{{client}, topic={topic['topic']}}}"
        rows[f"producer-topic-metrics:batch-size-avg:{name}"] = topic["batchsize"]["avg"]
        rows[f"producer-topic-metrics:records-per-request-avg:{name}"] = topic["batchcnt"]["avg"]
    for broker in found["brokers"].values():
        if broker["nodeid"] < 0:
            continue
        name = f"{{{client}, node-id=node-{broker['nodeid']}}}"
        rows[f"{kind}-node-metrics:request-total:{name}"] = broker["tx"]
        rows[f"{kind}-node-metrics:response-total:{name}"] = broker["rx"]
        rows[f"{kind}-node-metrics:request-latency-avg:{name}"] = broker["rtt"]["avg"] / 1000
        rows[f"{kind}-node-metrics:request-latency-max:{name}"] = broker["rtt"]["max"] / 1000
    return dict(sorted(rows.items()))


def print_metrics(rows: dict[str, float]) -> None:
    """Print metrics in two columns, as Kafka's tools do."""
    width = max(map(len, rows), default=20)
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, value in rows.items():
        print(f"{name:<{width}} : {value:.3f}")
