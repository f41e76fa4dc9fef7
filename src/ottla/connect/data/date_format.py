"""Dates as text by Java's SimpleDateFormat patterns, in UTC and English: what transformations are configured with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import NamedTuple

from ottla.connect.data.logical import MS_PER_DAY, days_of, timestamp_of_ms
from ottla.connect.errors import ConnectError

__all__ = ["DateFormat"]

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = "GyYMLwWDdFEuaHkKhmsSzZX"
_PIVOT = 1947
"""The first year that two digits name: Java takes eighty years before today, which no test could hold still."""


class _Token(NamedTuple):
    letter: str
    """A pattern letter, or empty for text that stands for itself."""

    width: int
    text: str


def _tokens(pattern: str) -> Iterator[_Token]:
    """Cut a pattern at its letters and quotes; raises ConnectError as Java raises IllegalArgumentException."""
    for match in re.finditer(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'", pattern):
        piece = match[0]
        if match[2]:
            if match[2] not in _LETTERS:
                raise ConnectError(f"Illegal pattern character '{match[2]}'")
            if match[2] == "X" and len(piece) > 3:
                raise ConnectError("invalid ISO 8601 format: length=" + str(len(piece)))
            yield _Token(match[2], len(piece), "")
        elif piece == "'":
            raise ConnectError("Unterminated quote")
        else:
            yield _Token("", 0, "'" if piece == "''" else (match[1] or "").replace("''", "'") or piece.strip("'"))


class DateFormat:
    """One pattern, to write a time with and to read one."""

    def __init__(self, pattern: str) -> None:
        """Read the pattern; raises ConnectError where Java's SimpleDateFormat refuses it."""
        self.pattern = pattern
        self._tokens = tuple(_tokens(pattern))

    def format(self, ms: int) -> str:
        """Return the text of milliseconds since 1970."""
        when = timestamp_of_ms(ms)
        return "".join(
            _WRITERS[token.letter](when, token.width) if token.letter else token.text for token in self._tokens
        )

    def parse(self, text: str) -> int | None:
        """Return the milliseconds that a prefix of `text` means, leniently as Java does, or None where it means none."""
        fields: dict[str, int] = {}
        position = 0
        for place, token in enumerate(self._tokens):
            if not token.letter:
                if not text.startswith(token.text, position):
                    return None
                position += len(token.text)
                continue
            following = self._tokens[place + 1] if place + 1 < len(self._tokens) else None
            abutting = following is not None and following.letter != "" and following.letter in "yYMLwWDdFuHkKhmsS"
            end = _read(token, text, position, fields, abutting=abutting)
            if end is None:
                return None
            position = end
        return _assembled(fields)


def _week_of_year(when: datetime) -> tuple[int, int]:
    """Return (week year, week) where weeks begin on Sunday and the first holds January 1st."""
    saturday = when.date() + timedelta(days=6 - when.isoweekday() % 7)
    first = date(saturday.year, 1, 1)
    return saturday.year, ((saturday - first).days) // 7 + 1


DIGITS_MAX, INT_MAX = 18, (1 << 31) - 1
"""More digits are no long; Java makes a double of them, and the greatest int of that."""


def _padded(value: int, count: int) -> str:
    return str(value).zfill(count)


def _year(value: int, count: int) -> str:
    return _padded(value % 100, 2) if count == 2 else _padded(value, count)


def _month(when: datetime, count: int) -> str:
    name = _MONTHS[when.month - 1]
    return name if count >= 4 else name[:3] if count == 3 else _padded(when.month, count)


def _week_of_month(when: datetime) -> int:
    first = when.replace(day=1).isoweekday() % 7
    return (when.day + first - 1) // 7 + 1


