"""How Java names, writes and reads values: class names in messages, numbers, dates and collections in text, bytes as text.

Python has one int and one float. A width that no schema tells is carried by `Int8`, `Int16`, `Int32` and `Float32`;
a plain int without a schema is INT64 and a plain float FLOAT64.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.java import double_text, float32, float_text

__all__ = [
    "AS_JAVA",
    "Float32",
    "Int8",
    "Int16",
    "Int32",
    "class_of",
    "java_class",
    "java_text",
]

AS_JAVA = "ottla-as-java"
"""A codec's `errors`: as `replace`, but half a surrogate pair in UTF-8 is one U+FFFD, as in Java, not one for each byte."""

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _as_java(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError) and error.encoding == "utf-8":
        first, second, third = (*error.object[error.start : error.start + 3], 0, 0)[:3]
        if first == 0xED and 0xA0 <= second < 0xC0:
            return "\ufffd", error.start + (3 if 0x80 <= third < 0xC0 else 2)
    return codecs.replace_errors(error)


codecs.register_error(AS_JAVA, _as_java)


class Int8(int):
    """An int of 8 bits where no schema says so."""

    __slots__ = ()


class Int16(int):
    """An int of 16 bits where no schema says so."""

    __slots__ = ()


class Int32(int):
    """An int of 32 bits where no schema says so."""

    __slots__ = ()


class Float32(float):
    """A float of 32 bits: rounded to one when made."""

    __slots__ = ()

    def __new__(cls, value: float) -> Float32:
        """Round to the nearest 32-bit value; what is too large becomes infinite, as in Java."""
        return super().__new__(cls, float32(value))

    def __str__(self) -> str:
        return float_text(self)

    __repr__ = __str__


_CLASSES: tuple[tuple[type, str], ...] = (
    (bool, "java.lang.Boolean"),
    (Int8, "java.lang.Byte"),
    (Int16, "java.lang.Short"),
    (Int32, "java.lang.Integer"),
    (int, "java.lang.Long"),
    (Float32, "java.lang.Float"),
    (float, "java.lang.Double"),
    (str, "java.lang.String"),
    (bytes, "[B"),
    (bytearray, "[B"),
    (memoryview, "java.nio.HeapByteBuffer"),
    (list, "java.util.ArrayList"),
    (tuple, "java.util.ArrayList"),
    (dict, "java.util.HashMap"),
    (Decimal, "java.math.BigDecimal"),
    (datetime, "java.util.Date"),
    (date, "java.util.Date"),
    (time, "java.util.Date"),
)


def class_of(value: Any) -> str:
    """Return the name of the Java class that holds such a value, or Python's own name for what Java has not."""
    if value is None:
        return "null"
    for kind, name in _CLASSES:
        if isinstance(value, kind):
            return name
    own = getattr(type(value), "java_name", None)
    return own if isinstance(own, str) else f"{type(value).__module__}.{type(value).__qualname__}"


def java_class(value: Any) -> str:
    """Return what Java's messages say of a value's class: `class java.lang.String`."""
    return f"class {class_of(value)}"


def java_text(value: Any) -> str:
    """Return a value as Java's `toString` writes it; bytes are written as their length, for Java writes an address."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Float32():
            return float_text(value)
        case float():
            return double_text(value)
        case str():
            return value
        case bytes() | bytearray() | memoryview():
            return f"[{len(value)} bytes]"
        case datetime():
            return _date_text(value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC))
        case date():
            return _date_text(datetime(value.year, value.month, value.day, tzinfo=UTC))
        case time():
            return _date_text(datetime.combine(date(1970, 1, 1), value.replace(tzinfo=UTC)))
        case Mapping():
            return "{" + ", ".join(f"{java_text(key)}={java_text(each)}" for key, each in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(java_text(each) for each in value) + "]"
    return str(value)


def _date_text(at: datetime) -> str:
    """Return a moment as a `java.util.Date` writes it where the time zone is UTC."""
    day = f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at.day:02d}"
    return f"{day} {at.hour:02d}:{at.minute:02d}:{at.second:02d} UTC {at.year}"
