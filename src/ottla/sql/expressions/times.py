"""DATE, TIME and TIMESTAMP as texts: ISO-8601 that may end early, as ksqlDB reads and writes it."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.sql.errors import EvaluationError

DAY_MS = 86_400_000
OFFSET_SECONDS_MAX = 18 * 3600
"""Of a zone from UTC, as in Java."""
_EPOCH = date(1970, 1, 1).toordinal()
_EPOCH_AT = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000
_CYCLE_DAYS = 146_097
_FIRST_MS, _LAST_MS = ((each.toordinal() - _EPOCH) * _DAY_MS for each in (date.min, date.max))
"""Of the first and the last day that Python has, whole."""
_DATE = re.compile(r"([+-]?\d{4,9})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIME = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:[.,](\d{1,9}))?)?)?")
_OFFSET = re.compile(r"(Z|[+-]\d{2}:?\d{2}(?::?\d{2})?|\[?(?<![A-Za-z])[A-Za-z]++(?:/[A-Za-z_]++){1,3}+\]?)$")


def _refused(what: str, text: str) -> EvaluationError:
    forms = {
        "timestamp": "a timestamp. Timestamp format must be yyyy-mm-ddThh:mm:ss[.S]",
        "date": "a date. Date format must be yyyy-mm-dd",
        "time": "a time. Time format must be hh:mm:ss[.SSS]",
    }
    return EvaluationError(f"Required format is: \"{forms[what]}\". Failed to parse {what} '{text}'")


def parse_date(text: str) -> int:
    """Days since 1970; a text may also be a whole timestamp at midnight. Raises EvaluationError."""
    ms = parse_timestamp(text, what="date")
    if ms % DAY_MS:
        raise _refused("date", text)
    return ms // DAY_MS


def parse_time(text: str) -> int:
    """Milliseconds of the day; raises EvaluationError."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise _refused("time", text)
    hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        raise _refused("time", text)
    return (hour * 3600 + minute * 60 + second) * 1000 + int((found[4] or "0").ljust(9, "0")) // 1_000_000


def parse_timestamp(text: str, *, what: str = "timestamp") -> int:
    """Milliseconds since 1970 of `2020`, `2020-05`, `2020-05-17T10:11:12.345`, with `Z`, an offset or a zone; else UTC.

    Raises EvaluationError.
    """
    given = text.strip()
    day_text, _, time_text = given.partition("T")
    zone: ZoneInfo | timezone = UTC
    if found := _OFFSET.search(time_text):
        time_text = time_text[: found.start()]
        zone = _zone(found[1], what, text)
    day = _DATE.fullmatch(day_text)
    if day is None:
        raise _refused(what, text)
    try:
        at = datetime(int(day[1]), int(day[2] or 1), int(day[3] or 1), tzinfo=zone)
        ms = parse_time(time_text) if time_text else 0
    except (ValueError, EvaluationError):
        raise _refused(what, text) from None
    local = at + timedelta(milliseconds=ms)
    return (local - _EPOCH_AT) // timedelta(milliseconds=1)


def _zone(name: str, what: str, text: str) -> ZoneInfo | timezone:
    if name == "Z":
        return UTC
    if name[0] in "+-":
        digits = name[1:].replace(":", "").ljust(6, "0")
        seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
        if seconds > OFFSET_SECONDS_MAX:
            raise _refused(what, text)
        return timezone(timedelta(seconds=-seconds if name[0] == "-" else seconds))
    try:
        return ZoneInfo(name.strip("[]"))
    except (ZoneInfoNotFoundError, ValueError):
        raise _refused(what, text) from None


def date_text(days: int) -> str:
    """`2020-05-17`; years that Python's dates have not as ISO 8601 and Java write them: `+12020-05-17`, `-0001-05-17`."""
    found = days + _EPOCH
    if not 1 <= found <= date.max.toordinal():
        cycles = (found - 1) // _CYCLE_DAYS  # the calendar repeats itself, days of the week too, every 400 years
        plain = date.fromordinal(found - cycles * _CYCLE_DAYS)
        year = plain.year + 400 * cycles
        sign = "+" if year > 9999 else "-" if year < 0 else ""
        return f"{sign}{abs(year):04}-{plain.month:02}-{plain.day:02}"
    return date.fromordinal(found).isoformat()


def time_text(ms: int) -> str:
    """`10:11`, `10:11:12` or `10:11:12.345`: as much as there is."""
    seconds, part = divmod(ms, 1000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}"
    if second or part:
        text += f":{second:02}"
    return f"{text}.{part:03}" if part else text


def timestamp_text(ms: int) -> str:
    """`2020-05-17T10:11:12.345`; years that Python's times have not as `date_text` writes them."""
    if not _FIRST_MS <= ms <= _LAST_MS:
        days, left_ms = divmod(ms, _DAY_MS)
        seconds, part = divmod(left_ms, 1000)
        return f"{date_text(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:03}"
    at = _EPOCH_AT + timedelta(milliseconds=ms)
    return at.strftime("%Y-%m-%dT%H:%M:%S.").rjust(20, "0") + f"{ms % 1000:03}"
