"""Reading a value out of text: literals, numbers, ISO times, lists and maps, in Connect's own little grammar."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ottla.connect.data.builder import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
)
from ottla.connect.data.conversions import convert, wrapped
from ottla.connect.data.java_text import Float32
from ottla.connect.data.logical import decimal_schema
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import SchemaAndValue
from ottla.connect.data.value_text import parse_decimal, parse_moment
from ottla.connect.errors import DataError

__all__ = ["parse_text"]

NESTING_MAX = 200
"""How deep lists and maps may lie in each other before the whole is taken as text."""

_DELIMITERS = ':,{}[]"'
_INTEGERS = ((INT8, 8), (INT16, 16), (INT32, 32), (INT64, 64))
_WIDER = [SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.FLOAT32, SchemaType.FLOAT64]


def parse_text(text: str) -> SchemaAndValue:
    """Return the value that a text most narrowly says; one that says nothing else is itself."""
    if not text:
        return SchemaAndValue(STRING, text)
    return _Reader(text).value(depth=0) or SchemaAndValue(None, None)


def _blank(text: str) -> bool:
    return not _trimmed(text)


def _trimmed(text: str) -> str:
    """Cut what Java's `trim` cuts: every character up to the space."""
    return text.strip("".join(map(chr, range(33))))


