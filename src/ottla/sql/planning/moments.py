"""Texts beside ROWTIME, WINDOWSTART and WINDOWEND in conditions: a point in time, of which the end may be left out.

`'2020'`, `'2020-07-04'`, `'2020-07-04T16:05'`, with milliseconds, and with an offset (`+0100`, `Z`) behind; UTC without one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from ottla.sql.errors import SqlError
from ottla.sql.tree import expressions as e
from ottla.sql.tree.changing import changed

_TIMES = frozenset(("ROWTIME", "WINDOWSTART", "WINDOWEND"))
_MOMENT = re.compile(
    r"(?P<year>\d{4})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2}))?)?"
    r"(T((?P<hour>\d{1,2})(:(?P<minute>\d{1,2})(:(?P<second>\d{1,2})(\.(?P<fraction>\d{1,3}))?)?)?)?)?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?"
)


def with_moments(condition: e.Expression) -> e.Expression:
    """The condition with numbers in the places of texts that are compared with a time; raises SqlError for other texts."""

    def change(part: e.Expression) -> e.Expression | None:
        match part:
            case e.Comparison(operator, left, right) if _is_time(left) or _is_time(right):
                return e.Comparison(operator, _moment(left), _moment(right), part.at)
            case e.Between(value, low, high) if _is_time(value):
                return e.Between(value, _moment(low), _moment(high), part.at)
        return None

    return changed(condition, change)


def _is_time(part: e.Expression) -> bool:
    return isinstance(part, e.Column) and part.name in _TIMES


def _moment(part: e.Expression) -> e.Expression:
    return e.LongLiteral(milliseconds_of(part.value), part.at) if isinstance(part, e.StringLiteral) else part


def milliseconds_of(text: str) -> int:
    """The point in time that a text says, in milliseconds; raises SqlError for a text that is none."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise SqlError(
            f"Failed to parse timestamp '{text}': expected a point in time as 2020-07-04T16:05:09.123, the end of which "
            "may be left out."
        )
    parts = {name: int(value) for name, value in found.groupdict().items() if name != "fraction" and _whole(value)}
    fraction = (found["fraction"] or "").ljust(3, "0")
    zone = found["zone"]
    try:
        offset = UTC if zone in (None, "Z") else _offset(zone)
        at = datetime(
            parts["year"],
            parts.get("month", 1),
            parts.get("day", 1),
            parts.get("hour", 0),
            parts.get("minute", 0),
            parts.get("second", 0),
            int(fraction) * 1000,
            tzinfo=offset,
        )
    except ValueError as error:
        raise SqlError(f"Failed to parse timestamp '{text}': {error}") from None
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _whole(value: str | None) -> bool:
    return value is not None and value.isdecimal()


def _offset(text: str) -> timezone:
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
