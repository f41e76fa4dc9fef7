"""Dead letters: records that somebody could not handle, with why in their headers; grouped by cause, and sent back once.

Known are the headers of Kafka Connect (KIP-298), Kafka Streams (KIP-1034) and Spring. Which letters have been sent back
stands in a compacted topic, written in the transaction that sends them, so that none is sent twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin.topic_records import committed_records, newest_records, offsets_at
from ottla.base import ErrorCode, KafkaError, TopicPartition

if TYPE_CHECKING:
    from ottla.admin.fixes import Fixed
    from ottla.client import BlockingClient, Client
    from ottla.wire import Record

__all__ = [
    "DONE_TOPIC",
    "DeadLetter",
    "FoundLetters",
    "LetterGroup",
    "dead_letters",
    "grouped_letters",
    "is_dead_letter_topic",
    "letter_of",
    "make_done_topic",
    "redrive_transactional_id",
    "redriven",
    "sent_back",
]

DONE_TOPIC = "__ottla_redriven"
DONE_CONFIGS = {"cleanup.policy": "compact"}
FROM = "ottla.redriven.from"
"""The header that says of a record that was sent back where it lay."""
LETTERS_MAX = 20_000
LETTERS_BYTES_MAX = 64 << 20
"""Of letters that are held at a time, whoever looks at them or sends them back."""
NAMES = re.compile(r"(^|[._-])(dlq|dlt|dead[._-]?letters?)($|[._-])", re.IGNORECASE)
CHANGING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+(?:[.,]\d+)*", re.IGNORECASE)
CAUSE_CHARACTERS_MAX = 300
FAMILIES: tuple[tuple[str, str, str, str, str, str, str], ...] = (
    (
        "Connect",
        "__connect.errors.topic",
        "__connect.errors.partition",
        "__connect.errors.offset",
        "__connect.errors.exception.class.name",
        "__connect.errors.exception.message",
        "__connect.errors.",
    ),
    (
        "Streams",
        "__streams.errors.topic",
        "__streams.errors.partition",
        "__streams.errors.offset",
        "__streams.errors.exception",
        "__streams.errors.message",
        "__streams.errors.",
    ),
    (
        "Spring",
        "kafka_dlt-original-topic",
        "kafka_dlt-original-partition",
        "kafka_dlt-original-offset",
        "kafka_dlt-exception-fqcn",
        "kafka_dlt-exception-message",
        "kafka_dlt-",
    ),
)
"""Who writes dead letters: names of headers of origin, exception and message, and how all of them begin."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One letter: where it lies, whence it came as far as it says so, and why."""

    place: TopicPartition
    record: Record
    family: str = "unknown"
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    exception: str = ""
    message: str = ""
    prefix: str | None = None

    @property
    def cause(self) -> str:
        """What letters with the same trouble share: the exception and its message without what changes."""
        kind = self.exception.rpartition(".")[2] or "no reason given"
        text = CHANGING.sub("N", self.message.strip().split("\n")[0])[:CAUSE_CHARACTERS_MAX]
        return f"{kind}: {text}" if text else kind

    @property
    def key(self) -> bytes:
        """By what it is remembered; a topic that was made anew has other times."""
        return f"{self.place}/{self.record.offset}/{self.record.timestamp}".encode()

    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Return its own headers, without those that say why it is dead."""
        prefix = self.prefix
        return tuple(
            (name, value) for name, value in self.record.headers if prefix is None or not name.startswith(prefix)
        )


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Letters of one cause."""

    cause: str
    count: int
    done: int
    """How many of them have been sent back."""
    first_ms: int
    last_ms: int
    origins: Mapping[str, int]
    example: DeadLetter


def is_dead_letter_topic(name: str) -> bool:
    """Return whether a topic's name says that it holds dead letters."""
    return NAMES.search(name) is not None


def letter_of(place: TopicPartition, record: Record) -> DeadLetter:
    """Return what a record of a topic of dead letters says."""
    known = {name: value for name, value in record.headers if value is not None}
    for family, topic, partition, offset, exception, message, prefix in FAMILIES:
        if topic in known or exception in known:
            return DeadLetter(
                *(place, record, family, _text(known.get(topic)) or None),
                *(_number(known.get(partition)), _number(known.get(offset))),
                *(_text(known.get(exception)), _text(known.get(message)), prefix),
            )
    return DeadLetter(place, record)


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="replace")


def _number(data: bytes | None) -> int | None:
    """Return a number as a text, or in four or eight bytes as Spring has it."""
    if data is None:
        return None
    if data.lstrip(b"-").isdigit():
        return int(data)
    return int.from_bytes(data, "big", signed=True) if len(data) in (4, 8) else None


