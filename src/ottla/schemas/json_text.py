"""JSON in and out, bounded, with numbers and text as Java's Jackson writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import NoReturn

from ottla.java import double_text
from ottla.schemas.interface import InvalidSchemaError, Limits
from ottla.schemas.references import utf8_bytes

__all__ = ["JsonValue", "json_double", "read_json", "text_of", "write_json"]

JsonValue = None | bool | int | float | Decimal | str | list["JsonValue"] | dict[str, "JsonValue"]

_DIGITS_MAX = 1_000
_EXPONENT_MAX = 1_000


def read_json(text: str, limits: Limits, *, exact: bool) -> JsonValue:
    """Return what a text says; numbers with a point or an exponent become Decimal where they must be exact, else float."""
    if utf8_bytes(text, "The text") > limits.text_bytes_max:
        raise InvalidSchemaError(f"The text is larger than {limits.text_bytes_max} bytes")
    try:
        value: JsonValue = json.loads(
            text, parse_int=_integer, parse_float=_exact if exact else float, parse_constant=_no_number
        )
    except RecursionError:
        raise InvalidSchemaError(f"Brackets are nested deeper than {limits.depth_max}") from None
    except ValueError as error:
        raise InvalidSchemaError(f"The text is not JSON: {error}") from None
    _walk(value, limits)
    return value


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise InvalidSchemaError(f"A number has more than {_DIGITS_MAX} digits")
    return int(digits)


def _exact(digits: str) -> Decimal:
    if len(digits) > _DIGITS_MAX:
        raise InvalidSchemaError(f"A number has more than {_DIGITS_MAX} digits")
    try:
        number = Decimal(digits)
    except InvalidOperation:  # an exponent of more digits than there are
        number = Decimal(f"1E{_EXPONENT_MAX + 1}")
    if abs(number.adjusted()) > _EXPONENT_MAX:
        raise InvalidSchemaError(f"A number has an exponent beyond {_EXPONENT_MAX}")
    return number


def _no_number(word: str) -> NoReturn:
    raise InvalidSchemaError(f"The text is not JSON: {word} is no number of its")


def _walk(value: JsonValue, limits: Limits) -> None:
    """Refuse what is nested too deeply, and text that is none."""
    level: list[JsonValue] = [value]
    depth = 0
    while level:
        if depth > limits.depth_max:
            raise InvalidSchemaError(f"Brackets are nested deeper than {limits.depth_max}")
        below: list[JsonValue] = []
        for each in level:
            if isinstance(each, dict):
                for key in each:
                    if not key.isascii():
                        utf8_bytes(key, "A name")
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, str) and not each.isascii():
                utf8_bytes(each, "A string")
        level = below
        depth += 1


_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text_of(text: str) -> str:
    """Return a string in quotes, escaped where JSON has to be."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    found = match.group()
    return _ESCAPES.get(found) or f"\\u{ord(found):04X}"


def write_json(value: JsonValue, *, sort: bool = False) -> str:
    """Return a value on one line without spaces, its keys in their order or sorted."""
    parts: list[str] = []
    _write(value, parts.append, sort)
    return "".join(parts)


def _write(value: JsonValue, put: Callable[[str], object], sort: bool) -> None:
    if isinstance(value, str):
        put(text_of(value))
    elif isinstance(value, dict):
        _write_object(value, put, sort)
    elif isinstance(value, list):
        put("[")
        for index, each in enumerate(value):
            if index:
                put(",")
            _write(each, put, sort)
        put("]")
    elif value is None:
        put("null")
    elif isinstance(value, bool):
        put("true" if value else "false")
    elif isinstance(value, float):
        put(json_double(value))
    else:
        put(str(value))


def _write_object(value: Mapping[str, JsonValue], put: Callable[[str], object], sort: bool) -> None:
    put("{")
    for index, key in enumerate(sorted(value) if sort else value):
        if index:
            put(",")
        put(text_of(key))
        put(":")
        _write(value[key], put, sort)
    put("}")


def json_double(number: float) -> str:
    """Return a number as Jackson writes it: as Java's Double.toString does, in quotes where JSON has no number for it."""
    text = double_text(number)
    return text if isfinite(number) else f'"{text}"'
