"""Dates and times as texts, as java.time's DateTimeFormatter writes them in English. Weeks begin on Sunday."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_calendar import DAY_MS, date_of_day, day_of_week, day_of_year, days_of_month, epoch_day
from ottla.sql.functions.java_patterns import (
    FIRST,
    Literally,
    Number,
    Optionally,
    Padded,
    Part,
    Text,
    ZonePart,
    names_of,
    parts_of,
)
from ottla.sql.functions.zones import LONG_NAMES, Zone, offset_text

_NAMES = {
    "CLOCK_HOUR_OF_DAY": "ClockHourOfDay",
    "CLOCK_HOUR_OF_AMPM": "ClockHourOfAmPm",
    "HOUR_OF_AMPM": "HourOfAmPm",
    "AMPM_OF_DAY": "AmPmOfDay",
}


class MissingFieldError(EvaluationError):
    """A value has not the field that a pattern asks for."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A date (days since 1970), a time of the day (milliseconds), or both, perhaps in a zone at `utc_ms`."""

    day: int | None = None
    ms: int | None = None
    zone: Zone | None = None
    utc_ms: int = 0

    @staticmethod
    def at(utc_ms: int, zone: Zone) -> Moment:
        """The moment as clocks in a zone show it."""
        day, ms = divmod(utc_ms + zone.offset_seconds(utc_ms) * 1000, DAY_MS)
        return Moment(day, ms, zone, utc_ms)


def formatted(pattern: str, at: Moment) -> str:
    """A moment in a pattern; raises EvaluationError for fields that it has not."""
    return "".join(_written(part, at) for part in parts_of(pattern))


def _written(part: Part, at: Moment) -> str:
    match part:
        case Literally(text):
            return text
        case Optionally(parts):
            try:
                return "".join(_written(each, at) for each in parts)
            except MissingFieldError:
                return ""
        case Padded(width, inner):
            text = _written(inner, at)
            if len(text) > width:
                raise EvaluationError(f"Cannot print as output of {len(text)} characters exceeds pad width of {width}")
            return text.rjust(width)
        case Number():
            return _digits(part, field_of(part.field, at))
        case Text(field, style):
            if field == "PERIOD":
                return _period(at, style)
            return names_of(field, style)[field_of(field, at) - FIRST.get(field, 0)]
        case ZonePart(letter, count):
            return _zone_text(letter, count, at)


def _digits(part: Number, value: int) -> str:
    if part.kind == "fraction":
        return f"{value:09}"[: part.most]
    if part.kind == "reduced":
        return f"{abs(value) % 100:02}"
    text = str(abs(value))
    if len(text) > part.most:
        raise EvaluationError(
            f"Field {part.field} cannot be printed as the value {value} exceeds the maximum print width"
        )
    sign = ""
    if value < 0:
        if part.sign == "NOT_NEGATIVE":
            raise EvaluationError(f"Field {part.field} cannot be printed as the value {value} cannot be negative")
        sign = "-"
    elif part.sign == "EXCEEDS_PAD" and len(text) > part.least:
        sign = "+"
    return sign + text.rjust(part.least, "0")


def _of_time(ms: int, field: str) -> int | None:
    hour, second = ms // 3_600_000, ms // 1000
    plain: dict[str, int] = {
        "NANO_OF_SECOND": ms % 1000 * 1_000_000,
        "NANO_OF_DAY": ms * 1_000_000,
        "MILLI_OF_DAY": ms,
        "SECOND_OF_MINUTE": second % 60,
        "MINUTE_OF_HOUR": second // 60 % 60,
        "HOUR_OF_AMPM": hour % 12,
        "CLOCK_HOUR_OF_AMPM": hour % 12 or 12,
        "HOUR_OF_DAY": hour,
        "CLOCK_HOUR_OF_DAY": hour or 24,
        "AMPM_OF_DAY": hour // 12,
    }
    return plain.get(field)