class _Tokens:
    """A text cut at unescaped delimiters, with one token of lookahead and a way back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._next: str | None = None
        self.previous: str | None = None

    def mark(self) -> int:
        return self.at - len(self._next or "")

    def rewind(self, position: int) -> None:
        self.at, self._next, self.previous = position, None, None

    def more(self) -> bool:
        return self._next is not None or self.at < len(self.text)

    def take(self) -> str:
        token = self._cut() if self._next is None else self._next
        self._next, self.previous = None, token
        return token

    def take_text(self, count: int) -> str | None:
        """Return the text of the next `count` tokens, or None and stay where there are fewer."""
        start = self.mark()
        for _ in range(count):
            if not self.more():
                self.rewind(start)
                return None
            self.take()
        return self.text[start : self.at]

    def skip(self, expected: str) -> bool:
        """Pass over the next token if it is the expected one between blanks; blank tokens are passed over anyway."""
        if self._next is None:
            if not self.more():
                return False
            self._next = self._cut()
        while _blank(self._next) and self.at < len(self.text):
            self._next = self._cut()
        if _trimmed(self._next) != expected:
            return False
        self._next = None
        return True

    def _cut(self) -> str:
        start, escaped = self.at, False
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in _DELIMITERS and not escaped:
                if start == self.at:
                    self.at += 1
                return self.text[start : self.at]
            escaped = character == "\\" and not escaped
            self.at += 1
        return self.text[start:]


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = _Tokens(text)

    def value(self, *, depth: int) -> SchemaAndValue | None:
        """Read one value; None says null, and nothing at all. `depth` is 0 outside of lists and maps."""
        tokens = self.tokens
        if not tokens.more():
            return None
        if depth and tokens.skip('"'):
            return self._quoted()
        for literal, meaning in (
            ("null", None),
            ("true", SchemaAndValue(BOOLEAN, True)),
            ("false", SchemaAndValue(BOOLEAN, False)),
        ):
            start = tokens.mark()
            if tokens.skip(literal) and (depth or not tokens.more()):
                return meaning
            tokens.rewind(start)
        structure = self._structure(depth)
        if structure is not None:
            return structure
        token = tokens.take()
        if _blank(token):
            return SchemaAndValue(STRING, token)
        return self._scalar(_trimmed(token), depth)

    def _structure(self, depth: int) -> SchemaAndValue | None:
        """Read a list or map, or go back and return None where there is none, or only a broken one."""
        start = self.tokens.mark()
        try:
            for opening, read in (("[", self._list), ("{", self._map)):
                if self.tokens.skip(opening):
                    return read(depth + 1)
        except DataError:
            self.tokens.rewind(start)
        return None

    def _scalar(self, token: str, depth: int) -> SchemaAndValue:
        if token[0].isdigit():
            start = self.tokens.mark()
            rest = self.tokens.take_text(4)
            found = None if rest is None else parse_moment(token + rest)
            if found is None:
                self.tokens.rewind(start)
                found = parse_moment(token)
            if found is not None:
                return found
        if token[0].isdigit() or token[0] in "+-":
            number = parse_decimal(token)
            if number is not None:
                return _number(number)
        if depth:
            raise DataError("Failed to parse embedded value")
        return SchemaAndValue(STRING, self.tokens.text)

    def _quoted(self) -> SchemaAndValue:
        content = ""
        while self.tokens.more() and not self.tokens.skip('"'):
            content += self.tokens.take()
        return parse_moment(content) or SchemaAndValue(STRING, content)

    def _list(self, depth: int) -> SchemaAndValue:
        elements: list[Any] = []
        tokens, common = self._deeper(depth), _Common()
        while tokens.more():
            if tokens.skip("]"):
                schema = common.schema
                if schema is not None:
                    elements = [convert(schema, None, each) for each in elements]
                return SchemaAndValue(Schema(SchemaType.ARRAY, value_schema=schema), elements)
            if tokens.skip(","):
                raise DataError(f"Unable to parse an empty array element: {tokens.text}")
            element = self.value(depth=depth)
            common.merge(element)
            elements.append(None if element is None else element.value)
            before = tokens.mark()
            if tokens.skip("]"):
                tokens.rewind(before)
            elif not tokens.skip(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {tokens.text}")

    def _map(self, depth: int) -> SchemaAndValue:
        entries: dict[Any, Any] = {}
        tokens, keys, values = self._deeper(depth), _Common(), _Common()
        while tokens.more():
            if tokens.skip("}"):
                return _mapping(keys.schema, values.schema, entries)
            if tokens.skip(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key = self.value(depth=depth)
            if key is None or key.value is None:
                raise DataError(f"Map entry may not have a null key: {tokens.text}")
            if not tokens.skip(":"):
                raise DataError(f"Map entry is missing ':' at {tokens.at} in {tokens.text}")
            value = self.value(depth=depth)
            entries[_hashable(key.value)] = None if value is None else value.value
            tokens.skip(",")
            keys.merge(key)
            values.merge(value)
        raise DataError(f"Map is missing terminating '}}': {tokens.text}")

    def _deeper(self, depth: int) -> _Tokens:
        if depth > NESTING_MAX:
            raise DataError(f"Lists and maps lie more than {NESTING_MAX} deep in each other")
        return self.tokens


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(each) for each in value)
    if isinstance(value, dict):
        raise DataError("A map cannot be the key of a map")
    return value


def _mapping(key: Schema | None, value: Schema | None, entries: dict[Any, Any]) -> SchemaAndValue:
    schema = Schema(SchemaType.MAP, key_schema=key, value_schema=value if key is not None else None)
    as_key: Callable[[Any], Any] = (lambda each: each) if key is None else lambda each: convert(key, None, each)
    if key is not None and value is not None:
        return SchemaAndValue(schema, {as_key(name): convert(value, None, each) for name, each in entries.items()})
    return SchemaAndValue(schema, {as_key(name): each for name, each in entries.items()})


class _Common:
    """The one schema that fits all values seen; None once two do not go together."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._possible = True

    def merge(self, latest: SchemaAndValue | None) -> None:
        if latest is None or latest.schema is None or not self._possible:
            return
        self.schema = latest.schema if self.schema is None else _wider(self.schema, latest.schema)
        self._possible = self.schema is not None


def _wider(one: Schema, other: Schema) -> Schema | None:
    if one.type is other.type:
        if one.optional == other.optional:
            return one if one.optional else other
        return one if one == other else None
    if one.type not in _WIDER or other.type not in _WIDER:
        return None
    return one if _WIDER.index(one.type) > _WIDER.index(other.type) else other


def _number(number: Decimal) -> SchemaAndValue:
    """Return a number in the narrowest type that holds it."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    magnitude = number.adjusted()
    if number == 0 or (0 <= magnitude <= 19 and number == number.to_integral_value()):
        whole = int(number)
        for schema, bits in _INTEGERS:
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return SchemaAndValue(schema, wrapped(whole, bits))
    if exponent != 0:
        for schema, narrow in ((FLOAT32, Float32(float(number))), (FLOAT64, float(number))):
            if narrow not in (float("inf"), float("-inf")):
                return SchemaAndValue(schema, narrow)
    return SchemaAndValue(decimal_schema(-exponent), number)
