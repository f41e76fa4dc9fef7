"""Records to standard output until a limit, a signal or an error: the loop under every command that consumes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.cli.options import warn
from ottla.cli.records.positions import Kind, Position, resolve

if TYPE_CHECKING:
    from ottla.cli.records.formatters import Formatter
    from ottla.cli.records.record_reader import ConsumedRecord, PartitionReader
    from ottla.client import BlockingClient, Isolation

__all__ = ["Printing", "Reading", "counted"]

POLL_MS_MAX = 500
TOPICS_RENEWED_SECONDS = 5.0
TOPIC_RETRY_SECONDS = 0.2
EARLIEST = Position(Kind.FROM_START, 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read, from where to where, and when to stop."""

    noun: str
    start: Position
    isolation: Isolation
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """Topics by a regular expression, in the place of names."""
    partitions: frozenset[int] | None = None
    until: Position | None = None
    """Where to stop in each partition; the command ends when all have come there."""
    max_messages: int | None = None
    timeout_ms: int | None = None
    skip_message_on_error: bool = False

    @property
    def creates_topics(self) -> bool:
        """True where a topic that is asked for and not there comes to be, if the broker allows it, as with Kafka's tool."""
        return self.noun == "console-consumer"

    @property
    def tells_waiting(self) -> bool:
        """True where a person is told what is waited for; Kafka's tool waits without a word."""
        return self.noun != "console-consumer"

    @property
    def tells_count(self) -> bool:
        """True where the count is said at the end: always by Kafka's tool, and by the others to a person only."""
        return self.noun == "console-consumer" or sys.stderr.isatty()


class Counted:
    """Writes records and knows how many there were, and when the last came."""

    def __init__(self, render: Formatter, *, max_messages: int | None, timeout_ms: int | None, skips: bool) -> None:
        self._render = render
        self._max_messages = max_messages
        self._timeout_ms = timeout_ms
        self._skips = skips
        self._last_record_s = time.monotonic()
        self.count = 0

    @property
    def is_over(self) -> bool:
        """True when enough records came, or none for too long."""
        return self.count == self._max_messages or self.wait_ms == 0

    @property
    def idle_s(self) -> float:
        """How long no record has come."""
        return time.monotonic() - self._last_record_s

    @property
    def wait_ms(self) -> int:
        """How long the next poll may wait, in ms; 0 when the patience is over."""
        if self._timeout_ms is None:
            return POLL_MS_MAX
        left_s = self._last_record_s + self._timeout_ms / 1000 - time.monotonic()
        return max(0, min(POLL_MS_MAX, round(left_s * 1000)))

    def write(self, record: ConsumedRecord) -> None:
        """Print one record; raises KafkaError for one that does not read, unless such records are skipped."""
        self._last_record_s = time.monotonic()
        try:
            sys.stdout.buffer.write(self._render(record))
        except KafkaError as error:
            if not self._skips:
                raise
            warn(f"Error processing message, skipping this message: {error}")
        self.count += 1


def counted(output: Counted, read: Callable[[], None], *, tells: bool) -> int:
    """Run the loop and say the count on standard error, whatever ends it, as Kafka's tool does."""
    try:
        read()
        return 0
    finally:
        if tells:
            warn(f"Processed a total of {output.count} messages")


class Printing:
    """One run without a group: finds the partitions, reads, prints, and counts."""

    def __init__(self, client: BlockingClient, reading: Reading, render: Formatter) -> None:
        self._client = client
        self._reading = reading
        self._output = Counted(
            render,
            max_messages=reading.max_messages,
            timeout_ms=reading.timeout_ms,
            skips=reading.skip_message_on_error,
        )
        self._renewed_s = time.monotonic()
        self._told_missing: set[str] = set()

    def run(self) -> int:
        """Print until a limit, a signal or an error ends it; the count is printed in each case."""
        return counted(self._output, self._read, tells=self._reading.tells_count)

    def _read(self) -> None:
        from ottla.cli.records.record_reader import PartitionReader

        first = self._new_partitions(set())
        # The end is asked for before the beginning, so that what is written meanwhile lies behind it.
        until = None if self._reading.until is None else self._resolve(first, self._reading.until)
        reader = PartitionReader(
            self._client,
            self._resolve(first, self._reading.start),
            isolation=self._reading.isolation,
            reset=lambda partition: self._resolve([partition], self._reset_position())[partition],
            until=until,
        )
        while not self._output.is_over and not (until is not None and not reader.partitions):
            self._round(reader)

    def _round(self, reader: PartitionReader) -> None:
        if not reader.partitions:
            time.sleep(TOPIC_RETRY_SECONDS)
        else:
            for record in reader.poll(self._output.wait_ms):
                self._output.write(record)
                if self._output.count == self._reading.max_messages:
                    break
            sys.stdout.buffer.flush()
        if self._reading.until is not None:
            return  # partitions that appear later lie behind the end
        if time.monotonic() >= self._renewed_s + (TOPICS_RENEWED_SECONDS if reader.partitions else 0):
            self._renewed_s = time.monotonic()
            found = self._new_partitions(reader.partitions)  # read whole: their records are all newer than this run
            reader.add(
                self._resolve(found, self._reading.start if self._reading.start.kind is Kind.OFFSET else EARLIEST)
            )

    def _reset_position(self) -> Position:
        start = self._reading.start
        return start if start.is_plain and start.kind is not Kind.OFFSET else Position(Kind.FROM_END, 0)

    def _resolve(self, partitions: list[TopicPartition], position: Position) -> dict[TopicPartition, Offset]:
        return resolve(self._client, partitions, position, self._reading.isolation)

    def _new_partitions(self, known: set[TopicPartition]) -> list[TopicPartition]:
        wanted = self._reading.partitions
        return [
            each for each in self._partitions() if each not in known and (wanted is None or each.partition in wanted)
        ]

    def _partitions(self) -> list[TopicPartition]:
        from ottla.cli.records.librdkafka import refused_topic
        from ottla.cli.topic_names import matching

        if not self._reading.topics:
            cluster = self._client.metadata()
            names = matching(cluster.topics, self._reading.pattern, exclude_internal=True)
        else:
            wanted = self._reading.topics
            cluster = self._client.metadata(wanted, allow_auto_topic_creation=self._reading.creates_topics)
            names = [name for name in wanted if name in cluster.topics and not cluster.topics[name].error]
            for name in set(wanted) - set(names) - self._told_missing:
                self._told_missing.add(name)
                if name in cluster.topics and (text := refused_topic(name, cluster.topics[name].error)):
                    raise KafkaError(cluster.topics[name].error, text)
                said = cluster.topics[name].error.name if name in cluster.topics else "unknown"
                if self._reading.until is not None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name} ({said})")
                warn(f"ottla {self._reading.noun}: topic {name} is not there yet ({said}); waiting for it")
        found = [partition for name in names for partition in cluster.partitions_of(name)]
        if found:
            self._tell_missing(found)
        return found

    def _tell_missing(self, found: list[TopicPartition]) -> None:
        """Say which of the wanted partitions no topic has; raises KafkaError where nobody waits for them."""
        for number in sorted((self._reading.partitions or frozenset()) - {each.partition for each in found}):
            text = f"no partition {number} in {', '.join(sorted({each.topic for each in found}))}"
            if self._reading.until is not None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is {text}")
            if text not in self._told_missing:
                self._told_missing.add(text)
                warn(f"ottla {self._reading.noun}: there is {text} yet; waiting for it")
