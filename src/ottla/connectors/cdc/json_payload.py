"""JSON texts as structures: a schema that holds every value of a text, or none, and then the text stays one. Pure.

An array's elements share a schema: of objects it has the fields of all, of numbers the widest kind. What no schema holds
without loss (a text beside a number, a whole number beyond 64 bits, one beyond 2^53 beside a fraction) is refused.
"""

from __future__ import annotations

import json
from functools import reduce
from math import isfinite
from typing import Any

from ottla.connect import DataError, Schema, SchemaType
from ottla.connect.data import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    SchemaBuilder,
    Struct,
)

__all__ = ["expanded_json"]

_WHOLE = (SchemaType.INT32, SchemaType.INT64)


def expanded_json(text: str, name: str) -> tuple[Any, Schema] | None:
    """Return the value and schema of an object or a list, whose structs are called `name` and what follows it.

    None for another value, and for a list that shows no schema. Raises DataError for what no schema holds.
    """
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise DataError("it is no JSON") from None
    if not isinstance(found, dict | list):
        return None
    schema = _schema(found, name)
    return None if schema is None else (_value(found, schema), schema)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _schema(value: Any, name: str) -> Schema | None:
    """Return the schema of a value, None for null and for lists of nothing else."""
    match value:
        case bool():
            return OPTIONAL_BOOLEAN
        case int() if not -(1 << 63) <= value < 1 << 63:
            raise DataError(f"{name} has a whole number beyond 64 bits")
        case int():
            return OPTIONAL_INT32 if -(1 << 31) <= value < 1 << 31 else OPTIONAL_INT64
        case float() if not isfinite(value):
            raise DataError(f"{name} has a number that no double holds")
        case float():
            return OPTIONAL_FLOAT64
        case str():
            return OPTIONAL_STRING
        case list():
            found = [each for each in (_schema(each, name) for each in value) if each is not None]
            return SchemaBuilder.array(reduce(_common, found)).optional().build() if found else None
        case dict():
            builder = SchemaBuilder.struct().name(name).optional()
            for key, each in value.items():
                if (own := _schema(each, f"{name}.{key}")) is not None:
                    builder.field(key, own)
            return builder.build()
    return None


def _common(one: Schema, other: Schema) -> Schema:
    """Return the schema that holds the values of both; raises DataError where there is none."""
    if one == other:
        return one
    if one.type is SchemaType.STRUCT and other.type is SchemaType.STRUCT:
        fields = {each.name: each.schema for each in one.fields}
        for each in other.fields:
            fields[each.name] = _common(fields[each.name], each.schema) if each.name in fields else each.schema
        builder = SchemaBuilder.struct().name(one.name).optional()
        for name, schema in fields.items():
            builder.field(name, schema)
        return builder.build()
    if one.type is SchemaType.ARRAY and other.type is SchemaType.ARRAY:
        assert one.value_schema is not None and other.value_schema is not None
        return SchemaBuilder.array(_common(one.value_schema, other.value_schema)).optional().build()
    kinds = {one.type, other.type}
    if kinds <= {*_WHOLE}:
        return OPTIONAL_INT64
    if kinds <= {*_WHOLE, SchemaType.FLOAT64}:
        return OPTIONAL_FLOAT64
    raise DataError(f"a list has values of {one.type} and of {other.type}, which no schema holds")


def _value(value: Any, schema: Schema) -> Any:
    """Return a JSON value as one of a schema; raises DataError for a number that a double would change."""
    if value is None:
        return None
    if isinstance(value, dict):
        made = Struct(schema)
        made.values = [_value(value.get(each.name), each.schema) for each in schema.fields]
        return made
    if isinstance(value, list):
        assert schema.value_schema is not None
        return [_value(each, schema.value_schema) for each in value]
    if schema.type is SchemaType.FLOAT64 and isinstance(value, int):
        if int(float(value)) != value:
            raise DataError(f"{value} stands beside fractions, and a double would change it")
        return float(value)
    return value
