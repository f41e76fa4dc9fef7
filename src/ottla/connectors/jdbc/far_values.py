"""What databases write of times that Python's types have not, and as what they are read and bound again.

PostgreSQL has `infinity`, years before 1 and after 9999, and 24:00. Infinite timestamps are the numbers that pgjdbc has for
them, so that what is downstream of either connector reads the same; infinite dates are the ends of 32 bits. Calendars
are PostgreSQL's: Gregorian at all times, where Java goes over to the Julian one before 1582-10-15.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from ottla.connect import data
from ottla.connectors.postgres_text import days_and_us

__all__ = [
    "INFINITIES",
    "LocalFar",
    "aware_or_far",
    "date_of_text",
    "far_bound",
    "far_text",
    "local_of_text",
    "microseconds_of",
    "moment_of_text",
    "time_of_text",
]

INFINITIES = {"infinity": 9223372036825200000_000, "-infinity": -9223372036832400000_000}
"""Of timestamps, in microseconds."""

INFINITE_DAYS = {"infinity": (1 << 31) - 1, "-infinity": -(1 << 31)}
_INFINITE = {number: text for text, number in INFINITIES.items()}

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CYCLE_DAYS = 146_097
_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, order=True)
class LocalFar:
    """A timestamp without a zone, in microseconds as if it were one of UTC."""

    microseconds: int

    def utc(self, zone: ZoneInfo) -> data.FarTimestamp:
        """Return the moment that it is in a zone; infinity is the same everywhere."""
        if self.microseconds in _INFINITE:
            return data.FarTimestamp(self.microseconds)
        # the zone's rules of that time of the year, in a year that Python knows; before them, its first
        days, rest = divmod(self.microseconds, _DAY)
        ordinal = days + _EPOCH_DAY
        near = max(ordinal if ordinal < 3_500_000 else (ordinal - 3_500_000) % _CYCLE_DAYS + 3_500_000 - _CYCLE_DAYS, 2)
        local = datetime.fromordinal(near) + timedelta(microseconds=rest)
        offset = local.replace(tzinfo=zone).utcoffset() or timedelta()
        return data.FarTimestamp(self.microseconds - offset // timedelta(microseconds=1))


def microseconds_of(value: datetime | data.FarTimestamp) -> int:
    """Return a moment's microseconds from 1970."""
    if isinstance(value, data.FarTimestamp):
        return value.microseconds
    return (value.replace(tzinfo=None) - (value.utcoffset() or timedelta()) - _EPOCH) // timedelta(microseconds=1)


def local_of_text(text: str) -> LocalFar:
    """Return a timestamp without zone; raises ValueError for another text."""
    if text in INFINITIES:
        return LocalFar(INFINITIES[text])
    fields = days_and_us(text)
    if fields is None:
        raise ValueError(f"{text!r} is no timestamp")
    return LocalFar(fields[0] * _DAY + fields[1])


def moment_of_text(text: str) -> data.FarTimestamp:
    """Return a timestamp with its zone; raises ValueError for another text."""
    if text in INFINITIES:
        return data.FarTimestamp(INFINITIES[text])
    fields = days_and_us(text)
    if fields is None:
        raise ValueError(f"{text!r} is no timestamp")
    return data.FarTimestamp(fields[0] * _DAY + fields[1] - fields[2])


def date_of_text(text: str) -> data.FarDate:
    """Return a date; raises ValueError for another text."""
    if text in INFINITE_DAYS:
        return data.FarDate(INFINITE_DAYS[text])
    fields = days_and_us(text)
    if fields is None:
        raise ValueError(f"{text!r} is no date")
    return data.FarDate(fields[0])


def time_of_text(text: str) -> time | data.EndOfDay:
    """Return a time of day; raises ValueError for another text."""
    return data.EndOfDay() if text.startswith("24:00") and not text.strip("240:.") else time.fromisoformat(text)


def far_text(moment: data.FarTimestamp) -> str:
    """Return a moment as PostgreSQL reads it, in UTC."""
    if moment.microseconds in _INFINITE:
        return _INFINITE[moment.microseconds]
    day, _, clock = str(moment).rpartition("T")
    year, month, of_month = day.rsplit("-", 2)
    number = int(year)
    era = " BC" if number < 1 else ""
    return f"{1 - number if number < 1 else number:04d}-{month}-{of_month} {clock}+00{era}"


def far_bound(value: data.FarTimestamp | data.FarDate | data.EndOfDay, zone: ZoneInfo | None) -> str:
    """Return a time as PostgreSQL reads it, in `zone` for a column without one."""
    if isinstance(value, data.EndOfDay):
        return str(value)
    if isinstance(value, data.FarDate):
        infinite = {days: text for text, days in INFINITE_DAYS.items()}
        day, _, rest = far_text(data.FarTimestamp(value.days * _DAY)).partition(" ")
        return infinite.get(value.days) or day + (" BC" if rest.endswith("BC") else "")
    if zone is None or value.microseconds in _INFINITE:
        return far_text(value)
    ahead = value.microseconds - LocalFar(value.microseconds).utc(zone).microseconds
    return far_text(data.FarTimestamp(value.microseconds + ahead))


def aware_or_far(local: datetime, zone: ZoneInfo) -> datetime | data.FarTimestamp:
    """Return a local time in UTC, also where that is beyond the years that `datetime` has."""
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        ahead = local.replace(tzinfo=zone).utcoffset() or timedelta()
        return data.FarTimestamp((local - _EPOCH - ahead) // timedelta(microseconds=1))
