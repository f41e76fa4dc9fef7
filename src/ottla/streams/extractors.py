"""Timestamp extractors: which time a record has, in milliseconds since the epoch.

`extract(record, partition_time)` gets the record (key, value, timestamp, headers, topic, partition, offset) and the highest
time that its partition has had, -1 at first. A negative result drops the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.streams.errors import TopologyError

__all__ = [
    "FailOnInvalidTimestamp",
    "LogAndSkipOnInvalidTimestamp",
    "RecordMetadataTimestamp",
    "TimestampExtractor",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueTimestamp",
    "WallclockTimestampExtractor",
]


class TimestampExtractor(Protocol):
    """Says a record's time."""

    def extract(self, record: Any, partition_time: int) -> int:
        """Return milliseconds since the epoch; negative drops the record."""


@dataclass(frozen=True, slots=True)
class FailOnInvalidTimestamp:
    """The record's own time; a negative one stops the application. Kafka's default."""

    def extract(self, record: Any, partition_time: int) -> int:
        """Return the record's time."""
        if record.timestamp < 0:
            raise ValueError(
                f"record {record.topic}-{record.partition}@{record.offset} has the invalid timestamp {record.timestamp}"
            )
        return int(record.timestamp)


@dataclass(frozen=True, slots=True)
class LogAndSkipOnInvalidTimestamp:
    """The record's own time; a record with a negative one is dropped."""

    def extract(self, record: Any, partition_time: int) -> int:
        """Return the record's time."""
        return int(record.timestamp)


@dataclass(frozen=True, slots=True)
class UsePartitionTimeOnInvalidTimestamp:
    """The record's own time; where it is negative, the highest that the partition has had."""

    def extract(self, record: Any, partition_time: int) -> int:
        """Return the record's time."""
        if record.timestamp >= 0:
            return int(record.timestamp)
        if partition_time < 0:
            raise ValueError(
                f"record {record.topic}-{record.partition}@{record.offset}: no earlier record tells the time"
            )
        return partition_time


@dataclass(frozen=True, slots=True)
class WallclockTimestampExtractor:
    """The time at which the record is processed. Whoever runs the plan puts it in; `clock` returns milliseconds."""

    clock: Callable[[], int] | None = None

    def extract(self, record: Any, partition_time: int) -> int:
        """Return the record's time."""
        if self.clock is None:
            raise ValueError("WallclockTimestampExtractor: no clock was given to the plan's runner")
        return self.clock()


@dataclass(frozen=True, slots=True)
class RecordMetadataTimestamp:
    """The record's own time, as it is."""

    def extract(self, record: Any, partition_time: int) -> int:
        """Return the record's time."""
        return int(record.timestamp)


@dataclass(frozen=True, slots=True)
class ValueTimestamp:
    """A time inside the record: Spark SQL text that yields milliseconds or a timestamp, or a function of the value."""

    source: str | Callable[[Any], int]

    def extract(self, record: Any, partition_time: int) -> int:
        """Return the record's time."""
        if callable(self.source):
            return int(self.source(record.value))
        found = record.value
        for part in self.source.split(".")[1:]:
            found = found[part] if isinstance(found, dict) else getattr(found, part)
        return int(found.timestamp() * 1000) if hasattr(found, "timestamp") else int(found)


def check_extractor(step: str, given: object) -> None:
    """Raise TopologyError for what is no extractor."""
    if given is not None and (isinstance(given, type) or not callable(getattr(given, "extract", None))):
        raise TopologyError(
            step, f"timestamp_extractor: expected an object with extract(record, partition_time), got {given!r}"
        )
