"""Serdes of keys within windows, in Kafka's formats: key and start (time windows), key, end and start (sessions).

A time window's end is not written; who reads must know the size. A windowed key is a `Windowed` in Python and a
`struct<key, start_ms, end_ms>` in column expressions.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from ottla.streams.durations import Duration, milliseconds
from ottla.streams.errors import SerializationError
from ottla.streams.serdes.basic import FixedSerde, Serde
from ottla.streams.windows import Windowed

__all__ = ["SessionWindowedSerde", "TimeWindowedSerde", "time_windowed"]

LONG_MAX = 2**63 - 1
_LONG = FixedSerde("long", "bigint", ">q")


@dataclass(frozen=True, slots=True)
class TimeWindowedSerde:
    """`TimeWindowedSerializer`: the key's bytes, then the window's start."""

    inner: Serde
    size_ms: int = LONG_MAX

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return f"time-windowed {self.inner.name}"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return _sql_type(self.inner)

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        key, start, _ = _windowed(self.name, value)
        return _inner(self, key) + struct.pack(">q", start)

    def deserialize(self, data: bytes | None) -> Windowed[Any] | None:
        """Return the value of bytes."""
        if not data:
            return None
        if len(data) < 8:
            raise SerializationError(f"{self.name}: expected at least 8 bytes, got {len(data)}")
        (start,) = struct.unpack(">q", data[-8:])
        return Windowed(self.inner.deserialize(data[:-8]), start, min(start + self.size_ms, LONG_MAX))

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        start = _long_at(column, 8)
        end = f"cast({LONG_MAX} as bigint)" if self.size_ms == LONG_MAX else f"{start} + {self.size_ms}L"
        return _decoded(self.inner, column, tail=8, start=start, end=end)

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        tail = _LONG.sql_encode(f"{column}.start_ms")
        return f"if({column} is null, null, concat({self.inner.sql_encode(column + '.key')}, {tail}))"


@dataclass(frozen=True, slots=True)
class SessionWindowedSerde:
    """`SessionWindowedSerializer`: the key's bytes, then the session's end, then its start."""

    inner: Serde

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return f"session-windowed {self.inner.name}"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return _sql_type(self.inner)

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        key, start, end = _windowed(self.name, value)
        return _inner(self, key) + struct.pack(">qq", end, start)

    def deserialize(self, data: bytes | None) -> Windowed[Any] | None:
        """Return the value of bytes."""
        if not data:
            return None
        if len(data) < 16:
            raise SerializationError(f"{self.name}: expected at least 16 bytes, got {len(data)}")
        end, start = struct.unpack(">qq", data[-16:])
        return Windowed(self.inner.deserialize(data[:-16]), start, end)

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        return _decoded(self.inner, column, tail=16, start=_long_at(column, 8), end=_long_at(column, 16))

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        tail = f"{_LONG.sql_encode(f'{column}.end_ms')}, {_LONG.sql_encode(f'{column}.start_ms')}"
        return f"if({column} is null, null, concat({self.inner.sql_encode(column + '.key')}, {tail}))"


def time_windowed(inner: Serde, size: Duration) -> TimeWindowedSerde:
    """Return the serde of a topic whose keys are within time windows of one size."""
    return TimeWindowedSerde(inner, milliseconds(size, "time_windowed: size"))


def _windowed(name: str, value: object) -> tuple[Any, int, int]:
    if not isinstance(value, Windowed):
        raise SerializationError(f"{name}: expected Windowed, got {type(value).__name__}")
    return value.key, value.start_ms, value.end_ms


def _inner(serde: TimeWindowedSerde | SessionWindowedSerde, key: Any) -> bytes:
    data = serde.inner.serialize(key)
    if data is None:
        raise SerializationError(f"{serde.name}: a windowed key cannot be null")
    return data


def _sql_type(inner: Serde) -> str | None:
    return None if inner.sql_type is None else f"struct<key: {inner.sql_type}, start_ms: bigint, end_ms: bigint>"


def _long_at(column: str, from_end: int) -> str:
    return _LONG.sql_decode(f"substring({column}, length({column}) - {from_end - 1}, 8)")


def _decoded(inner: Serde, column: str, *, tail: int, start: str, end: str) -> str:
    key = inner.sql_decode(f"substring({column}, 1, length({column}) - {tail})")
    return f"if(length({column}) >= {tail}, named_struct('key', {key}, 'start_ms', {start}, 'end_ms', {end}), null)"
