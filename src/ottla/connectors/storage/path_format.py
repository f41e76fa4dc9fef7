"""Times as parts of object names: the patterns of `path.format`, whose letters are Joda-Time's, and time zones by name.

They look like SimpleDateFormat's and differ where it hurts: `YYYY` is the year, not the week's year, which is `xxxx`.
Names of months and days are English.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.connect import ConnectError

__all__ = ["PathFormat", "truncated_ms", "zone_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
Write = Callable[[datetime, int], str]


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name (`Europe/Oslo`, `UTC`) or offset (`+01:00`); raises ConnectError."""
    offset = _OFFSET.fullmatch(name)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConnectError(f"{name} is no time zone; expected a name such as UTC or Europe/Oslo") from error


def local_time(ms: int, zone: tzinfo) -> datetime:
    """Return the local time of milliseconds since 1970; raises ConnectError beyond the years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone(zone)
    except OverflowError as error:
        raise ConnectError(f"The timestamp {ms} is outside the years 1 to 9999") from error


def truncated_ms(ms: int, duration_ms: int, zone: tzinfo) -> int:
    """Return the begin of the stretch of `duration_ms` that a time lies in, counted in the zone's local time."""
    local = local_time(ms, zone)
    wall = (local.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    begin = (_EPOCH + timedelta(milliseconds=wall // duration_ms * duration_ms)).replace(tzinfo=zone, fold=local.fold)
    return (begin.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


class PathFormat:
    """One pattern, such as `'year'=YYYY/'month'=MM/'day'=dd`."""

    def __init__(self, pattern: str) -> None:
        """Read the pattern; raises ConnectError for a letter that means nothing."""
        self.pattern = pattern
        self._parts = tuple(_parts(pattern))

    def format(self, ms: int, zone: tzinfo) -> str:
        """Return the text of milliseconds since 1970 in a zone."""
        when = local_time(ms, zone)
        return "".join(part if isinstance(part, str) else part[0](when, part[1]) for part in self._parts)


def _parts(pattern: str) -> Iterator[str | tuple[Write, int]]:
    for match in re.finditer(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'", pattern):
        piece = match[0]
        if match[2]:
            if match[2] not in _WRITERS:
                raise ConnectError(f"Illegal pattern component: {piece}")
            yield _WRITERS[match[2]], len(piece)
        elif piece == "'":
            raise ConnectError(f"The pattern {pattern} has a quote that is not closed")
        else:
            yield "'" if piece == "''" else piece if match[1] is None else match[1].replace("''", "'")


def _number(value: Callable[[datetime], int]) -> Write:
    return lambda when, width: str(value(when)).zfill(width)


def _year(value: Callable[[datetime], int]) -> Write:
    return lambda when, width: str(value(when) % 100).zfill(2) if width == 2 else str(value(when)).zfill(width)


def _month(when: datetime, width: int) -> str:
    name = _MONTHS[when.month - 1]
    return name if width >= 4 else name[:3] if width == 3 else str(when.month).zfill(width)


def _day_name(when: datetime, width: int) -> str:
    name = _DAYS[when.weekday()]
    return name if width >= 4 else name[:3]


def _fraction(when: datetime, width: int) -> str:
    return f"{when.microsecond // 1000:03d}".ljust(width, "0")[:width]


def _offset(when: datetime, width: int) -> str:
    if width > 2:
        return str(when.tzinfo)
    text = when.strftime("%z")
    return text if width == 1 else f"{text[:3]}:{text[3:5]}"


_WRITERS: dict[str, Write] = {
    "G": lambda when, width: "AD",
    "C": _number(lambda when: when.year // 100),
    "Y": _year(lambda when: when.year),
    "y": _year(lambda when: when.year),
    "x": _year(lambda when: when.isocalendar().year),
    "w": _number(lambda when: when.isocalendar().week),
    "e": _number(lambda when: when.isoweekday()),
    "E": _day_name,
    "D": _number(lambda when: when.timetuple().tm_yday),
    "M": _month,
    "d": _number(lambda when: when.day),
    "a": lambda when, width: "AM" if when.hour < 12 else "PM",
    "K": _number(lambda when: when.hour % 12),
    "h": _number(lambda when: when.hour % 12 or 12),
    "H": _number(lambda when: when.hour),
    "k": _number(lambda when: when.hour or 24),
    "m": _number(lambda when: when.minute),
    "s": _number(lambda when: when.second),
    "S": _fraction,
    "z": lambda when, width: when.tzname() or "",
    "Z": _offset,
}
