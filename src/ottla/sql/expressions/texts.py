"""Values as texts, as Java writes them."""

from __future__ import annotations

from decimal import Decimal

from ottla.base import plain_text
from ottla.java import double_text, hash_ordered
from ottla.sql.expressions.times import date_text, time_text, timestamp_text
from ottla.sql.types import ArrayType, MapType, SqlType, StructType


def value_text(value: object, type_: SqlType) -> str:
    """A value as `CAST(… AS STRING)` gives it, nulls inside it as `null`."""
    if value is None:
        return "null"
    if isinstance(type_, ArrayType):
        assert isinstance(value, list), type_
        return f"[{', '.join(value_text(each, type_.item) for each in value)}]"
    if isinstance(type_, MapType):
        assert isinstance(value, dict), type_
        pairs = (f"{value_text(key, type_.key)}={value_text(value[key], type_.value)}" for key in hash_ordered(value))
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
