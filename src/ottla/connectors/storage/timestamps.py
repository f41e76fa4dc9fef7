"""Which time a record belongs to: when it is written, its own timestamp, or one of its fields."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from ottla.connect import ConnectError, ConnectRecord, DataError, Struct

__all__ = ["TIMESTAMP_EXTRACTORS", "TimestampOf", "extractor_of", "field_value", "needs_record"]

TimestampOf = Callable[[ConnectRecord], int]
"""Milliseconds since 1970 of a record; raises DataError where it has none."""

_PARTITIONER = "io.confluent.connect.storage.partitioner.TimeBasedPartitioner$"
TIMESTAMP_EXTRACTORS = {
    "Wallclock": "Wallclock",
    "Record": "Record",
    "RecordField": "RecordField",
    **{f"{_PARTITIONER}{name}TimestampExtractor": name for name in ("Wallclock", "Record", "RecordField")},
}
"""What `timestamp.extractor` may say, class names included, and which of the three it means."""

_MISSING = object()


def needs_record(name: str) -> bool:
    """Return whether an extractor gives the same time whenever it is asked, so that files come out the same again."""
    return TIMESTAMP_EXTRACTORS.get(name) != "Wallclock"


def extractor_of(name: str, field: str, now_ms: Callable[[], int]) -> TimestampOf:
    """Return what an extractor's name means; raises ConnectError for a name that is none."""
    match TIMESTAMP_EXTRACTORS.get(name):
        case "Wallclock":
            return lambda record: now_ms()
        case "Record":
            return _of_record
        case "RecordField":
            path = field.split(".")
            return lambda record: _ms_of(field_value(record.value, path), field)
    known = ", ".join(each for each in TIMESTAMP_EXTRACTORS if "." not in each)
    raise ConnectError(f"timestamp.extractor={name} is not known; expected one of {known}")


def _of_record(record: ConnectRecord) -> int:
    if record.timestamp is None:
        raise DataError("The record has no timestamp, which timestamp.extractor=Record reads")
    return record.timestamp


def field_value(value: Any, path: list[str]) -> Any:
    """Return a field of a struct or map, of those inside it where the path has several steps; raises DataError."""
    for place, name in enumerate(path):
        if isinstance(value, Struct):
            value = value.get(name) if name in value else _MISSING
        elif isinstance(value, dict):
            value = value.get(name, _MISSING)
        else:
            value = _MISSING
        if value is _MISSING:
            raise DataError(f"The record has no field {'.'.join(path[: place + 1])}")
    return value


def _ms_of(value: Any, field: str) -> int:
    match value:
        case bool():
            pass
        case int():
            return value
        case float() if value == value and abs(value) != float("inf"):
            return int(value)
        case datetime():
            aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return round(aware.timestamp() * 1000)
        case date():
            return round(datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp() * 1000)
        case str():
            return _ms_of_text(value, field)
    raise DataError(
        f"The field {field} is no time: expected milliseconds since 1970, a date, a timestamp or ISO 8601 text"
    )


def _ms_of_text(text: str, field: str) -> int:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise DataError(f"The field {field} is no time: {text!r} is not ISO 8601 text") from error
    return _ms_of(found, field)
