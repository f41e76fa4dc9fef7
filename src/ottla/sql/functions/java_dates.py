"""Patterns of java.time's DateTimeFormatter, as far as they are used: texts of dates and times, both ways.

Letters: y u M L d D H k h K m s S n a E X x Z z V, text in quotes, and what stands in brackets is optional. Month and day
names are English. Others are refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.sql.errors import EvaluationError

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PATTERN_MAX, OPTIONAL_MAX = 512, 8
"""An optional part is tried both ways, so that each more may double the time that a text takes."""
_KNOWN = frozenset("yuMLdDHkhKmsSnaEeXxZzVO")
_DATE_LETTERS, _TIME_LETTERS = frozenset("yuMLdDEe"), frozenset("HkhKmsSna")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a pattern: `letter` so many times, a literal (no letter), or an optional group (`inner`)."""

    letter: str = ""
    count: int = 0
    text: str = ""
    inner: tuple[Part, ...] = ()


@dataclass(slots=True)
class Found:
    """What a text has said so far."""

    values: dict[str, int] = field(default_factory=dict)
    zone: tzinfo | None = None


def zone_of(name: str) -> tzinfo:
    """A zone by its name or its offset; raises EvaluationError."""
    if name in ("Z", "UTC", "GMT"):
        return UTC
    if found := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?", name):
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"Unknown time-zone ID: {name}") from None


@lru_cache(256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """Read a pattern; raises EvaluationError for one that is broken, or has a letter that is not known here."""
    if len(pattern) > PATTERN_MAX or pattern.count("[") > OPTIONAL_MAX:
        raise EvaluationError(f"a pattern has at most {PATTERN_MAX} characters and {OPTIONAL_MAX} optional parts")
    parts, _ = _group(pattern, 0, inside=False)
    return parts


def _group(pattern: str, at: int, *, inside: bool) -> tuple[tuple[Part, ...], int]:
    parts: list[Part] = []
    while at < len(pattern):
        each = pattern[at]
        if each == "]":
            if inside:
                return tuple(parts), at + 1
            raise EvaluationError("Pattern invalid as it contains ] without previous [")
        if each == "[":
            inner, at = _group(pattern, at + 1, inside=True)
            parts.append(Part(inner=inner))
        elif each == "'":
            text, at = _quoted(pattern, at)
            parts.append(Part(text=text))
        elif each.isascii() and each.isalpha():
            count = len(pattern[at:]) - len(pattern[at:].lstrip(each))
            if each not in _KNOWN:
                raise EvaluationError(f"Unknown pattern letter: {each}")
            parts.append(Part(each, count))
            at += count
        else:
            parts.append(Part(text=each))
            at += 1
    return tuple(parts), at


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at : at + 2] == "''":
        return "'", at + 2
    text, at = "", at + 1
    while at < len(pattern):
        if pattern[at : at + 2] == "''":
            text, at = text + "'", at + 2
        elif pattern[at] == "'":
            return text, at + 1
        else:
            text, at = text + pattern[at], at + 1
    raise EvaluationError(f"Pattern ends with an incomplete string literal: {pattern}")


def formatted(pattern: str, at: datetime, allowed: frozenset[str] | None = None) -> str:
    """A moment in a pattern; letters that are not `allowed` are what the value does not have."""
    return "".join(_written(part, at, allowed) for part in parts_of(pattern))


DATE_ONLY, TIME_ONLY = _DATE_LETTERS, _TIME_LETTERS


def _written(part: Part, at: datetime, allowed: frozenset[str] | None) -> str:
    if part.inner:
        return "".join(_written(each, at, allowed) for each in part.inner)
    letter, count = part.letter, part.count
    if not letter:
        return part.text
    if allowed is not None and letter not in allowed:
        raise EvaluationError(f"Unsupported field: {letter}")
    if letter in "XxZ":
        return _offset_text(letter, count, at)
    if letter in "zVO":
        name = at.tzname() or "UTC"
        return str(at.tzinfo) if letter == "V" and isinstance(at.tzinfo, ZoneInfo) else name
    if letter in "ML" and count >= 3:
        return MONTHS[at.month - 1] if count == 4 else MONTHS[at.month - 1][: 3 if count == 3 else 1]
    if letter == "E":
        return DAYS[at.weekday()] if count == 4 else DAYS[at.weekday()][:3]
    if letter == "a":
        return "AM" if at.hour < 12 else "PM"
    if letter == "S":
        return f"{at.microsecond:06}000"[:count]
    if letter in "yu" and count == 2:
        return f"{at.year % 100:02}"
    return str(_number(letter, at)).rjust(count, "0")


def _number(letter: str, at: datetime) -> int:
    match letter:
        case "y" | "u":
            return at.year
        case "M" | "L":
            return at.month
        case "d":
            return at.day
        case "D":
            return at.timetuple().tm_yday
        case "H":
            return at.hour
        case "k":
            return at.hour or 24
        case "h":
            return at.hour % 12 or 12
        case "K":
            return at.hour % 12
        case "m":
            return at.minute
        case "s":
            return at.second
        case "e":
            return at.isoweekday() % 7 + 1
        case _:
            return at.microsecond * 1000


