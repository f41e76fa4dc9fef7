"""Functions of texts that hold JSON. What is no JSON gives null, never an error."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

from ottla.base import ExactDecoder
from ottla.java import SizedMap, double_text, hash_ordered
from ottla.sql.errors import EvaluationError
from ottla.sql.functions.registry import scalar
from ottla.sql.functions.signatures import ArgumentType
from ottla.sql.types import ArrayType, MapType, SqlType, StructType

_MISSING = object()
PLACE_DIGITS_MAX = 10
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,10})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_DECODER = ExactDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_CONTROL = re.compile(r"\\u00[0-9a-f]{2}")
_ENDED = re.compile(r"[\s,\]}]|$")


def _parsed(text: str | None) -> Any:
    """The JSON that a text begins with, or a marker where it has none; raises EvaluationError for what is no JSON."""
    start = _SPACE.match(text or "")
    assert start is not None
    if not text or start.end() == len(text):
        return _MISSING
    try:
        value, end = _DECODER.raw_decode(text, start.end())
    except ValueError:
        raise EvaluationError(f"Invalid JSON format:{text}") from None
    if not isinstance(value, str | list | dict) and not _ENDED.match(text, end):
        raise EvaluationError(f"Invalid JSON format:{text}")
    return value


def quoted(text: str) -> str:
    """A text as Jackson writes it in JSON."""
    found = json.dumps(text, ensure_ascii=False)
    return _CONTROL.sub(lambda each: "\\u" + each[0][2:].upper(), found) if "\\u00" in found else found


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{quoted(key)}:{_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, str):
        return quoted(value)
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _place(step: str) -> int:
    return int(step) if step.isascii() and step.isdigit() and len(step) <= PLACE_DIGITS_MAX else -1


def _steps(path: str) -> tuple[str | int, ...]:
    return _kept(path) if len(path) <= KEPT_LETTERS_MAX else _parsed_path(path)


def _parsed_path(path: str) -> tuple[str | int, ...]:
    """The fields and places of a path as `$.a.b[0]`; raises EvaluationError for one that says more."""
    if not path.startswith("$"):
        raise EvaluationError(f"Invalid path: {path}. The path must begin with $")
    at, found = 1, list[str | int]()
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise EvaluationError(f"Invalid path: {path}. Only fields and places are known, as in $.a.b[0]")
        found.append(
            int(step[2]) if step[2] is not None else next(each for each in step.group(1, 3, 4) if each is not None)
        )
        at = step.end()
    return tuple(found)


KEPT_LETTERS_MAX = 1000
"""Of a path that is kept for the next row; a row's own text may be a longer one."""
_kept = lru_cache(256)(_parsed_path)


@scalar("EXTRACTJSONFIELD", "STRING, STRING -> STRING")
def extract_json_field(text: str, path: str) -> str | None:
    """What stands at a path of a JSON text: a text as it is, anything else as JSON, `null` among it."""
    steps = _steps(path)
    value = _parsed(text)
    for step in steps:
        if isinstance(value, list):
            place = step if isinstance(step, int) else _place(step)
            value = value[place] if 0 <= place < len(value) else _MISSING
        else:
            value = value.get(str(step), _MISSING) if isinstance(value, dict) else _MISSING
    if value is _MISSING:
        return "" if not steps else None
    return value if isinstance(value, str) else _text(value)


@scalar("IS_JSON_STRING", "STRING -> BOOLEAN", nulls=True)
def is_json_string(text: str | None) -> bool:
    """True where a text is JSON."""
    try:
        return _parsed(text) is not _MISSING
    except EvaluationError:
        return False


@scalar("JSON_ARRAY_LENGTH", "STRING -> INTEGER")
def json_array_length(text: str) -> int | None:
    """How many elements a JSON array has; null for what is none."""
    value = _parsed(text)
    return len(value) if isinstance(value, list) else None


@scalar("JSON_ARRAY_CONTAINS", "STRING, T -> BOOLEAN", nulls=True)
def json_array_contains(text: str | None, wanted: object) -> bool:
    """True where an element of a JSON array is a value of the same type, or null where that is asked for."""
    try:
        value = _parsed(text)
    except EvaluationError:
        return False
    if not isinstance(value, list):
        return False
    if isinstance(wanted, float):
        return any(isinstance(each, Decimal) and float(each) == wanted for each in value)
    return any(type(each) is type(wanted) and each == wanted for each in value)


@scalar("JSON_KEYS", "STRING -> ARRAY<STRING>")
def json_keys(text: str) -> list[str] | None:
    """The names of a JSON object's fields; null for what is none."""
    value = _parsed(text)
    return list(value) if isinstance(value, dict) else None


@scalar("JSON_RECORDS", "STRING -> MAP<STRING, STRING>")
def json_records(text: str) -> dict[object, object] | None:
    """A JSON object's fields, texts as they are and other values as JSON; null for what is none."""
    value = _parsed(text)
    if not isinstance(value, dict):
        return None
    texts = {key: each if isinstance(each, str) else _text(each) for key, each in value.items()}
    return SizedMap({key: texts[key] for key in hash_ordered(texts, len(texts))}, len(texts))


@scalar("JSON_ITEMS", "STRING -> ARRAY<STRING>")
def json_items(text: str) -> list[str]:
    """A JSON array's elements as JSON; what is none is an error."""
    value = _parsed(text)
    if not isinstance(value, list):
        raise EvaluationError(f"Invalid JSON format:{text}")
    return [_text(each) for each in value]


@scalar("JSON_CONCAT", "STRING… -> STRING")
def json_concat(*texts: str) -> str | None:
    """Objects become one with the fields of all, anything else one array; null where one is no JSON."""
    values = [_parsed(text) for text in texts]
    if any(value is _MISSING for value in values):
        return None
    if all(isinstance(value, dict) for value in values):
        return _text({key: each for value in values for key, each in value.items()})
    return _text([each for value in values for each in (value if isinstance(value, list) else [value])])


@scalar("TO_JSON_STRING", "T -> STRING", typed=True)
def to_json_string(types: Sequence[ArgumentType]) -> Callable[[object], str]:
    """A value of any type as JSON: fields and keys in order, bytes in base64, dates and times as texts."""
    from ottla.sql.expressions.texts import value_text  # it stands on functions itself

    def written(value: object, type_: SqlType) -> str:
        if value is None:
            return "null"
        if isinstance(type_, ArrayType):
            return f"[{','.join(written(each, type_.item) for each in cast(list[object], value))}]"
        if isinstance(type_, MapType):
            entries = {value_text(key, type_.key): each for key, each in cast(dict[object, object], value).items()}
            return _object({name: written(each, type_.value) for name, each in entries.items()})
        if isinstance(type_, StructType):
            given = cast(dict[str, object], value)
            return _object({name: written(given.get(name), of) for name, of in type_.fields})
        if isinstance(value, bytes):
            return quoted(base64.b64encode(value).decode())
        if isinstance(value, float):
            return double_text(value) if math.isfinite(value) else quoted(double_text(value))
        text = value_text(value, type_)
        return text if type_.base in _BARE else quoted(text)

    known = types[0]
    return lambda value: "null" if value is None else written(value, cast(SqlType, known))


_BARE = ("BOOLEAN", "INTEGER", "BIGINT", "DECIMAL")


def _object(fields: dict[str, str]) -> str:
    return "{" + ",".join(f"{quoted(name)}:{fields[name]}" for name in sorted(fields)) + "}"
