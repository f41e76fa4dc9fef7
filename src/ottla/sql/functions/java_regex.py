"""Regular expressions of java.util.regex as Python's, which say the same: classes within classes, quotes, flags within.

What has no counterpart (`\\G`, `\\X`, properties that are not known here) is refused by name, as a wrong pattern is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ottla.sql.errors import EvaluationError

PATTERN_MAX = 4096
_ALL = 0x110000
Ranges = tuple[tuple[int, int], ...]
"""Characters as ranges of code points, both ends in them, ordered and apart."""


def _ranges(text: str) -> Ranges:
    pairs = re.findall(r"(.)-(.)", text, re.DOTALL)
    return _merged([(ord(a), ord(b)) for a, b in pairs])


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


def _without(ranges: Ranges) -> Ranges:
    found, at = [], 0
    for low, high in ranges:
        if at < low:
            found.append((at, low - 1))
        at = high + 1
    if at < _ALL:
        found.append((at, _ALL - 1))
    return tuple(found)


def _both(one: Ranges, other: Ranges) -> Ranges:
    return _without(_merged([*_without(one), *_without(other)]))


_DIGIT, _WORD = _ranges("0-9"), _ranges("0-9A-Z_-_a-z")
_SPACE, _BLANK = _ranges("\t-\r - "), _ranges("\t-\t - ")
_HORIZONTAL = _ranges(
    "\t-\t - \u00a0-\u00a0\u1680-\u1680\u180e-\u180e\u2000-\u200a\u202f-\u202f\u205f-\u205f\u3000-\u3000"
)
_VERTICAL = _ranges("\n-\r\u0085-\u0085\u2028-\u2029")
_SHORT: dict[str, Ranges] = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "h": _HORIZONTAL, "v": _VERTICAL}
_POSIX: dict[str, Ranges] = {
    "Lower": _ranges("a-z"),
    "Upper": _ranges("A-Z"),
    "ASCII": _ranges("\0-\x7f"),
    "Alpha": _ranges("A-Za-z"),
    "Digit": _DIGIT,
    "Alnum": _ranges("0-9A-Za-z"),
    "Punct": _ranges("!-/:-@[-`{-~"),
    "Graph": _ranges("!-~"),
    "Print": _ranges(" -~"),
    "Blank": _BLANK,
    "Cntrl": _ranges("\0-\x1f\x7f-\x7f"),
    "XDigit": _ranges("0-9A-Fa-f"),
    "Space": _SPACE,
}
_METHODS: dict[str, Callable[[str], bool]] = {
    "IsAlphabetic": str.isalpha,
    "javaLetter": str.isalpha,
    "IsLetter": str.isalpha,
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "IsLowercase": str.islower,
    "IsUppercase": str.isupper,
    "IsDigit": str.isdecimal,
    "javaDigit": str.isdecimal,
    "IsWhite_Space": str.isspace,
    "javaWhitespace": str.isspace,
}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_BRACES = re.compile(r"\{\d+(?:,\d*)?\}")
_FLAGS = {"i": "i", "s": "s", "m": "m", "x": "x", "d": "", "u": "", "U": ""}


@lru_cache(64)
def _property(name: str) -> Ranges | None:
    """The characters of a property, None for one that is not known here: a POSIX class, a category, a script of none."""
    if name in _POSIX:
        return _POSIX[name]
    import unicodedata

    if name in _METHODS:
        holds = _METHODS[name]
        return _merged([(at, at) for at in range(_ALL) if holds(chr(at))])
    category = name.removeprefix("Is") if len(name.removeprefix("Is")) <= 2 else name
    category = category.removeprefix("general_category=").removeprefix("gc=")
    if not re.fullmatch(r"[CLMNPSZ][a-z]?", category):
        return None
    return _merged([(at, at) for at in range(_ALL) if unicodedata.category(chr(at)).startswith(category)])


def _written(ranges: Ranges) -> str:
    """Characters as a class of Python's."""
    if not ranges:
        return "(?!)"
    if ranges == ((0, _ALL - 1),):
        return r"[\s\S]"
    parts = (f"{_one(low)}-{_one(high)}" if low < high else _one(low) for low, high in ranges)
    return f"[{''.join(parts)}]"


def _one(code: int) -> str:
    return f"\\U{code:08x}"


