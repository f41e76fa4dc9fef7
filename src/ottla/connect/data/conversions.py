"""From a value to another type, as Connect's `Values` converts. What a text says is parsed before, in `values`."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

from ottla.base import NumberError, low_bits
from ottla.connect.data import logical
from ottla.connect.data.far_times import EndOfDay
from ottla.connect.data.java_text import Float32, Int8, Int16, Int32, java_class, java_text
from ottla.connect.data.logical import MS_PER_DAY
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import DATE, DECIMAL, TIME, TIMESTAMP, Struct
from ottla.connect.data.value_text import parse_decimal, to_text
from ottla.connect.errors import DataError

__all__ = ["convert", "convert_present", "double_of", "integer_of", "is_moment", "wrapped"]

_WIDTHS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
_SIZED: dict[int, type[int]] = {8: Int8, 16: Int16, 32: Int32, 64: int}
_KINDS: dict[str, type] = {TIMESTAMP: datetime, DATE: date, TIME: time}


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
    return wrapped(_low_bits(value, bits) if isinstance(value, Decimal) else int(value), bits)


def _low_bits(value: Decimal, bits: int) -> int:
    try:
        return low_bits(value, bits)
    except NumberError as error:
        raise DataError(f"A decimal that Connect does not know: {error}") from error


def double_of(value: int | float | Decimal) -> float:
    """Return a number as `Number.doubleValue` does: infinite where it is too large."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def convert(to: Schema, origin: Schema | None, value: Any) -> Any:
    """Return a value in another type; `origin` is its own schema where known. Raises DataError where it cannot be."""
    if value is not None:
        return convert_present(to, origin, value)
    if to.optional:
        return None
    raise DataError("Unable to convert a null value to a schema that requires a value")


def is_moment(schema: Schema) -> bool:
    """Whether values of a schema are dates, times or timestamps."""
    return schema.name in (DATE, TIME, TIMESTAMP) and schema.type in (SchemaType.INT32, SchemaType.INT64)


def convert_present(to: Schema, origin: Schema | None, value: Any) -> Any:
    """Return what `convert` does, for a value of a text that may say null: then it is refused as any other misfit."""
    if is_moment(to):
        assert to.name is not None
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
    if isinstance(value, kinds):
        return value
    raise _refused(value, to)


def _to_decimal(to: Schema, value: Any) -> Decimal:
    if isinstance(value, bytes | bytearray | memoryview):
        return logical.decimal_of_bytes(to, bytes(value))
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _decimal_of_double(double_of(value), to)
    if isinstance(value, str):
        found = parse_decimal(value)
        if found is not None:
            return found
    raise _refused(value, to)


def _decimal_of_double(value: float, to: Schema) -> Decimal:
    if not isfinite(value):
        raise _refused(value, to)
    return Decimal(java_text(value))


def _to_bytes(to: Schema, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Decimal):
        return logical.bytes_of_decimal(to, value)
    raise _refused(value, to)


def _to_boolean(origin: Schema | None, value: Any) -> bool:
    return value if isinstance(value, bool) else _as_long(value, origin) != 0


def _to_moment(name: str, origin: Schema | None, value: Any) -> Any:
    """Return a date, time or timestamp from another of them, or from a number."""
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
            return wrapped(low_bits(found, 64), 64)
    if isinstance(value, datetime) and origin is not None:
        return logical.ms_of_timestamp(value)
    if isinstance(value, date) and origin is not None:
        return logical.days_of(value)
    if isinstance(value, time) and origin is not None:
        return logical.ms_of_day(value)
    raise _refused(value, "a number" if origin is None else origin)


def _as_double(value: Any, origin: Schema | None) -> float:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return double_of(value)
    if isinstance(value, str):
        found = parse_decimal(value)
        if found is not None:
            return float(found)
    return float(_as_long(value, origin))
