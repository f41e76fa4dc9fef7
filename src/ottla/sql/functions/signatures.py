"""Signatures of functions as text, and which of them given arguments fit.

`ARRAY<T>, T -> BOOLEAN`: parameters, an arrow, what is returned. One upper-case letter is any type, the same wherever the
letter stands; `…` after a parameter takes any number more of it; `A => R` is a lambda, `A, B => R` in brackets one of two
parameters; `UNIT` a unit of time, `DECIMAL` one of any precision, `ANY` whatever comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from ottla.sql.errors import SqlError
from ottla.sql.types import (
    NUMBERS,
    PRIMITIVES,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
    is_number,
)


class Unit:
    """The type of a unit of time, which no column has."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


UNIT: Final = Unit()


@dataclass(frozen=True, slots=True)
class LambdaType:
    """A lambda's parameters and what its body is; None where that is not known, or null."""

    parameters: tuple[SqlType | None, ...]
    result: SqlType | None

    def __str__(self) -> str:
        return "LAMBDA"


ArgumentType = SqlType | LambdaType | Unit | None
"""What an argument is: a value of a type, NULL (None), a lambda, or a unit of time."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parameter: its name (a base type, a letter, ANY, UNIT, LAMBDA) and the patterns inside it."""

    name: str
    parts: tuple[Pattern, ...] = ()
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.name == "LAMBDA":
            names = [str(part) for part in self.parts]
            left = names[0] if len(names) == 2 else f"({', '.join(names[:-1])})"
            return f"LAMBDA {left} => {names[-1]}"
        if self.name == "STRUCT":
            return "STRUCT<" + ", ".join(f"{a} {b}" for a, b in zip(self.fields, self.parts, strict=True)) + ">"
        name = {"INTEGER": "INT", "STRING": "VARCHAR", "UNIT": "INTERVALUNIT"}.get(self.name, self.name)
        return f"{name}<{', '.join(map(str, self.parts))}>" if self.parts else name


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters, the one of them that may be repeated, and what it returns."""

    parameters: tuple[Pattern, ...]
    repeated: int | None
    returns: Pattern

    def patterns(self, count: int) -> tuple[Pattern, ...] | None:
        """The patterns of so many arguments; None where it does not take so many."""
        if self.repeated is None:
            return self.parameters if count == len(self.parameters) else None
        more = count - (len(self.parameters) - 1)
        if more < 0:
            return None
        before, after = self.parameters[: self.repeated], self.parameters[self.repeated + 1 :]
        return (*before, *((self.parameters[self.repeated],) * more), *after)

    def text(self, name: str) -> str:
        """The signature as messages show it."""
        shown = [f"{each}{'...' if at == self.repeated else ''}" for at, each in enumerate(self.parameters)]
        return f"{name}({', '.join(shown)})"


_TOKEN = re.compile(r"\s*(=>|->|…|[A-Za-z_]\w*|[<>(),])")


@cache
def signature(text: str) -> Signature:
    """Read a signature."""
    tokens = _TOKEN.findall(text)
    parameters: list[Pattern] = []
    repeated = None
    at = 0
    while tokens[at] != "->":
        if tokens[at] == ",":
            at += 1
        pattern, at = _pattern(tokens, at)
        if tokens[at] == "…":
            repeated, at = len(parameters), at + 1
        parameters.append(pattern)
    returns, _ = _pattern(tokens, at + 1)
    return Signature(tuple(parameters), repeated, returns)


def _pattern(tokens: list[str], at: int) -> tuple[Pattern, int]:
    if tokens[at] == "(":
        inner: list[Pattern] = []
        at += 1
        while tokens[at] != "=>":
            if tokens[at] in ",)":
                at += 1
                continue
            part, at = _plain(tokens, at)
            inner.append(part)
        result, at = _plain(tokens, at + 1)
        return Pattern("LAMBDA", (*inner, result)), at
    first, at = _plain(tokens, at)
    if at < len(tokens) and tokens[at] == "=>":
        result, at = _plain(tokens, at + 1)
        return Pattern("LAMBDA", (first, result)), at
    return first, at


def _plain(tokens: list[str], at: int) -> tuple[Pattern, int]:
    name = tokens[at]
    at += 1
    if name not in ("ARRAY", "MAP", "STRUCT") or at >= len(tokens) or tokens[at] != "<":
        return Pattern(name), at
    parts: list[Pattern] = []
    fields: list[str] = []
    while tokens[at] != ">":
        at += 1
        if name == "STRUCT":
            fields.append(tokens[at])
            at += 1
        part, at = _pattern(tokens, at)
        parts.append(part)
    return Pattern(name, tuple(parts), tuple(fields)), at + 1


Bound = dict[str, SqlType]
EXACT, WIDER, ANY_TYPE = 0, 1, 8
_OF_TEXTS = ("DATE", "TIME", "TIMESTAMP", "BYTES")
"""What a text becomes where no overload takes it as it is."""


def fit(pattern: Pattern, given: ArgumentType, bound: Bound) -> int | None:
    """How far an argument is from a parameter (0: as it says), None where it does not fit; letters are bound."""
    if given is None:
        return EXACT
    if isinstance(given, LambdaType):
        return _fit_lambda(pattern, given, bound)
    if isinstance(given, Unit) or pattern.name == "UNIT":
        return EXACT if isinstance(given, Unit) and pattern.name == "UNIT" else None
    if pattern.name == "ANY":
        return ANY_TYPE
    if len(pattern.name) == 1:
        return _fit_letter(pattern.name, given, bound)
    if pattern.name == given.base:
        return _fit_parts(pattern, given, bound)
    if is_number(given) and pattern.name in NUMBERS:
        steps = NUMBERS.index(PRIMITIVES[pattern.name].base if pattern.name in PRIMITIVES else "DECIMAL")
        steps -= NUMBERS.index(given.base)
        return WIDER * steps if steps > 0 else None
    return WIDER if given == STRING and pattern.name in _OF_TEXTS else None


def has_letters(pattern: Pattern) -> bool:
    """Whether a pattern takes values of more than one type."""
    return pattern.name == "ANY" or len(pattern.name) == 1 or any(map(has_letters, pattern.parts))


def _fit_letter(letter: str, given: SqlType, bound: Bound) -> int | None:
    known = bound.setdefault(letter, given)
    if known == given:
        return ANY_TYPE
    if is_number(known) and is_number(given):
        bound[letter] = max(known, given, key=lambda each: NUMBERS.index(each.base))
        return ANY_TYPE + WIDER if known.base != given.base else None
    return None


def _fit_parts(pattern: Pattern, given: SqlType, bound: Bound) -> int | None:
    if not pattern.parts:
        return EXACT
    inner: Sequence[SqlType]
    if isinstance(given, ArrayType):
        inner = (given.item,)
    elif isinstance(given, MapType):
        inner = (given.key, given.value)
    elif isinstance(given, StructType):
        if tuple(name for name, _ in given.fields) != pattern.fields:
            return None
        inner = tuple(type_ for _, type_ in given.fields)
    else:
        return EXACT
    found = [fit(each, type_, bound) for each, type_ in zip(pattern.parts, inner, strict=True)]
    if any(each is None or 0 < each < ANY_TYPE for each in found):  # elements are not converted
        return None
    return sum(each for each in found if each is not None)


def _fit_lambda(pattern: Pattern, given: LambdaType, bound: Bound) -> int | None:
    if pattern.name != "LAMBDA" or len(pattern.parts) != len(given.parameters) + 1:
        return None
    found = [
        fit(each, type_, bound) for each, type_ in zip(pattern.parts, (*given.parameters, given.result), strict=True)
    ]
    return None if None in found else EXACT


def made(pattern: Pattern, bound: Bound) -> SqlType:
    """The type that a pattern is, its letters bound; raises SqlError where one is not known."""
    if pattern.name in bound:
        return bound[pattern.name]
    if pattern.name in PRIMITIVES:
        return PRIMITIVES[pattern.name]
    parts = [made(part, bound) for part in pattern.parts]
    if pattern.name == "ARRAY":
        return ArrayType(parts[0])
    if pattern.name == "MAP":
        return MapType(parts[0], parts[1])
    if pattern.name == "STRUCT":
        return StructType(tuple(zip(pattern.fields, parts, strict=True)))
    if pattern.name == "DECIMAL":
        return DecimalType(38, 10)
    raise SqlError(f"Could not determine what type {pattern.name} is: all of its arguments are NULL")
