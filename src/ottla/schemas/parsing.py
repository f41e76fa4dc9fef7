"""From a text to a schema, whichever its format."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base import bring_extra
from ottla.schemas.interface import (
    DEFAULT_LIMITS,
    InvalidSchemaError,
    Limits,
    ParsedSchema,
    Resolve,
    SchemaReference,
    SchemaType,
)
from ottla.schemas.references import utf8_bytes

__all__ = ["parse"]


def parse(
    schema_type: SchemaType,
    text: str,
    references: Sequence[SchemaReference] = (),
    resolve: Resolve | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    new: bool = True,
) -> ParsedSchema:
    """Return the schema of a text; raises InvalidSchemaError, in bounded time, for whatever is none.

    `resolve` gives the text of a reference and what that text refers to in its turn (`Referenced`); it is asked once
    for each subject and version, and never called where there are no references. `new=False` is for what a registry
    holds already: defaults of Avro's that do not fit their type are let pass then, as Confluent's does.
    """
    if utf8_bytes(text, "The schema") > limits.text_bytes_max:
        raise InvalidSchemaError(f"The schema is larger than {limits.text_bytes_max} bytes")
    if not text.strip():
        raise InvalidSchemaError("The schema is empty")
    ask = resolve or _nothing
    try:
        return _parsed(schema_type, text, references, ask, limits, new)
    except ModuleNotFoundError as error:
        advice = f"the Python package {error.name}, which is not installed: {bring_extra('registry')}"
        raise InvalidSchemaError(f"{schema_type} schemas need {advice}") from error


def _parsed(
    schema_type: SchemaType, text: str, references: Sequence[SchemaReference], ask: Resolve, limits: Limits, new: bool
) -> ParsedSchema:
    """Parse with a format's own modules, imported late: who uses one format need not have the others' libraries."""
    if schema_type is SchemaType.AVRO:
        from ottla.schemas.avro.schema import parse_avro

        return parse_avro(text, references, ask, limits=limits, new=new)
    if schema_type is SchemaType.JSON:
        from ottla.schemas.json_schema.schema import parse_json_schema

        return parse_json_schema(text, references, ask, limits=limits)
    from ottla.schemas.protobuf.schema import parse_protobuf

    return parse_protobuf(text, references, ask, limits=limits)


def _nothing(reference: SchemaReference) -> str:
    raise InvalidSchemaError(f"There is nothing to look the reference {reference.name!r} up in")
