"""PostgreSQL's dates and times as text, for every year that it has: days and microseconds as whole numbers. Pure."""

from __future__ import annotations

import re
from typing import Final

from ottla.connect import DataError

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
_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_ZONE = re.compile(r"([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?$")
_PERIOD = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,6}))?S)?)?$"
)


def _no_time(text: str) -> DataError:
    return DataError(f"PostgreSQL printed {text!r}, which is no date or time")


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar of all times, where the year before 1 is 0."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970-01-01."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def date_days(text: str) -> int:
    """Return the days since 1970-01-01; the ends of 32 bits for the infinities."""
    if text.endswith("infinity"):
        return -DATE_INFINITY - 1 if text[0] == "-" else DATE_INFINITY
    found = _DATE.match(text)
    if found is None:
        raise _no_time(text)
    year = int(found[1])
    return _days(1 - year if text.endswith("BC") else year, int(found[2]), int(found[3]))


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
    _, space, rest = text.partition(" ")
    if not space:
        raise _no_time(text)
    return date_days(text) * DAY_US + time_us(rest)


def zoned_text(text: str) -> str:
    """Return a timestamp with a zone at UTC, with six digits; infinities as they are."""
    if text.endswith("infinity"):
        return text
    bare = text.removesuffix(" BC")
    us = local_us(text) - _offset_us(bare)
    return f"{_date_text(us // DAY_US)}T{_clock_text(us % DAY_US)}.{us % 1_000_000:06}Z"


def iso_timestamp(us: int) -> str:
    """Return microseconds since 1970 as ISO 8601 has it, with the digits that matter."""
    return f"{_date_text(us // DAY_US)}T{iso_time(us % DAY_US)}"


def iso_date(days: int) -> str:
    """Return days since 1970 as a date at UTC."""
    return f"{_date_text(days)}Z"


def iso_time(us: int) -> str:
    """Return the microseconds of a day as a time at UTC, with the digits that matter; 24:00 is 00:00."""
    us %= DAY_US
    fraction = f".{us % 1_000_000:06}".rstrip("0") if us % 1_000_000 else ""
    return f"{_clock_text(us)}{fraction}Z"


def _date_text(days: int) -> str:
    year, month, day = _civil(days)
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{shown}-{month:02}-{day:02}"


def _clock_text(us: int) -> str:
    seconds = us // 1_000_000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


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
