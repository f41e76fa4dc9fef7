"""Runs of like records, converted all at once: most polls are of one topic, one schema, and nothing else about them.

What is in any way special (a value that does not fit, a header of its own, a partition that was asked for) makes no run, and
goes record by record, where every error has its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect import Header, Schema, SourceRecord
from ottla.connect.data import column_of_values
from ottla.connect.tasks.pipeline import Headers, converts_columns
from ottla.connect.tasks.plugins import TaskPlugins

__all__ = ["ROWS_MAX", "ROWS_MIN", "RecordRun", "RunConverter"]

ROWS_MIN, ROWS_MAX = 32, 2_000
"""Fewer records cost less one by one; and so many are converted before they are sent."""


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records that follow one another, and their bytes."""

    topic: str
    records: Sequence[SourceRecord]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: Headers | None
    """Of each of them."""
    timestamps: list[int]


class RunConverter:
    """Converts runs with a task's converters; for a task without transformations."""

    def __init__(self, equipment: TaskPlugins, headers: Callable[[str, Iterable[Header]], Headers]) -> None:
        """`headers` converts those of a topic."""
        self._key, self._value, self._headers = equipment.key, equipment.value, headers

    def run(self, records: Sequence[Any], first: int, now_ms: int) -> RecordRun | None:
        """Return the run that begins with a record; None where there is none, or where something in it failed."""
        part = records[first : first + ROWS_MAX]
        if len(part) < ROWS_MIN or not _are_alike(part):
            return None
        begin = part[0]
        topic: str = begin.topic
        timestamps = [now_ms if each.timestamp is None or each.timestamp == -1 else each.timestamp for each in part]
        if min(timestamps) < 0:
            return None
        try:
            keys = _converted(self._key, topic, begin.key_schema, [each.key for each in part])
            values = _converted(self._value, topic, begin.value_schema, [each.value for each in part])
            headers = self._headers(topic, begin.headers) if begin.headers else None
        except Exception:  # a converter may raise anything: the same is met again one by one, and handled there
            return None
        return RecordRun(topic, part, keys, values, headers, timestamps)


def _are_alike(part: Sequence[Any]) -> bool:
    """Return whether records differ in nothing but key, value, timestamp and place."""
    if set(map(type, part)) != {SourceRecord}:
        return False
    begin = part[0]
    topic, headers, key_schema, value_schema = begin.topic, begin.headers, begin.key_schema, begin.value_schema
    if topic is None:
        return False
    for each in part:
        if each.topic != topic or each.partition is not None:
            return False
        if each.key_schema is not key_schema or each.value_schema is not value_schema:
            return False
        if each.headers is not headers and (each.headers or headers):
            return False
    return True


def _converted(converter: Any, topic: str, schema: Schema | None, values: list[Any]) -> list[bytes | None]:
    if schema is not None and converts_columns(converter):
        column = column_of_values(schema, values)
        found = None if column is None else converter.columns_from_connect(topic, schema, column)
        if found is not None:
            made: list[bytes | None] = found.to_pylist()
            return made
    convert = converter.from_connect
    return [convert(topic, schema, each) for each in values]
