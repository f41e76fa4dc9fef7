"""Tables as the binlog's events have them: whether what is known of a table fits, and how its rows are read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ottla.connectors.cdc.mysql import rows
from ottla.connectors.cdc.mysql.binlog import Mapped
from ottla.connectors.cdc.mysql.kinds import GEOMETRIES
from ottla.connectors.cdc.mysql.rows import RowFormat, WireColumn
from ottla.connectors.cdc.mysql.tables import SqlColumn, SqlTable, SqlType

__all__ = ["by_names", "fits", "row_format", "with_nulls"]

_STRINGS: Final = (rows.VARCHAR, rows.STRING, rows.VAR_STRING)
_WIRES: Final[Mapping[str, tuple[int, ...]]] = {
    "TINYINT": (rows.TINY,),
    "SMALLINT": (rows.SHORT,),
    "MEDIUMINT": (rows.INT24,),
    "INT": (rows.LONG,),
    "BIGINT": (rows.LONGLONG,),
    "FLOAT": (rows.FLOAT,),
    "DOUBLE": (rows.DOUBLE,),
    "DECIMAL": (rows.NEWDECIMAL,),
    "BIT": (rows.BIT,),
    "YEAR": (rows.YEAR,),
    "DATE": (rows.DATE,),
    "TIME": (rows.TIME2, rows.TIME),
    "DATETIME": (rows.DATETIME2, rows.DATETIME),
    "TIMESTAMP": (rows.TIMESTAMP2, rows.TIMESTAMP),
    "ENUM": (rows.ENUM,),
    "SET": (rows.SET,),
    "JSON": (rows.JSON, rows.BLOB),
    "POINT": (rows.GEOMETRY,),
    **dict.fromkeys(GEOMETRIES, (rows.GEOMETRY,)),
    **dict.fromkeys(("CHAR", "VARCHAR", "BINARY", "VARBINARY", "UUID", "INET4", "INET6"), _STRINGS),
    **dict.fromkeys(("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"), (rows.BLOB,)),
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), (rows.BLOB,)),
}
_LENGTHS: Final[Mapping[str, int]] = {
    name: size
    for size, prefix in enumerate(("TINY", "", "MEDIUM", "LONG"), 1)
    for name in (f"{prefix}TEXT", f"{prefix}BLOB")
}


def fits(table: SqlTable, mapped: Mapped) -> bool:
    """Whether a table is the one of which a table map tells, by types, and by names where it has them."""
    if len(table.columns) != len(mapped.wires):
        return False
    if mapped.names and tuple(each.name for each in table.columns) != mapped.names:
        return False
    return all(_is_of(each.type, wire) for each, wire in zip(table.columns, mapped.wires, strict=True))


def _is_of(type_: SqlType, wire: WireColumn) -> bool:
    name = type_.name
    if wire.type not in _WIRES.get(name, (wire.type,)):
        return False
    if name == "DECIMAL":
        return (type_.width or 10, type_.scale or 0) == (wire.size, wire.scale)
    if name in _LENGTHS:
        return _LENGTHS[name] == wire.size
    if wire.type in (rows.TIME2, rows.DATETIME2, rows.TIMESTAMP2):
        return (type_.width or 0) == wire.size
    if name == "ENUM":
        return wire.size == (1 if len(type_.values) <= 0xFF else 2)
    if name == "BIT":
        return (type_.width or 1) == wire.size
    return True


def by_names(mapped: Mapped, candidates: Sequence[SqlTable]) -> SqlTable | None:
    """Return a table with the columns that a table map names, each as a candidate has it; None where one is missing."""
    if not mapped.names:
        return None
    columns: list[SqlColumn] = []
    for name, wire in zip(mapped.names, mapped.wires, strict=True):
        same = (each for table in candidates for each in table.columns if each.name == name and _is_of(each.type, wire))
        found = next(same, None)
        if found is None:
            return None
        columns.append(found)
    return replace(candidates[0], columns=tuple(columns))


def with_nulls(table: SqlTable, mapped: Mapped) -> SqlTable:
    """Return a table whose columns may be null where the table map says so: the server knows it best."""
    columns = tuple(
        replace(each, is_required=not nullable) if each.is_required == nullable else each
        for each, nullable in zip(table.columns, mapped.nullable, strict=True)
    )
    return replace(table, columns=columns)


def row_format(table: SqlTable, mapped: Mapped) -> RowFormat:
    """Return what reads a table's rows; raises DataError for columns that cannot be read."""
    return RowFormat([each.type for each in table.columns], mapped.wires, [each.name for each in table.columns])
