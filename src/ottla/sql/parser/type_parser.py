"""Types: `ARRAY<INT>`, `INT ARRAY`, `MAP<STRING, DECIMAL(4, 2)>`, `STRUCT<a INT>`, names of `CREATE TYPE`."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.sql import rules
from ottla.sql.errors import SqlError
from ottla.sql.parser.cursor import Cursor
from ottla.sql.types import PRIMITIVES, ArrayType, DecimalType, MapType, NamedType, SqlType, StructType

CustomTypes = Mapping[str, SqlType] | None
"""What `CREATE TYPE` has told of; None where a statement is looked at for its grammar only."""

INT_DIGITS, INT_MAX = 10, (1 << 31) - 1


def parse_type(cursor: Cursor, custom: CustomTypes) -> SqlType:
    """Read a type. Raises `SqlError` for a name that is no type."""
    cursor.deeper()
    type_ = _first(cursor, custom)
    while cursor.is_word("ARRAY") and cursor.ahead().word != "<":
        cursor.take()
        type_ = ArrayType(type_)
    cursor.higher()
    return type_


def _first(cursor: Cursor, custom: CustomTypes) -> SqlType:
    if cursor.accept("ARRAY", "<"):
        item = parse_type(cursor, custom)
        cursor.expect(">")
        return ArrayType(item)
    if cursor.accept("MAP", "<"):
        key = parse_type(cursor, custom)
        cursor.expect(",")
        value = parse_type(cursor, custom)
        cursor.expect(">")
        return MapType(key, value)
    if cursor.is_word("STRUCT") and cursor.ahead().word in ("<", "<>"):
        return _struct(cursor, custom)
    if cursor.accept("DECIMAL"):
        return _decimal(cursor)
    return _named(cursor, custom)


def _struct(cursor: Cursor, custom: CustomTypes) -> SqlType:
    cursor.take()
    if cursor.is_word("<>"):
        cursor.take()
        return StructType(())
    cursor.expect("<")
    fields: list[tuple[str, SqlType]] = []
    while not cursor.is_word(">"):
        if fields:
            cursor.expect(",")
        name = cursor.name()
        fields.append((name, parse_type(cursor, custom)))
    cursor.expect(">")
    return StructType(tuple(fields))


def _decimal(cursor: Cursor) -> SqlType:
    cursor.expect("(")
    precision = _whole(cursor, "DECIMAL(PRECISION)")
    cursor.expect(",")
    scale = _whole(cursor, "DECIMAL(SCALE)")
    cursor.expect(")")
    return DecimalType(precision, scale)


def _whole(cursor: Cursor, what: str) -> int:
    sign = -1 if cursor.accept("-") else 1
    if cursor.token.kind in ("decimal", "float"):
        raise SqlError(f"Value must be integer for command: {what}")
    if cursor.token.kind != "integer":
        cursor.unexpected(("INTEGER_VALUE", "DECIMAL_VALUE", "FLOATING_POINT_VALUE"))
    digits = cursor.take().text.lstrip("0")
    is_int = len(digits) < INT_DIGITS or (len(digits) == INT_DIGITS and int(digits) <= INT_MAX)
    if not is_int and rules.hold(rules.STRICT):
        raise SqlError(f"Value must be integer for command: {what}")
    return sign * int(digits or "0")


def _named(cursor: Cursor, custom: CustomTypes) -> SqlType:
    name = cursor.name()
    if cursor.accept("("):
        while True:
            if cursor.token.kind != "integer" and not cursor.is_word("STRING"):
                cursor.unexpected(("'STRING'", "INTEGER_VALUE"))
            cursor.take()
            if not cursor.accept(","):
                break
        cursor.expect(")")
    if name in PRIMITIVES:
        return PRIMITIVES[name]
    if custom is None:
        cursor.named_types += 1
        return NamedType(name)
    if name not in custom:
        raise SqlError(f"Cannot resolve unknown type: {name}")
    return custom[name]
