"""What a test does with a broker: topics made, records written and read to the end, groups looked at."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, FetchPosition, Isolation, Limits, TopicScan, partition_of
from ottla.testing.own_client import OwnClient

if TYPE_CHECKING:
    from ottla.wire import Record as WireRecord

__all__ = ["Kafka", "Payload", "Place", "Record"]

LIMITS = Limits(connect_s=5.0, unreachable_s=5.0, call_s=30.0, backoff_s=0.02)
WAIT_SECONDS = 10.0
POLL_SECONDS = 0.02
LONG_POLL_MS = 250
NAME_MAX = 200
"""Of the 249 characters that a topic's name may have; a number comes behind it."""

Payload = bytes | str | None | dict[str, Any] | list[Any]
"""Bytes as they are, text in UTF-8, None for a tombstone, and dicts and lists as JSON."""


class Place(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was read; times are milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str:
        """The value as UTF-8; raises ValueError where it is none, or a tombstone."""
        if self.value is None:
            raise ValueError(f"{self.topic}-{self.partition} offset {self.offset} is a tombstone and has no text")
        return self.value.decode()

    @property
    def json(self) -> Any:
        """The value as JSON says it; raises ValueError where it is none."""
        return json.loads(self.text)


class Kafka:
    """A broker, as tests use it, from any thread. Calls wait for their answers, within an event loop too; `close` it."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        log_lines: Callable[[], Sequence[str]] = tuple,
        log_dropped: Callable[[], int] = int,
    ) -> None:
        """`log_lines` returns the newest lines that the broker has logged, `log_dropped` how many there were before."""
        self.bootstrap_servers = bootstrap_servers
        """`host:port`, for any client."""
        self.log_lines = log_lines
        self._log_dropped = log_dropped
        self.is_shared = False
        """Whether it serves several tests."""
        self._numbers = count(1)
        self._turn = 0
        self._own: OwnClient | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Kafka({self.bootstrap_servers})"

    @property
    def client(self) -> BlockingClient:
        """Ottla's own client of this broker, for requests that have no method here; one for all threads."""
        with self._lock:
            if self._own is None:
                self._own = OwnClient(self.bootstrap_servers, LIMITS)
            return self._own.calls

    def close(self) -> None:
        """Close the connections; the broker goes on."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.close()

    # -- what it logs

    def log_position(self) -> int:
        """Return how many lines it has logged so far, those that are not kept any more included."""
        return self._log_dropped() + len(self.log_lines())

    def logged_since(self, position: int) -> list[str]:
        """Return the lines that it has logged since then, as far as they are kept."""
        return list(self.log_lines()[max(position - self._log_dropped(), 0) :])

    # -- topics

    def new_name(self, about: str = "topic") -> str:
        """Return a name that no topic of this broker has had from here: what is asked for, and a number."""
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', about)[:NAME_MAX].strip('-') or 'topic'}-{next(self._numbers)}"

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Create a topic and return its name, a new one where none is given; raises KafkaError where it is refused."""
        from ottla.client import NewTopic, create_topics

        topic = name if name is not None else self.new_name()
        configs = {key: _setting(value) for key, value in (config or {}).items()}
        wanted = NewTopic(topic, partitions, replication_factor, configs)
        for error in self.client.run(create_topics(self.client.client, [wanted])).values():
            raise error
        return topic

    def delete_topic(self, *names: str) -> None:
        """Delete topics; raises KafkaError where one is refused or is not there."""
        from ottla.admin import delete_topics

        delete_topics(self.client, list(names))

    def topics(self) -> list[str]:
        """Return the names of all topics but Kafka's own, in order."""
        found = self.client.metadata().topics
        return sorted(name for name, topic in found.items() if not topic.is_internal)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions; raises KafkaError where there is no such topic."""
        found = self.client.metadata([topic]).partitions_of(topic)
        if not found:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        return sorted(found, key=lambda each: each.partition)

    # -- records

    def produce(
        self,
        topic: str,
        *values: Payload,
        key: Payload = None,
        partition: int | None = None,
        headers: Mapping[str, bytes | str | None] | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Place]:
        """Write records, all with the same key and headers, and return where each is once every copy has it.

        Without a partition those with a key go where Java's clients put it (murmur2), and the others to each partition in
        turn. Raises KafkaError where the broker refuses, TypeError for a value that is no payload.
        """
        from ottla.wire import Record as WireRecord

        place_of = self.partitions(topic)
        found = [payload_bytes(each) for each in values]
        own_key = payload_bytes(key)
        own_headers = tuple((name, payload_bytes(each)) for name, each in (headers or {}).items())
        now = timestamp_ms if timestamp_ms is not None else time.time_ns() // 1_000_000
        targets = [self._target(place_of, own_key, partition) for _ in found]
        by_partition: dict[TopicPartition, list[WireRecord]] = {}
        positions: list[tuple[TopicPartition, int]] = []
        for target, value in zip(targets, found, strict=True):
            batch = by_partition.setdefault(target, [])
            positions.append((target, len(batch)))
            batch.append(WireRecord(timestamp=now, key=own_key, value=value, headers=own_headers))  # type: ignore[arg-type]
        first = self._append(by_partition)
        return [Place(topic, where.partition, first[where] + index) for where, index in positions]

    def _target(self, places: Sequence[TopicPartition], key: bytes | None, partition: int | None) -> TopicPartition:
        if partition is not None:
            return TopicPartition(places[0].topic, partition)
        if key is not None:
            return places[partition_of(key, len(places))]
        self._turn += 1
        return places[(self._turn - 1) % len(places)]

    def _append(self, records: Mapping[TopicPartition, Sequence[WireRecord]]) -> dict[TopicPartition, int]:
        from ottla.wire import build_batch

        if not records:
            return {}
        answers = self.client.produce({place: build_batch(each) for place, each in records.items()})
        return {each.partition: int(each.check().base_offset) for each in answers}

    def records(
        self, topic: str, *, committed: bool = False, at_least: int = 0, seconds: float = WAIT_SECONDS
    ) -> list[Record]:
        """Return all that a topic holds now, from its beginning to its high watermark, ordered by partition and offset.

        With `committed` that is what `read_committed` sees: to the first open transaction, without what was aborted. With
        `at_least` it waits until there are so many records, by long polls, and raises TimeoutError where they have not come
        within `seconds`; the topic may come to be meanwhile. Raises KafkaError where there is no such topic.
        """
        deadline = time.monotonic() + seconds
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        while True:
            ends = self._ends(topic, isolation, is_waited_for=at_least > 0)
            found = self._drained(ends, isolation)
            if len(found) >= at_least:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has {len(found)} records after {seconds:g} s, not {at_least}")
            if ends:
                positions = [FetchPosition(place, Offset(end), 1) for place, end in ends.items()]
                self.client.fetch(positions, max_wait_ms=LONG_POLL_MS, isolation=isolation)
            else:
                time.sleep(POLL_SECONDS)

    def _ends(self, topic: str, isolation: Isolation, *, is_waited_for: bool) -> dict[TopicPartition, int]:
        """Return where partitions end; nothing for a topic that is waited for and is not there yet."""
        try:
            places = self.partitions(topic)
        except KafkaError as error:
            if is_waited_for and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return {}
            raise
        found = self.client.list_offsets(dict.fromkeys(places, LATEST), isolation=isolation)
        return {place: int(each.offset) for place, each in found.items()}

    def _drained(self, ends: Mapping[TopicPartition, int], isolation: Isolation) -> list[Record]:
        starts = self.client.list_offsets(dict.fromkeys(ends, EARLIEST))
        ranges = {place: (int(starts[place].offset), end) for place, end in ends.items()}
        scan = TopicScan(self.client.client, ranges, isolation=isolation)
        found = []
        while not scan.is_at_end:
            found += [_record(place, each) for place, each in self.client.run(scan.read())]
        return sorted(found, key=lambda each: (each.partition, each.offset))

    def ends(self, topic: str) -> dict[int, int]:
        """Return each partition's high watermark."""
        found = self.client.list_offsets(dict.fromkeys(self.partitions(topic), LATEST))
        return {place.partition: int(each.offset) for place, each in sorted(found.items())}

    def starts(self, topic: str) -> dict[int, int]:
        """Return each partition's first offset, which rises as records are deleted."""
        found = self.client.list_offsets(dict.fromkeys(self.partitions(topic), EARLIEST))
        return {place.partition: int(each.offset) for place, each in sorted(found.items())}

    # -- groups

    def lag(self, group: str, topic: str) -> int:
        """Return how many records of a topic a group has not committed yet; what it never committed counts whole."""
        places = self.partitions(topic)
        committed = self.client.committed_offsets(group, places)
        ends, starts = self.ends(topic), self.starts(topic)
        at = {place.partition: each.offset for place, each in committed.items() if each.offset >= 0}
        return sum(end - max(at.get(index, 0), starts[index]) for index, end in ends.items())

    def wait_until_read(self, topic: str, group: str, *, seconds: float = WAIT_SECONDS) -> None:
        """Return when a group has committed all that a topic holds; raises TimeoutError with its lag where it does not."""
        deadline = time.monotonic() + seconds
        while lag := self.lag(group, topic):
            if time.monotonic() > deadline:
                raise TimeoutError(f"group {group} is {lag} records behind in {topic} after {seconds:g} s")
            time.sleep(POLL_SECONDS)

    def members(self, group: str) -> list[str]:
        """Return the client ids of a group's members, in order; nothing where there is no such group."""
        from ottla.admin import describe_group

        try:
            return sorted(each.client_id for each in describe_group(self.client, group).members)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return []
            raise


def payload_bytes(value: object) -> bytes | None:
    """Return a payload as bytes; raises TypeError for what is none."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict | list):
        return json.dumps(value).encode()
    raise TypeError(f"a key, value or header is bytes, text, None, a dict or a list, not {type(value).__name__}")


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _record(place: TopicPartition, found: WireRecord) -> Record:
    return Record(
        topic=place.topic,
        partition=place.partition,
        offset=int(found.offset),
        timestamp_ms=int(found.timestamp),
        key=found.key,
        value=found.value,
        headers=tuple(found.headers),
    )


def settings_of(pairs: Iterable[str]) -> dict[str, str]:
    """Return settings from lines `key=value`; raises ValueError for a line that is none."""
    found = {}
    for line in pairs:
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"a setting is key=value, not {line!r}")
        found[key.strip()] = value.strip()
    return found
