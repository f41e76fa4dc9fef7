"""Whether one schema reads what another wrote, and what that says of a subject's versions at each level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import cast

from ottla.schemas.interface import Incompatibility, ParsedSchema, SchemaType

__all__ = ["Level", "check", "incompatibilities"]

_SCHEMA_CHARS_MAX = 10 * 1024
"""How much of an older schema a message shows."""


class Level(StrEnum):
    """How a subject's versions must fit together."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


def incompatibilities(reader: ParsedSchema, writer: ParsedSchema) -> list[Incompatibility]:
    """Return why a reader with one schema cannot take what was written with the other; empty where it can."""
    if reader.schema_type != writer.schema_type:
        sentence = "The {reader} schema is of another format than the {writer} schema: {info}"
        return [Incompatibility("TYPE_CHANGED", "/", sentence, f"{reader.schema_type} after {writer.schema_type}")]
    return _comparison(reader.schema_type)(reader, writer)


def check(level: Level, new: ParsedSchema, older: Sequence[tuple[int, ParsedSchema]]) -> list[str]:
    """Return why a new schema must not follow the older ones (version and schema, oldest first); empty where it may.

    The latest is looked at first, and at a transitive level the others backwards from there; what is said is about the
    first that does not fit: the reasons, its version and its text.
    """
    if level is Level.NONE:
        return []
    transitive = level.endswith("_TRANSITIVE")
    for version, schema in reversed(older if transitive else older[-1:]):
        messages: list[str] = []
        if level.startswith(("FORWARD", "FULL")):
            messages += [each.message(reader="old", writer="new") for each in incompatibilities(schema, new)]
        if level.startswith(("BACKWARD", "FULL")):
            messages += [each.message(reader="new", writer="old") for each in incompatibilities(new, schema)]
        if messages:
            return [*messages, f"{{oldSchemaVersion: {version}}}", f"{{oldSchema: {_shown(schema.canonical())}}}"]
    return []


def _shown(text: str) -> str:
    if len(text) <= _SCHEMA_CHARS_MAX:
        return f"'{text}'"
    return f"<truncated to {_SCHEMA_CHARS_MAX} characters> '{text[:_SCHEMA_CHARS_MAX]}'"


_Comparison = Callable[[ParsedSchema, ParsedSchema], list[Incompatibility]]


def _comparison(schema_type: SchemaType) -> _Comparison:
    """Return a format's comparison; imported late, since who uses one format need not have the others' libraries."""
    if schema_type is SchemaType.AVRO:
        from ottla.schemas.avro.compatibility import avro_incompatibilities

        return cast(_Comparison, avro_incompatibilities)
    if schema_type is SchemaType.JSON:
        from ottla.schemas.json_schema.differences import json_incompatibilities

        return cast(_Comparison, json_incompatibilities)
    from ottla.schemas.protobuf.differences import protobuf_incompatibilities

    return cast(_Comparison, protobuf_incompatibilities)
