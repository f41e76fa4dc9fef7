"""The days of the calendar as java.time counts them, in any year."""

from __future__ import annotations

DAY_MS = 86_400_000
YEAR_MAX = 999_999_999
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def is_leap(year: int) -> bool:
    """True for a year with 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_of_month(year: int, month: int) -> int:
    """How many days a month has."""
    return 29 if month == 2 and is_leap(year) else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def epoch_day(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date."""
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400 - 719_162
    return days + day_of_year(year, month, day) - 1


def day_of_year(year: int, month: int, day: int) -> int:
    """The number of a day in its year, from 1."""
    return _DAYS_BEFORE[month - 1] + day + (month > 2 and is_leap(year))


def date_of_day(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970."""
    left = days + 719_162
    cycle, left = divmod(left, 146_097)
    century = min(left // 36_524, 3)
    left -= century * 36_524
    fours, left = divmod(left, 1461)
    single = min(left // 365, 3)
    left -= single * 365
    year = cycle * 400 + century * 100 + fours * 4 + single + 1
    leap = is_leap(year)
    month = 12
    while left < (start := _DAYS_BEFORE[month - 1] + (month > 2 and leap)):
        month -= 1
    return year, month, left - start + 1


def day_of_week(days: int) -> int:
    """1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1
