"""How far a table has been read: the last number, the last time, and both as Connect's offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.connect import ConnectError, data
from ottla.connectors.jdbc.far_values import microseconds_of

__all__ = ["Position", "position_of", "query_partition", "table_partition"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INCREMENTING, TIMESTAMP, NANOS, LOCAL = "incrementing", "timestamp", "timestamp_nanos", "timestamp_local"


def table_partition(name: str) -> dict[str, str]:
    """Return the source partition of a table's full name."""
    return {"protocol": "1", "table": name}


def query_partition() -> dict[str, str]:
    """Return the source partition of a query."""
    return {"query": "query"}


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading goes on; None for what is not read by, or not begun yet."""

    number: int | None = None
    at: datetime | data.FarTimestamp | None = None
    local: datetime | None = None
    """What the database has instead of `at`, where a zone's clock was put forward and never showed it."""

    def offset(self) -> dict[str, Any]:
        """Return it as an offset: milliseconds since 1970, and the nanoseconds of the second beside them."""
        found: dict[str, Any] = {}
        if self.number is not None:
            found[INCREMENTING] = self.number
        if self.at is not None:
            microseconds = microseconds_of(self.at)
            found[TIMESTAMP] = microseconds // 1000
            found[NANOS] = microseconds % 1_000_000 * 1000
        if self.local is not None:
            found[LOCAL] = self.local.isoformat()
        return found


def position_of(offset: Mapping[str, Any]) -> Position:
    """Return the position of a stored offset; raises ConnectError where it is none."""
    number, ms, nanos = (_whole(offset, key) for key in (INCREMENTING, TIMESTAMP, NANOS))
    at = None if ms is None else _moment(ms, nanos)
    return Position(number, at, _local(offset))


def _moment(ms: int, nanos: int | None) -> datetime | data.FarTimestamp:
    if not -(1 << 63) <= ms < 1 << 63:
        raise ConnectError(f"The offset's {TIMESTAMP} {ms} is no time")
    microseconds = ms * 1000 if nanos is None else ms // 1000 * 1_000_000 + nanos // 1000
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return data.FarTimestamp(microseconds)


def _local(offset: Mapping[str, Any]) -> datetime | None:
    text = offset.get(LOCAL)
    try:
        return None if text is None else datetime.fromisoformat(text).replace(tzinfo=None)
    except (TypeError, ValueError) as error:
        raise ConnectError(f"The offset's {LOCAL} must be a local time, and is {text!r}") from error


def _whole(offset: Mapping[str, Any], key: str) -> int | None:
    value = offset.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConnectError(f"The offset's {key} must be a whole number, and is {value!r}")
    if key == NANOS and not 0 <= value < 1_000_000_000:
        raise ConnectError(f"The offset's {key} must be from 0 to 999999999, and is {value}")
    return value
