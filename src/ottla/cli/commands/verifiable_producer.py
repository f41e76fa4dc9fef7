"""`ottla verifiable-producer`: writes 0, 1, 2, … and says in JSON what became of each, as Kafka's system tests expect."""

from __future__ import annotations

import signal
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError
from ottla.cli.client_properties import declare_client_properties, given_properties
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import Options, whole_number
from ottla.cli.records.json_events import print_event
from ottla.cli.records.librdkafka import check_reachable, make_producer, producer_settings
from ottla.cli.records.throughput import Throttle
from ottla.cli.records.too_large import fitted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from confluent_kafka import Message, Producer

__all__ = ["main"]

NOUN = "verifiable-producer"
FLUSH_SECONDS = 0.2
QUEUE_FULL_SECONDS = 0.1


def main(argv: list[str]) -> int:
    """Send until there are enough, or a signal comes; 0 also where records were refused, which events say."""
    if not argv:
        options().print_help()
        return 0
    args = options().parse(argv)
    properties = given_properties(args) | {"acks": args.acks, "retries": "0"}
    check_reachable(properties, timeout_ms=properties.get("max.block.ms", "60000"), topics=[])
    Verified(args, make_producer(producer_settings(fitted(properties, args.topic)), NOUN)).run()
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Write increasing integers, and print a JSON event for each.")
    declare_client_properties(parser, old_config="producer.config")
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic to write to (required)")
    parser.add_argument("--max-messages", type=whole_number, default=-1, metavar="N", help="-1: until a signal comes")
    parser.add_argument("--throughput", type=float, default=-1, metavar="PER_SECOND", help="-1: as fast as can be")
    parser.add_argument("--acks", default="-1", choices=("0", "1", "-1", "all"), help="default: -1, all")
    parser.add_argument(
        "--message-create-time", type=whole_number, default=-1, metavar="MS", help="the first record's time"
    )
    parser.add_argument("--value-prefix", metavar="TEXT", help="before each value, with a dot between")
    parser.add_argument("--repeating-keys", type=whole_number, metavar="N", help="keys 0 to N-1, again and again")
    return parser


class Stopping:
    """Becomes true when a signal asks the process to stop."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self.asked = True


class Verified:
    """One run."""

    def __init__(self, args: Namespace, producer: Producer) -> None:
        self._args = args
        self._producer = producer
        self._sent = self._acked = 0

    def run(self) -> None:
        """Send, and say at the end how much there was."""
        stopping = Stopping()
        begun_s = time.perf_counter()
        print_event("startup_complete")
        throttle = Throttle(self._args.throughput, self._producer.poll)
        for number in count() if self._args.max_messages < 0 else range(self._args.max_messages):
            if stopping.asked:
                break
            self._send(number)
            throttle.wait(number + 1)
            self._producer.poll(0)
        while self._producer.flush(FLUSH_SECONDS):
            pass
        print_event("shutdown_complete")
        print_event(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=int(self._args.throughput),
            avg_throughput=self._acked / max(1e-3, time.perf_counter() - begun_s),
        )

    def _send(self, number: int) -> None:
        args = self._args
        value = str(number) if args.value_prefix is None else f"{args.value_prefix}.{number}"
        key = None if args.repeating_keys is None else str(number % args.repeating_keys)
        timestamp = args.message_create_time + number if args.message_create_time >= 0 else 0
        answered = self._answered(key, value)
        self._sent += 1
        while True:
            try:
                self._producer.produce(args.topic, value, key, timestamp=timestamp, on_delivery=answered)
                return
            except BufferError:  # the queue is full: let answers come in
                self._producer.poll(QUEUE_FULL_SECONDS)

    def _answered(self, key: str | None, value: str) -> Callable[[Any, Message], None]:
        """Return what says how a record was answered; key and value are not always in the answer."""

        def say(error: Any, message: Message) -> None:
            if error is None:
                self._acked += 1
                print_event(
                    "producer_send_success",
                    key=key,
                    value=value,
                    offset=message.offset(),
                    topic=message.topic(),
                    partition=message.partition(),
                )
                return
            exception, text = java_error(error)
            print_event(
                "producer_send_error", topic=self._args.topic, key=key, value=value, exception=exception, message=text
            )

        return say


def java_error(error: Any) -> tuple[str, str]:
    """Return the class of the exception that Java's producer would give, and the words."""
    code = ErrorCode(error.code()) if error.code() in set(ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
    name = exception_text(code).partition(":")[0]
    return f"class {name}", str(KafkaError(code, error.str()))
