"""What a column's type becomes, under Debezium's names: a schema, and a function of the value that a row has. Pure.

A row's value is the same whether a snapshot or the binlog has told it: whole numbers as int, FLOAT and DOUBLE as float,
DECIMAL as Decimal, texts, enums, sets and JSON as str, bytes and geometry as bytes, BIT as int, dates as days, times and
timestamps as microseconds; a zero date is None, and a zero timestamp 0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

from ottla.base import decimal_of_text, plain_text, truncated
from ottla.connect import DataError
from ottla.connect.data import BYTES as BYTES_SCHEMA
from ottla.connect.data import (
    FLOAT64,
    OPTIONAL_BYTES,
    OPTIONAL_INT32,
    SchemaBuilder,
    Struct,
    any_date_of_days,
    any_timestamp_of_ms,
    time_of_ms,
)
from ottla.connectors.cdc import clock
from ottla.connectors.cdc.column_kinds import ColumnKind, binary_writer
from ottla.connectors.cdc.mysql.calendar import DAY_US, date_of_text, time_of_text, timestamp_of_text, zoned_text
from ottla.connectors.cdc.mysql.tables import BYTES, TEXTS, SqlColumn, SqlType

__all__ = ["WHOLE", "SqlKinds", "default_of", "kind_of", "value_of_text"]

GEOMETRIES: Final = frozenset(
    ("GEOMETRY", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION")
)
_LONG: Final = 1 << 64
_WIDE: Final = Context(prec=66)
"""A DECIMAL has 65 digits at most."""
_HEADER: Final = 4
"""The bytes of a spatial reference in front of a geometry."""
_POINT_BYTES: Final = 21


@dataclass(frozen=True, slots=True)
class SqlKinds:
    """The connector's settings that say how values are written."""

    decimal: str = "precise"
    time: str = "adaptive_time_microseconds"
    binary: str = "bytes"
    bigint: str = "long"
    """`bigint.unsigned.handling.mode`."""


def kind_of(type_: SqlType, settings: SqlKinds) -> ColumnKind | None:
    """Return how a column is written, None for a type that is left out."""
    name = type_.name
    if name in WHOLE:
        return _whole(type_, settings)
    if name in TEXTS or name in ("INET4", "INET6"):
        return _TEXT
    if name in BYTES:
        return _binary(type_, settings)
    if name == "POINT":
        return ColumnKind(_point_builder, _point, zero=_point(bytes(_HEADER) + struct.pack("<BIdd", 1, 1, 0.0, 0.0)))
    if name in GEOMETRIES:
        return ColumnKind(_geometry_builder, _geometry, zero=_geometry(bytes(_HEADER)))
    made = _BY_NAME.get(name)
    return None if made is None else made(type_, settings)


def _same(value: Any) -> Any:
    return value


def _named(builder: SchemaBuilder, name: str) -> SchemaBuilder:
    return builder.name(f"io.debezium.{name}").version(1)


# -- numbers

WHOLE: Final[Mapping[str, tuple[Callable[[], SchemaBuilder], Callable[[], SchemaBuilder]]]] = {
    "TINYINT": (SchemaBuilder.int16, SchemaBuilder.int16),
    "SMALLINT": (SchemaBuilder.int16, SchemaBuilder.int32),
    "MEDIUMINT": (SchemaBuilder.int32, SchemaBuilder.int32),
    "INT": (SchemaBuilder.int32, SchemaBuilder.int64),
    "BIGINT": (SchemaBuilder.int64, SchemaBuilder.int64),
}
"""Schemas of whole numbers, with a sign and without."""


