"""Texts → dates as PARSE_DATE reads them: by patterns of SimpleDateFormat, in GMT, leniently.

ksqlDB takes Apache Commons' FastDateFormat here. Names may be long or short in any case of letters, numbers have any width
unless another number follows, fields may be out of their range and carry over, and text behind the date is not looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_calendar import DAY_MS, day_of_week, epoch_day
from ottla.sql.functions.java_patterns import DAYS, MONTHS, PATTERN_MAX
from ottla.sql.functions.zones import ABBREVIATIONS, zone_of

_NUMBERS = frozenset("yYMLdDFwWuHkKhmsS")
_ALL = _NUMBERS | frozenset("GEazZX")
_ZONE = re.compile(r"(?:GMT|UTC)?[+-]\d{1,2}:?\d{2}|[+-]\d{2}|Z|[A-Za-z]+(?:/[A-Za-z_]+)*")
DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class _Field:
    letter: str
    width: int


_Token = _Field | str


@lru_cache(256)
def _tokens(pattern: str) -> tuple[_Token, ...]:
    if len(pattern) > PATTERN_MAX:
        raise EvaluationError(f"a pattern has at most {PATTERN_MAX} characters")
    found: list[_Token] = []
    at = 0
    while at < len(pattern):
        each = pattern[at]
        if each.isascii() and each.isalpha():
            width = len(pattern) - at - len(pattern[at:].lstrip(each))
            if each not in _ALL:
                raise EvaluationError(f"Format '{each}' not supported")
            found.append(_Field(each, width))
            at += width
            continue
        text, at = _literal(pattern, at)
        found.append(text)
    return tuple(found)


def _literal(pattern: str, at: int) -> tuple[str, int]:
    """Characters that stand for themselves, those in quotes among them."""
    text, quoted = "", False
    while at < len(pattern):
        each = pattern[at]
        if not quoted and each.isascii() and each.isalpha():
            break
        if each == "'" and pattern[at : at + 2] == "''":
            text, at = text + "'", at + 2
            continue
        if each == "'":
            quoted = not quoted
        else:
            text += each
        at += 1
    if quoted:
        raise EvaluationError("Unterminated quote")
    return text, at


def calendar_ms(pattern: str, text: str, year_now: int) -> int:
    """Milliseconds since 1970 of what a text says; two digits of a year are within 80 years before `year_now`, or 20 behind.

    Raises EvaluationError where the text does not begin as the pattern says.
    """
    tokens = _tokens(pattern)
    values: dict[str, int] = {}
    at = 0
    for place, token in enumerate(tokens):
        if isinstance(token, str):
            if not text.startswith(token, at):
                raise _unparseable(text)
            at += len(token)
            continue
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        limited = isinstance(following, _Field) and _is_number(following)
        at = _read(token, limited, text, at, values, year_now)
    return _ms(values)


def _unparseable(text: str) -> EvaluationError:
    return EvaluationError(f"Unparseable date: {text}")


def _is_number(token: _Field) -> bool:
    return token.letter in _NUMBERS and not (token.letter in "ML" and token.width >= 3)


def _read(token: _Field, limited: bool, text: str, at: int, values: dict[str, int], year_now: int) -> int:
    letter = token.letter
    if letter in "zZX":
        return _zone(text, at, values)
    if letter in "GEa" or not _is_number(token):
        return _name(letter, text, at, values)
    if not limited:
        while at < len(text) and text[at].isspace():
            at += 1
    end, most = at, token.width if limited else DIGITS_MAX
    while end < len(text) and end - at < most and text[end].isdecimal():
        end += 1
    if end == at:
        raise _unparseable(text)
    value = int(text[at:end])
    if letter in "yY" and token.width <= 2 and value < 100:
        start = year_now - 80
        value += start // 100 * 100 + (0 if value >= start % 100 else 100)
    values["y" if letter == "Y" else "M" if letter == "L" else letter] = value
    return end


def _name(letter: str, text: str, at: int, values: dict[str, int]) -> int:
    names: dict[str, tuple[str, ...]] = {"E": DAYS, "a": ("AM", "PM"), "G": ("BC", "AD")}
    for number, full in enumerate(names.get(letter, MONTHS)):
        for each in dict.fromkeys((full, full[:3])):
            if text[at : at + len(each)].lower() == each.lower():
                values["M" if letter == "L" else letter] = number + (1 if letter in "ML" else 0)
                return at + len(each)
    raise _unparseable(text)


def _zone(text: str, at: int, values: dict[str, int]) -> int:
    found = _ZONE.match(text, at)
    if found is None:
        raise _unparseable(text)
    try:
        zone = zone_of(ABBREVIATIONS.get(found[0], found[0]))
    except EvaluationError:
        raise _unparseable(text) from None
    values["zone"] = zone.offset_seconds(0)
    return found.end()


def _ms(values: dict[str, int]) -> int:
    """The moment that fields say, those out of their range carried over."""
    year = values.get("y", 1970)
    if values.get("G") == 0:
        year = 1 - year
    if "D" in values and "d" not in values:
        day = epoch_day(year, 1, 1) + values["D"] - 1
    elif "w" in values and "d" not in values:
        first = epoch_day(year, 1, 1)
        weekday = values.get("E", values["u"] - 1 if "u" in values else 6)
        day = first - day_of_week(first) % 7 + (values["w"] - 1) * 7 + (weekday + 1) % 7
    else:
        more, month = divmod(values.get("M", 1) - 1, 12)
        day = epoch_day(year + more, month + 1, 1) + values.get("d", 1) - 1
    hour = values.get("H", values.get("k", 0) % 24)
    if "h" in values or "K" in values:
        hour = values.get("h", values.get("K", 0)) % 12 + 12 * values.get("a", 0)
    clock = ((hour * 60 + values.get("m", 0)) * 60 + values.get("s", 0)) * 1000 + values.get("S", 0)
    return day * DAY_MS + clock - values.get("zone", 0) * 1000
