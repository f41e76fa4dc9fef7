"""Columns whose values are hidden or cut short: `column.mask.…` and `column.truncate.…` under Debezium's names. Pure.

As in Debezium a mask is for columns of text, `masked` or `truncateLength` stands among the parameters of the field's schema,
and of several rules that match a column the first one counts: those that cut before those that mask.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ottla.connect import ConnectError, JavaPattern, PatternError, compile_java
from ottla.connect.data import SchemaBuilder
from ottla.connectors.cdc.column_kinds import ColumnKind

__all__ = ["ColumnRule", "column_rules"]

_TRUNCATE: Final = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_MASK: Final = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_HASH: Final = re.compile(r"column\.mask\.hash\.(v2\.)?([^.]+)\.with\.salt\.(.+)")
_SHORT_MAX: Final = 0xFFFF
Change = Callable[[Any], Any]
"""What a written value becomes; None for null."""


class HiddenType(Protocol):
    """What a rule wants to know of a column's type, of whichever database."""

    @property
    def is_text(self) -> bool:
        """Whether its values are texts that can be hidden."""
        ...

    @property
    def is_bytes(self) -> bool:
        """Whether its values are bytes."""
        ...

    @property
    def length(self) -> int:
        """The most characters of a text; not positive where that is not said."""
        ...


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """One setting: whose names match, and what becomes of them. `length` is a mask's, or of what is left; 0 of a hash."""

    name: str
    patterns: Sequence[JavaPattern]
    kind: str
    length: int = 0
    algorithm: str = ""
    salt: bytes = b""
    serialized: bool = True
    """Whether what is hashed is the text as Java serializes it (Debezium's first way), or its UTF-8."""

    def matches(self, column: str) -> bool:
        """Whether it is for a column, by its whole name: `schema.table.column`."""
        return any(each.fullmatch(column) for each in self.patterns)

    def hides(self, type_: HiddenType) -> bool:
        """Whether it changes values of a type."""
        most = type_.length
        if self.kind == "truncate":
            return type_.is_bytes or (type_.is_text and not 0 < most <= self.length)
        return type_.is_text

    def applied(self, kind: ColumnKind, type_: HiddenType) -> ColumnKind:
        """Return how a column is written under the rule."""
        if not self.hides(type_):
            return kind if self.kind == "truncate" else replace(kind, builder=self._told(kind.builder))
        change, parse = self._change(type_), kind.parse
        return replace(
            kind,
            builder=self._told(kind.builder),
            parse=lambda raw: change(parse(raw)),
            unavailable=change(kind.unavailable),
            zero=change(kind.zero),
            null=change(None),
            column=None,
        )

    def _told(self, builder: Callable[[], SchemaBuilder]) -> Callable[[], SchemaBuilder]:
        name, value = ("truncateLength", str(self.length)) if self.kind == "truncate" else ("masked", "true")
        return lambda: builder().parameter(name, value)

    def _change(self, type_: HiddenType) -> Change:
        if self.kind == "mask":
            mask = "*" * self.length
            return lambda value: mask
        if self.kind == "truncate":
            return lambda value: value[: self.length] if isinstance(value, str | bytes) else value
        most = type_.length
        return lambda value: None if value is None else self._hashed(str(value))[: most if most > 0 else None]

    def _hashed(self, text: str) -> str:
        data = _serialized(text) if self.serialized else text.encode()
        return hashlib.new(self.algorithm, self.salt + data).hexdigest()


def column_rules(props: Mapping[str, Any]) -> list[ColumnRule]:
    """Return the rules of a configuration, in the order in which they count; raises ConnectError for one that is none."""
    found: list[tuple[int, ColumnRule]] = []
    for name in sorted(each for each in props if each.startswith(("column.mask.", "column.truncate."))):
        patterns = _patterns(name, str(props[name] or ""))
        if (match := _TRUNCATE.fullmatch(name)) is not None:
            if int(match[1]) < 1:
                raise ConnectError(f"{name}: a value is cut to one character at least")
            found.append((0, ColumnRule(name, patterns, "truncate", int(match[1]))))
        elif (match := _MASK.fullmatch(name)) is not None:
            found.append((1, ColumnRule(name, patterns, "mask", int(match[1]))))
        elif (match := _HASH.fullmatch(name)) is not None:
            algorithm = match[2].lower().replace("-", "")
            if algorithm not in hashlib.algorithms_available or algorithm.startswith("shake"):
                raise ConnectError(f"{name}: {match[2]} is no digest that is known here, as SHA-256 is")
            rule = ColumnRule(name, patterns, "hash", 0, algorithm, match[3].encode(), serialized=match[1] is None)
            found.append((2, rule))
        else:
            raise ConnectError(
                f"{name} is no setting: column.truncate.to.LENGTH.chars, column.mask.with.LENGTH.chars and "
                "column.mask.hash.ALGORITHM.with.salt.SALT are"
            )
    return [rule for _, rule in sorted(found, key=lambda each: each[0])]


def _patterns(name: str, text: str) -> list[JavaPattern]:
    try:
        found = [compile_java(f"(?i){each.strip()}") for each in re.split(r"(?<!\\),", text) if each.strip()]
    except PatternError as error:
        raise ConnectError(f"{name}: {text!r} are no regular expressions: {error}") from error
    if not found:
        raise ConnectError(f"{name} names no columns: regular expressions of schema.table.column, between commas")
    return found


def _serialized(text: str) -> bytes:
    """Return a text as Java's `ObjectOutputStream` writes it (Java Object Serialization Specification, chapter 6)."""
    units = text.encode("utf-16-be", "surrogatepass")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    data = b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in pairs)
    size = b"t" + len(data).to_bytes(2, "big") if len(data) <= _SHORT_MAX else b"|" + len(data).to_bytes(8, "big")
    return b"\xac\xed\x00\x05" + size + data
