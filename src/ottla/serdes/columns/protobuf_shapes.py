"""Protobuf's messages as columns, as Spark's `from_protobuf` has them: enums are their names, Timestamp is a timestamp."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor

from ottla.serdes.columns.shapes import Shape
from ottla.serdes.errors import SerdeError

__all__ = ["shape_of_message"]

DEPTH_MAX = 64
_D = FieldDescriptor
_COLUMNS = {
    **dict.fromkeys((_D.CPPTYPE_INT32,), pa.int32()),
    **dict.fromkeys((_D.CPPTYPE_INT64, _D.CPPTYPE_UINT32), pa.int64()),
    _D.CPPTYPE_UINT64: pa.decimal128(20, 0),
    _D.CPPTYPE_FLOAT: pa.float32(),
    _D.CPPTYPE_DOUBLE: pa.float64(),
    _D.CPPTYPE_BOOL: pa.bool_(),
}
TIMESTAMP = "google.protobuf.Timestamp"


def shape_of_message(descriptor: Any, _open: tuple[str, ...] = ()) -> Shape:
    """Return the column of a message's values; raises SerdeError for one that holds itself, which columns cannot."""
    if descriptor.full_name in _open or len(_open) > DEPTH_MAX:
        raise SerdeError(f"The Protobuf message {descriptor.full_name} holds itself, which columns cannot")
    if descriptor.full_name == TIMESTAMP:
        return Shape(pa.timestamp("us", "UTC"), _microseconds)
    opened = (*_open, descriptor.full_name)
    fields = [(each.name, each.has_presence, _of_field(each, opened)) for each in descriptor.fields]

    def value(message: Any) -> Any:
        return {
            name: None if has_presence and not message.HasField(name) else shape.value(getattr(message, name))
            for name, has_presence, shape in fields
        }

    return Shape(pa.struct([pa.field(name, shape.column) for name, _, shape in fields]), value)


def _microseconds(value: Any) -> int:
    return int(value.seconds * 1_000_000 + value.nanos // 1000)


def _of_field(field: Any, opened: tuple[str, ...]) -> Shape:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        key = _of_one(kind.fields_by_name["key"], opened)
        item = _of_one(kind.fields_by_name["value"], opened)
        column = pa.map_(key.column, item.column)
        return Shape(column, lambda given: [(key.value(each), item.value(given[each])) for each in given])
    one = _of_one(field, opened)
    if not field.is_repeated:
        return one
    return Shape(pa.list_(pa.field("element", one.column)), lambda given: [one.value(each) for each in given])


def _same(value: Any) -> Any:
    return value


def _of_one(field: Any, opened: tuple[str, ...]) -> Shape:
    if field.message_type is not None:
        return shape_of_message(field.message_type, opened)
    if field.enum_type is not None:
        return Shape(pa.string(), _enum(field.enum_type.values_by_number))
    if field.type == FieldDescriptor.TYPE_STRING:
        return Shape(pa.string(), _same)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return Shape(pa.binary(), _same)
    return Shape(_COLUMNS[field.cpp_type], _decimal if field.cpp_type == _D.CPPTYPE_UINT64 else _same)


def _enum(known: Any) -> Callable[[int], str]:
    def value(number: int) -> str:
        found = known.get(number)
        return str(number) if found is None else str(found.name)

    return value


def _decimal(value: int) -> Any:
    return Decimal(value)