_OF_DATE: dict[str, Callable[[int, int, int, int], int]] = {
    "YEAR": lambda day, year, month, dom: year,
    "YEAR_OF_ERA": lambda day, year, month, dom: year if year > 0 else 1 - year,
    "ERA": lambda day, year, month, dom: int(year > 0),
    "MONTH_OF_YEAR": lambda day, year, month, dom: month,
    "QUARTER_OF_YEAR": lambda day, year, month, dom: (month + 2) // 3,
    "DAY_OF_MONTH": lambda day, year, month, dom: dom,
    "DAY_OF_YEAR": lambda day, year, month, dom: day_of_year(year, month, dom),
    "DAY_OF_WEEK": lambda day, year, month, dom: day_of_week(day),
    "LOCAL_DAY_OF_WEEK": lambda day, year, month, dom: day_of_week(day) % 7 + 1,
    "ALIGNED_DAY_OF_WEEK_IN_MONTH": lambda day, year, month, dom: (dom - 1) % 7 + 1,
    "WEEK_OF_MONTH": lambda day, year, month, dom: (dom - 1 + day_of_week(day - dom + 1) % 7) // 7 + 1,
    "WEEK_BASED_YEAR": lambda day, year, month, dom: _week_year(day, year)[0],
    "WEEK_OF_WEEK_BASED_YEAR": lambda day, year, month, dom: _week_year(day, year)[1],
}


def first_week(year: int) -> int:
    """The day with which a year's first week begins: the Sunday before, or at, its first day."""
    first = epoch_day(year, 1, 1)
    return first - day_of_week(first) % 7


def _week_year(day: int, year: int) -> tuple[int, int]:
    if day >= first_week(year + 1):
        year += 1
    return year, (day - first_week(year)) // 7 + 1


def field_of(field: str, at: Moment) -> int:
    """The number of a field; raises MissingFieldError where the moment has none."""
    of_time = _of_time(at.ms or 0, field)
    if of_time is not None and at.ms is not None:
        return of_time
    if of_time is None and at.day is not None:
        return _OF_DATE[field](at.day, *date_of_day(at.day))
    name = _NAMES.get(field, field.title().replace("_", ""))
    raise MissingFieldError(f"Unsupported field: {name}")


def _period(at: Moment, style: str) -> str:
    if at.ms is None:
        raise MissingFieldError("Unsupported field: AmPmOfDay")
    minute = at.ms // 60_000
    if minute == 0:
        return "mi" if style == "NARROW" else "midnight"
    if minute == 720:
        return "n" if style == "NARROW" else "noon"
    hour = minute // 60
    if 6 <= hour < 12:
        return "in the morning"
    return "in the afternoon" if 12 <= hour < 18 else "in the evening" if 18 <= hour < 21 else "at night"


# -- zones


def _zone_text(letter: str, count: int, at: Moment) -> str:
    zone = at.zone
    if zone is None:
        what = "ZoneId" if letter in "VzvO" and letter != "O" else None
        raise MissingFieldError(
            f"Unable to extract {what} from temporal" if what else "Unsupported field: OffsetSeconds"
        )
    if letter == "V":
        return zone.id
    if letter in "zv":
        name = zone.name(at.utc_ms) if zone.id not in ("UTC", "GMT", "UT") else zone.id
        return LONG_NAMES.get(name, name) if count == 4 else name
    seconds = zone.offset_seconds(at.utc_ms)
    if letter == "O" or (letter == "Z" and count == 4):
        return _localized_offset(seconds, full=letter == "Z" or count == 4)
    return _offset(letter, count, seconds)


def _localized_offset(seconds: int, *, full: bool) -> str:
    if not seconds:
        return "GMT"
    sign, rest = "-" if seconds < 0 else "+", abs(seconds)
    hours, minutes, second = rest // 3600, rest // 60 % 60, rest % 60
    if full:
        return f"GMT{sign}{hours:02}:{minutes:02}" + (f":{second:02}" if second else "")
    return f"GMT{sign}{hours}" + (f":{minutes:02}" if minutes or second else "") + (f":{second:02}" if second else "")


def _offset(letter: str, count: int, seconds: int) -> str:
    if not seconds and (letter == "X" or (letter == "Z" and count == 5)):
        return "Z"
    sign, rest = "-" if seconds < 0 else "+", abs(seconds)
    hours, minutes, second = rest // 3600, rest // 60 % 60, rest % 60
    if letter == "Z":
        count = 2 if count < 4 else 5
    if count == 1:
        return f"{sign}{hours:02}" + (f"{minutes:02}" if minutes else "")
    colon = ":" if count in (3, 5) else ""
    text = f"{sign}{hours:02}{colon}{minutes:02}"
    return f"{text}{colon}{second:02}" if count >= 4 and second else text


__all__ = ["MissingFieldError", "Moment", "days_of_month", "field_of", "first_week", "formatted", "offset_text"]
