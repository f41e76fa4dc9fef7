"""Records read as a member of a consumer group: positions are the group's, and are committed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError
from ottla.cli.options import warn
from ottla.cli.records.librdkafka import check_names, check_reachable, consumer_settings, make_consumer, taken
from ottla.cli.records.printing import Counted, Reading, counted
from ottla.cli.records.record_reader import ConsumedRecord

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from ottla.cli.records.formatters import Formatter

__all__ = ["GroupPrinting"]

LOG_APPEND_TIME = 2
PATIENCE_MS = "60000"
POLL_RECORDS = 500
TOPICS_RENEWED_SECONDS = 5.0
TOLD_AFTER_SECONDS = 5.0
"""How long nothing may come before it is said what is waited for: longer than a new group waits for more members."""
Place = tuple[str, int]
"""A partition: its topic and number."""


class GroupPrinting:
    """One run as a member: joins, reads what is assigned, commits what was printed, and leaves."""

    def __init__(self, properties: dict[str, str], reading: Reading, render: Formatter) -> None:
        """Take the consumer's settings by Kafka's names, `group.id` and `bootstrap.servers` among them."""
        self._properties = properties
        self._reading = reading
        self._output = Counted(
            render,
            max_messages=reading.max_messages,
            timeout_ms=reading.timeout_ms,
            skips=reading.skip_message_on_error,
        )
        self._topics: list[str] = []
        self._subscribed_s = 0.0
        self._told: set[str] = set()

    def run(self) -> int:
        """Print until a limit, a signal or an error ends it; the count is printed in each case."""
        patience = self._properties.get("default.api.timeout.ms", PATIENCE_MS)
        creates = self._reading.creates_topics
        check_reachable(self._properties, timeout_ms=patience, topics=[*self._reading.topics] if creates else [])
        settings = consumer_settings(self._properties) | {
            "isolation.level": self._reading.isolation.name.lower(),
            "allow.auto.create.topics": str(creates).lower(),
            "enable.auto.offset.store": "false",  # what counts as read is what was printed
        }
        settings.setdefault(
            "auto.offset.reset", "latest" if self._reading.start.kind.name == "FROM_END" else "earliest"
        )
        consumer = make_consumer(settings, self._reading.noun)
        try:
            self._subscribe(consumer)
            return counted(self._output, lambda: self._read(consumer), tells=self._reading.tells_count)
        finally:
            consumer.close()  # commits what was printed

    def _subscribe(self, consumer: Consumer) -> None:
        """Ask for the topics, or for those that match now, as Java's consumer does with an expression of its own."""
        from ottla.cli.topic_names import matching

        self._subscribed_s = time.monotonic()
        topics = [*self._reading.topics]
        check_names(topics)
        if not topics:
            there = consumer.list_topics(timeout=float(PATIENCE_MS) / 1000).topics
            topics = matching(there, self._reading.pattern, exclude_internal=True)
        if topics != self._topics:
            self._topics = topics
            consumer.subscribe(topics)

    def _read(self, consumer: Consumer) -> None:
        while not self._output.is_over:
            self._print(consumer, taken(consumer, POLL_RECORDS, self._output.wait_ms / 1000))
            if self._reading.tells_waiting and self._output.idle_s >= TOLD_AFTER_SECONDS:
                self._tell(self._waited_for(consumer))
            if not self._reading.topics and time.monotonic() >= self._subscribed_s + TOPICS_RENEWED_SECONDS:
                self._subscribe(consumer)

    def _tell(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            warn(f"ottla {self._reading.noun}: {what}")

    def _waited_for(self, consumer: Consumer) -> str:
        """Return what a person who sees no record is to know: what the group waits for, and how to end it."""
        group, topics = self._properties["group.id"], ", ".join(self._topics) or self._reading.pattern
        if not consumer.assignment():
            return f"group {group} has no partition of {topics} for this member yet: others have them, or it rebalances"
        return (
            f"group {group} has read {topics} up to the end, as far as the partitions of this member go; waiting for "
            "new records (Ctrl-C ends it, --timeout-ms MS too; without --group all is read again)"
        )

    def _print(self, consumer: Consumer, messages: list[Message]) -> None:
        printed: dict[Place, int] = {}
        try:
            for message in messages:
                if self._has_failed(message):
                    continue
                record = _consumed(message)
                self._output.write(record)
                printed[record.topic, record.partition] = record.offset + 1
                if self._output.count == self._reading.max_messages:
                    break
            sys.stdout.buffer.flush()
        finally:
            _store(consumer, printed)

    def _has_failed(self, message: Message) -> bool:
        """True for an event that is no record, which is told; raises KafkaError for one that does not pass by itself."""
        error = message.error()
        if error is None:
            return False
        code = error.code()
        if not error.retriable() and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            known = code in set(ErrorCode)
            raise KafkaError(ErrorCode(code) if known else ErrorCode.UNKNOWN_SERVER_ERROR, error.str())
        warn(f"ottla {self._reading.noun}: {error.str()}")
        return True


def _store(consumer: Consumer, offsets: dict[Place, int]) -> None:
    """Let the next commit say that everything below these offsets is read."""
    from confluent_kafka import KafkaError as LibraryError
    from confluent_kafka import KafkaException, TopicPartition

    for (topic, partition), offset in offsets.items():
        try:
            consumer.store_offsets(offsets=[TopicPartition(topic, partition, offset)])
        except KafkaException as error:
            if error.args[0].code() != LibraryError._STATE:  # which says that the partition has gone to another member
                raise


def _consumed(message: Message) -> ConsumedRecord:
    kind, timestamp = message.timestamp()
    epoch = message.leader_epoch()
    return ConsumedRecord(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        leader_epoch=-1 if epoch is None else epoch,
        timestamp=timestamp,
        timestamp_type="LogAppendTime" if kind == LOG_APPEND_TIME else "CreateTime",
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=_headers(message.headers()),
    )


def _headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, _bytes(value)) for name, value in headers or ())


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
