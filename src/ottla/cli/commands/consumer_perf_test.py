"""`ottla consumer-perf-test`: how fast records are read, with the flags and lines of `kafka-consumer-perf-test`."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError
from ottla.cli.client_properties import declare_client_properties, given_properties, topic_options
from ottla.cli.commands.producer_perf_test import client_metrics, print_metrics
from ottla.cli.options import Options, UsageError, warn, whole_number
from ottla.cli.records.java_dates import format_java_date
from ottla.cli.records.librdkafka import check_reachable, consumer_settings, make_consumer, taken
from ottla.cli.records.throughput import MEBIBYTE

if TYPE_CHECKING:
    from argparse import Namespace

    from confluent_kafka import Consumer

__all__ = ["main"]

NOUN = "consumer-perf-test"
FIGURES = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
POLL_SECONDS = 0.1
POLL_RECORDS = 500
"""Kafka's default of `max.poll.records`: a test ends with the poll that brings the last record, not within it."""
METRICS_SECONDS_MAX = 2.0


def main(argv: list[str]) -> int:
    """Read the records and print how it went; fewer than were asked for are a warning, as with Kafka's tool."""
    args = options().parse(argv)
    check(args)
    format_java_date(datetime.now(), args.date_format)
    properties = properties_of(args)
    check_reachable(properties, timeout_ms=str(args.timeout), topics=[args.topic] if args.topic else [])
    if not args.hide_header:
        print(f"time, threadId, {FIGURES}" if args.show_detailed_stats else f"start.time, end.time, {FIGURES}")
    return Reading(args, properties).run()


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Measure how fast records are read.")
    declare_client_properties(parser, old_config="consumer.config")
    topic_options(parser)
    parser.add_argument("--num-records", type=whole_number, metavar="N", help="how many (required)")
    parser.add_argument("--messages", type=whole_number, metavar="N", help="old name of --num-records")
    parser.add_argument("--group", metavar="GROUP", help="the consumer group (default: one of a random name)")
    parser.add_argument("--fetch-size", type=whole_number, default=1 << 20, metavar="BYTES", help="per partition")
    parser.add_argument("--socket-buffer-size", type=whole_number, default=2 << 20, metavar="BYTES", help="to receive")
    parser.add_argument("--from-latest", action="store_true", help="begin at the end where the group has no offset")
    parser.add_argument("--timeout", type=whole_number, default=10_000, metavar="MS", help="between two records")
    parser.add_argument("--reporting-interval", type=whole_number, default=5000, metavar="MS", help="between lines")
    parser.add_argument("--show-detailed-stats", action="store_true", help="a line per interval instead of one")
    parser.add_argument("--hide-header", action="store_true", help="no line of column names")
    parser.add_argument("--date-format", default="yyyy-MM-dd HH:mm:ss:SSS", metavar="PATTERN", help="as Java has it")
    parser.add_argument("--print-metrics", action="store_true", help="print the client's counters at the end")
    parser.add_argument("--threads", type=whole_number, help="accepted, as Kafka's tool did; one thread reads")
    parser.add_argument("--num-fetch-threads", type=whole_number, help="the same")
    return parser


def check(args: Namespace) -> None:
    """Raise UsageError for options that are missing or do not go together."""
    if (args.messages is None) == (args.num_records is None):
        raise UsageError("Exactly one of the following arguments is required: [messages], [num-records]")
    if (args.topic is None) == (args.include is None):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if args.messages is not None:
        warn("Warning: --messages is deprecated. Use --num-records instead.")
        args.num_records = args.messages
    if args.reporting_interval <= 0:
        raise UsageError("Reporting interval must be greater than 0.")


def properties_of(args: Namespace) -> dict[str, str]:
    """Return the consumer's settings by Kafka's names; the options are stronger than files and pairs."""
    given = {"client.id": "perf-consumer-client"} | given_properties(args)
    group = args.group or given.get("group.id") or f"perf-consumer-{random.randrange(100_000)}"
    return given | {
        "group.id": group,
        "receive.buffer.bytes": str(args.socket_buffer_size),
        "max.partition.fetch.bytes": str(args.fetch_size),
        "auto.offset.reset": "latest" if args.from_latest else "earliest",
        "check.crcs": "false",
    }


