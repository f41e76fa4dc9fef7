"""Values that can be compared: what a record tells of a column, and what the server says of it."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ottla.connect.data import Struct

__all__ = ["days_of", "number", "real", "told", "told_row", "us_of"]

DAY_US = 86_400_000_000
_STAMP = re.compile(
    r"([-+]?\d{1,7})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(Z|[-+]\d\d(?::?\d\d)?)?( BC)?"
)
_CLOCK = re.compile(r"(-?)(\d+):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|[-+]\d\d:\d\d)?")
_PERIOD = re.compile(r"P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?)(\d+)(?:\.(\d+))?S")


def number(value: Any) -> str:
    """Return a number without the zeros that mean nothing: 1.50 and 1.5 are one value; NaN is one, too."""
    value = Decimal(value)
    if not value.is_finite():
        return "NaN" if value.is_nan() else str(value)
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def real(value: Any, *, single: bool = False) -> str:
    """Return a float as it prints; a single's neighbours in double precision are one value."""
    value = float(value)
    if single and math.isfinite(value):
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return repr(value)


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 of a date of any year, by Hinnant's algorithm; Python's dates end at 9999."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def us_of(text: str) -> str:
    """Return a date or timestamp as microseconds since 1970, at UTC where a zone is named; infinities as they are."""
    if text.endswith("infinity"):
        return text
    found = _STAMP.fullmatch(text)
    if found is None:
        return text
    year = int(found[1]) if not found[9] else 1 - int(found[1])
    us = days_of(year, int(found[2]), int(found[3])) * DAY_US
    us += ((int(found[4] or 0) * 60 + int(found[5] or 0)) * 60 + int(found[6] or 0)) * 1_000_000
    us += int((found[7] or "").ljust(6, "0")[:6])
    zone = (found[8] or "Z").replace(":", "")
    if zone != "Z":
        ahead = (int(zone[1:3]) * 60 + int(zone[3:5] or 0)) * 60_000_000
        us -= -ahead if zone[0] == "-" else ahead
    return str(us)


def clock_us(text: str) -> str:
    """Return a time of day, or a span, as microseconds."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return text
    us = ((int(found[2]) * 60 + int(found[3])) * 60 + int(found[4] or 0)) * 1_000_000
    us += int((found[5] or "").ljust(6, "0"))
    return str(-us if found[1] else us)


def _period(text: str) -> str:
    found = _PERIOD.fullmatch(text)
    if found is None:
        return text
    us = (int(found[4]) * 60 + int(found[5])) * 60_000_000
    seconds = int(found[7]) * 1_000_000 + int((found[8] or "").ljust(6, "0"))
    us += -seconds if found[6] else seconds
    return f"{int(found[1]) * 12 + int(found[2])} {int(found[3])} {us}"


def _far(us: int) -> str:
    if us in ((1 << 63) - 1, 9_223_372_036_825_200_000):
        return "infinity"
    return "-infinity" if us in (-(1 << 63), -9_223_372_036_832_400_000) else str(us)


_BY_NAME = {
    "io.debezium.time.Date": lambda value: {
        1 << 31: "infinity",
        (1 << 31) - 1: "infinity",
        -(1 << 31): "-infinity",
    }.get(value, str(value * DAY_US)),
    "io.debezium.time.Timestamp": lambda value: _far(value * 1000),
    "io.debezium.time.MicroTimestamp": _far,
    "io.debezium.time.ZonedTimestamp": us_of,
    "io.debezium.time.MicroTime": str,
    "io.debezium.time.Time": lambda value: str(value * 1000),
    "io.debezium.time.ZonedTime": clock_us,
    "io.debezium.time.Interval": _period,
    "io.debezium.data.Bits": lambda value: str(int.from_bytes(value, "little")),
    "io.debezium.data.VariableScaleDecimal": lambda value: number(
        Decimal(int.from_bytes(value["value"], "big", signed=True)).scaleb(-value["scale"], BIG)
    ),
    "io.debezium.data.geometry.Geometry": lambda value: value["wkb"].hex(),
    "io.debezium.data.geometry.Point": lambda value: f"{real(value['x'])},{real(value['y'])}",
}
BIG = __import__("decimal").Context(prec=200_000, Emax=999_999, Emin=-999_999)


def told(schema: Any, value: Any) -> Any:
    """Return what a record tells of a column, in the form that `Side.rows` gives what the server says."""
    if value is None:
        return None
    if (known := _BY_NAME.get(schema.name or "")) is not None:
        return known(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return real(value, single=schema.type.name == "FLOAT32")
    if isinstance(value, int | Decimal):
        return number(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return tuple(told(schema.value_schema, each) for each in value)
    return _plain(value)


def _plain(value: Any) -> Any:
    return tuple(_plain(each) for each in value.values) if isinstance(value, Struct) else value


def told_row(row: Any) -> Mapping[str, Any]:
    """Return the columns of a row that was told, by name."""
    found = zip(row.schema.struct_fields, row.values, strict=True)
    return {field.name: told(field.schema, value) for field, value in found}
