"""From any value to a wanted type, and to text: how Connect reads and writes header values.

Times in text are UTC here. Kafka writes them in the worker's own time zone.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla.connect.data import logical
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
from ottla.connect.data.date_format import DateFormat
from ottla.connect.data.far_times import EndOfDay
from ottla.connect.data.java_text import Float32, Int8, Int16, Int32, java_class, java_text
from ottla.connect.data.logical import MS_PER_DAY
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import DATE, DECIMAL, TIME, TIMESTAMP, SchemaAndValue, Struct, schema_type_of
from ottla.connect.errors import ConnectError, DataError

__all__ = [
    "convert_to",
    "date_text",
    "double_of_text",
    "infer_schema",
    "integer_of",
    "parse_decimal",
    "parse_value",
    "to_text",
    "wrapped",
]

_TIME_FORMAT = DateFormat("HH:mm:ss.SSS'Z'")
_DATE_FORMAT = DateFormat("yyyy-MM-dd")
_TIMESTAMP_FORMAT = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")

_WIDTHS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
_SIZED: dict[int, type[int]] = {8: Int8, 16: Int16, 32: Int32, 64: int}
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
    from ottla.connect.data.value_parser import parse_text  # here, for it converts what it reads with this module

    return SchemaAndValue(None, None) if text is None else parse_text(text)


def wrapped(value: int, bits: int) -> int:
    """Return the low bits as Java's narrowing casts do, in the int of that width."""
    half = 1 << (bits - 1)
    return _SIZED[bits]((value + half) % (1 << bits) - half)


def integer_of(value: int | float | Decimal, bits: int) -> int:
    """Return a number narrowed as `Number.intValue` and its like do: floats are held at their bounds, ints wrap."""
    if isinstance(value, float):
        low, high = -(1 << (max(bits, 32) - 1)), (1 << (max(bits, 32) - 1)) - 1
        exact = 0 if value != value else high if value >= high else low if value <= low else int(value)
        return wrapped(exact, bits)
    return wrapped(int(value), bits)


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


def convert_to(to: Schema, origin: Schema | None, value: Any) -> Any:
    """Return a value in another type; `origin` is its own schema where known. Raises DataError where it cannot be."""
    if value is None:
        if to.optional:
            return None
        raise DataError("Unable to convert a null value to a schema that requires a value")
    if to.name in (DATE, TIME, TIMESTAMP) and to.type in (SchemaType.INT32, SchemaType.INT64):
        return _to_moment(to.name, origin, value)
    match to.type:
        case SchemaType.BYTES:
            return _to_decimal(to, value) if to.name == DECIMAL else _to_bytes(to, value)
        case SchemaType.STRING:
            return to_text(value)
        case SchemaType.BOOLEAN:
            return _to_boolean(origin, value)
        case SchemaType.FLOAT32:
            return value if isinstance(value, Float32) else Float32(_as_double(value, origin))
        case SchemaType.FLOAT64:
            return _as_double(value, origin)
        case SchemaType.ARRAY | SchemaType.MAP | SchemaType.STRUCT:
            return _to_structure(to, value)
    return wrapped(_as_long(value, origin), _WIDTHS[to.type])


def _refused(value: Any, to: object) -> DataError:
    return DataError(f"Unable to convert {java_text(value)} ({java_class(value)}) to {to}")


def _to_structure(to: Schema, value: Any) -> Any:
    kinds: tuple[type, ...] = {
        SchemaType.ARRAY: (list, tuple),
        SchemaType.MAP: (dict,),
        SchemaType.STRUCT: (Struct,),
    }[to.type]
    if isinstance(value, str) and to.type is not SchemaType.STRUCT:
        value = parse_value(value).value
    if isinstance(value, kinds):
        return value
    raise _refused(value, to)


