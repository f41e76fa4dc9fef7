"""`ottla console-producer`: lines from standard input become records, with the flags of `kafka-console-producer`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.cli.options import Options, UsageError, key_values, properties_file, warn, whole_number
from ottla.cli.records.librdkafka import await_topic, make_producer, producer_settings
from ottla.cli.records.line_reader import Line, LineReader, LineRules
from ottla.cli.records.schemas import encoded, take_properties, writing_options
from ottla.cli.records.too_large import fitted, not_sent, not_taken

if TYPE_CHECKING:
    from argparse import Namespace

    from confluent_kafka import Message

__all__ = ["ACKS", "CODECS", "Sender", "main", "options"]

DEPRECATED = {
    "property": "reader-property",
    "producer-property": "command-property",
    "producer.config": "command-config",
    "max-partition-memory-bytes": "batch-size",
}
STANDARD_READER = ("kafka.tools.ConsoleProducer$LineMessageReader", "org.apache.kafka.tools.LineMessageReader")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("all", "-1", "0", "1")
FLUSH_SECONDS_MAX_ON_SIGNAL = 5.0
QUEUE_FULL_POLL_SECONDS = 0.1


def main(argv: list[str]) -> int:
    """Send every line; 0 when all were acknowledged, 1 when one was refused."""
    args = options().parse(argv)
    for old, new in DEPRECATED.items():
        if getattr(args, old.replace("-", "_").replace(".", "_"), None):
            print(f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    if not args.bootstrap_server:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    if args.topic is None:
        raise UsageError('Missing required argument "[topic]"')
    if args.line_reader not in STANDARD_READER:
        raise UsageError(f"--line-reader {args.line_reader}: only Kafka's LineMessageReader is built in")
    given = properties_file(args.reader_config) | key_values(args.property + args.reader_property)
    take_properties(args, given)
    rules = LineRules.of(given)
    properties = client_properties(args)
    records = encoded(LineReader(rules).read(lines()), args)
    patience = properties.get("max.block.ms", str(args.max_block_ms))
    await_topic(properties, args.topic, timeout_ms=patience, noun="console-producer")
    return Sender(args.topic, properties, each_alone=args.sync).run(records)


def options() -> Options:
    """Return the parser; the defaults are Kafka's."""
    parser = Options("console-producer", "Write lines from standard input to a topic.")
    parser.connection()
    parser.add_argument("--broker-list", dest="bootstrap_server", metavar="HOST:PORT,…", help="its name before 4.0")
    parser.add_argument("--topic", metavar="TOPIC", help="the topic to write to (required)")
    parser.add_argument("--sync", action="store_true", help="wait for each record before the next")
    parser.add_argument(
        "--compression-codec", nargs="?", const="gzip", metavar="CODEC", help=f"one of {', '.join(CODECS)}; alone: gzip"
    )
    for name, default, meaning in (
        ("batch-size", 16384, "bytes per batch"),
        ("message-send-max-retries", 3, "retries"),
        ("retry-backoff-ms", 100, "pause before a retry"),
        ("timeout", 1000, "how long records wait for a batch to fill, in ms"),
        ("request-timeout-ms", 1500, "how long the broker may wait for its copies"),
        ("metadata-expiry-ms", 300_000, "when leaders are asked for anew"),
        ("max-block-ms", 60_000, "how long to wait for the cluster"),
        ("max-memory-bytes", 33_554_432, "memory for what waits to be sent"),
        ("socket-buffer-size", 102_400, "the socket's send buffer"),
    ):
        parser.add_argument(f"--{name}", type=whole_number, default=default, metavar="N", help=meaning)
    parser.add_argument("--max-partition-memory-bytes", type=whole_number, metavar="N", help="old name of --batch-size")
    parser.add_argument("--request-required-acks", default="-1", metavar="ACKS", help="all (-1, the default), 0 or 1")
    parser.add_argument("--line-reader", default=STANDARD_READER[1], metavar="CLASS", help="Kafka's LineMessageReader")
    for new, old, meaning in (
        ("--reader-property", "--property", "how lines are cut: parse.key=true, key.separator=:, …; repeatable"),
        ("--command-property", "--producer-property", "a setting of the producer, key=value; repeatable"),
    ):
        parser.add_argument(new, action="append", default=[], metavar="KEY=VALUE", help=meaning)
        parser.add_argument(old, action="append", default=[], metavar="KEY=VALUE", help=f"old name of {new}")
    parser.add_argument(
        "--producer.config", dest="producer_config", metavar="FILE", help="old name of --command-config"
    )
    parser.add_argument("--reader-config", metavar="FILE", help="properties file for how lines are cut")
    writing_options(parser)
    return parser


