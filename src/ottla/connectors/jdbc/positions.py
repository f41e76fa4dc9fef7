"""How far a table has been read: the last number, the last time, and both as Connect's offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.connect import ConnectError

__all__ = ["Position", "position_of", "query_partition", "table_partition"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INCREMENTING, TIMESTAMP, NANOS = "incrementing", "timestamp", "timestamp_nanos"


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
    at: datetime | None = None

    def offset(self) -> dict[str, Any]:
        """Return it as an offset: milliseconds since 1970, and the nanoseconds of the second beside them."""
        found: dict[str, Any] = {}
        if self.number is not None:
            found[INCREMENTING] = self.number
        if self.at is not None:
            found[TIMESTAMP] = (self.at - _EPOCH) // timedelta(milliseconds=1)
            found[NANOS] = self.at.microsecond * 1000
        return found


def position_of(offset: Mapping[str, Any]) -> Position:
    """Return the position of a stored offset; raises ConnectError where it is none."""
    number, ms, nanos = (_whole(offset, key) for key in (INCREMENTING, TIMESTAMP, NANOS))
    at: datetime | None = None
    if ms is not None:
        try:
            at = _EPOCH + timedelta(milliseconds=ms)
        except OverflowError as error:
            raise ConnectError(f"The offset's {TIMESTAMP} {ms} is no time") from error
        if nanos is not None:
            at = at.replace(microsecond=nanos // 1000)
    return Position(number, at)


def _whole(offset: Mapping[str, Any], key: str) -> int | None:
    value = offset.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConnectError(f"The offset's {key} must be a whole number, and is {value!r}")
    if key == NANOS and not 0 <= value < 1_000_000_000:
        raise ConnectError(f"The offset's {key} must be from 0 to 999999999, and is {value}")
    return value
