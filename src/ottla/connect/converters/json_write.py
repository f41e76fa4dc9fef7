"""Connect's values as JSON text: one function per schema, put together once."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect.converters.json_text import quoted
from ottla.connect.data import logical
from ottla.connect.data.builder import OPTIONAL_FLOAT32
from ottla.connect.data.far_times import EndOfDay, FarDate, FarTimestamp
from ottla.connect.data.java_text import java_class
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import DATE, DECIMAL, TIME, TIMESTAMP, Struct, schema_type_of, validate_value
from ottla.connect.errors import DataError
from ottla.java import double_text, float_text

__all__ = ["Write", "write_plain", "writer_of"]

Write = Callable[[Any], str]


def writer_of(schema: Schema, *, numeric: bool, replace_null: bool) -> Write:
    """Return what writes this schema's values; `numeric` is `decimal.format`, `replace_null` puts defaults for None.

    A value is written by one call wherever it can be: what most values of a type are is looked at first, and what else there
    is (None, subclasses, what does not fit) behind that.
    """
    if schema.type is SchemaType.STRUCT and schema.name not in _LOGICAL:
        return _struct(schema, numeric=numeric, replace_null=replace_null)
    inner = _logical(schema, numeric=numeric) or _typed(schema, numeric=numeric, replace_null=replace_null)
    seldom = _with_null(schema, inner, replace_null=replace_null)
    quick = None if schema.name in _LOGICAL else _quick(schema.type, seldom)
    return seldom if quick is None else quick


def _with_null(schema: Schema, inner: Write, *, replace_null: bool) -> Write:
    """Return what writes None, too, as the schema has it."""
    if schema.default is not None and replace_null:
        instead = inner(schema.default)
        return lambda value: instead if value is None else inner(value)
    if schema.optional:
        return lambda value: "null" if value is None else inner(value)

    def required(value: Any) -> str:
        if value is None:
            raise DataError("Conversion error: null value for field that is required and has no default value")
        return inner(value)

    return required


def _quick(type_: SchemaType, seldom: Write) -> Write | None:
    """Return what writes whole numbers and texts at once, and leaves everything else to `seldom`."""
    if type_ in _WHOLE_BITS:
        end, text_of = 1 << _WHOLE_BITS[type_], int.__repr__

        def whole(value: Any) -> str:
            return text_of(value) if type(value) is int and -end <= value < end else seldom(value)

        return whole
    if type_ is SchemaType.STRING:

        def text(value: Any) -> str:
            return quoted(value) if type(value) is str else seldom(value)

        return text
    return None


def _logical(schema: Schema, *, numeric: bool) -> Write | None:
    """Return what writes a logical type, or None where the schema's name says none."""

    def moment(word: str, kind: type | tuple[type, ...], number: Callable[[Any], int]) -> Write:
        def write(value: Any) -> str:
            if not isinstance(value, kind) or (word == "Date" and isinstance(value, datetime)):
                raise DataError(f"Invalid type for {word}, expected Date but was {java_class(value)}")
            return str(number(value))

        return write

    def decimal(value: Any) -> str:
        if not isinstance(value, Decimal):
            raise DataError(f"Invalid type for Decimal, expected BigDecimal but was {java_class(value)}")
        if not value.is_finite():
            raise DataError(f"{value} is no decimal that Connect knows")
        return str(value) if numeric else _base64(logical.bytes_of_decimal(schema, value))

    match schema.name:
        case name if name == DECIMAL:
            return decimal
        case name if name == DATE:
            return moment("Date", (date, FarDate), logical.days_of)
        case name if name == TIME:
            return moment("Time", (time, EndOfDay), logical.ms_of_day)
        case name if name == TIMESTAMP:
            return moment("Timestamp", (datetime, FarTimestamp), logical.ms_of_timestamp)
    return None


def _base64(data: bytes) -> str:
    return '"' + base64.b64encode(data).decode() + '"'


def _fraction(text: str) -> str:
    """Return a float's text, quoted where it is no number in JSON."""
    return text if text[-1].isdigit() else f'"{text}"'


def _float(value: float) -> float:
    """Return a value that a float of 32 bits has, or is near to; raises DataError."""
    validate_value(OPTIONAL_FLOAT32, value)
    return value


