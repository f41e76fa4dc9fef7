"""The drafts of JSON Schema, and whether a document is valid in its own."""

from __future__ import annotations

import re
from typing import Any

import re2
from jsonschema import Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator
from referencing import Specification
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from ottla.schemas.interface import InvalidSchemaError
from ottla.schemas.json_text import JsonValue, write_json

__all__ = ["check_pattern", "check_validity", "linear_pattern", "specification_of"]

_DRAFTS: dict[str, tuple[Specification[Any], Any]] = {
    "json-schema.org/draft-04/schema": (DRAFT4, Draft4Validator),
    "json-schema.org/draft-06/schema": (DRAFT6, Draft6Validator),
    "json-schema.org/draft-07/schema": (DRAFT7, Draft7Validator),
    "json-schema.org/draft/2019-09/schema": (DRAFT201909, Draft201909Validator),
    "json-schema.org/draft/2020-12/schema": (DRAFT202012, Draft202012Validator),
}
_DEFAULT = "json-schema.org/draft-07/schema"
"""What a document without `$schema` is read as, as in Confluent's registry; also one whose `$schema` is nobody's here."""

_COMPARISONS_MAX = 4_000_000
"""Of values in lists that must not repeat and cannot be sorted."""
_PATTERN_CHARS_MAX = 10_000
_PATTERN_BYTES_MAX = 1 << 20
"""Of a pattern that is ready to search."""
_FLAGS = re.compile(r"\(\?[a-zA-Z-]+[:)]")
_SHOWN_MAX = 200


def specification_of(document: JsonValue) -> Specification[Any]:
    """Return the draft that a document is written in."""
    return _draft(document)[0]


def _draft(document: JsonValue) -> tuple[Specification[Any], Any]:
    named = document.get("$schema") if isinstance(document, dict) else None
    key = re.sub(r"^https?://|#$", "", named) if isinstance(named, str) else _DEFAULT
    return _DRAFTS.get(key, _DRAFTS[_DEFAULT])


def check_validity(document: JsonValue, *, most: int) -> int:
    """Return how many schemas a document may hold; raises InvalidSchemaError where it breaks the rules of its draft."""
    if not isinstance(document, dict | bool):
        raise InvalidSchemaError(f"A schema is an object, true or false, and not {_shown(document)}")
    schemas, comparisons = _weighed(document)
    if schemas > most:
        raise InvalidSchemaError(f"There are more schemas in it than the {most} that may be")
    if comparisons > _COMPARISONS_MAX:
        raise InvalidSchemaError("The lists of values (enum) are too long to be compared")
    validator = _draft(document)[1]
    try:
        error = next(validator(validator.META_SCHEMA).iter_errors(_plain(document)), None)
    except RecursionError:
        raise InvalidSchemaError("The schema is nested too deeply") from None
    if error is not None:
        where = "/".join(("#", *map(str, error.absolute_path)))
        raise InvalidSchemaError(f"Invalid JSON Schema at {where}: {error.message[:_SHOWN_MAX]}")
    return schemas


def _weighed(document: JsonValue) -> tuple[int, int]:
    """Return how many schemas there may be at most, and how many comparisons lists may cost that must not repeat.

    Those whose values are all text are sorted; others may have to be compared each with each.
    """
    pending: list[JsonValue] = [document]
    schemas = comparisons = 0
    while pending:
        each = pending.pop()
        schemas += isinstance(each, dict | bool)
        if isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list):
            pending += each
            if not all(isinstance(value, str) for value in each):
                comparisons += len(each) ** 2 // 2
    return schemas, comparisons


def _plain(value: Any) -> Any:
    """Return a value with numbers as the validators know them."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | str) else float(value)


def check_pattern(pattern: str) -> None:
    """Raise InvalidSchemaError where a pattern is a regular expression neither of RE2's nor of Python's."""
    if len(pattern) > _PATTERN_CHARS_MAX:
        raise InvalidSchemaError(f"A pattern has more than {_PATTERN_CHARS_MAX} characters")
    if linear_pattern(pattern) is not None or _FLAGS.search(pattern):
        return  # Python takes long over large ranges without regard to case, and the pattern is never searched with
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidSchemaError(f"Invalid pattern {pattern[:_SHOWN_MAX]!r}: {error}") from None


def linear_pattern(pattern: str) -> Any | None:
    """Return a pattern that searches in linear time, or None where it needs what only backtracking finds."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options=options)
    except re2.error:
        return None


def _shown(value: JsonValue) -> str:
    return write_json(value)[:_SHOWN_MAX]
