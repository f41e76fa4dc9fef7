"""What a column would round or cut without a word, as databases do where they assign: refused before it is written. Pure.

Times are not looked at: a column of fewer digits rounds them, and a date takes the day, as docs/connect-jdbc.md says.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.types import TypeEngine

from ottla.base import decimal_of_text
from ottla.connect import DataError, Schema, SchemaType, data

__all__ = ["BYTES_OF", "exact_check", "text_of_bytes"]

Check = Callable[[Any], Any]

_DECIMAL = data.decimal_schema(0).name
_INTEGERS = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
_DOUBLE_BITS = 53
_SINGLE_DIGITS = 24
_EXACT = Context(prec=200_000)
BYTES_OF = {"name": 63, '"char"': 1}
"""PostgreSQL's types of texts that are cut without a word, and how many bytes they hold."""


def exact_check(schema: Schema, type_: TypeEngine[Any], dialect: str) -> Check | None:
    """Return what hands a schema's values on to a column, or raises DataError; None where none can be lost."""
    is_decimal = schema.name == _DECIMAL
    if schema.name is not None and not is_decimal:
        return None
    is_float = schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64)
    is_text = schema.type is SchemaType.STRING
    if is_text and isinstance(type_, sa.String):
        is_list = isinstance(type_, mysql.SET)  # whose length is that of one symbol
        return None if type_.length is None or dialect == "sqlite" or is_list else _text(type_.length)
    read_as_number = is_text and dialect in ("mysql", "mariadb", "postgresql")
    if read_as_number and isinstance(type_, mysql.BIT):
        return _no_bits
    if not (is_decimal or is_float or read_as_number or schema.type in _INTEGERS):
        return None
    match type_:
        case sa.SmallInteger() if dialect == "sqlite" and schema.type in _INTEGERS:
            return _short  # its columns hold more, and nobody would read it as what it is declared to be
        case sa.Boolean() if dialect == "postgresql" and schema.type in _INTEGERS:
            return _no_boolean  # it refuses short ones itself, and takes every longer one for true
        case sa.Float():
            return _float(schema, type_, dialect, as_text=read_as_number)
        case sa.Integer() | mysql.BIT() if dialect != "sqlite" and schema.type not in _INTEGERS:
            return _scaled(0, type_)
        case postgresql.MONEY():
            return _scaled(2, type_)
        case postgresql.OID():
            return _unsigned
        case sa.Numeric() if dialect != "sqlite":
            return _numeric(schema, type_, is_decimal=is_decimal)
    return None


def _numeric(schema: Schema, type_: sa.Numeric[Any], *, is_decimal: bool) -> Check | None:
    scale = None if type_.precision is None else type_.scale or 0
    written = int(schema.parameter("scale") or 0) if is_decimal else 0 if schema.type in _INTEGERS else None
    if written is not None and (scale is None or written <= scale):
        return None
    return _scaled(scale, type_)


def _float(schema: Schema, type_: sa.Float[Any], dialect: str, *, as_text: bool) -> Check | None:
    single = dialect != "sqlite" and is_single(type_, dialect)
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return _single(type_) if single and schema.type is SchemaType.FLOAT64 else None
    if schema.type in (SchemaType.INT8, SchemaType.INT16) or (schema.type is SchemaType.INT32 and not single):
        return None

    def check(value: Any) -> Any:
        number = _number_of(value)
        found = float(number)
        held = struct.unpack("f", struct.pack("f", found))[0] if single else found
        if (Decimal(repr(found)) if held == found else Decimal(held)) != number:
            raise _rounds(type_)
        return value

    return None if as_text else check


def is_single(type_: sa.Float[Any], dialect: str) -> bool:
    """Return whether a column keeps the 24 bits of a single, and no double."""
    if dialect in ("mysql", "mariadb"):
        return isinstance(type_, mysql.FLOAT) and (type_.precision or 0) <= _SINGLE_DIGITS
    return isinstance(type_, sa.REAL)


def _single(type_: Any) -> Check:
    def check(value: Any) -> Any:
        if value == value and struct.unpack("f", struct.pack("f", value))[0] != value:
            raise _rounds(type_)
        return value

    return check


def _scaled(scale: int | None, type_: Any) -> Check:
    """Return a check of so many digits behind the point; a double goes on as the decimal that it is written as."""
    step = None if scale is None else Decimal(1).scaleb(-scale)

    def check(value: Any) -> Any:
        number = _number_of(value)
        if step is not None and number.is_finite():
            try:
                whole = number.quantize(step, context=_EXACT)
            except InvalidOperation:
                raise _rounds(type_) from None
            if whole != number:
                raise _rounds(type_)
        return number if isinstance(value, float) else value

    return check


def _number_of(value: Any) -> Decimal:
    if isinstance(value, float):
        return Decimal(repr(float(value)))
    return value if isinstance(value, Decimal) else decimal_of_text(str(value).strip())


def _short(value: Any) -> Any:
    if not -(1 << 15) <= value < 1 << 15:
        raise DataError("A number of more than 16 bits is too large for its column")
    return value


def _unsigned(value: Any) -> Any:
    if not 0 <= _number_of(value) < 1 << 32:
        raise DataError("A column of type OID has whole numbers from 0 to 4294967295")
    return value


def _no_bits(value: Any) -> Any:
    raise DataError("A text is no bits, and its column would take its letters for them")


def _no_boolean(value: Any) -> Any:
    raise DataError("A number is no boolean, and its column has booleans")


def _text(length: int) -> Check:
    def check(value: Any) -> Any:
        if len(value) > length:
            raise DataError(f"A text of {len(value)} characters is too long for a column of {length}")
        return value

    return check


def text_of_bytes(most: int, named: str) -> Check:
    """Return a check of texts of so many bytes in UTF-8 at most; raises DataError for a longer one."""

    def check(value: Any) -> Any:
        if len(value.encode(errors="surrogatepass")) > most:
            raise DataError(f"A column of type {named} holds {most} bytes, and would cut the text")
        return value

    return check


def _rounds(type_: Any) -> DataError:
    return DataError(f"A column of type {type_} would round the number")