def client_properties(args: Namespace) -> dict[str, str]:
    """Return the producer's settings by Kafka's names: files, then single properties, then the options' own."""
    given = properties_file(args.command_config or args.producer_config)
    given |= key_values(args.producer_property + args.command_property)
    own = {
        "bootstrap.servers": args.bootstrap_server,
        "acks": args.request_required_acks,
        "compression.type": args.compression_codec or "none",
        "linger.ms": str(args.timeout),
        "batch.size": str(args.max_partition_memory_bytes or args.batch_size),
        "retries": str(args.message_send_max_retries),
        "retry.backoff.ms": str(args.retry_backoff_ms),
        "request.timeout.ms": str(args.request_timeout_ms),
        "metadata.max.age.ms": str(args.metadata_expiry_ms),
        "buffer.memory": str(args.max_memory_bytes),
        "send.buffer.bytes": str(args.socket_buffer_size),
        "client.id": "console-producer",
        "max.block.ms": str(args.max_block_ms),
    }
    found = own | given | {"bootstrap.servers": args.bootstrap_server}
    for key, allowed in (("acks", ACKS), ("compression.type", CODECS)):
        if found[key] not in allowed:
            raise ConfigError(key, found[key], f"String must be one of: {', '.join(allowed)}")
    return found


def lines() -> Iterator[bytes]:
    """Yield standard input's lines, after a prompt each where a person types them."""
    source = sys.stdin.buffer
    if not sys.stdin.isatty():
        yield from source
        return
    while True:
        print(">", end="", flush=True)
        line = source.readline()
        if not line:
            return
        yield line


class Sender:
    """Sends records to one topic, or to the topics that they name, and keeps the first error."""

    def __init__(
        self, topic: str | None, properties: dict[str, str], *, each_alone: bool, noun: str = "console-producer"
    ) -> None:
        self._topic = topic
        self._each_alone = each_alone
        self._noun = noun
        self.delivered = 0
        """How many records the cluster has acknowledged."""
        self._error: str | None = None
        self._properties = properties
        self._refused: Message | None = None
        """The first record that the cluster found too large."""
        self._producer = make_producer(producer_settings(fitted(properties, topic)), noun)

    def run(self, records: Iterator[Line]) -> int:
        """Send everything, wait for the answers, and return the exit code."""
        signal.signal(signal.SIGTERM, _terminate)
        try:
            for record in records:
                self._send(record)
                if self._failed:
                    break
            self._producer.flush()
        except KafkaError as error:
            self._producer.flush()
            warn(f"ottla {self._noun}: {error}")
            return 1
        except (KeyboardInterrupt, SystemExit):
            self._producer.flush(FLUSH_SECONDS_MAX_ON_SIGNAL)
            raise
        if self._refused is not None:
            self._error = not_taken(self._properties, self._refused)
        if self._error:
            warn(f"ottla {self._noun}: {self._error}")
        return 1 if self._error else 0

    @property
    def _failed(self) -> bool:
        return self._error is not None or self._refused is not None

    def _send(self, record: Line) -> None:
        from confluent_kafka import KafkaException

        headers: list[tuple[str, str | bytes | None]] = [*record.headers]
        topic = self._topic or record.topic
        if topic is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a record names no topic, and the command neither")
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    record.partition,
                    timestamp=record.timestamp,
                    headers=headers or None,
                    on_delivery=self._delivered,
                )
                break
            except BufferError:  # the queue is full: let answers come in
                self._producer.poll(QUEUE_FULL_POLL_SECONDS)
            except KafkaException as error:
                if error.args[0].code() == ErrorCode.MESSAGE_TOO_LARGE:
                    option = "-X" if self._noun == "produce" else "--command-property"
                    text = not_sent(self._properties, option, topic, record.key, record.value, headers)
                    raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text) from error
                raise KafkaError(ErrorCode.INVALID_RECORD, error.args[0].str()) from error
        if self._each_alone:
            self._producer.flush()
        else:
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.delivered += 1
        elif self._failed:
            return
        elif error.code() == ErrorCode.MESSAGE_TOO_LARGE:
            self._refused = message
        else:
            self._error = f"a record for topic {message.topic()} was not written: {error.str()}"


def _terminate(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
