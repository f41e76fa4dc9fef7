"""Values as texts, as Java writes them."""

from __future__ import annotations

import math
from decimal import Decimal

from ottla.base import plain_text
from ottla.sql.expressions.times import date_text, time_text, timestamp_text
from ottla.sql.java_maps import java_ordered
from ottla.sql.types import ArrayType, MapType, SqlType, StructType

_SUBNORMAL = 1e-321


def double_text(value: float) -> str:
    """A DOUBLE as `Double.toString` writes it: 1.0, 1.0E10, 1.0E-5, NaN, Infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if 0 < abs(value) < _SUBNORMAL:  # Java writes two digits where one would do
        digits, _, exponent = f"{value:.1e}".partition("e")
        if float(f"{digits}e{exponent}") == value:
            return f"{digits}E{int(exponent)}"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        if "e" in text:
            text = f"{Decimal(text):f}"
        return text if "." in text else f"{text}.0"
    digits, exponent = f"{Decimal(repr(value)):e}".split("e") if "e" in repr(value) else _scientific(value)
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0") or "0"
    return f"{whole}.{fraction}E{int(exponent)}"


def _scientific(value: float) -> tuple[str, str]:
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "it is finite"
    figures = "".join(map(str, digits))
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:]}", str(exponent + len(figures) - 1)


def value_text(value: object, type_: SqlType) -> str:
    """A value as `CAST(… AS STRING)` gives it, nulls inside it as `null`."""
    if value is None:
        return "null"
    if isinstance(type_, ArrayType):
        assert isinstance(value, list), type_
        return f"[{', '.join(value_text(each, type_.item) for each in value)}]"
    if isinstance(type_, MapType):
        assert isinstance(value, dict), type_
        pairs = (f"{value_text(key, type_.key)}={value_text(value[key], type_.value)}" for key in java_ordered(value))
        return f"{{{', '.join(pairs)}}}"
    if isinstance(type_, StructType):
        assert isinstance(value, dict), type_
        fields = (f"{name}={value_text(value[name], of)}" for name, of in type_.fields if value.get(name) is not None)
        return f"Struct{{{','.join(fields)}}}"
    return _plain_text(value, type_)


def _plain_text(value: object, type_: SqlType) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case Decimal():
            return plain_text(value)
        case int() if type_.base == "DATE":
            return date_text(value)
        case int() if type_.base == "TIME":
            return time_text(value)
        case int() if type_.base == "TIMESTAMP":
            return timestamp_text(value)
        case _:
            return str(value)
