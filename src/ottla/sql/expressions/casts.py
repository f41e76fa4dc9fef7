"""CAST, and the conversions that happen unasked."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal

from ottla.base import low_bits
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import decimals, times
from ottla.sql.expressions.texts import value_text
from ottla.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
    is_number,
    is_time,
)

Convert = Callable[[object], object]
"""Turns a value of one type, or None, into one of another; raises EvaluationError."""

INT_BITS, LONG_BITS = 32, 64
_WHOLE = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)")
_DATES = {"DATE": times.parse_date, "TIME": times.parse_time, "TIMESTAMP": times.parse_timestamp}


def wrapped(value: int, bits: int) -> int:
    """A whole number in two's complement, as Java's arithmetic overflows."""
    half = 1 << (bits - 1)
    return value if -half <= value < half else (value + half) % (1 << bits) - half


def boolean_of(text: str) -> bool | None:
    """What a text means as a condition: a beginning of true, yes, false or no; None for any other."""
    given = text.strip().lower()
    if not given:
        return None
    if "true".startswith(given) or "yes".startswith(given):
        return True
    return False if "false".startswith(given) or "no".startswith(given) else None


def _whole_of_text(bits: int) -> Callable[[str], object]:
    def convert(text: str) -> object:
        given = text.strip()
        if not _WHOLE.fullmatch(given) or wrapped(value := int(given), bits) != value:
            raise EvaluationError(f'For input string: "{given}"')
        return value

    return convert


def _double_of_text(text: str) -> float:
    given = text.strip()
    if not _DOUBLE.fullmatch(given):
        raise EvaluationError(f'For input string: "{given}"')
    return float(given)


def bytes_of_base64(text: str) -> bytes:
    """The bytes that a text says in base64, its padding perhaps left out; raises EvaluationError."""
    given = text.strip()
    try:
        return base64.b64decode(given + "=" * (-len(given) % 4 if "=" not in given else 0), validate=True)
    except ValueError as error:
        raise EvaluationError(f"'{given}' is no base64: {error}") from None


def _whole_of_double(bits: int) -> Callable[[float], object]:
    most = (1 << (bits - 1)) - 1

    def convert(value: float) -> object:
        if math.isnan(value):
            return 0
        return max(-most - 1, min(most, int(value))) if math.isfinite(value) else (most if value > 0 else -most - 1)

    return convert


def _from_text(to: SqlType) -> Callable[..., object] | None:
    if isinstance(to, DecimalType):
        return lambda text: decimals.rounded(decimals.parsed(text), to)
    if to.base in _DATES:
        return _DATES[to.base]
    if to.base == "BOOLEAN":
        return lambda text: bool(boolean_of(text))
    if to.base == "DOUBLE":
        return _double_of_text
    if to.base == "BYTES":
        return bytes_of_base64
    return {"INTEGER": _whole_of_text(INT_BITS), "BIGINT": _whole_of_text(LONG_BITS)}.get(to.base)


def _from_number(of: SqlType, to: SqlType) -> Callable[..., object] | None:
    if isinstance(to, DecimalType):
        if of.base == "DOUBLE":
            return lambda value: decimals.rounded(_decimal_of_double(value, to.precision), to)
        return lambda value: decimals.rounded(Decimal(value), to)
    if to.base == "DOUBLE":
        return float
    if to.base not in ("INTEGER", "BIGINT"):
        return None
    bits = INT_BITS if to.base == "INTEGER" else LONG_BITS
    if of.base == "DOUBLE":
        return _whole_of_double(bits)
    return lambda value: low_bits(value, bits) if isinstance(value, Decimal) else wrapped(value, bits)


def _decimal_of_double(value: float, precision: int) -> Decimal:
    if not math.isfinite(value):
        raise EvaluationError("Infinite or NaN")
    return Context(prec=precision).create_decimal(Decimal(value))


def _from_time(of: SqlType, to: SqlType) -> Callable[..., object] | None:
    if of.base == "TIMESTAMP" and to.base == "DATE":
        return lambda ms: ms // times.DAY_MS
    if of.base == "TIMESTAMP" and to.base == "TIME":
        return lambda ms: ms % times.DAY_MS
    if of.base == "DATE" and to.base == "TIMESTAMP":
        return lambda days: days * times.DAY_MS
    return None


def _from_collection(of: SqlType, to: SqlType, null_texts: bool) -> Callable[..., object] | None:
    def inner_cast(of: SqlType, to: SqlType) -> Convert:
        return cast(of, to, null_texts=null_texts)

    if isinstance(of, ArrayType) and isinstance(to, ArrayType):
        item = inner_cast(of.item, to.item)
        return lambda values: [item(value) for value in values]
    if isinstance(of, MapType) and isinstance(to, MapType):
        key, each = inner_cast(of.key, to.key), inner_cast(of.value, to.value)
        return lambda values: {key(name): each(value) for name, value in values.items()}
    if isinstance(of, StructType) and isinstance(to, StructType):
        fields = {
            name: inner_cast(inner, of_field) for name, of_field in to.fields if (inner := of.field(name)) is not None
        }
        names = [name for name, _ in to.fields]
        return lambda value: {name: fields[name](value.get(name)) if name in fields else None for name in names}
    return None


_NULL_TEXTS = ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "ARRAY", "MAP", "STRUCT")
"""Types whose null may be the text `null`; of a DECIMAL, a time and a date it is null whatever is set."""


def cast(of: SqlType | None, to: SqlType, *, null_texts: bool = False) -> Convert:
    """The conversion that CAST does; raises SqlError in ksqlDB's words where there is none.

    With `null_texts` a null becomes the text `null` where Java's `String.valueOf` makes it (KSQL_STRING_CASE_CONFIG_TOGGLE).
    """
    if of is None or of == to:
        return lambda value: value
    convert: Callable[..., object] | None
    if to.base == "STRING":
        convert = None if of.base == "BYTES" else lambda value: value_text(value, of)
    elif of.base == "STRING":
        convert = _from_text(to)
    elif is_number(of):
        convert = _from_number(of, to)
    elif is_time(of):
        convert = _from_time(of, to)
    else:
        try:
            convert = _from_collection(of, to, null_texts)
        except SqlError:
            convert = None
    if convert is None:
        raise SqlError(f"Cast of {of} to {to} is not supported")
    known = convert
    if null_texts and to.base == "STRING" and of.base in _NULL_TEXTS:
        return lambda value: "null" if value is None else known(value)
    return lambda value: None if value is None else known(value)


_WIDER = {"INTEGER": ("BIGINT", "DECIMAL", "DOUBLE"), "BIGINT": ("DECIMAL", "DOUBLE"), "DECIMAL": ("DOUBLE",)}


def common_type(of: SqlType, to: SqlType, *, literal: bool) -> SqlType | None:
    """The type that values of `of` become where `to` is wanted, which may be wider than `to`; None where they cannot.

    A literal becomes more: anything without parts a STRING, and a STRING a number or a BOOLEAN.
    """
    if of == to:
        return to
    if isinstance(to, DecimalType) and of.base in ("INTEGER", "BIGINT", "DECIMAL"):
        return decimals.widened(of, to)
    if to.base in _WIDER.get(of.base, ()):
        return to
    if of.base == "STRING" and (is_time(to) or (literal and (is_number(to) or to.base == "BOOLEAN"))):
        return to
    if literal and to.base == "STRING" and (is_number(of) or of.base == "BOOLEAN" or is_time(of)):
        return to
    return _common_of_parts(of, to, literal=literal)


def _common_of_parts(of: SqlType, to: SqlType, *, literal: bool) -> SqlType | None:
    if isinstance(of, ArrayType) and isinstance(to, ArrayType):
        item = common_type(of.item, to.item, literal=literal)
        return None if item is None else ArrayType(item)
    if isinstance(of, MapType) and isinstance(to, MapType):
        key, value = common_type(of.key, to.key, literal=literal), common_type(of.value, to.value, literal=literal)
        return None if key is None or value is None else MapType(key, value)
    if isinstance(of, StructType) and isinstance(to, StructType):
        names = [name for name, _ in of.fields] + [name for name, _ in to.fields if of.field(name) is None]
        fields = []
        for name in names:
            one, other = of.field(name), to.field(name)
            both = one or other if one is None or other is None else common_type(one, other, literal=literal)
            if both is None:
                return None
            fields.append((name, both))
        return StructType(tuple(fields))
    return None


def coerce_value(of: SqlType | None, to: SqlType) -> Convert | None:
    """How a literal's value becomes one of a column's type, as INSERT VALUES does; None where it cannot."""
    if of is None or of == to:
        return lambda value: value
    common = common_type(of, to, literal=True)
    if common is None or (common != to and common.base != "DECIMAL" and not isinstance(common, StructType)):
        return None
    if isinstance(to, DecimalType) and common != to and of.base != "STRING":
        return lambda value: None if value is None else decimals.rounded(Decimal(str(value)), to)
    if to == BOOLEAN and of.base == "STRING":
        return _exact_boolean
    return cast(of, to)


def _exact_boolean(value: object) -> object:
    if value is None:
        return None
    found = boolean_of(str(value))
    if found is None:
        raise EvaluationError(f'invalid input syntax for type BOOLEAN: "{value}".')
    return found


def type_of_number_text(text: str) -> SqlType:
    """The narrowest type that holds the number that a text says; raises EvaluationError where it says none."""
    value = decimals.parsed(text)
    if "e" in text.lower():
        return DOUBLE if "." in text else decimals.type_of_value(value)
    if "." not in text:
        if wrapped(int(value), INT_BITS) == value:
            return INTEGER
        if wrapped(int(value), LONG_BITS) == value:
            return BIGINT
    return decimals.type_of_value(value)
