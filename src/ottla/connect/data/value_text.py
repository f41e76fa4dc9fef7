"""Single values as text and back, in Connect's spelling: numbers, times, and what a header holds.

Times in text are UTC here. Kafka writes them in the worker's own time zone.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.base import NumberError, decimal_of_text
from ottla.connect.data import logical
from ottla.connect.data.date_format import DateFormat
from ottla.connect.data.java_text import java_class, java_text
from ottla.connect.data.logical import MS_PER_DAY
from ottla.connect.data.struct import SchemaAndValue, Struct
from ottla.connect.errors import ConnectError, DataError

__all__ = ["date_text", "double_of_text", "parse_decimal", "parse_moment", "to_text"]

_TIME_FORMAT = DateFormat("HH:mm:ss.SSS'Z'")
_DATE_FORMAT = DateFormat("yyyy-MM-dd")
_TIMESTAMP_FORMAT = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


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


def parse_decimal(text: str) -> Decimal | None:
    """Return the decimal of a text as Java's BigDecimal reads it, or None where it reads none."""
    if not re.fullmatch(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d{1,10})?", text, re.ASCII):
        return None
    try:
        return decimal_of_text(text)
    except NumberError:
        return None


def double_of_text(text: str) -> float | None:
    """Return the number of a text as Java's Double.parseDouble reads it, or None where it reads none."""
    trimmed = text.strip()
    if re.fullmatch(r"[+-]?(NaN|Infinity)", trimmed):
        return float(trimmed.replace("Infinity", "inf"))
    body = trimmed[:-1] if trimmed[-1:] in ("f", "F", "d", "D") else trimmed
    return float(body) if parse_decimal(body) is not None else None