_WRITERS: dict[str, Callable[[datetime, int], str]] = {
    "G": lambda when, count: "AD",
    "y": lambda when, count: _year(when.year, count),
    "Y": lambda when, count: _year(_week_of_year(when)[0], count),
    "M": _month,
    "L": _month,
    "w": lambda when, count: _padded(_week_of_year(when)[1], count),
    "W": lambda when, count: _padded(_week_of_month(when), count),
    "D": lambda when, count: _padded(when.timetuple().tm_yday, count),
    "d": lambda when, count: _padded(when.day, count),
    "F": lambda when, count: _padded((when.day - 1) // 7 + 1, count),
    "E": lambda when, count: _DAYS[when.weekday()] if count >= 4 else _DAYS[when.weekday()][:3],
    "u": lambda when, count: _padded(when.isoweekday(), count),
    "a": lambda when, count: "AM" if when.hour < 12 else "PM",
    "H": lambda when, count: _padded(when.hour, count),
    "k": lambda when, count: _padded(when.hour or 24, count),
    "K": lambda when, count: _padded(when.hour % 12, count),
    "h": lambda when, count: _padded(when.hour % 12 or 12, count),
    "m": lambda when, count: _padded(when.minute, count),
    "s": lambda when, count: _padded(when.second, count),
    "S": lambda when, count: _padded(when.microsecond // 1000, count),
    "z": lambda when, count: "Coordinated Universal Time" if count >= 4 else "UTC",
    "Z": lambda when, count: "+0000",
    "X": lambda when, count: "Z",
}

_ZONE = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?|GMT|UTC|Coordinated Universal Time|Z", re.IGNORECASE)


def _read(token: _Token, text: str, position: int, fields: dict[str, int], *, abutting: bool) -> int | None:
    """Read one field; returns the position behind it, or None where the text does not say one."""
    while position < len(text) and text[position] in " \t":
        position += 1
    if token.letter in "zZX":
        zone = _ZONE.match(text, position)
        if zone is None:
            return None
        minutes = int(zone[2]) * 60 + int(zone[3] or 0) if zone[1] else 0
        fields["zone"] = -minutes if zone[1] == "-" else minutes
        return zone.end()
    names = _names_of(token)
    if names:
        return _read_name(token, names, text, position, fields)
    digits = re.compile(rf"-?\d{{1,{token.width}}}" if abutting else r"-?\d+", re.ASCII).match(text, position)
    if digits is None:
        return None
    value = int(digits[0]) if len(digits[0]) <= DIGITS_MAX else INT_MAX
    if token.letter in "yY" and token.width <= 2 and len(digits[0]) == 2:
        value += 1900 if value >= _PIVOT % 100 else 2000
    fields["M" if token.letter == "L" else token.letter] = value
    return digits.end()


def _names_of(token: _Token) -> tuple[str, ...]:
    if token.letter in "ML" and token.width >= 3:
        return _MONTHS
    return {"E": _DAYS, "a": ("AM", "PM"), "G": ("BC", "AD")}.get(token.letter, ())


def _read_name(token: _Token, names: tuple[str, ...], text: str, position: int, fields: dict[str, int]) -> int | None:
    rest = text[position:].lower()
    for number, name in enumerate(names):
        for form in (name, name[:3]):
            if rest.startswith(form.lower()):
                fields["M" if token.letter == "L" else token.letter] = number + (token.letter in "ML")
                return position + len(form)
    return None


def _assembled(fields: dict[str, int]) -> int | None:
    """Return the milliseconds of the fields; months, days and hours beyond their bounds carry over, as in Java."""
    year, month = fields.get("y", fields.get("Y", 1970)), fields.get("M", 1) - 1
    year, month = year + month // 12, month % 12 + 1
    if not 1 <= year <= 9999:
        return None
    if "D" in fields and "M" not in fields:
        days = days_of(date(year, 1, 1)) + fields["D"] - 1
    else:
        days = days_of(date(year, month, 1)) + fields.get("d", 1) - 1
    hour = _hour(fields)
    ms = ((hour * 60 + fields.get("m", 0) - fields.get("zone", 0)) * 60 + fields.get("s", 0)) * 1000 + fields.get(
        "S", 0
    )
    return days * MS_PER_DAY + ms


def _hour(fields: dict[str, int]) -> int:
    if "H" in fields:
        return fields["H"]
    if "k" in fields:
        return fields["k"] % 24
    half = fields.get("K", fields.get("h", 0) % 12)
    return half + 12 * fields.get("a", 0)
