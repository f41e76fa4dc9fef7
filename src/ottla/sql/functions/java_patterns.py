"""Patterns of java.time's DateTimeFormatter, read: what each letter is, and how wide it is where digits follow digits.

Names are English. A letter that Java has not, or too many of one, is refused in Java's words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from ottla.sql.errors import EvaluationError

PATTERN_MAX, OPTIONAL_MAX = 512, 16
Sign = Literal["NORMAL", "NOT_NEGATIVE", "EXCEEDS_PAD"]
_DIGITS_MAX = 19
_FIXED = -1
"""The subsequent width of a number that is fixed."""

NUMBERS = {
    "u": "YEAR",
    "y": "YEAR_OF_ERA",
    "D": "DAY_OF_YEAR",
    "M": "MONTH_OF_YEAR",
    "L": "MONTH_OF_YEAR",
    "d": "DAY_OF_MONTH",
    "Q": "QUARTER_OF_YEAR",
    "q": "QUARTER_OF_YEAR",
    "F": "ALIGNED_DAY_OF_WEEK_IN_MONTH",
    "H": "HOUR_OF_DAY",
    "k": "CLOCK_HOUR_OF_DAY",
    "h": "CLOCK_HOUR_OF_AMPM",
    "K": "HOUR_OF_AMPM",
    "m": "MINUTE_OF_HOUR",
    "s": "SECOND_OF_MINUTE",
    "A": "MILLI_OF_DAY",
    "n": "NANO_OF_SECOND",
    "N": "NANO_OF_DAY",
    "Y": "WEEK_BASED_YEAR",
    "w": "WEEK_OF_WEEK_BASED_YEAR",
    "W": "WEEK_OF_MONTH",
    "e": "LOCAL_DAY_OF_WEEK",
    "c": "LOCAL_DAY_OF_WEEK",
}
"""The field of a letter that is a number."""
TEXTS = {"G": "ERA", "a": "AMPM_OF_DAY", "E": "DAY_OF_WEEK", "e": "DAY_OF_WEEK", "c": "DAY_OF_WEEK", "B": "PERIOD"}
TEXTS |= {each: NUMBERS[each] for each in "MLQq"}
"""The field of a letter that is a text."""


@dataclass(frozen=True, slots=True)
class Number:
    """Digits of a field; `following` are the digits that fixed numbers right behind it take."""

    field: str
    least: int = 1
    most: int = _DIGITS_MAX
    sign: Sign = "NORMAL"
    following: int = 0
    kind: Literal["value", "reduced", "fraction"] = "value"

    @property
    def fixed(self) -> bool:
        """Whether it takes as many digits as it says and no more."""
        return self.following == _FIXED or (
            self.following > 0 and self.least == self.most and self.sign == "NOT_NEGATIVE"
        )


@dataclass(frozen=True, slots=True)
class Text:
    """A name of a field: SHORT, FULL or NARROW."""

    field: str
    style: Literal["SHORT", "FULL", "NARROW"]


@dataclass(frozen=True, slots=True)
class Literally:
    """Characters as they are."""

    text: str


@dataclass(frozen=True, slots=True)
class ZonePart:
    """A zone or an offset, by the letter and how often it stands there."""

    letter: str
    count: int


@dataclass(frozen=True, slots=True)
class Padded:
    """A part in a width, spaces in front."""

    width: int
    inner: Part


@dataclass(frozen=True, slots=True)
class Optionally:
    """Parts that may be missing, all of them."""

    parts: tuple[Part, ...]


Part = Number | Text | Literally | ZonePart | Padded | Optionally


class _Reader:
    """Reads a pattern into parts, as DateTimeFormatterBuilder.appendPattern does."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.groups: list[list[Part]] = [[]]
        self.active: int | None = None
        """The number in the innermost group that fixed numbers behind it are taken off."""
        self.pad = 0

    def parts(self) -> tuple[Part, ...]:
        at, pattern = 0, self.pattern
        while at < len(pattern):
            each = pattern[at]
            if each.isascii() and each.isalpha():
                count = len(pattern) - at - len(pattern[at:].lstrip(each))
                at += count
                if each == "p":
                    self._padding(at, count)
                else:
                    self._letter(each, count)
                continue
            at = self._other(each, at)
        while len(self.groups) > 1:
            self._end_optional()
        return tuple(self.groups[0])

    def _padding(self, at: int, count: int) -> None:
        if at >= len(self.pattern) or not (self.pattern[at].isascii() and self.pattern[at].isalpha()):
            raise EvaluationError(f"Pad letter 'p' must be followed by valid pad pattern: {self.pattern}")
        self.pad = count

    def _other(self, each: str, at: int) -> int:
        if each == "'":
            text, at = _quoted(self.pattern, at)
            self._append(Literally(text))
            return at
        if each == "[":
            self.groups.append([])
            self.active = None
        elif each == "]":
            if len(self.groups) == 1:
                raise EvaluationError("Pattern invalid as it contains ] without previous [")
            self._end_optional()
        elif each in "{}#":
            raise EvaluationError(f"Pattern includes reserved character: '{each}'")
        else:
            self._append(Literally(each))
        return at + 1

    def _end_optional(self) -> None:
        inner = self.groups.pop()
        self.active = None
        if inner:
            self.groups[-1].append(Optionally(tuple(inner)))

    def _append(self, part: Part) -> int:
        if self.pad:
            part, self.pad = Padded(self.pad, part), 0
        self.active = None
        self.groups[-1].append(part)
        return len(self.groups[-1]) - 1

    def _number(self, part: Number) -> None:
        """Append a number: one of a fixed width right behind another number has its digits kept from that one."""
        group, active = self.groups[-1], self.active
        if active is None or self.pad:
            self.active = self._append(part)
            return
        base = group[active]
        assert isinstance(base, Number)
        if part.least == part.most and part.sign == "NOT_NEGATIVE":
            group[active] = replace(base, following=base.following + part.most)
            self._append(replace(part, following=_FIXED))
            self.active = active
        else:
            group[active] = replace(base, following=_FIXED)
            self.active = self._append(part)

    def _letter(self, letter: str, count: int) -> None:
        if letter in "XxZzVvO":
            self._zone(letter, count)
        elif letter in "GaBE" or (letter in "MLQq" and count > 2) or (letter in "ec" and count > 2):
            self._append(Text(TEXTS[letter], self._style(letter, count)))
        elif letter == "S":
            if count > 9:
                raise EvaluationError(f"Maximum width must be from 1 to 9 inclusive but was {count}")
            self._number(Number("NANO_OF_SECOND", count, count, "NOT_NEGATIVE", kind="fraction"))
        elif letter in NUMBERS:
            self._number(self._value(letter, count))
        else:
            raise EvaluationError(f"Unknown pattern letter: {letter}")

    def _style(self, letter: str, count: int) -> Literal["SHORT", "FULL", "NARROW"]:
        if (letter == "a" and count > 1) or count > 5 or (letter == "B" and count in (2, 3)):
            raise _too_many(letter) if letter != "B" else EvaluationError("Wrong number of pattern letters: B")
        return "NARROW" if count == 5 else "FULL" if count == 4 else "SHORT"

    def _value(self, letter: str, count: int) -> Number:
        field = NUMBERS[letter]
        if letter in "uyY":
            if count == 2:
                return Number(field, 2, 2, "NOT_NEGATIVE", kind="reduced")
            return Number(field, count, _DIGITS_MAX, "NORMAL" if count < 4 else "EXCEEDS_PAD")
        if letter in "AnN":
            return Number(field, count, _DIGITS_MAX, "NOT_NEGATIVE")
        if letter == "D":
            if count > 3:
                raise _too_many(letter)
            return Number(field) if count == 1 else Number(field, count, 3, "NOT_NEGATIVE")
        if letter in "wWec" or letter == "F":
            return self._localized(letter, field, count)
        if count > 2:
            raise _too_many(letter)
        return Number(field) if count == 1 else Number(field, 2, 2, "NOT_NEGATIVE")

    def _localized(self, letter: str, field: str, count: int) -> Number:
        if count > (2 if letter in "we" else 1):
            raise EvaluationError('Invalid pattern "cc"') if letter == "c" else _too_many(letter)
        if letter == "F":
            return Number(field)
        return Number(field, count, 2, "NOT_NEGATIVE")

    def _zone(self, letter: str, count: int) -> None:
        if letter == "V" and count != 2:
            raise EvaluationError("Pattern letter count must be 2: V")
        if letter in "vO" and count not in (1, 4):
            raise EvaluationError(
                f"Pattern letter count must be 1 or 4: {letter}"
                if letter == "O"
                else f"Wrong number of pattern letters: {letter}"
            )
        if count > (4 if letter == "z" else 5):
            raise _too_many(letter)
        self._append(ZonePart(letter, count))