def parse_decimal(text: str) -> Decimal | None:
    """Return the decimal of a text as Java's BigDecimal reads it, or None where it reads none."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,10})?", text, re.ASCII):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _to_decimal(to: Schema, value: Any) -> Decimal:
    if isinstance(value, bytes | bytearray | memoryview):
        return logical.decimal_of_bytes(to, bytes(value))
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(java_text(float(value)))
    if isinstance(value, str):
        found = parse_decimal(value)
        if found is not None:
            return found
    raise _refused(value, to)


def _to_bytes(to: Schema, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Decimal):
        return logical.bytes_of_decimal(to, value)
    raise _refused(value, to)


def _to_boolean(origin: Schema | None, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        parsed = parse_value(value).value
        if isinstance(parsed, bool):
            return parsed
    return _as_long(value, origin) != 0


_KINDS: dict[str, type] = {TIMESTAMP: datetime, DATE: date, TIME: time}


def _to_moment(name: str, origin: Schema | None, value: Any) -> Any:
    """Return a date, time or timestamp from another of them, a number, or a text that says one."""
    if isinstance(value, str):
        value = parse_value(value).value
    if isinstance(value, datetime | date | time):
        ms = logical.epoch_ms(value)
        if name == TIMESTAMP:
            return logical.timestamp_of_ms(ms)
        if isinstance(value, datetime):
            return _part_of(name, ms)
        if isinstance(value, _KINDS[name]):
            return value
        raise _refused(value, name)
    number = _as_long(value, origin)
    if name == TIMESTAMP:
        return logical.timestamp_of_ms(number)
    number = wrapped(number, 32)
    return logical.date_of_days(number) if name == DATE else logical.time_of_ms(number)


def _part_of(name: str, ms: int) -> date | time | EndOfDay:
    days = int(ms / MS_PER_DAY) if abs(ms) < 1 << 52 else ms // MS_PER_DAY
    return logical.date_of_days(days) if name == DATE else logical.time_of_ms(ms % MS_PER_DAY)


def _as_long(value: Any, origin: Schema | None) -> int:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return integer_of(value, 64)
    if isinstance(value, str):
        found = parse_decimal(value)
        if found is not None:
            return wrapped(int(found), 64) if found.adjusted() < 10_000 else 0
    if isinstance(value, datetime) and origin is not None:
        return logical.ms_of_timestamp(value)
    if isinstance(value, date) and origin is not None:
        return logical.days_of(value)
    if isinstance(value, time) and origin is not None:
        return logical.ms_of_day(value)
    raise _refused(value, "a number" if origin is None else origin)


def _as_double(value: Any, origin: Schema | None) -> float:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        found = parse_decimal(value)
        if found is not None:
            return float(found)
    return float(_as_long(value, origin))


def double_of_text(text: str) -> float | None:
    """Return the number of a text as Java's Double.parseDouble reads it, or None where it reads none."""
    trimmed = text.strip()
    if re.fullmatch(r"[+-]?(NaN|Infinity)", trimmed):
        return float(trimmed.replace("Infinity", "inf"))
    body = trimmed[:-1] if trimmed[-1:] in ("f", "F", "d", "D") else trimmed
    return float(body) if parse_decimal(body) is not None else None


def date_text(value: datetime | date | time) -> str:
    """Return a time as Connect writes it: a time of day before 1970-01-02, a date at midnight, or both."""
    ms = logical.epoch_ms(value)
    if ms < MS_PER_DAY:
        return _TIME_FORMAT.format(ms)
    return (_DATE_FORMAT if ms % MS_PER_DAY == 0 else _TIMESTAMP_FORMAT).format(ms)


def parse_moment(text: str) -> SchemaAndValue | None:
    """Return the time, date or timestamp of an ISO text, or None where it has another length or form."""
    text = text.replace("\\:", ":")
    if len(text) == 13:
        ms = _TIME_FORMAT.parse(text)
        in_a_day = ms is not None and 0 <= ms <= MS_PER_DAY
        return SchemaAndValue(logical.TIME_SCHEMA, logical.time_of_ms(ms)) if ms is not None and in_a_day else None
    if len(text) not in (10, 24):
        return None
    ms = (_DATE_FORMAT if len(text) == 10 else _TIMESTAMP_FORMAT).parse(text)
    if ms is None:
        return None
    try:
        if len(text) == 10:
            return SchemaAndValue(logical.DATE_SCHEMA, logical.date_of_days(ms // MS_PER_DAY))
        return SchemaAndValue(logical.TIMESTAMP_SCHEMA, logical.timestamp_of_ms(ms))
    except ConnectError:
        return None  # beyond what a datetime holds: it stays a text


def to_text(value: Any, *, embedded: bool = False) -> str:
    """Return a value as text that `parse_value` reads back; `embedded` inside of a list or map, where text is quoted."""
    match value:
        case None:
            return "null"
        case bool() | float() | int():
            return java_text(value)
        case Decimal():
            return str(value)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if embedded else value
        case bytes() | bytearray() | memoryview():
            encoded = base64.b64encode(value).decode()
            return f'"{encoded}"' if embedded else encoded
        case list() | tuple():
            return "[" + ",".join(to_text(each, embedded=True) for each in value) + "]"
        case Struct():
            return _pairs_text({field.name: value.at(field) for field in value.schema.fields})
        case Mapping():
            return _pairs_text(value)
        case datetime() | date() | time():
            return date_text(value)
    raise DataError(f"Failed to serialize unexpected value type {java_class(value)[6:]}: {value}")


def _pairs_text(pairs: Mapping[Any, Any]) -> str:
    inside = (f"{to_text(key, embedded=True)}:{to_text(each, embedded=True)}" for key, each in pairs.items())
    return "{" + ",".join(inside) + "}"
