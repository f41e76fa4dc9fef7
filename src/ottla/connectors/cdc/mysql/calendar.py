"""Dates and times of MySQL as days and microseconds, from texts and from parts; zero dates are None. Pure."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from ottla.connect import DataError

__all__ = ["DAY_US", "date_of_text", "days_of", "time_of_text", "timestamp_of_text", "zoned_text"]

DAY_US: Final = 86_400_000_000
_TIME: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?$")
_EPOCH: Final = date(1970, 1, 1).toordinal()
_MONTH_DAYS: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_of(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970-01-01 (proleptic Gregorian); None for a date with a zero, or one that is none."""
    if not (0 < month <= 12 and 0 < day <= _MONTH_DAYS[month]):
        return None
    if month == 2 and day == 29 and (year % 4 or (year % 100 == 0 and year % 400)):
        return None
    of_year = year - (month <= 2)
    era, year_of_era = divmod(of_year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def date_of_text(text: str) -> int | None:
    """Return the days since 1970 of `2024-02-29`, None for a zero date."""
    parts = text.split("-")
    if len(parts) != 3 or not all(each.isdigit() for each in parts):
        raise DataError(f"{text!r} is no date")
    return days_of(int(parts[0]), int(parts[1]), int(parts[2]))


def time_of_text(text: str) -> int:
    """Return the microseconds of `-838:59:59.000001`."""
    found = _TIME.match(text)
    if found is None:
        raise DataError(f"{text!r} is no time")
    us = ((int(found[2]) * 60 + int(found[3])) * 60 + int(found[4])) * 1_000_000 + int((found[5] or "").ljust(6, "0"))
    return -us if found[1] else us


def timestamp_of_text(text: str) -> int | None:
    """Return the microseconds since 1970 of `2024-02-29 12:34:56.789` as if it were UTC, None for a zero date."""
    date, _, clock = text.partition(" ")
    days = date_of_text(date)
    return None if days is None else days * DAY_US + (time_of_text(clock) if clock else 0)


def zoned_text(us: int, digits: int) -> str:
    """Return microseconds since 1970 as `2024-02-29T12:34:56.789Z`, with so many digits of a second."""
    seconds, rest = divmod(us, 1_000_000)
    days, of_day = divmod(seconds, 86_400)
    fraction = f".{rest:06}"[: digits + 1] if digits else ""
    day = date.fromordinal(_EPOCH + days)
    return f"{day}T{of_day // 3600:02}:{of_day // 60 % 60:02}:{of_day % 60:02}{fraction}Z"
