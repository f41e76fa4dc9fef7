"""Texts → dates and times, as java.time's DateTimeFormatter parses them: strict about widths, smart about days of months."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_calendar import (
    DAY_MS,
    YEAR_MAX,
    date_of_day,
    day_of_week,
    day_of_year,
    days_of_month,
    epoch_day,
    is_leap,
)
from ottla.sql.functions.java_dates import Moment, field_of, first_week
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
from ottla.sql.functions.zones import ABBREVIATIONS, Zone, offset_zone, zone_of

_RANGES = {
    "MONTH_OF_YEAR": (1, 12),
    "DAY_OF_MONTH": (1, 31),
    "DAY_OF_YEAR": (1, 366),
    "DAY_OF_WEEK": (1, 7),
    "YEAR": (-YEAR_MAX, YEAR_MAX),
    "YEAR_OF_ERA": (1, YEAR_MAX + 1),
    "QUARTER_OF_YEAR": (1, 4),
    "HOUR_OF_DAY": (0, 23),
    "CLOCK_HOUR_OF_DAY": (1, 24),
    "CLOCK_HOUR_OF_AMPM": (1, 12),
    "HOUR_OF_AMPM": (0, 11),
    "MINUTE_OF_HOUR": (0, 59),
    "SECOND_OF_MINUTE": (0, 59),
    "MILLI_OF_DAY": (0, DAY_MS - 1),
    "NANO_OF_SECOND": (0, 999_999_999),
    "NANO_OF_DAY": (0, DAY_MS * 1_000_000 - 1),
    "AMPM_OF_DAY": (0, 1),
    "WEEK_OF_WEEK_BASED_YEAR": (1, 53),
    "WEEK_OF_MONTH": (0, 6),
    "LOCAL_DAY_OF_WEEK": (1, 7),
    "ALIGNED_DAY_OF_WEEK_IN_MONTH": (1, 7),
}
_TIME_FIELDS = frozenset(
    (
        *("HOUR_OF_DAY", "CLOCK_HOUR_OF_DAY", "CLOCK_HOUR_OF_AMPM", "HOUR_OF_AMPM", "MINUTE_OF_HOUR"),
        *("SECOND_OF_MINUTE", "MILLI_OF_DAY", "NANO_OF_SECOND", "NANO_OF_DAY", "AMPM_OF_DAY"),
    )
)


@dataclass(slots=True)
class Parsed:
    """What a text says: a date and a time of the day where it says all of one, the fields that are left, a zone.

    `day` is days since 1970, `ms` milliseconds; 24:00 is the next day's begin (`more_days`).
    """

    fields: dict[str, int] = field(default_factory=dict)
    zone: Zone | None = None
    day: int | None = None
    ms: int | None = None
    more_days: int = 0

    @property
    def has_date_field(self) -> bool:
        """Whether it says something of the date."""
        return self.day is not None or any(name not in _TIME_FIELDS and name in _OF_CHRONO for name in self.fields)


_OF_CHRONO = frozenset(
    (
        *("YEAR", "YEAR_OF_ERA", "ERA", "MONTH_OF_YEAR", "DAY_OF_MONTH", "DAY_OF_YEAR", "DAY_OF_WEEK"),
        "ALIGNED_DAY_OF_WEEK_IN_MONTH",
    )
)
"""The fields of dates that are ChronoFields, and not those of weeks and quarters."""


def _refused(text: str) -> str:
    return f"Text '{text}' could not be parsed"


def parsed(pattern: str, text: str, *, ignoring_case: bool = True) -> Parsed:
    """What a text says by a pattern; raises EvaluationError where it does not follow it, or says what cannot be."""
    parts = parts_of(pattern)
    found = _Parser(text, ignoring_case)
    end = found.all(parts, 0)
    if end < 0:
        raise EvaluationError(f"{_refused(text)} at index {~end}")
    if end < len(text):
        raise EvaluationError(f"{_refused(text)}, unparsed text found at index {end}")
    result = Parsed(found.values, found.zone)
    try:
        _resolve(result)
    except EvaluationError as error:
        raise EvaluationError(f"{_refused(text)}: {error}") from None
    return result


class _Parser:
    """Reads fields; places are indices, a failure at `i` is `~i`."""

    def __init__(self, text: str, ignoring_case: bool) -> None:
        self.text = text
        self.ignoring_case = ignoring_case
        self.values: dict[str, int] = {}
        self.zone: Zone | None = None

    def all(self, parts: tuple[Part, ...], at: int) -> int:
        for part in parts:
            at = self.one(part, at)
            if at < 0:
                break
        return at

    def one(self, part: Part, at: int) -> int:
        match part:
            case Literally(text):
                return at + len(text) if self._same(self.text[at : at + len(text)], text) else ~at
            case Optionally(parts):
                values, zone = dict(self.values), self.zone
                end = self.all(parts, at)
                if end < 0:
                    self.values, self.zone = values, zone
                    return at
                return end
            case Padded(width, inner):
                return self._padded(width, inner, at)
            case Number():
                return self._fraction(part, at) if part.kind == "fraction" else self._number(part, at)
            case Text(name, style):
                return self._name(name, style, at)
            case ZonePart():
                return self._zone(part, at)

    def _same(self, one: str, other: str) -> bool:
        return one == other or (self.ignoring_case and one.lower() == other.lower())

    def _set(self, name: str, value: int, start: int, end: int) -> int:
        known = self.values.setdefault(name, value)
        return end if known == value else ~start

    def _digits(self, at: int, most: int) -> int:
        end = at
        while end < len(self.text) and end - at < most and "0" <= self.text[end] <= "9":
            end += 1
        return end

    def _fraction(self, part: Number, at: int) -> int:
        end = self._digits(at, part.most)
        if end - at < part.least:
            return ~at
        return self._set(part.field, int(self.text[at:end].ljust(9, "0")), at, end)

    def _number(self, part: Number, at: int) -> int:
        start, sign = at, self.text[at : at + 1]
        if sign and sign in "+-":
            if not (part.sign == "EXCEEDS_PAD" or (sign == "-" and part.sign == "NORMAL")):
                return ~start
            at += 1
        else:
            sign = ""
        end = self._digits(at, part.most + max(part.following, 0))
        if end - at < part.least:
            return ~at
        if part.following > 0:
            end = at + max(part.least, end - at - part.following)
        value = int(self.text[at:end])
        if sign == "-":
            if not value:
                return ~(at - 1)
            value = -value
        elif part.sign == "EXCEEDS_PAD" and (end - at <= part.least if sign else end - at > part.least):
            return ~(at - 1 if sign else at)
        if part.kind == "reduced":
            value += 2000
        return self._set(part.field, value, start, end)

    def _name(self, name: str, style: str, at: int) -> int:
        if name == "PERIOD":
            return self._period(at)
        styles = (style, "SHORT") if style == "FULL" else (style,)
        known = [
            (each, number) for one in styles for number, each in enumerate(names_of(name, one), FIRST.get(name, 0))
        ]
        for each, number in sorted(known, key=lambda pair: -len(pair[0])):
            if self._same(self.text[at : at + len(each)], each):
                return self._set(name, number, at, at + len(each))
        return ~at

    def _period(self, at: int) -> int:
        for each, minute in _PERIODS:
            if self._same(self.text[at : at + len(each)], each):
                return self._set("PERIOD", minute, at, at + len(each))
        return ~at

    def _padded(self, width: int, inner: Part, at: int) -> int:
        end = at + width
        if end > len(self.text):
            return ~at
        start = at
        while start < end and self.text[start] == " ":
            start += 1
        rest = self.text
        self.text = rest[:end]
        found = self.one(inner, start)
        self.text = rest
        return found if found == end else ~(at + start)

    def _zone(self, part: ZonePart, at: int) -> int:
        letter, count = part.letter, part.count
        if letter in "Vzv":
            return self._named_zone(letter, at)
        if letter == "O" or (letter == "Z" and count == 4):
            found = re.compile(r"GMT(?:([+-])(\d{1,2})(?::(\d{2})(?::(\d{2}))?)?)?").match(self.text, at)
        else:
            count = (2 if count < 4 else 5) if letter == "Z" else count
            if (letter == "X" or (letter == "Z" and count == 5)) and self._same(self.text[at : at + 1], "Z"):
                self.zone = offset_zone(0)
                return at + 1
            found = _OFFSETS[count].match(self.text, at)
        if found is None:
            return ~at
        sign, hours, minutes, seconds = (*found.groups(), None)[:4]
        total = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
        if int(minutes or 0) > 59 or int(seconds or 0) > 59 or total > 18 * 3600:
            return ~at
        self.zone = offset_zone(-total if sign == "-" else total)
        return found.end()

    def _named_zone(self, letter: str, at: int) -> int:
        found = _ZONE.match(self.text, at)
        while found is not None and found[0]:
            name = found[0]
            for end in range(len(name), 0, -1):
                zone = _zone_named(name[:end], letter)
                if zone is not None:
                    self.zone = zone
                    return at + end
            break
        return ~at


def _zone_named(name: str, letter: str) -> Zone | None:
    if letter in "zv" and name.upper() in ABBREVIATIONS:
        return zone_of(ABBREVIATIONS[name.upper()])
    if name[0] in "+-" or ("+" in name and "/" not in name) or name[:4] in ("UTC-", "GMT-"):
        return zone_of(name) if _OFFSET_ID.fullmatch(name) else None
    if name[-1] in "/_+-:" or (len(name) < 3 and name not in ("Z", "UT")):
        return None
    try:
        return zone_of(name)
    except EvaluationError:
        return None


_PERIODS = (
    *(("in the afternoon", 900), ("in the morning", 540), ("in the evening", 1170), ("midnight", 0), ("at night", 90)),
    ("noon", 720),
)
"""Periods of the day by the minute in their middle, the longest names first."""
_OFFSETS = {
    1: re.compile(r"([+-])(\d\d)(\d\d)?"),
    2: re.compile(r"([+-])(\d\d)(\d\d)"),
    3: re.compile(r"([+-])(\d\d):(\d\d)"),
    4: re.compile(r"([+-])(\d\d)(\d\d)(\d\d)?"),
    5: re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d))?"),
}
_OFFSET_ID = re.compile(r"(?:UTC|GMT|UT)?[+-](?:0\d|1[0-7]):[0-5]\d(?::[0-5]\d)?")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9~/._+:-]*|[+-]\d[\d:]*")


# -- fields → date and time


def _check(name: str, value: int) -> None:
    least, most = _RANGES[name]
    if not least <= value <= most:
        shown = name.title().replace("_", "")
        raise EvaluationError(f"Invalid value for {shown} (valid values {least} - {most}): {value}")


def _resolve(of: Parsed) -> None:
    _resolve_date(of)
    _resolve_time(of)
    for name, value in of.fields.items():
        if name in _TIME_FIELDS:
            _check(name, value)
    if of.day is not None and of.ms is not None:
        of.day, of.more_days = of.day + of.more_days, 0
    _cross_check(of)


def _resolve_date(of: Parsed) -> None:
    fields = of.fields
    _year(fields)
    year = fields.get("YEAR")
    if year is not None and {"MONTH_OF_YEAR", "DAY_OF_MONTH"} <= fields.keys():
        month, day = fields.pop("MONTH_OF_YEAR"), fields.pop("DAY_OF_MONTH")
        for name, value in (("YEAR", year), ("MONTH_OF_YEAR", month), ("DAY_OF_MONTH", day)):
            _check(name, value)
        of.day = epoch_day(year, month, _smart_day(year, month, day))
        del fields["YEAR"]
    elif year is not None and "DAY_OF_YEAR" in fields:
        day = fields.pop("DAY_OF_YEAR")
        _check("DAY_OF_YEAR", day)
        if day == 366 and not is_leap(year):
            raise EvaluationError(f"Invalid date 'DayOfYear 366' as '{year}' is not a leap year")
        of.day = epoch_day(year, 1, 1) + day - 1
        del fields["YEAR"]
    else:
        _resolve_weeks(of)


def _smart_day(year: int, month: int, day: int) -> int:
    """A day that a month has: 30 for the 31st of a month without it, the last one in February."""
    return min(day, days_of_month(year, month))


def _year(fields: dict[str, int]) -> None:
    era = fields.pop("ERA", None)
    of_era = fields.pop("YEAR_OF_ERA", None)
    if of_era is None:
        if era is not None:
            fields["ERA"] = era
        return
    _check("YEAR_OF_ERA", of_era)
    if era is None:
        year = fields.get("YEAR", 1)
        era = int(year > 0)
    made = of_era if era else 1 - of_era
    if fields.setdefault("YEAR", made) != made:
        raise EvaluationError("Conflict found: YearOfEra differs from Year")


def _resolve_weeks(of: Parsed) -> None:
    fields = of.fields
    weekday = fields.get("LOCAL_DAY_OF_WEEK")
    if weekday is None and "DAY_OF_WEEK" in fields:
        weekday = fields["DAY_OF_WEEK"] % 7 + 1
    if weekday is None:
        return
    if {"WEEK_BASED_YEAR", "WEEK_OF_WEEK_BASED_YEAR"} <= fields.keys():
        year, week = fields.pop("WEEK_BASED_YEAR"), fields.pop("WEEK_OF_WEEK_BASED_YEAR")
        _check("WEEK_OF_WEEK_BASED_YEAR", week)
        of.day = first_week(year) + (week - 1) * 7 + weekday - 1
    elif {"YEAR", "MONTH_OF_YEAR", "WEEK_OF_MONTH"} <= fields.keys():
        year, month, week = (fields.pop(each) for each in ("YEAR", "MONTH_OF_YEAR", "WEEK_OF_MONTH"))
        _check("MONTH_OF_YEAR", month)
        first = epoch_day(year, month, 1)
        of.day = first - day_of_week(first) % 7 + (week - 1) * 7 + weekday - 1
    else:
        return
    fields.pop("LOCAL_DAY_OF_WEEK", None)


def _resolve_time(of: Parsed) -> None:
    fields = of.fields
    if "CLOCK_HOUR_OF_DAY" in fields:
        hour = fields.pop("CLOCK_HOUR_OF_DAY")
        if hour:
            _check("CLOCK_HOUR_OF_DAY", hour)
        _merge(fields, "HOUR_OF_DAY", 0 if hour == 24 else hour)
    if "CLOCK_HOUR_OF_AMPM" in fields:
        hour = fields.pop("CLOCK_HOUR_OF_AMPM")
        if hour:
            _check("CLOCK_HOUR_OF_AMPM", hour)
        _merge(fields, "HOUR_OF_AMPM", 0 if hour == 12 else hour)
    if "PERIOD" in fields and "HOUR_OF_AMPM" in fields:
        fields.setdefault("AMPM_OF_DAY", fields.pop("PERIOD") // 720)
    if {"AMPM_OF_DAY", "HOUR_OF_AMPM"} <= fields.keys():
        half, hour = fields.pop("AMPM_OF_DAY"), fields.pop("HOUR_OF_AMPM")
        _check("AMPM_OF_DAY", half)
        _check("HOUR_OF_AMPM", hour)
        _merge(fields, "HOUR_OF_DAY", half * 12 + hour)
    for name, unit in (("NANO_OF_DAY", 1), ("MILLI_OF_DAY", 1_000_000)):
        if name in fields:
            value = fields.pop(name)
            _check(name, value)
            of.ms = value * unit // 1_000_000
    hour_found = fields.get("HOUR_OF_DAY")
    period = fields.pop("PERIOD", None)
    if period is not None and hour_found is None and of.ms is None:
        of.ms = period * 60_000
    if hour_found is None or of.ms is not None:
        return
    minute, second, nano = (fields.get(each) for each in ("MINUTE_OF_HOUR", "SECOND_OF_MINUTE", "NANO_OF_SECOND"))
    if (minute is None and (second is not None or nano is not None)) or (second is None and nano is not None):
        return
    if hour_found == 24 and not minute and not second and not nano:
        of.more_days, hour_found = 1, 0
    for name, value in (
        ("HOUR_OF_DAY", hour_found),
        ("MINUTE_OF_HOUR", minute or 0),
        ("SECOND_OF_MINUTE", second or 0),
    ):
        _check(name, value)
        fields.pop(name, None)
    fields.pop("NANO_OF_SECOND", None)
    of.ms = ((hour_found * 60 + (minute or 0)) * 60 + (second or 0)) * 1000 + (nano or 0) // 1_000_000


def _merge(fields: dict[str, int], name: str, value: int) -> None:
    if fields.setdefault(name, value) != value:
        raise EvaluationError(f"Conflict found: {name} {fields[name]} differs from {value}")


def _cross_check(of: Parsed) -> None:
    """Fields that are left have to be those of the date and the time."""
    at = Moment(of.day, of.ms)
    for name, value in list(of.fields.items()):
        try:
            known = field_of(name, at)
        except EvaluationError:
            continue
        if known != value:
            shown = name.title().replace("_", "")
            raise EvaluationError(f"Conflict found: Field {shown} {known} differs from {shown} {value}")
        del of.fields[name]


# -- what a text means where it does not say all


def moment_ms(of: Parsed, zone: Zone, text: str) -> int:
    """Milliseconds since 1970 of what a text says, in a zone unless it names one.

    What it does not say is that of 1970-01-01T00:00. Raises EvaluationError for the 366th day of no year.
    """
    day = of.day if of.day is not None else _day_of(of.fields, text)
    ms = of.ms if of.ms is not None else _ms_of(of.fields)
    return (of.zone or zone).utc_ms(day * DAY_MS + ms)


def _day_of(fields: dict[str, int], text: str) -> int:
    if fields.get("DAY_OF_YEAR") == 366:
        raise EvaluationError("Leap day cannot be parsed without supplying the year field")
    day = 0
    if "DAY_OF_WEEK" in fields:
        _check("DAY_OF_WEEK", fields["DAY_OF_WEEK"])
        day += fields["DAY_OF_WEEK"] - day_of_week(day)
    year, month, dom = date_of_day(day)
    if "DAY_OF_MONTH" in fields:
        _check("DAY_OF_MONTH", fields["DAY_OF_MONTH"])
        dom = fields["DAY_OF_MONTH"]
    if "DAY_OF_YEAR" in fields:
        _check("DAY_OF_YEAR", fields["DAY_OF_YEAR"])
        year, month, dom = date_of_day(epoch_day(year, 1, 1) + fields["DAY_OF_YEAR"] - 1)
    if "MONTH_OF_YEAR" in fields:
        _check("MONTH_OF_YEAR", fields["MONTH_OF_YEAR"])
        month = fields["MONTH_OF_YEAR"]
        dom = _smart_day(year, month, dom)
    if "YEAR" in fields:
        year = fields["YEAR"]
        dom = _smart_day(year, month, dom)
    if fields.get("ERA") == 0:
        year = 1 - year
    return epoch_day(year, month, dom)


def _ms_of(fields: dict[str, int]) -> int:
    hour = fields.get("HOUR_OF_DAY", fields.get("HOUR_OF_AMPM", 0) + 12 * fields.get("AMPM_OF_DAY", 0))
    minute, second = fields.get("MINUTE_OF_HOUR", 0), fields.get("SECOND_OF_MINUTE", 0)
    return ((hour * 60 + minute) * 60 + second) * 1000 + fields.get("NANO_OF_SECOND", 0) // 1_000_000


__all__ = ["Parsed", "day_of_year", "moment_ms", "parsed"]