@dataclass(frozen=True)
class FoundLetters:
    """A topic's newest letters before some ends; `cut_after` is how many bytes of them there may be, where that cut it."""

    letters: list[DeadLetter]
    ends: dict[int, int]
    cut_after: int | None = None


def dead_letters(
    client: BlockingClient,
    topic: str,
    ends: Mapping[int, int] | None = None,
    *,
    most: int = LETTERS_MAX,
    bytes_max: int = LETTERS_BYTES_MAX,
) -> FoundLetters:
    """Return the newest letters of a topic before some ends, or the present ones; raises KafkaError.

    Of each partition there are as many as fit into its part of `bytes_max`, the newest one however large it is: for the
    same ends always the same ones.
    """
    from ottla.client import EARLIEST, LATEST

    view = client.metadata([topic])
    partitions = view.partitions_of(topic)
    if not partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}")
    if ends is None:
        ends = {each.partition: int(found.offset) for each, found in offsets_at(client, partitions, LATEST).items()}
    starts = {each.partition: int(found.offset) for each, found in offsets_at(client, partitions, EARLIEST).items()}
    each_most, each_bytes = max(1, most // len(partitions)), bytes_max // len(partitions)
    found: list[DeadLetter] = []
    cut_after = None
    for index, end in sorted(ends.items()):
        start = max(starts.get(index, 0), end - each_most)
        records, is_whole = newest_records(client, TopicPartition(topic, index), start, end, bytes_max=each_bytes)
        found += [letter_of(TopicPartition(topic, index), each) for each in records]
        cut_after = cut_after if is_whole else bytes_max
    return FoundLetters(found, dict(ends), cut_after)


def redriven(client: BlockingClient, topic: str) -> set[bytes]:
    """Return the keys of a topic's letters that have been sent back; raises KafkaError."""
    from ottla.client import EARLIEST, LATEST

    view = client.metadata()
    if DONE_TOPIC not in view.topics:
        return set()
    partitions = view.partitions_of(DONE_TOPIC)
    ends = {each.partition: int(found.offset) for each, found in offsets_at(client, partitions, LATEST).items()}
    starts = {each.partition: int(found.offset) for each, found in offsets_at(client, partitions, EARLIEST).items()}
    prefix = f"{topic}-".encode()
    return {
        record.key
        for _, record in committed_records(client, DONE_TOPIC, starts, ends)
        if record.key is not None and record.key.startswith(prefix)
    }


async def make_done_topic(client: Client) -> None:
    """Make the topic that remembers what was sent back, where it is not there; raises KafkaError."""
    from ottla.client import NewTopic, create_topics

    refused = await create_topics(client, [NewTopic(DONE_TOPIC, 1, configs=DONE_CONFIGS)])
    error = refused.get(DONE_TOPIC)
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise error


def redrive_transactional_id(topic: str) -> str:
    """Return as whom letters of a topic are sent back: whoever begins to do so fences who did before."""
    return f"ottla-redrive-{topic}"


def sent_back(
    letter: DeadLetter, counts: Mapping[str, int], to: str | None, fixed: Fixed | None
) -> list[tuple[TopicPartition, Record]]:
    """Return what sending a letter back writes in one transaction: the record again, and what remembers it.

    `counts` are topics' partitions. It goes to the partition that it came from, to its key's where there is none such, or
    where its key was mended; `to` is another topic than its own.
    """
    from ottla.client import partition_of
    from ottla.wire import Record

    record, name = letter.record, to or str(letter.topic)
    key, value, headers = (
        (record.key, record.value, letter.headers()) if fixed is None else (fixed.key, fixed.value, fixed.headers)
    )
    index = letter.partition if to is None else None
    if index is None or index >= counts[name] or key != record.key:
        index = partition_of(key, counts[name]) if key is not None else 0
    whence = f"{letter.place}@{record.offset}".encode()
    again = Record(timestamp=record.timestamp, key=key, value=value, headers=(*headers, (FROM, whence)))
    kept = Record(timestamp=record.timestamp, key=letter.key, value=name.encode())
    return [(TopicPartition(name, index), again), (TopicPartition(DONE_TOPIC, 0), kept)]


def grouped_letters(letters: Iterable[DeadLetter], done: set[bytes]) -> list[LetterGroup]:
    """Return letters by their causes, those with the most letters first."""
    by_cause: dict[str, list[DeadLetter]] = {}
    for each in letters:
        by_cause.setdefault(each.cause, []).append(each)
    found = []
    for cause, mine in by_cause.items():
        origins: dict[str, int] = {}
        for each in mine:
            origins[each.topic or "?"] = origins.get(each.topic or "?", 0) + 1
        times = [int(each.record.timestamp) for each in mine]
        sent = sum(each.key in done for each in mine)
        found.append(LetterGroup(cause, len(mine), sent, min(times), max(times), origins, mine[-1]))
    return sorted(found, key=lambda each: (-each.count, each.cause))