@dataclass
class Joining:
    """How long the consumer was without partitions: from its start, and from each revocation, to what it is given."""

    begun_s: float
    total_ms: float = 0.0
    in_interval_ms: float = 0.0

    def revoked(self, *_: Any) -> None:
        """Begin to count."""
        self.begun_s = time.perf_counter()

    def assigned(self, *_: Any) -> None:
        """Count what has passed."""
        passed_ms = (time.perf_counter() - self.begun_s) * 1000
        self.total_ms += passed_ms
        self.in_interval_ms += passed_ms


class Reading:
    """One run."""

    def __init__(self, args: Namespace, properties: dict[str, str]) -> None:
        self._args = args
        self._metrics: dict[str, Any] = {}
        settings = consumer_settings(properties)
        if args.print_metrics:
            settings |= {"statistics.interval.ms": 500, "stats_cb": self._keep_metrics}
        self._consumer: Consumer = make_consumer(settings, NOUN)
        self._joining = Joining(time.perf_counter())
        self._count = self._size = 0

    def run(self) -> int:
        """Read until there are enough records, or none comes for too long, and print the figures."""
        names = [self._args.topic] if self._args.topic else matching_topics(self._consumer, self._args.include)
        self._consumer.subscribe(names, on_assign=self._joining.assigned, on_revoke=self._joining.revoked)
        begun, begun_s = datetime.now(), time.perf_counter()
        self._read()
        ended, seconds = datetime.now(), time.perf_counter() - begun_s
        if self._args.print_metrics:
            self._await_metrics()
        self._consumer.close()
        if not self._args.show_detailed_stats:
            figures = self._figures(self._count, self._size, seconds, self._joining.total_ms)
            print(f"{self._time(begun)}, {self._time(ended)}, {figures}")
        if self._args.print_metrics:
            print_metrics(client_metrics("consumer", self._metrics))
        return 0

    def _read(self) -> None:
        last_s = reported_s = time.perf_counter()
        reported = (0, 0)
        while self._count < self._args.num_records:
            found = self._poll()
            now_s = time.perf_counter()
            last_s = now_s if found else last_s
            if (now_s - last_s) * 1000 > self._args.timeout:
                print(
                    "WARNING: Exiting before consuming the expected number of records: timeout "
                    f"({self._args.timeout} ms) exceeded. You can use the --timeout option to increase the timeout."
                )
                return
            if (now_s - reported_s) * 1000 >= self._args.reporting_interval:
                if self._args.show_detailed_stats:
                    count, size = self._count - reported[0], self._size - reported[1]
                    print(self._interval_line(count, size, now_s - reported_s), flush=True)
                self._joining.in_interval_ms = 0.0
                reported, reported_s = (self._count, self._size), now_s

    def _poll(self) -> bool:
        found = taken(self._consumer, POLL_RECORDS, POLL_SECONDS)
        for message in found:
            error = message.error()
            if error is not None:
                if error.retriable():
                    continue
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.str())
            self._count += 1
            self._size += len(message) + len(message.key() or b"")
        return bool(found)

    def _figures(self, count: int, size: int, seconds: float, joining_ms: float) -> str:
        """Return the columns behind the times: whole, per second, and per second of fetching."""
        fetching_s = max(1e-9, seconds - joining_ms / 1000)
        megabytes = size / MEBIBYTE
        return (
            f"{self._size / MEBIBYTE:.4f}, {megabytes / seconds:.4f}, {self._count}, {count / seconds:.4f}, "
            f"{joining_ms:.0f}, {fetching_s * 1000:.0f}, {megabytes / fetching_s:.4f}, {count / fetching_s:.4f}"
        )

    def _interval_line(self, count: int, size: int, seconds: float) -> str:
        return f"{self._time(datetime.now())}, 0, {self._figures(count, size, seconds, self._joining.in_interval_ms)}"

    def _time(self, at: datetime) -> str:
        return format_java_date(at, self._args.date_format)

    def _keep_metrics(self, text: str) -> None:
        self._metrics = json.loads(text)

    def _await_metrics(self) -> None:
        deadline_s = time.perf_counter() + METRICS_SECONDS_MAX
        self._metrics = {}
        while not self._metrics and time.perf_counter() < deadline_s:
            self._consumer.poll(POLL_SECONDS)


def matching_topics(consumer: Consumer, expression: str) -> list[str]:
    """Return the topics that match; raises KafkaError where none does."""
    from ottla.cli.topic_names import matching

    found = matching(consumer.list_topics(timeout=60).topics, expression, exclude_internal=True)
    if not found:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic matches {expression}")
    return found
