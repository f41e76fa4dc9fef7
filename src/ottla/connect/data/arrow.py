"""Connect's values of one schema as an Arrow array, and back: what columns of records are made of.

A struct is `pa.struct` of its fields, in order; numbers, booleans, strings and bytes are Arrow's own. Of the logical types a
decimal is `pa.decimal128` or `pa.decimal256` of the schema's scale, and dates and times are the numbers that they are
written as: days, milliseconds of a day, milliseconds since 1970. An array may be dictionary-encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any

from ottla.connect.data.logical import (
    any_date_of_days,
    any_timestamp_of_ms,
    days_of,
    ms_of_day,
    ms_of_timestamp,
    scale_of,
    schema_scale,
    time_of_ms,
)
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import DATE, DECIMAL, TIME, TIMESTAMP, Struct

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["column_of_values", "joined_texts", "plain_type", "scalar_type", "values_of_column"]
_MOMENTS: dict[str, Callable[[int], Any]] = {
    DATE: any_date_of_days,
    TIME: time_of_ms,
    TIMESTAMP: any_timestamp_of_ms,
}


def scalar_type(schema: Schema) -> pa.DataType | None:
    """Return the Arrow type of a number's, a boolean's, a string's or bytes' schema; None for any other."""
    import pyarrow as pa

    if schema.name == DECIMAL:
        return None
    return {
        SchemaType.INT8: pa.int8(),
        SchemaType.INT16: pa.int16(),
        SchemaType.INT32: pa.int32(),
        SchemaType.INT64: pa.int64(),
        SchemaType.FLOAT32: pa.float32(),
        SchemaType.FLOAT64: pa.float64(),
        SchemaType.BOOLEAN: pa.bool_(),
        SchemaType.STRING: pa.string(),
        SchemaType.BYTES: pa.binary(),
    }.get(schema.type)


def plain_type(schema: Schema) -> pa.DataType | None:
    """Return the Arrow type of a schema's values where they are what Python has for it: None for logical types, too."""
    return None if schema.name in (DECIMAL, DATE, TIME, TIMESTAMP) else scalar_type(schema)


def joined_texts(parts: Sequence[pa.Array | str]) -> Any:
    """Join columns of strings with texts that all rows have; one text where there is no column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    merged: list[Any] = []
    for each in parts:
        if not isinstance(each, str) or (each and not (merged and isinstance(merged[-1], str))):
            merged.append(each)
        elif each:
            merged[-1] += each
    if len(merged) < 2:
        return merged[0] if merged else ""
    given = [pa.scalar(each, pa.string()) if isinstance(each, str) else each for each in merged]
    return pc.binary_join_element_wise(*given, pa.scalar("", pa.string()))


def values_of_column(schema: Schema | None, column: pa.Array) -> list[Any]:
    """Return an array's values as a schema has them."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        values = values_of_column(schema, column.dictionary)
        return [None if index is None else values[index] for index in column.indices.to_pylist()]
    if schema is not None and pa.types.is_struct(column.type):
        return _structs(schema, column)
    found: list[Any] = column.to_pylist()
    of_number = None if schema is None or schema.name is None else _MOMENTS.get(schema.name)
    return found if of_number is None else [None if each is None else of_number(each) for each in found]


def _structs(schema: Schema, column: pa.StructArray) -> list[Any]:
    fields = [values_of_column(field.schema, column.field(place)) for place, field in enumerate(schema.fields)]
    found: list[Any] = []
    for is_valid, *values in zip(column.is_valid().to_pylist(), *fields, strict=True):
        found.append(Struct.of(schema, values) if is_valid else None)
    return found


_KINDS: dict[SchemaType, type] = {
    **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), int),
    **dict.fromkeys((SchemaType.FLOAT32, SchemaType.FLOAT64), float),
    SchemaType.BOOLEAN: bool,
    SchemaType.STRING: str,
    SchemaType.BYTES: bytes,
}
_NUMBERS: dict[str, tuple[type, Callable[[Any], int]]] = {
    DATE: (date, days_of),
    TIME: (time, ms_of_day),
    TIMESTAMP: (datetime, ms_of_timestamp),
}
_DIGITS_MAX = 38


def column_of_values(schema: Schema, values: Sequence[Any]) -> pa.Array | None:
    """Return values of a schema as an array; None where one is not of the plainest kind, or a part is a list or a map.

    What fits the schema in another way (a subclass, a moment that Python cannot tell, a struct of an equal schema) is left
    to who converts values one by one. Raises ValueError, TypeError, OverflowError or DataError for what does not fit at all.
    """
    import pyarrow as pa

    kinds = set(map(type, values))
    if schema.name in _NUMBERS:
        kind, number_of = _NUMBERS[schema.name]
        if kinds <= {kind, NoneType}:
            return pa.array([None if each is None else number_of(each) for each in values], scalar_type(schema))
        return None
    if schema.name == DECIMAL:
        return _decimals(schema, values) if kinds <= {Decimal, NoneType} else None
    if schema.type is SchemaType.STRUCT:
        return _column_of_structs(schema, values) if kinds == {Struct} else None
    type_ = scalar_type(schema)
    return pa.array(values, type_) if type_ is not None and kinds <= {_KINDS[schema.type], NoneType} else None


def _decimals(schema: Schema, values: Sequence[Decimal | None]) -> pa.Array | None:
    import pyarrow as pa

    scale = schema_scale(schema)
    given = [each for each in values if each is not None]
    if not 0 <= scale <= _DIGITS_MAX or not all(_fits(each, scale) for each in given):
        return None
    return pa.array(values, pa.decimal128(_DIGITS_MAX, scale))


def _fits(number: Decimal, scale: int) -> bool:
    return number.is_finite() and scale_of(number) == scale and len(number.as_tuple().digits) <= _DIGITS_MAX


def _column_of_structs(schema: Schema, values: Sequence[Struct]) -> pa.StructArray | None:
    import pyarrow as pa

    if not schema.struct_fields or not all(each.schema is schema for each in values):
        return None
    columns = []
    for field, part in zip(schema.struct_fields, zip(*(each.values for each in values), strict=True), strict=True):
        column = column_of_values(field.schema, part)
        if column is None:
            return None
        columns.append(column)
    return pa.StructArray.from_arrays(columns, [each.name for each in schema.struct_fields])
