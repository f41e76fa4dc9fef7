"""Columns for Connect's values: Arrow types of schemas, types inferred of values without one, and how two become one.

A topic's column type grows with what is found in it: fields are united by name and numbers widened, so that files before
and after a new field can be read together. Values without schemas that do not go together become text; schemas that do
not are an error, since somebody has declared them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ottla.connect import DataError, Schema, SchemaType, Struct
from ottla.connect.data import scalar_type

__all__ = ["Kind", "inferred_type", "kind_of", "layout_of", "merged", "settled"]

Kind = Any
"""What a value without schema is made of: a Python type, or nested tuples of them; hashable and cheap to make."""
TIMESTAMP = pa.timestamp("us", tz="UTC")
DECIMAL_DIGITS_MAX = 38
_DATA = "org.apache.kafka.connect.data."
_INFERRED: dict[type, pa.DataType] = {
    type(None): pa.null(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: TIMESTAMP,
    time: pa.int32(),
}
_WIDTHS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64()]


def _schema_type(schema: Schema) -> pa.DataType:
    """Return the column type of a schema's values. A time of day is its milliseconds, as in Connect itself."""
    if schema.name == _DATA + "Decimal":
        return pa.decimal128(DECIMAL_DIGITS_MAX, int(schema.parameter("scale") or 0))
    if schema.name == _DATA + "Date":
        return pa.date32()
    if schema.name == _DATA + "Timestamp":
        return TIMESTAMP
    match schema.type:
        case SchemaType.STRUCT:
            return pa.struct([(each.name, _schema_type(each.schema)) for each in schema.fields])
        case SchemaType.ARRAY:
            assert schema.value_schema is not None
            return pa.list_(_schema_type(schema.value_schema))
        case SchemaType.MAP:
            assert schema.key_schema is not None and schema.value_schema is not None
            return pa.map_(_schema_type(schema.key_schema), _schema_type(schema.value_schema))
    return scalar_type(schema)


def kind_of(value: Any) -> Kind:
    """Return what a value without schema is made of."""
    if isinstance(value, dict):
        return (dict, *((key, kind_of(each)) for key, each in value.items()))
    if isinstance(value, list | tuple):
        return (list, *dict.fromkeys(kind_of(each) for each in value))
    if isinstance(value, Struct):
        return value.schema
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return (Decimal, -exponent if isinstance(exponent, int) else 0)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str
    return next((each for each in type(value).__mro__ if each in _INFERRED), str)


def inferred_type(kind: Kind) -> pa.DataType:
    """Return the column type for a kind of value."""
    if isinstance(kind, Schema):
        return _schema_type(kind)
    if not isinstance(kind, tuple):
        return _INFERRED[kind]
    head, *parts = kind
    if head is dict:
        return pa.struct([(str(key), inferred_type(each)) for key, each in parts])
    if head is Decimal:
        return pa.decimal128(DECIMAL_DIGITS_MAX, max(0, parts[0]))
    found = pa.null()
    for each in parts:
        found = merged(found, inferred_type(each), "")
    return pa.list_(found)


def merged(one: pa.DataType, other: pa.DataType, where: str, *, loose: bool = True) -> pa.DataType:
    """Return the type that holds values of both; `where` names the column in the DataError of what is not loose."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _merged_struct(one, other, where, loose=loose)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(merged(one.value_type, other.value_type, f"{where}[]", loose=loose))
    if pa.types.is_map(one) and pa.types.is_map(other):
        keys = merged(one.key_type, other.key_type, f"{where} (key)", loose=loose)
        return pa.map_(keys, merged(one.item_type, other.item_type, f"{where} (value)", loose=loose))
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        return one if one.scale >= other.scale else other
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return pa.float64()
    if one in _WIDTHS and other in _WIDTHS:
        return _WIDTHS[max(_WIDTHS.index(one), _WIDTHS.index(other))]
    if loose:
        return pa.string()
    raise DataError(f"column {where} is of type {one} in one record's schema, and of type {other} in another's")


def _merged_struct(one: pa.StructType, other: pa.StructType, where: str, *, loose: bool) -> pa.DataType:
    found = {field.name: field.type for field in one}
    for field in other:
        below = f"{where}.{field.name}" if where else field.name
        before = found.get(field.name)
        found[field.name] = field.type if before is None else merged(before, field.type, below, loose=loose)
    return pa.struct(list(found.items()))


def settled(kind: pa.DataType) -> pa.DataType:
    """Return a type that files can hold: what is only known as null is text, and so is a struct without fields."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, settled(field.type)) for field in kind]) if kind.num_fields else pa.string()
    if pa.types.is_list(kind):
        return pa.list_(settled(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(settled(kind.key_type), settled(kind.item_type))
    return kind


def layout_of(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that puts a value of Connect into the form from which Arrow makes the type."""
    make = _layout(kind)
    return lambda value: None if value is None else make(value)


def _layout(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_struct(kind):
        return _struct_layout([(field.name, layout_of(field.type)) for field in kind])
    if pa.types.is_list(kind):
        inner = layout_of(kind.value_type)
        return lambda value: [inner(each) for each in value]
    if pa.types.is_map(kind):
        of_key, of_value = layout_of(kind.key_type), layout_of(kind.item_type)
        return lambda value: [(of_key(key), of_value(each)) for key, each in value.items()]
    if pa.types.is_string(kind):
        return lambda value: value if isinstance(value, str) else _text(value)
    if pa.types.is_decimal(kind):
        return Decimal
    return _SCALARS.get(kind, lambda value: value)


def _struct_layout(fields: list[tuple[str, Callable[[Any], Any]]]) -> Callable[[Any], Any]:
    def lay(value: Any) -> dict[str, Any]:
        if isinstance(value, Struct):
            known = value.schema
            return {
                name: make(value.at(found)) if (found := known.field(name)) is not None else None
                for name, make in fields
            }
        given: Mapping[str, Any] = value
        return {name: make(given.get(name)) for name, make in fields}

    return lay


def _text(value: Any) -> str:
    return json.dumps(value, default=lambda each: each.to_dict() if isinstance(each, Struct) else str(each))


def _milliseconds(value: Any) -> Any:
    if not isinstance(value, time):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise DataError(f"bytes or text are expected, and the converter made a {type(value).__name__}")


def _in_utc(value: datetime) -> datetime:
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


_SCALARS: dict[pa.DataType, Callable[[Any], Any]] = {
    pa.float64(): float,
    pa.float32(): float,
    pa.binary(): _bytes,
    pa.int32(): _milliseconds,
    TIMESTAMP: _in_utc,
}
