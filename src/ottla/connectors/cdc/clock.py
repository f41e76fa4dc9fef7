"""PostgreSQL's dates and times as days and microseconds, with Debezium's infinities and texts. Pure."""

from __future__ import annotations

import re
from typing import Final

from ottla.connect import DataError
from ottla.connect.data import FarDate, FarTimestamp
from ottla.connectors.postgres_text import days_and_us

__all__ = [
    "DAY_US",
    "date_days",
    "duration_text",
    "duration_us",
    "iso_date",
    "iso_time",
    "iso_timestamp",
    "local_us",
    "time_us",
    "utc_time_us",
    "zoned_text",
]

DAY_US: Final = 86_400_000_000
DATE_INFINITY: Final = (1 << 31) - 1
INFINITY: Final = (1 << 63) - 1
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_ZONE = re.compile(r"([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?$")
_PERIOD = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,6}))?S)?)?$"
)


def _no_time(text: str) -> DataError:
    return DataError(f"PostgreSQL printed {text!r}, which is no date or time")


def _parts(text: str) -> tuple[int, int, int]:
    found = days_and_us(text)
    if found is None:
        raise _no_time(text)
    return found


def date_days(text: str) -> int:
    """Return the days since 1970-01-01; the ends of 32 bits for the infinities."""
    if text.endswith("infinity"):
        return -DATE_INFINITY - 1 if text[0] == "-" else DATE_INFINITY
    return _parts(text)[0]


def time_us(text: str) -> int:
    """Return the microseconds of a time of day, 24:00 included."""
    found = _TIME.match(text)
    if found is None:
        raise _no_time(text)
    seconds = (int(found[1]) * 60 + int(found[2])) * 60 + int(found[3] or 0)
    return seconds * 1_000_000 + int((found[4] or "").ljust(6, "0"))


def _offset_us(text: str) -> int:
    found = _ZONE.search(text)
    if found is None:
        raise _no_time(text)
    seconds = (int(found[2]) * 60 + int(found[3] or 0)) * 60 + int(found[4] or 0)
    return (-seconds if found[1] == "-" else seconds) * 1_000_000


def utc_time_us(text: str) -> int:
    """Return the microseconds of a time of day with a zone, at UTC."""
    return (time_us(text) - _offset_us(text)) % DAY_US


def local_us(text: str) -> int:
    """Return the microseconds since 1970 of a timestamp as if it were UTC; the ends of 64 bits for the infinities."""
    if text.endswith("infinity"):
        return -INFINITY - 1 if text[0] == "-" else INFINITY
    days, us, _ = _parts(text)
    return days * DAY_US + us


def zoned_text(text: str) -> str:
    """Return a timestamp with a zone at UTC, with six digits; infinities as they are."""
    if text.endswith("infinity"):
        return text
    days, us, ahead = _parts(text)
    return f"{FarTimestamp(days * DAY_US + us - ahead)}Z"


def iso_timestamp(us: int) -> str:
    """Return microseconds since 1970 as ISO 8601 has it, with the digits that matter."""
    return f"{FarDate(us // DAY_US)}T{iso_time(us % DAY_US)}"


def iso_date(days: int) -> str:
    """Return days since 1970 as a date at UTC."""
    return f"{FarDate(days)}Z"


def iso_time(us: int) -> str:
    """Return the microseconds of a day as a time at UTC, with the digits that matter; 24:00 is 00:00."""
    seconds, us = divmod(us % DAY_US, 1_000_000)
    fraction = f".{us:06}".rstrip("0") if us else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}Z"


def _period(text: str) -> tuple[int, int, int, int, int, int, int]:
    """Years, months, days, hours, minutes, seconds and microseconds of an interval in ISO 8601."""
    found = _PERIOD.match(text)
    if found is None:
        raise _no_time(text)
    years, months, weeks, days, hours, minutes = (int(each or 0) for each in found.groups()[:6])
    sign = -1 if found[7] else 1
    seconds, us = sign * int(found[8] or 0), sign * int((found[9] or "").ljust(6, "0"))
    return years, months, days + 7 * weeks, hours, minutes, seconds, us


def duration_us(text: str) -> int:
    """Return an interval's microseconds, a month being 30.4375 days."""
    years, months, days, hours, minutes, seconds, us = _period(text)
    whole_days = (years * 12 + months) * (DAY_US * 304_375 // 10_000) + days * DAY_US
    return whole_days + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + us


def duration_text(text: str) -> str:
    """Return an interval with all its parts, as Debezium writes it."""
    years, months, days, hours, minutes, seconds, us = _period(text)
    sign = "-" if seconds < 0 or us < 0 else ""
    fraction = f".{abs(us):06}".rstrip("0") if us else ""
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{sign}{abs(seconds)}{fraction}S"
