"""Functions of dates and times: days since 1970, milliseconds of the day, milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ottla.sql.errors import EvaluationError
from ottla.sql.expressions.casts import INT_BITS, LONG_BITS, wrapped
from ottla.sql.functions.calendar_dates import calendar_ms
from ottla.sql.functions.java_calendar import DAY_MS
from ottla.sql.functions.java_date_texts import moment_ms, parsed
from ottla.sql.functions.java_dates import Moment, formatted
from ottla.sql.functions.registry import scalar
from ottla.sql.functions.zones import GMT_ZONE, zone_of
from ottla.sql.words import TIME_UNITS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONG_MAX = (1 << 63) - 1


def _failed(what: str, value: object, pattern: str, error: Exception, zone: str = "") -> EvaluationError:
    at = f" at timeZone '{zone}'" if zone else ""
    return EvaluationError(f"Failed to {what} '{value}'{at} with formatter '{pattern}': {error}")


@scalar("FORMAT_TIMESTAMP", "TIMESTAMP, STRING -> STRING")
@scalar("TIMESTAMPTOSTRING", "BIGINT, STRING -> STRING")
def format_timestamp(ms: int, pattern: str) -> str:
    """A moment in a pattern of java.time, in GMT."""
    return format_timestamp_in(ms, pattern, "GMT")


@scalar("FORMAT_TIMESTAMP", "TIMESTAMP, STRING, STRING -> STRING")
@scalar("TIMESTAMPTOSTRING", "BIGINT, STRING, STRING -> STRING")
def format_timestamp_in(ms: int, pattern: str, zone: str) -> str:
    """A moment in a pattern of java.time, in a zone."""
    try:
        return formatted(pattern, Moment.at(ms, zone_of(zone)))
    except EvaluationError as error:
        raise _failed("format timestamp", ms, pattern, error, zone) from None


@scalar("FORMAT_DATE", "DATE, STRING -> STRING")
@scalar("DATETOSTRING", "INTEGER, STRING -> STRING")
def format_date(days: int, pattern: str) -> str:
    """A date in a pattern of java.time."""
    try:
        return formatted(pattern, Moment(day=days))
    except EvaluationError as error:
        raise _failed("format date", days, pattern, error) from None


@scalar("FORMAT_TIME", "TIME, STRING -> STRING")
def format_time(ms: int, pattern: str) -> str:
    """A time of the day in a pattern of java.time."""
    try:
        if not 0 <= ms < DAY_MS:
            raise EvaluationError(f"{ms} is no millisecond of a day")
        return formatted(pattern, Moment(ms=ms))
    except EvaluationError as error:
        raise _failed("format time", ms, pattern, error) from None


@scalar("PARSE_TIMESTAMP", "STRING, STRING -> TIMESTAMP")
@scalar("STRINGTOTIMESTAMP", "STRING, STRING -> BIGINT")
def parse_timestamp(text: str, pattern: str) -> int:
    """The moment that a text says in a pattern of java.time, in GMT unless it names a zone."""
    try:
        return moment_ms(parsed(pattern, text), GMT_ZONE, text)
    except EvaluationError as error:
        raise _failed("parse timestamp", text, pattern, error) from None


@scalar("PARSE_TIMESTAMP", "STRING, STRING, STRING -> TIMESTAMP")
@scalar("STRINGTOTIMESTAMP", "STRING, STRING, STRING -> BIGINT")
def parse_timestamp_in(text: str, pattern: str, zone: str) -> int:
    """The moment that a text says in a pattern of java.time, in a zone unless it names another."""
    try:
        return moment_ms(parsed(pattern, text), zone_of(zone), text)
    except EvaluationError as error:
        raise _failed("parse timestamp", text, pattern, error, zone) from None


@scalar("PARSE_DATE", "STRING, STRING -> DATE")
def parse_date(text: str, pattern: str) -> int:
    """The date that a text says in a pattern of java.text.SimpleDateFormat; one with a time of the day is none."""
    try:
        ms = calendar_ms(pattern, text, datetime.now(UTC).year)
        if ms % DAY_MS:
            raise EvaluationError("Date format contains time field.")
    except EvaluationError as error:
        raise _failed("parse date", text, pattern, error) from None
    return ms // DAY_MS


@scalar("STRINGTODATE", "STRING, STRING -> INTEGER")
def string_to_date(text: str, pattern: str) -> int:
    """The date that a text says in a pattern of java.time, as days since 1970."""
    try:
        found = parsed(pattern, text)
        if found.day is None:
            raise EvaluationError(f"Text '{text}' could not be parsed: Unable to obtain LocalDate from it")
    except EvaluationError as error:
        raise _failed("parse date", text, pattern, error) from None
    return found.day


@scalar("PARSE_TIME", "STRING, STRING -> TIME")
def parse_time(text: str, pattern: str) -> int:
    """The time of the day that a text says in a pattern of java.time."""
    try:
        found = parsed(pattern, text)
        if found.has_date_field:
            raise EvaluationError("Time format contains date field.")
        if found.ms is None:
            raise EvaluationError(f"Text '{text}' could not be parsed: Unable to obtain LocalTime from it")
    except EvaluationError as error:
        raise _failed("parse time", text, pattern, error) from None
    return found.ms


def _span_ms(unit: str, count: int) -> int:
    """So many units in milliseconds, the nearest that a BIGINT holds."""
    return max(-LONG_MAX - 1, min(LONG_MAX, count * TIME_UNITS[unit.removesuffix("S")]))


@scalar("TIMESTAMPADD", "UNIT, INTEGER, TIMESTAMP -> TIMESTAMP")
def timestamp_add(unit: str, count: int, ms: int) -> int:
    """A moment so many units later."""
    return wrapped(ms + _span_ms(unit, count), LONG_BITS)


@scalar("TIMESTAMPSUB", "UNIT, INTEGER, TIMESTAMP -> TIMESTAMP")
def timestamp_sub(unit: str, count: int, ms: int) -> int:
    """A moment so many units earlier."""
    return wrapped(ms - _span_ms(unit, count), LONG_BITS)


def _whole_days(ms: int) -> int:
    """Days of milliseconds, a part of one dropped towards 1970; a DATE has as many days as an INTEGER counts."""
    ms = wrapped(ms, LONG_BITS)
    days = abs(ms) // DAY_MS
    return wrapped(-days if ms < 0 else days, INT_BITS)


@scalar("DATEADD", "UNIT, INTEGER, DATE -> DATE")
def date_add(unit: str, count: int, days: int) -> int:
    """A date so many units later; what is left of a day is dropped."""
    return _whole_days(days * DAY_MS + _span_ms(unit, count))


@scalar("DATESUB", "UNIT, INTEGER, DATE -> DATE")
def date_sub(unit: str, count: int, days: int) -> int:
    """A date so many units earlier; what is left of a day is dropped."""
    return _whole_days(days * DAY_MS - _span_ms(unit, count))


@scalar("TIMEADD", "UNIT, INTEGER, TIME -> TIME")
def time_add(unit: str, count: int, ms: int) -> int:
    """A time of the day so many units later, past midnight on the next day."""
    return (ms + count * TIME_UNITS[unit.removesuffix("S")]) % DAY_MS


@scalar("TIMESUB", "UNIT, INTEGER, TIME -> TIME")
def time_sub(unit: str, count: int, ms: int) -> int:
    """A time of the day so many units earlier, before midnight on the day before."""
    return (ms - count * TIME_UNITS[unit.removesuffix("S")]) % DAY_MS


@scalar("CONVERT_TZ", "TIMESTAMP, STRING, STRING -> TIMESTAMP")
def convert_zone(ms: int, of: str, to: str) -> int:
    """A moment, later by as much as one zone's clocks are before another's then."""
    try:
        return ms + (zone_of(to).offset_seconds(ms) - zone_of(of).offset_seconds(ms)) * 1000
    except EvaluationError as error:
        raise EvaluationError(f"Invalid time zone: {error}") from None


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
    return (datetime.now(UTC) - EPOCH).days


@scalar("UNIX_TIMESTAMP", "TIMESTAMP -> BIGINT")
def unix_timestamp(ms: int) -> int:
    """A moment as milliseconds since 1970."""
    return ms


@scalar("UNIX_TIMESTAMP", "-> BIGINT")
def unix_timestamp_now() -> int:
    """Now as milliseconds since 1970."""
    return (datetime.now(UTC) - EPOCH) // timedelta(milliseconds=1)
