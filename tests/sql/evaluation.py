"""Expressions over one row of every type, as tests ask for them."""

from __future__ import annotations

from decimal import Decimal

from ottla.sql import parse_expression
from ottla.sql.expressions import Scope, compile_expression, type_of
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

COLUMNS: tuple[tuple[str, SqlType, object], ...] = (
    ("I", INTEGER, 7),
    ("B", BIGINT, 1 << 40),
    ("D", DecimalType(4, 2), Decimal("12.34")),
    ("F", DOUBLE, 2.5),
    ("S", STRING, "hello"),
    ("T", BOOLEAN, True),
    ("X", BYTES, b"\x01\x02"),
    ("DT", DATE, 18_262),
    ("TM", TIME, 36_610_000),
    ("TS", TIMESTAMP, 1_577_836_800_123),
    ("A", ArrayType(INTEGER), [3, 1, 2]),
    ("M", MapType(STRING, INTEGER), {"b": 2, "a": 1}),
    ("ST", StructType((("P", INTEGER), ("Q", STRING))), {"P": 4, "Q": None}),
    ("N", INTEGER, None),
    ("NS", STRING, None),
    ("NA", ArrayType(INTEGER), None),
)
SCOPE = Scope.of((None, name, type_) for name, type_, _ in COLUMNS)
ROW = tuple(value for _, _, value in COLUMNS)


def value_of(text: str, errors: list[Exception] | None = None) -> object:
    """What an expression is of the row."""
    return compile_expression(parse_expression(text), SCOPE, errors.append if errors is not None else None)(ROW)


def type_text(text: str) -> str:
    """The type of an expression."""
    return str(type_of(parse_expression(text), SCOPE))
