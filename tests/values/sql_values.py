"""Values of SQL's types, out of the shared set."""

from __future__ import annotations

from decimal import Context, Decimal

from ottla.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)
from tests.hostile_values import DOUBLES, HOSTILE, TEXTS

INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
DAY_MS = 86_400_000
MANY, FEW = 3000, 50
WIDE = DecimalType(38, 10)
WIDE_ENOUGH = Context(prec=5000)
PLAIN = (BOOLEAN, INTEGER, BIGINT, WIDE, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP)
_INTS = (0, 1, -1, 2, 255, 65_536, 1_000_000, INT_MAX, -INT_MAX - 1)
_LONGS = (*_INTS, (1 << 53) + 1, LONG_MAX, -LONG_MAX - 1)
_DECIMALS = ("0E-10", "-0E-10", "1E-10", "9" * 28 + "." + "9" * 10, "-" + "9" * 28 + "." + "9" * 10, "0.5000000000")
_BYTES = (*(value for _, schema, value in HOSTILE if isinstance(value, bytes)), b"\x80" * 8, b"\x7f\xff\xff\xff")


def values_of(type_: SqlType) -> list[object]:
    """Every hostile value of a type, null among them."""
    match type_:
        case DecimalType(_, 0):
            return [None, Decimal(0), Decimal("9" * type_.precision), Decimal("-" + "9" * type_.precision)]
        case DecimalType(_, scale):
            unit = Decimal((0, (1,), -scale))
            digits = WIDE_ENOUGH.create_decimal("9" * min(type_.precision, WIDE_ENOUGH.prec)).scaleb(
                -scale, WIDE_ENOUGH
            )
            given = (each for each in map(Decimal, _DECIMALS) if each.adjusted() < type_.precision - scale)
            return [None, unit, -unit, digits, -digits, *(each.quantize(unit, context=WIDE_ENOUGH) for each in given)]
        case ArrayType(item):
            inner = values_of(item)
            return [None, [], [None], inner[:40], [inner[-1]] * (MANY if item in PLAIN else FEW)]
        case MapType(key, value):
            keys = [each for each in values_of(key) if each is not None]
            return [None, {}, {keys[0]: None}, dict(zip(keys[:40], values_of(value) * 40, strict=False))]
        case StructType(fields):
            columns = [values_of(of) for _, of in fields]
            return [
                None,
                *({name: of[at % len(of)] for (name, _), of in zip(fields, columns, strict=True)} for at in range(8)),
            ]
    plain: dict[str, tuple[object, ...]] = {
        "BOOLEAN": (True, False),
        "INTEGER": _INTS,
        "BIGINT": _LONGS,
        "DOUBLE": (*DOUBLES, 0.5, -1e19, 1e19),
        "STRING": TEXTS,
        "BYTES": _BYTES,
        "DATE": _INTS,
        "TIME": (0, -1, DAY_MS - 1, DAY_MS, INT_MAX, -INT_MAX - 1),
        "TIMESTAMP": (*_LONGS, 253_402_300_800_000, -62_135_596_800_001),
    }
    return [None, *plain[type_.base]]