def _too_many(letter: str) -> EvaluationError:
    return EvaluationError(f"Too many pattern letters: {letter}")


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


@lru_cache(256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """Read a pattern; raises EvaluationError for one that is broken."""
    if len(pattern) > PATTERN_MAX or pattern.count("[") > OPTIONAL_MAX:
        raise EvaluationError(f"a pattern has at most {PATTERN_MAX} characters and {OPTIONAL_MAX} optional parts")
    return _Reader(pattern).parts()


# -- names

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "MONTH_OF_YEAR": {"FULL": MONTHS, "SHORT": tuple(each[:3] for each in MONTHS)},
    "DAY_OF_WEEK": {"FULL": DAYS, "SHORT": tuple(each[:3] for each in DAYS)},
    "AMPM_OF_DAY": {"FULL": ("AM", "PM"), "SHORT": ("AM", "PM"), "NARROW": ("a", "p")},
    "ERA": {"FULL": ("Before Christ", "Anno Domini"), "SHORT": ("BC", "AD"), "NARROW": ("B", "A")},
    "QUARTER_OF_YEAR": {
        "FULL": ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter"),
        "SHORT": ("Q1", "Q2", "Q3", "Q4"),
        "NARROW": ("1", "2", "3", "4"),
    },
}
FIRST = {"MONTH_OF_YEAR": 1, "DAY_OF_WEEK": 1, "QUARTER_OF_YEAR": 1}
"""The number of a field's first name, where it is not 0."""


def names_of(field: str, style: str) -> tuple[str, ...]:
    """The English names of a field, in order."""
    found = _NAMES[field]
    return found[style] if style in found else tuple(each[0] for each in found["FULL"])