def _offset_text(letter: str, count: int, at: datetime) -> str:
    seconds = int((at.utcoffset() or timedelta()).total_seconds())
    if letter == "X" and not seconds:
        return "Z"
    sign = "-" if seconds < 0 else "+"
    hours, minutes = divmod(abs(seconds) // 60, 60)
    if letter == "Z" and count < 4:
        return f"{sign}{hours:02}{minutes:02}"
    if count == 1:
        return f"{sign}{hours:02}" + (f"{minutes:02}" if minutes else "")
    return f"{sign}{hours:02}{'' if count == 2 else ':'}{minutes:02}"


# -- texts → fields


def parsed(pattern: str, text: str) -> Found:
    """The fields of a text; raises EvaluationError where it does not follow the pattern."""
    for found, at in _matches(parts_of(pattern), text, 0, Found()):
        if at == len(text):
            return found
    raise EvaluationError(f"Text '{text}' could not be parsed")


def _matches(parts: tuple[Part, ...], text: str, at: int, found: Found) -> list[tuple[Found, int]]:
    """Every way in which the beginning of a text follows the parts, the one with all optional groups first."""
    if not parts:
        return [(found, at)]
    first, rest = parts[0], parts[1:]
    if first.inner:
        return _matches((*first.inner, *rest), text, at, found) + _matches(rest, text, at, found)
    if not first.letter:
        return _matches(rest, text, at + len(first.text), found) if text.startswith(first.text, at) else []
    step = _read(first, rest, text, at)
    if step is None:
        return []
    name, value, zone, end = step
    known = Found({**found.values, name: value} if name else found.values, zone or found.zone)
    return _matches(rest, text, end, known)


_OFFSET = re.compile(r"Z|[+-]\d{2}(?::?\d{2})?(?::?\d{2})?")
_ZONE = re.compile(r"[A-Za-z]+(?:/[A-Za-z_+\-0-9]+)*|[+-]\d{1,2}:?\d{0,2}")
Step = tuple[str, int, tzinfo | None, int]


def _read(part: Part, rest: tuple[Part, ...], text: str, at: int) -> Step | None:
    letter, count = part.letter, part.count
    if letter in "XxZzVO":
        shape = _OFFSET if letter in "XxZ" else _ZONE
        found = shape.match(text, at)
        return None if found is None else ("", 0, zone_of(found[0]), found.end())
    if letter in "ML" and count >= 3:
        return _name("M", MONTHS, count, text, at, first=1)
    if letter == "E":
        return _name("E", DAYS, count, text, at, first=1)
    if letter == "a":
        found = re.compile("AM|PM", re.IGNORECASE).match(text, at)
        return None if found is None else ("a", int(found[0].upper() == "PM"), None, found.end())
    if letter == "S":
        found = re.compile(rf"\d{{{count}}}").match(text, at)
        return None if found is None else ("S", int(found[0].ljust(9, "0")[:9]), None, found.end())
    return _read_number(part, rest, text, at)


def _read_number(part: Part, rest: tuple[Part, ...], text: str, at: int) -> Step | None:
    letter, count = part.letter, part.count
    adjacent = bool(rest) and rest[0].letter != "" and rest[0].letter not in "aEXxZzVO"
    most = count if adjacent or (count == 2 and letter not in "yu") else 10 if letter in "yu" and count != 2 else 2
    least = count if count > 1 else 1
    if letter == "D":
        most = 3
    found = re.compile(rf"\d{{{least},{max(most, least)}}}").match(text, at)
    if found is None:
        return None
    value = int(found[0])
    if letter in "yu" and count == 2:
        value += 2000
    names = {"u": "y", "L": "M"}
    return names.get(letter, letter), value, None, found.end()


def _name(field_: str, names: tuple[str, ...], count: int, text: str, at: int, *, first: int) -> Step | None:
    for number, name in enumerate(names, first):
        shown = name if count == 4 else name[:3]
        if text[at : at + len(shown)].lower() == shown.lower():
            return field_, number, None, at + len(shown)
    return None


def hour_of(values: dict[str, int]) -> int:
    """The hour of the day, by whichever letters have told it."""
    if "H" in values:
        return values["H"]
    if "k" in values:
        return values["k"] % 24
    if "h" in values or "K" in values:
        return values.get("h", values.get("K", 0)) % 12 + 12 * values.get("a", 0)
    return 0


def date_of(values: dict[str, int], text: str) -> date:
    """The date that fields say; month and day are 1 where they are not told. Raises EvaluationError."""
    try:
        if "D" in values:
            return date(values.get("y", 1970), 1, 1) + timedelta(days=values["D"] - 1)
        return date(values.get("y", 1970), values.get("M", 1), values.get("d", 1))
    except ValueError as error:
        raise EvaluationError(f"Text '{text}' could not be parsed: {error}") from None
