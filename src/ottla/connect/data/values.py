"""What values are: the schema that one shows, the value that a text says, and either in another type.

Connect reads and writes header values with these.
"""

from __future__ import annotations

from typing import Any

from ottla.connect.data.builder import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    SchemaBuilder,
)
from ottla.connect.data.conversions import convert, convert_present, is_moment
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import SchemaAndValue, schema_type_of
from ottla.connect.data.value_parser import parse_text

__all__ = ["convert_to", "infer_schema", "parse_value"]

_PLAIN = {
    SchemaType.INT8: INT8,
    SchemaType.INT16: INT16,
    SchemaType.INT32: INT32,
    SchemaType.INT64: INT64,
    SchemaType.FLOAT32: FLOAT32,
    SchemaType.FLOAT64: FLOAT64,
    SchemaType.BOOLEAN: BOOLEAN,
    SchemaType.STRING: STRING,
    SchemaType.BYTES: BYTES,
}


def parse_value(text: str | None) -> SchemaAndValue:
    """Return the value that a text most narrowly says, with its schema; a text that says nothing else is itself."""
    return SchemaAndValue(None, None) if text is None else parse_text(text)


def convert_to(to: Schema, origin: Schema | None, value: Any) -> Any:
    """Return a value in another type; `origin` is its own schema where known. Raises DataError where it cannot be.

    A text becomes the time, truth value, list or map that it says.
    """
    if isinstance(value, str):
        return convert_present(to, origin, _said(to, value))
    return convert(to, origin, value)


def _said(to: Schema, text: str) -> Any:
    """Return what a text says where a value of its own kind is wanted, else the text."""
    if is_moment(to) or to.type in (SchemaType.ARRAY, SchemaType.MAP):
        return parse_text(text).value
    if to.type is SchemaType.BOOLEAN and isinstance(parsed := parse_text(text).value, bool):
        return parsed
    return text


def infer_schema(value: Any) -> Schema | None:
    """Return the schema that a value without one shows, or None where it shows none."""
    type_ = schema_type_of(value)
    if type_ is SchemaType.ARRAY:
        element = _common(value)
        return SchemaBuilder.array(element).build() if value and element is not None else None
    if type_ is SchemaType.MAP:
        key, each = _common(list(value)), _common(list(value.values()))
        return SchemaBuilder.map(key, each).build() if value and key is not None and each is not None else None
    if type_ is SchemaType.STRUCT:
        found: Schema = value.schema
        return found
    return None if type_ is None else _PLAIN[type_]


def _common(values: list[Any]) -> Schema | None:
    """Return the schema of the one type that all values have; None where they have several, or no type."""
    schemas = [infer_schema(each) for each in values if each is not None]
    types = {schema.type for schema in schemas if schema is not None}
    if len(types) != 1 or None in schemas:
        return None
    builder = SchemaBuilder(types.pop())
    return (builder.optional() if len(schemas) < len(values) else builder).build()
