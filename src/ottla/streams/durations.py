"""Durations in milliseconds from what people write: a timedelta, a number of milliseconds, or text."""

from __future__ import annotations

import re
from datetime import timedelta

__all__ = ["Duration", "milliseconds", "of_units"]

Duration = timedelta | int | str
"""A timedelta, milliseconds, or text: `500ms`, `30s`, `5 minutes`, `1h30m`, `PT5M`."""

_UNITS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_ISO = re.compile(r"^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$", re.IGNORECASE)


def milliseconds(given: Duration, what: str = "the duration") -> int:
    """Return whole milliseconds; raises ValueError for negative ones and for text that is no duration."""
    if isinstance(given, bool) or not isinstance(given, (timedelta, int, str)):
        raise TypeError(f"{what}: expected a timedelta, milliseconds or text such as '5 minutes', got {given!r}")
    if isinstance(given, timedelta):
        found = given // timedelta(milliseconds=1)
    elif isinstance(given, int):
        found = given
    else:
        found = _of_text(given, what)
    if found < 0:
        raise ValueError(f"{what}: expected a duration of at least 0 ms, got {given!r}")
    return found


def of_units(given: Duration | None, units: dict[str, float], what: str) -> int:
    """Return the milliseconds of one duration, or of units by keyword (`minutes=5`); exactly one of both is needed."""
    if (given is None) == (not units):
        raise TypeError(f"{what}: give one duration, or its units by name (minutes=5)")
    if given is not None:
        return milliseconds(given, what)
    return milliseconds(timedelta(**units), what)


def _of_text(given: str, what: str) -> int:
    text = given.strip()
    if text.isdigit():
        return int(text)
    iso = _ISO.match(text)
    if iso and any(iso.groups()):
        weeks, days, hours, minutes, seconds = (float(each or 0) for each in iso.groups())
        return round((((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000)
    total, position = 0.0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part[2].lower() not in _UNITS:
            raise ValueError(
                f"{what}: expected a duration such as '30s', '5 minutes', '1h30m' or 'PT5M', got {given!r}"
            )
        total += float(part[1]) * _UNITS[part[2].lower()]
        position = part.end()
    if not text:
        raise ValueError(f"{what}: expected a duration, got an empty text")
    return round(total)
