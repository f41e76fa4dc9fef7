"""Which directory a record's file lies in: by Kafka's partition, by fields of the value, or by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import Any, Protocol

from ottla.base import ConfigError
from ottla.connect import ConnectError, DataError, SinkRecord
from ottla.connectors.storage.path_format import PathFormat, truncated_ms, zone_of
from ottla.connectors.storage.timestamps import TimestampOf, extractor_of, field_value

__all__ = [
    "PARTITIONERS",
    "ByField",
    "ByPartition",
    "ByTime",
    "Partitioner",
    "partitioner_name",
    "partitioner_of",
]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_BY_DAY = "'year'=YYYY/'month'=MM/'day'=dd"
_FIXED = {"Hourly": (HOUR_MS, _BY_DAY + "/'hour'=HH"), "Daily": (DAY_MS, _BY_DAY)}

_PACKAGE = "io.confluent.connect.storage.partitioner."
PARTITIONERS = tuple(f"{_PACKAGE}{name}Partitioner" for name in ("Default", "Field", "TimeBased", "Hourly", "Daily"))
"""The class names that `partitioner.class` may have; without the package, they are known too."""


class Partitioner(Protocol):
    """Says under which path below the topic's directory a record's file lies."""

    def encode(self, record: SinkRecord) -> str:
        """Return the path; raises DataError for a record that has none."""
        ...


class ByPartition:
    """`partition=0`: one directory for each of the topic's partitions."""

    def encode(self, record: SinkRecord) -> str:
        """See `Partitioner`."""
        return f"partition={record.original_partition}"


class ByField:
    """`country=NO/kind=a`: the values of some of the value's fields."""

    def __init__(self, fields: list[str], delimiter: str) -> None:
        self._fields = [(name, name.split(".")) for name in fields]
        self._delimiter = delimiter

    def encode(self, record: SinkRecord) -> str:
        """See `Partitioner`."""
        value = record.value
        return self._delimiter.join(f"{name}={_as_text(field_value(value, path), name)}" for name, path in self._fields)


class ByTime:
    """`year=2026/month=11/day=22`: the stretch of time that the record belongs to."""

    def __init__(self, duration_ms: int, pattern: str, zone: tzinfo, timestamp_of: TimestampOf) -> None:
        self._duration_ms, self._zone = duration_ms, zone
        self._format, self._timestamp_of = PathFormat(pattern), timestamp_of
        self._begin, self._end, self._text = 0, 0, ""

    def encode(self, record: SinkRecord) -> str:
        """See `Partitioner`."""
        ms = self._timestamp_of(record)
        if not self._begin <= ms < self._end:
            try:
                begin = truncated_ms(ms, self._duration_ms, self._zone)
                self._text = self._format.format(begin, self._zone)
            except ConnectError as error:
                raise DataError(str(error)) from error
            # Kept for the records that follow, and for a quarter of an hour at most: clocks change on such borders.
            quarter = ms // 900_000 * 900_000
            self._begin = max(begin, quarter)
            self._end = min(begin + self._duration_ms, quarter + 900_000)
        return self._text


def _as_text(value: Any, name: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
    raise DataError(f"The field {name} cannot name a partition: expected text, a whole number or a boolean")


def partitioner_name(text: str) -> str | None:
    """Return which partitioner a class name means (`Default`, `Field`, …), None for one that is not known."""
    simple = text.removeprefix(_PACKAGE) if text.startswith(_PACKAGE) else text
    return simple.removesuffix("Partitioner") if _PACKAGE + simple in PARTITIONERS else None


def partitioner_of(settings: Mapping[str, Any], now_ms: Callable[[], int]) -> Partitioner:
    """Return the partitioner of parsed settings; raises ConfigError for a key that it needs and that is not set."""
    name = partitioner_name(settings["partitioner.class"])
    delimiter = settings["directory.delim"]
    if name == "Default":
        return ByPartition()
    if name == "Field":
        fields = settings["partition.field.name"]
        if not fields:
            raise _missing("partition.field.name", fields, "FieldPartitioner needs the names of one field or more")
        return ByField(fields, delimiter)
    duration_ms, pattern = _FIXED.get(name or "") or (settings["partition.duration.ms"], settings["path.format"])
    if duration_ms <= 0:
        raise _missing("partition.duration.ms", duration_ms, "TimeBasedPartitioner needs a duration of at least 1 ms")
    if not pattern.strip(delimiter):
        raise _missing("path.format", pattern, "TimeBasedPartitioner needs a pattern, such as " + _BY_DAY)
    if not settings["timezone"]:
        raise _missing("timezone", "", "partitions by time need a time zone, such as UTC or Europe/Oslo")
    extractor = extractor_of(settings["timestamp.extractor"], settings["timestamp.field"], now_ms)
    return ByTime(duration_ms, pattern.replace("/", delimiter), zone_of(settings["timezone"]), extractor)


def _missing(name: str, value: Any, why: str) -> ConfigError:
    return ConfigError(name, value, why, f"Invalid value {value} for configuration {name}: {why}")