def _whole(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    signed, unsigned = WHOLE[type_.name]
    if type_.name == "BIGINT" and type_.is_unsigned:
        if settings.bigint == "precise":
            return ColumnKind(lambda: _decimal_builder(0, 20), Decimal, zero=Decimal(0))
        return ColumnKind(unsigned, lambda value: value if value < _LONG >> 1 else value - _LONG, zero=0)
    return ColumnKind(unsigned if type_.is_unsigned else signed, _same, zero=0)


def _decimal_builder(scale: int, precision: int) -> SchemaBuilder:
    builder = SchemaBuilder.bytes_().name("org.apache.kafka.connect.data.Decimal").version(1)
    return builder.parameter("scale", str(scale)).parameter("connect.decimal.precision", str(precision))


def _decimal(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    scale, precision = type_.scale or 0, type_.width or 10
    step = Decimal((0, (1,), -scale))
    if settings.decimal == "string":
        return ColumnKind(SchemaBuilder.string, plain_text, zero="0")
    if settings.decimal == "double":
        return ColumnKind(SchemaBuilder.float64, float, zero=0.0)
    return ColumnKind(lambda: _decimal_builder(scale, precision), _same, zero=Decimal(0).quantize(step))


def _float(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    """FLOAT is single; with digits (FLOAT(7,3)) Debezium writes it as the double that it is."""
    if type_.width is not None:
        return ColumnKind(SchemaBuilder.float64, _same, zero=0.0)
    return ColumnKind(SchemaBuilder.float32, shortest_single, zero=0.0)


def shortest_single(value: float) -> float:
    """Return the double that prints as a single does: with the fewest digits that tell it from its neighbours."""
    for digits in (6, 7, 8):
        found = float(f"{value:.{digits}g}")
        if struct.pack("<f", found) == struct.pack("<f", value):
            return found
    return value


def _bit(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    width = type_.width or 1
    if width == 1:
        return ColumnKind(SchemaBuilder.boolean, bool, zero=False)
    size = (width + 7) // 8
    return ColumnKind(
        lambda: _named(SchemaBuilder.bytes_(), "data.Bits").parameter("length", str(width)),
        lambda value: value.to_bytes(size, "little"),
        zero=bytes(size),
    )


# -- texts and bytes

_TEXT: Final = ColumnKind(SchemaBuilder.string, _same, zero="")


def _binary(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    write = binary_writer(settings.binary)
    make = SchemaBuilder.bytes_ if settings.binary == "bytes" else SchemaBuilder.string
    return ColumnKind(make, write, zero=write(b""))


def _enum(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    name = "data.Enum" if type_.name == "ENUM" else "data.EnumSet"
    allowed = ",".join(each.replace(",", "\\,") for each in type_.values)
    return ColumnKind(lambda: _named(SchemaBuilder.string(), name).parameter("allowed", allowed), _same, zero="")


def _text_as(name: str, zero: str) -> Callable[[SqlType, SqlKinds], ColumnKind]:
    kind = ColumnKind(lambda: _named(SchemaBuilder.string(), name), _same, zero=zero)
    return lambda type_, settings: kind


# -- times


def _connect(name: str, begin: Callable[[], SchemaBuilder]) -> Callable[[], SchemaBuilder]:
    return lambda: begin().name(f"org.apache.kafka.connect.data.{name}").version(1)


def _time_kind(name: str, parse: Callable[[int], Any], begin: Callable[[], SchemaBuilder]) -> ColumnKind:
    return ColumnKind(lambda: _named(begin(), f"time.{name}"), parse, zero=parse(0))


def _date(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    if settings.time == "isostring":
        return _time_kind("IsoDate", clock.iso_date, SchemaBuilder.string)
    if settings.time == "connect":
        return ColumnKind(_connect("Date", SchemaBuilder.int32), any_date_of_days, zero=any_date_of_days(0))
    return _time_kind("Date", _same, SchemaBuilder.int32)


def _any_timestamp(us: int) -> Any:
    return any_timestamp_of_ms(us // 1000)


def _datetime(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    if settings.time == "isostring":
        return _time_kind("IsoTimestamp", clock.iso_timestamp, SchemaBuilder.string)
    if settings.time == "connect":
        return ColumnKind(_connect("Timestamp", SchemaBuilder.int64), _any_timestamp, zero=_any_timestamp(0))
    if settings.time == "nanoseconds":
        return _time_kind("NanoTimestamp", lambda us: us * 1000, SchemaBuilder.int64)
    if settings.time != "microseconds" and (type_.width or 0) <= 3:
        return _time_kind("Timestamp", lambda us: us // 1000, SchemaBuilder.int64)
    return _time_kind("MicroTimestamp", _same, SchemaBuilder.int64)


def _timestamp(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    digits = type_.width or 0
    return _time_kind("ZonedTimestamp", lambda us: zoned_text(us, digits), SchemaBuilder.string)


def _time(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    if settings.time == "isostring":
        return _time_kind("IsoTime", lambda us: clock.iso_time(us) if 0 <= us < DAY_US else None, SchemaBuilder.string)
    if settings.time == "connect":
        zero = time_of_ms(0)
        make = _connect("Time", SchemaBuilder.int32)
        return ColumnKind(make, lambda us: time_of_ms(us // 1000) if 0 <= us < DAY_US else None, zero=zero)
    if settings.time == "nanoseconds":
        return _time_kind("NanoTime", lambda us: us * 1000, SchemaBuilder.int64)
    return _time_kind("MicroTime", _same, SchemaBuilder.int64)


def _year(type_: SqlType, settings: SqlKinds) -> ColumnKind:
    return _time_kind("Year", _same, SchemaBuilder.int32)


# -- geometry


def _point_builder() -> SchemaBuilder:
    builder = _named(SchemaBuilder.struct(), "data.geometry.Point").doc("Geometry (POINT)")
    builder.field("x", FLOAT64).field("y", FLOAT64)
    return builder.field("wkb", OPTIONAL_BYTES).field("srid", OPTIONAL_INT32)


def _geometry_builder() -> SchemaBuilder:
    builder = _named(SchemaBuilder.struct(), "data.geometry.Geometry").doc("Geometry")
    return builder.field("wkb", BYTES_SCHEMA).field("srid", OPTIONAL_INT32)


_POINT: Final = _point_builder().optional().build()
_GEOMETRY: Final = _geometry_builder().optional().build()


def _reference(value: bytes) -> int | None:
    return int.from_bytes(value[:_HEADER], "little") or None


def _point(value: bytes) -> Struct:
    wkb = value[_HEADER:]
    if len(wkb) != _POINT_BYTES:
        raise DataError(f"{len(wkb)} bytes are no point")
    x, y = struct.unpack_from("<dd" if wkb[0] else ">dd", wkb, 5)
    return Struct(_POINT, {"x": x, "y": y, "wkb": wkb, "srid": _reference(value)})


def _geometry(value: bytes) -> Struct:
    return Struct(_GEOMETRY, {"wkb": value[_HEADER:], "srid": _reference(value)})


_BY_NAME: Final[Mapping[str, Callable[[SqlType, SqlKinds], ColumnKind]]] = {
    "DECIMAL": _decimal,
    "FLOAT": _float,
    "DOUBLE": lambda type_, settings: ColumnKind(SchemaBuilder.float64, _same, zero=0.0),
    "BIT": _bit,
    "ENUM": _enum,
    "SET": _enum,
    "JSON": _text_as("data.Json", "{}"),
    "UUID": _text_as("data.Uuid", "00000000-0000-0000-0000-000000000000"),
    "DATE": _date,
    "DATETIME": _datetime,
    "TIMESTAMP": _timestamp,
    "TIME": _time,
    "YEAR": _year,
}


# -- texts of the server's


def value_of_text(type_: SqlType) -> Callable[[Any], Any]:
    """Return what makes a row's value of what a query gives, str or bytes. Raises DataError, ValueError."""
    name = type_.name
    if name in WHOLE or name == "YEAR":
        return int
    if name in ("FLOAT", "DOUBLE"):
        return float
    if name == "DECIMAL":
        step = Decimal((0, (1,), -(type_.scale or 0)))
        return lambda text: decimal_of_text(text).quantize(step, context=_WIDE)
    if name == "BIT":
        return lambda data: int.from_bytes(data, "big")
    if name in BYTES or name == "POINT" or name in GEOMETRIES:
        return lambda data: data.encode() if isinstance(data, str) else data
    if name == "DATE":
        return date_of_text
    if name == "TIME":
        return time_of_text
    if name == "DATETIME":
        return timestamp_of_text
    if name == "TIMESTAMP":
        return lambda text: timestamp_of_text(text) or 0
    return lambda text: text.decode() if isinstance(text, bytes) else text


def default_of(column: SqlColumn, kind: ColumnKind) -> Any:
    """Return a column's default as a value: of the time of day, and of a zero date, the type's zero; None for none."""
    text = column.default
    if text is None:
        return None
    if text == "CURRENT_TIMESTAMP":
        return kind.zero
    type_ = column.type
    try:
        if type_.name == "BIT":
            value: Any = int(text)
        elif type_.name in WHOLE or type_.name == "YEAR":
            value = truncated(decimal_of_text(text))
        elif type_.name in BYTES:
            value = text.encode("latin-1", "replace")
        else:
            value = value_of_text(type_)(text)
        return kind.zero if value is None else kind.parse(value)
    except (DataError, ValueError, ArithmeticError):
        return None