@dataclass(slots=True)
class _Reader:
    """Reads a pattern of Java's from its begin, and writes Python's."""

    text: str
    at: int = 0
    groups: int = 0
    closed: int = 0
    """How many groups have ended, so that what they matched can be referred to."""
    opened: list[int] = field(default_factory=lambda: [0])
    """For each group that is open, how many groups of flags were opened in it."""

    def refuse(self, why: str) -> EvaluationError:
        return EvaluationError(f"Invalid regular expression pattern: {self.text} ({why} near index {self.at})")

    def peek(self, more: int = 0) -> str:
        place = self.at + more
        return self.text[place] if place < len(self.text) else ""

    def take(self) -> str:
        if self.at >= len(self.text):
            raise self.refuse("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str) -> str:
        found = self.text.find(end, self.at)
        if found < 0:
            raise self.refuse(f"{end} is missing")
        word, self.at = self.text[self.at : found], found + len(end)
        return word

    def whole(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            parts.append(self._repetition(parts) if self.peek() == "{" else self._piece())
        if len(self.opened) > 1:
            raise self.refuse("Unclosed group")
        return "".join([*parts, ")" * self.opened[0]])

    def _repetition(self, before: list[str]) -> str:
        """A repetition in braces, as it is."""
        found = _BRACES.match(self.text, self.at)
        if found is None or not before:
            raise self.refuse("Illegal repetition")
        self.at = found.end()
        return found[0]

    def _piece(self) -> str:
        each = self.take()
        if each == "\\":
            return self._escape()
        if each == "[":
            return _written(self._class())
        if each == "(":
            return self._open()
        if each == ")":
            if len(self.opened) == 1:
                raise self.refuse("Unmatched closing ')'")
            self.closed = self.groups
            return ")" * (self.opened.pop() + 1)
        if each in "^$":
            return self._asserted(each)
        if each in "*+?|.":
            return each
        return re.escape(each)

    def _asserted(self, text: str) -> str:
        """A place without width, which Python repeats in a group only."""
        return f"(?:{text})" if self.peek() in ("*", "+", "?", "{") else text

    def _open(self) -> str:
        if self.peek() != "?":
            self.groups += 1
            self.opened.append(0)
            return "("
        self.at += 1
        if self.peek() == "<" and self.peek(1) not in ("=", "!"):
            self.at += 1
            self.groups += 1
            self.opened.append(0)
            return f"(?P<{self.until('>')}>"
        for begin in ("<=", "<!", ":", "=", "!", ">"):
            if self.text.startswith(begin, self.at):
                self.at += len(begin)
                self.opened.append(0)
                return f"(?{begin}"
        return self._flags()

    def _flags(self) -> str:
        found = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])").match(self.text, self.at)
        if found is None or set((found[1] or "") + (found[2] or "")) - _FLAGS.keys():
            raise self.refuse("Unknown inline modifier")
        self.at = found.end()
        on = "".join(_FLAGS[each] for each in found[1])
        off = "".join(_FLAGS[each] for each in found[2] or "")
        begin = f"(?{on}{f'-{off}' if off else ''}:" if on or off else "(?:"
        if found[3] == ":":
            self.opened.append(0)
            return begin
        self.opened[-1] += 1  # flags without a group hold until the one that they stand in ends
        return begin

    def _escape(self) -> str:
        each = self.take()
        if each == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
            self.at = len(self.text) if end < 0 else end + 2
            return "".join(map(re.escape, quoted))
        if each == "E":
            return ""
        if each == "B":
            return self._asserted(r"(?!\b)")
        if each in "bA":
            return self._asserted(f"\\{each}")
        if each == "z":
            return self._asserted(r"\Z")
        if each == "Z":
            return r"(?=(?:\r\n|[\n\r\u0085\u2028\u2029])?\Z)"
        if each == "R":
            return r"(?:\r\n|[\n-\r\u0085\u2028\u2029])"
        if each == "k" and self.peek() == "<":
            self.at += 1
            return f"(?:(?P={self.until('>')}))"
        if each in "123456789":
            number = self._number(each)
            return f"(?:\\{number})" if int(number) <= self.closed else "(?!)"
        if each in "GXN":
            raise self.refuse(f"\\{each} is not known here")
        self.at -= 2
        return _written(self._member())

    def _number(self, digit: str) -> str:
        """A group's number: as many digits as there are groups for."""
        while self.peek().isdigit() and int(digit + self.peek()) <= max(self.groups, 1):
            digit += self.take()
        return digit

    def _member(self) -> Ranges:
        """The characters of what stands in a class, or alone: a character, an escape of one, or of many."""
        each = self.take()
        if each != "\\":
            return ((ord(each), ord(each)),)
        each = self.take()
        if each.lower() in _SHORT:
            found = _SHORT[each.lower()]
            return found if each.islower() else _without(found)
        if each in "pP":
            name = self.take()
            if name == "{":
                name = self.until("}")
            known = _property(name)
            if known is None:
                raise self.refuse(f"Unknown character property name {{{name}}}")
            return known if each == "p" else _without(known)
        code = self._code(each)
        return ((code, code),)

    def _code(self, each: str) -> int:
        if each in _ESCAPES:
            return ord(_ESCAPES[each])
        if each == "x" and self.peek() == "{":
            self.at += 1
            return self._based(self.until("}"), 16)
        if each in "xu":
            size = 2 if each == "x" else 4
            word, self.at = self.text[self.at : self.at + size], self.at + size
            return self._based(word if len(word) == size else "", 16)
        if each == "0":
            found = re.compile(r"[0-3]?[0-7]{1,2}").match(self.text, self.at)
            if found is None:
                raise self.refuse("Illegal octal escape sequence")
            self.at = found.end()
            return int(found[0], 8)
        if each == "c":
            return ord(self.take()) ^ 64
        if each.isascii() and each.isalnum():
            raise self.refuse("Illegal/unsupported escape sequence")
        return ord(each)

    def _based(self, word: str, base: int) -> int:
        try:
            found = int(word, base)
        except ValueError:
            raise self.refuse("Illegal hexadecimal escape sequence") from None
        if not 0 <= found < _ALL:
            raise self.refuse("Hexadecimal codepoint is too big")
        return found

    def _class(self) -> Ranges:
        """The characters of a class, which begins behind its bracket; `&&` are those that both sides have."""
        negated = self.peek() == "^"
        self.at += negated
        whole: Ranges | None = None
        part: Ranges = ()
        first = True
        while True:
            if self.peek() == "]" and not first:
                self.at += 1
                break
            if self.text.startswith("&&", self.at):
                self.at += 2
                whole, part = part if whole is None else _both(whole, part), ()
                continue
            part = _merged([*part, *self._element()])
            first = False
        found = part if whole is None else _both(whole, part)
        return _without(found) if negated else found

    def _element(self) -> Ranges:
        if self.text.startswith("\\Q", self.at):
            self.at += 2
            return _merged([(ord(each), ord(each)) for each in self.until("\\E")])
        if self.peek() == "[":
            self.at += 1
            return self._class()
        low = self._member()
        single = len(low) == 1 and low[0][0] == low[0][1]
        if not single or self.peek() != "-" or self.peek(1) in ("]", "", "["):
            return low
        self.at += 1
        high = self._member()
        if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
            raise self.refuse("Illegal character range")
        return ((low[0][0], high[0][0]),)


