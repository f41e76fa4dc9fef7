"""Times that Python's own types have not: years before 1 and after 9999, infinities, and the end of a day.

Java's `Date` holds them, and so do databases. What does not know these classes refuses them as values of a wrong type, and
never takes them for another time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import ClassVar

__all__ = ["EndOfDay", "FarDate", "FarTimestamp", "civil_text"]

_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The Gregorian calendar comes again after so long."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MICROSECONDS = 86_400_000_000


def civil_text(days: int) -> str:
    """Return the day so many days from 1970-01-01 as ISO 8601 writes it, with a sign where the year has not four digits."""
    cycles, ordinal = divmod(days + _EPOCH_DAY - 1, _CYCLE_DAYS)
    near = date.fromordinal(ordinal + 1)
    year = near.year + cycles * _CYCLE_YEARS
    written = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{written}-{near.month:02d}-{near.day:02d}"


@dataclass(frozen=True, slots=True, order=True)
class FarTimestamp:
    """A moment, in microseconds from 1970 in UTC."""

    java_name: ClassVar[str] = "java.util.Date"
    microseconds: int

    @property
    def ms(self) -> int:
        """Milliseconds from 1970."""
        return self.microseconds // 1000

    def __str__(self) -> str:
        days, rest = divmod(self.microseconds, _DAY_MICROSECONDS)
        seconds, fraction = divmod(rest, 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"
        return f"{civil_text(days)}T{clock}"


@dataclass(frozen=True, slots=True, order=True)
class FarDate:
    """A day, in days from 1970-01-01."""

    java_name: ClassVar[str] = "java.util.Date"
    days: int

    def __str__(self) -> str:
        return civil_text(self.days)


@dataclass(frozen=True, slots=True, order=True)
class EndOfDay:
    """24:00, the time of day that is no other day's beginning yet."""

    java_name: ClassVar[str] = "java.util.Date"
    ms: ClassVar[int] = 86_400_000

    def __str__(self) -> str:
        return "24:00:00"
