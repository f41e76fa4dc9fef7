"""Functions of dates and times: days since 1970, milliseconds of the day, milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_dates import (
    DATE_ONLY,
    EPOCH,
    TIME_ONLY,
    Found,
    date_of,
    formatted,
    hour_of,
    parsed,
    zone_of,
)
from ottla.sql.functions.registry import scalar
from ottla.sql.words import TIME_UNITS

DAY_MS = 86_400_000
_EPOCH_DAY = EPOCH.toordinal()


def _moment(ms: int, zone: tzinfo = UTC) -> datetime:
    try:
        return (EPOCH + timedelta(milliseconds=ms)).astimezone(zone)
    except OverflowError:
        raise EvaluationError(f"{ms} is out of the years that can be written") from None


def _failed(what: str, value: object, pattern: str, error: Exception) -> EvaluationError:
    return EvaluationError(f"Failed to {what} '{value}' with formatter '{pattern}': {error}")


@scalar("FORMAT_TIMESTAMP", "TIMESTAMP, STRING -> STRING")
@scalar("TIMESTAMPTOSTRING", "BIGINT, STRING -> STRING")
def format_timestamp(ms: int, pattern: str) -> str:
    """A moment in a pattern of java.time, in UTC."""
    return format_timestamp_in(ms, pattern, "UTC")


@scalar("FORMAT_TIMESTAMP", "TIMESTAMP, STRING, STRING -> STRING")
@scalar("TIMESTAMPTOSTRING", "BIGINT, STRING, STRING -> STRING")
def format_timestamp_in(ms: int, pattern: str, zone: str) -> str:
    """A moment in a pattern of java.time, in a zone."""
    try:
        return formatted(pattern, _moment(ms, zone_of(zone)))
    except EvaluationError as error:
        raise _failed("format timestamp", ms, pattern, error) from None


@scalar("FORMAT_DATE", "DATE, STRING -> STRING")
@scalar("DATETOSTRING", "INTEGER, STRING -> STRING")
def format_date(days: int, pattern: str) -> str:
    """A date in a pattern of java.time."""
    try:
        return formatted(pattern, _moment(days * DAY_MS), DATE_ONLY)
    except EvaluationError as error:
        raise _failed("format date", days, pattern, error) from None


@scalar("FORMAT_TIME", "TIME, STRING -> STRING")
def format_time(ms: int, pattern: str) -> str:
    """A time of the day in a pattern of java.time."""
    try:
        return formatted(pattern, _moment(ms), TIME_ONLY)
    except EvaluationError as error:
        raise _failed("format time", ms, pattern, error) from None


def _day_ms(found: Found) -> int:
    values = found.values
    hour, minute, second = hour_of(values), values.get("m", 0), values.get("s", 0)
    if hour > 23 or minute > 59 or second > 59:
        raise EvaluationError("a field is out of its range")
    return ((hour * 60 + minute) * 60 + second) * 1000 + values.get("S", values.get("n", 0)) // 1_000_000


@scalar("PARSE_TIMESTAMP", "STRING, STRING -> TIMESTAMP")
@scalar("STRINGTOTIMESTAMP", "STRING, STRING -> BIGINT")
def parse_timestamp(text: str, pattern: str) -> int:
    """The moment that a text says in a pattern of java.time, in UTC unless it names a zone."""
    return parse_timestamp_in(text, pattern, "UTC")


@scalar("PARSE_TIMESTAMP", "STRING, STRING, STRING -> TIMESTAMP")
@scalar("STRINGTOTIMESTAMP", "STRING, STRING, STRING -> BIGINT")
def parse_timestamp_in(text: str, pattern: str, zone: str) -> int:
    """The moment that a text says in a pattern of java.time, in a zone unless it names another."""
    try:
        found = parsed(pattern, text)
        day = date_of(found.values, text)
        clock = _day_ms(found)
        local = datetime(day.year, day.month, day.day, tzinfo=found.zone or zone_of(zone)) + timedelta(
            milliseconds=clock
        )
    except EvaluationError as error:
        raise _failed("parse timestamp", text, pattern, error) from None
    return (local - EPOCH) // timedelta(milliseconds=1)


@scalar("PARSE_DATE", "STRING, STRING -> DATE")
@scalar("STRINGTODATE", "STRING, STRING -> INTEGER")
def parse_date(text: str, pattern: str) -> int:
    """The date that a text says in a pattern of java.time."""
    try:
        return date_of(parsed(pattern, text).values, text).toordinal() - _EPOCH_DAY
    except EvaluationError as error:
        raise _failed("parse date", text, pattern, error) from None


@scalar("PARSE_TIME", "STRING, STRING -> TIME")
def parse_time(text: str, pattern: str) -> int:
    """The time of the day that a text says in a pattern of java.time."""
    try:
        return _day_ms(parsed(pattern, text))
    except EvaluationError as error:
        raise _failed("parse time", text, pattern, error) from None


def _unit_ms(unit: str) -> int:
    return TIME_UNITS[unit.removesuffix("S")]


@scalar("TIMESTAMPADD", "UNIT, INTEGER, TIMESTAMP -> TIMESTAMP")
def timestamp_add(unit: str, count: int, ms: int) -> int:
    """A moment so many units later."""
    return ms + count * _unit_ms(unit)


@scalar("TIMESTAMPSUB", "UNIT, INTEGER, TIMESTAMP -> TIMESTAMP")
def timestamp_sub(unit: str, count: int, ms: int) -> int:
    """A moment so many units earlier."""
    return ms - count * _unit_ms(unit)


@scalar("DATEADD", "UNIT, INTEGER, DATE -> DATE")
def date_add(unit: str, count: int, days: int) -> int:
    """A date so many units later; what is left of a day is dropped."""
    return (days * DAY_MS + count * _unit_ms(unit)) // DAY_MS


@scalar("DATESUB", "UNIT, INTEGER, DATE -> DATE")
def date_sub(unit: str, count: int, days: int) -> int:
    """A date so many units earlier; what is left of a day is dropped."""
    return (days * DAY_MS - count * _unit_ms(unit)) // DAY_MS


@scalar("TIMEADD", "UNIT, INTEGER, TIME -> TIME")
def time_add(unit: str, count: int, ms: int) -> int:
    """A time of the day so many units later, past midnight on the next day."""
    return (ms + count * _unit_ms(unit)) % DAY_MS


@scalar("TIMESUB", "UNIT, INTEGER, TIME -> TIME")
def time_sub(unit: str, count: int, ms: int) -> int:
    """A time of the day so many units earlier, before midnight on the day before."""
    return (ms - count * _unit_ms(unit)) % DAY_MS


@scalar("CONVERT_TZ", "TIMESTAMP, STRING, STRING -> TIMESTAMP")
def convert_zone(ms: int, of: str, to: str) -> int:
    """What a moment's clock shows in one zone, taken for what it shows in another."""
    shown = _moment(ms).replace(tzinfo=zone_of(of)).astimezone(zone_of(to)).replace(tzinfo=UTC)
    return (shown - EPOCH) // timedelta(milliseconds=1)


@scalar("FROM_DAYS", "INTEGER -> DATE")
def from_days(days: int) -> int:
    """Days since 1970 as a date."""
    return days


@scalar("FROM_UNIXTIME", "BIGINT -> TIMESTAMP")
def from_unixtime(ms: int) -> int:
    """Milliseconds since 1970 as a moment."""
    return ms


@scalar("UNIX_DATE", "DATE -> INTEGER")
def unix_date(days: int) -> int:
    """A date as days since 1970."""
    return days


@scalar("UNIX_DATE", "-> INTEGER")
def unix_date_now() -> int:
    """Today as days since 1970."""
    return datetime.now(UTC).toordinal() - _EPOCH_DAY


@scalar("UNIX_TIMESTAMP", "TIMESTAMP -> BIGINT")
def unix_timestamp(ms: int) -> int:
    """A moment as milliseconds since 1970."""
    return ms


@scalar("UNIX_TIMESTAMP", "-> BIGINT")
def unix_timestamp_now() -> int:
    """Now as milliseconds since 1970."""
    return (datetime.now(UTC) - EPOCH) // timedelta(milliseconds=1)