@lru_cache(256)
def java_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of java.util.regex; raises EvaluationError for what is none."""
    if len(pattern) > PATTERN_MAX:
        raise EvaluationError(f"a pattern has at most {PATTERN_MAX} characters")
    given = _Reader(pattern).whole()
    try:
        return re.compile(given, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise EvaluationError(f"Invalid regular expression pattern: {pattern} ({error})") from None


@lru_cache(256)
def _replacement(new: str, groups: int, names: tuple[str, ...]) -> tuple[str | int, ...]:
    """A replacement as texts and groups; raises EvaluationError for one that names no group."""
    parts: list[str | int] = []
    at = 0
    while at < len(new):
        each = new[at]
        at += 1
        if each == "\\":
            if at == len(new):
                raise EvaluationError("character to be escaped is missing")
            parts.append(new[at])
            at += 1
        elif each != "$":
            parts.append(each)
        elif new.startswith("{", at) and (end := new.find("}", at)) > 0 and new[at + 1 : end] in names:
            parts.append(-1 - names.index(new[at + 1 : end]))
            at = end + 1
        elif at < len(new) and new[at].isdigit() and int(new[at]) <= groups:
            number = int(new[at])
            at += 1
            while at < len(new) and new[at].isdigit() and number * 10 + int(new[at]) <= groups:
                number = number * 10 + int(new[at])
                at += 1
            parts.append(number)
        else:
            raise EvaluationError("Illegal group reference")
    return tuple(parts)


def replaced_all(pattern: str, text: str, new: str) -> str:
    """The text with every part that matches replaced, as `Matcher.replaceAll` does; raises EvaluationError."""
    known = java_pattern(pattern)
    names = tuple(known.groupindex)
    if known.search(text) is None:
        return text
    parts = _replacement(new, known.groups, names)

    def made(found: re.Match[str]) -> str:
        given = (each if isinstance(each, str) else found[each if each >= 0 else names[-1 - each]] for each in parts)
        return "".join(each or "" for each in given)

    found, at = [], 0
    for each in matches(known, text):
        found += [text[at : each.start()], made(each)]
        at = each.end()
    return "".join([*found, text[at:]])


def matches(known: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Every match as `Matcher.find` finds them: behind an empty one a character is left out."""
    at = 0
    while at <= len(text) and (found := known.search(text, at)) is not None:
        yield found
        at = found.end() + (found.end() == found.start())


def split(pattern: str, text: str) -> list[str]:
    """The parts of a text between what matches; those at the end that are empty are left out where a match may be empty."""
    known = java_pattern(pattern)
    if known.fullmatch("") is None:
        return _between(known, text)
    found = _between(known, text, skip_first_empty=True)
    while len(found) > 1 and not found[-1]:
        found.pop()
    return found


def _between(known: re.Pattern[str], text: str, *, skip_first_empty: bool = False) -> list[str]:
    found, at = [], 0
    for each in matches(known, text):
        if skip_first_empty and each.end() == 0:
            continue
        found.append(text[at : each.start()])
        at = each.end()
    return [*found, text[at:]]