_LOGICAL = frozenset({DECIMAL, DATE, TIME, TIMESTAMP})
_WHOLE_BITS = {SchemaType.INT8: 7, SchemaType.INT16: 15, SchemaType.INT32: 31, SchemaType.INT64: 63}
_SCALARS: dict[SchemaType, tuple[tuple[type, ...], Write]] = {
    **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), ((int,), int.__repr__)),
    SchemaType.FLOAT32: ((float,), lambda value: _fraction(float_text(_float(value)))),
    SchemaType.FLOAT64: ((float,), lambda value: _fraction(double_text(value))),
    SchemaType.BOOLEAN: ((bool,), lambda value: "true" if value else "false"),
    SchemaType.STRING: ((str,), quoted),
    SchemaType.BYTES: ((bytes, bytearray, memoryview), lambda value: _base64(bytes(value))),
}


def _typed(schema: Schema, *, numeric: bool, replace_null: bool) -> Write:
    type_ = schema.type
    if type_ in _WHOLE_BITS:
        return _whole(type_, 1 << _WHOLE_BITS[type_])
    if type_ in _SCALARS:
        kinds, inner = _SCALARS[type_]
        bools = type_ is SchemaType.BOOLEAN

        def scalar(value: Any) -> str:
            if not isinstance(value, kinds) or (not bools and isinstance(value, bool)):
                if type_ is SchemaType.BYTES:
                    raise DataError(f"Invalid type for bytes type: {java_class(value)}")
                raise DataError(f"Invalid type for {type_}: {java_class(value)}")
            return inner(value)

        return scalar

    def of(inner: Schema | None) -> Write:
        return write_plain if inner is None else writer_of(inner, numeric=numeric, replace_null=replace_null)

    if type_ is SchemaType.ARRAY:
        element = of(schema.value_schema)
        return lambda value: _list(value, element)
    as_object = schema.key_schema is not None and schema.key_schema.type is SchemaType.STRING
    of_key, of_value = of(schema.key_schema), of(schema.value_schema)
    return lambda value: _map(value, of_key, of_value, as_object=as_object)


def _whole(type_: SchemaType, end: int) -> Write:
    def whole(value: Any) -> str:
        if not isinstance(value, int) or isinstance(value, bool) or not -end <= value < end:
            raise DataError(f"Invalid type for {type_}: {java_class(value)}")
        return int.__repr__(value)

    return whole


def _list(value: Any, element: Write) -> str:
    if not isinstance(value, list | tuple):
        raise DataError(f"Invalid type for ARRAY: {java_class(value)}")
    return "[" + ",".join([element(each) for each in value]) + "]"


def _map(value: Any, of_key: Write, of_value: Write, *, as_object: bool) -> str:
    if not isinstance(value, dict):
        raise DataError(f"Invalid type for MAP: {java_class(value)}")
    if as_object:
        pairs = ((of_key(key) if key is not None else '"null"', of_value(each)) for key, each in value.items())
        return "{" + ",".join(f"{key}:{each}" for key, each in pairs) + "}"
    return "[" + ",".join(f"[{of_key(key)},{of_value(each)}]" for key, each in value.items()) + "]"


def _fields(schema: Schema, *, numeric: bool, replace_null: bool) -> Callable[[Struct], str]:
    """Return what writes the fields of a struct of this schema."""
    names = [quoted(field.name).replace("%", "%%") for field in schema.fields]
    form = "{" + ",".join(f"{name}:%s" for name in names) + "}"
    writers = [writer_of(field.schema, numeric=numeric, replace_null=replace_null) for field in schema.fields]

    def write(value: Struct) -> str:
        return form % tuple([write(each) for write, each in zip(writers, value.values, strict=True)])

    return write


def _struct(schema: Schema, *, numeric: bool, replace_null: bool) -> Write:
    """Return what writes structs of this schema; its fields' writers are made once, however deep they go."""
    write_fields = _fields(schema, numeric=numeric, replace_null=replace_null)

    def checked(value: Any) -> str:
        if not isinstance(value, Struct):
            raise DataError(f"Invalid type for STRUCT: {java_class(value)}")
        if value.schema is not schema and value.schema != schema:
            raise DataError("Mismatching schema.")
        return write_fields(value)

    seldom = _with_null(schema, checked, replace_null=replace_null)

    def write(value: Any) -> str:
        return write_fields(value) if type(value) is Struct and value.schema is schema else seldom(value)

    return write


def write_plain(value: Any) -> str:
    """Write a value that has no schema."""
    if value is None:
        return "null"
    type_ = schema_type_of(value)
    if type_ is None:
        raise DataError(f"Java class {java_class(value)} does not have corresponding schema type.")
    if type_ in _SCALARS:
        return _SCALARS[type_][1](value)
    if type_ is SchemaType.ARRAY:
        return _list(value, write_plain)
    if type_ is SchemaType.MAP:
        return _map(value, write_plain, write_plain, as_object=all(isinstance(key, str) for key in value))
    raise DataError("Mismatching schema.")  # a struct always has a schema
