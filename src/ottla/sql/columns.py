"""What ksqlDB refuses of the columns that CREATE defines: names, roles and types that no stream or table can have."""

from __future__ import annotations

from collections import Counter

from ottla.sql.errors import SqlError
from ottla.sql.schema import SYSTEM_NAMES
from ottla.sql.tree import statements as s
from ottla.sql.types import BYTES, STRING, ArrayType, MapType, SqlType, StructType, backticked

HEADERS_TYPE = ArrayType(StructType((("KEY", STRING), ("VALUE", BYTES))))
"""The type of a column that holds all of a record's headers."""


def check_columns(kind: str, columns: tuple[s.ColumnDefinition, ...]) -> None:
    """Raise SqlError, in ksqlDB's words, for columns that a stream or a table cannot have."""
    if not columns:
        raise SqlError("The statement does not define any columns.")
    twice = [backticked(name) for name, count in Counter(each.name for each in columns).items() if count > 1]
    if twice:
        raise SqlError(f"Duplicate column names: {', '.join(twice)}")
    _check_headers(columns)
    for each in columns:
        if each.name in SYSTEM_NAMES:
            raise SqlError(f"'{each.name}' is a reserved column name. You cannot use it as a name for a column.")
        _check_role(kind, each)
        if "KEY" in each.role:
            check_key_type(each.name, each.type)


def _check_headers(columns: tuple[s.ColumnDefinition, ...]) -> None:
    seen: set[str | None] = set()
    for each in columns:
        if not each.role.startswith("HEADER"):
            continue
        named = "HEADERS" if each.header is None else f"HEADER('{each.header}')"
        wanted: SqlType = HEADERS_TYPE if each.header is None else BYTES
        if each.type != wanted:
            raise SqlError(f"Invalid type for {named} column: expected {wanted}, got {each.type}")
        if each.header in seen or (seen and None in (each.header, *seen)):
            first = "HEADERS" if None in seen else f"HEADER('{each.header or next(iter(seen))}')"
            raise SqlError(f"Schema already contains a {first} column.")
        seen.add(each.header)


def _check_role(kind: str, column: s.ColumnDefinition) -> None:
    wrong, right = ("KEY", "PRIMARY KEY") if kind == "TABLE" else ("PRIMARY KEY", "KEY")
    if column.role == wrong:
        raise SqlError(
            f"Column `{column.name}` is a '{wrong}' column: please use '{right}' for {kind.lower()}s.\n"
            "Tables have PRIMARY KEYs, which are unique and NON NULL.\n"
            "Streams have KEYs, which have no uniqueness or NON NULL constraints."
        )


def check_key_type(name: str, type_: SqlType) -> None:
    """Raise SqlError for a key that holds a map: two equal ones may be different bytes."""
    if _has_map(type_):
        raise SqlError(
            "Map keys, including types that contain maps, are not supported as they may lead to unexpected behavior "
            f"due to inconsistent serialization. Key column name: `{name}`. Column type: {type_}. "
            "See https://github.com/confluentinc/ksql/issues/6621 for more."
        )


def _has_map(type_: SqlType) -> bool:
    if isinstance(type_, MapType):
        return True
    if isinstance(type_, ArrayType):
        return _has_map(type_.item)
    return isinstance(type_, StructType) and any(_has_map(inner) for _, inner in type_.fields)
