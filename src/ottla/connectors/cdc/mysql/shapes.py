"""Tables as the binlog's events have them: whether what is known of a table fits, and how its rows are read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ottla.connectors.cdc.mysql import rows
from ottla.connectors.cdc.mysql.kinds import GEOMETRIES
from ottla.connectors.cdc.mysql.plain_bytes import TableMap
from ottla.connectors.cdc.mysql.rows import RowFormat, WireColumn
from ottla.connectors.cdc.mysql.tables import SqlColumn, SqlTable, SqlType

__all__ = ["by_names", "fits", "is_over", "row_end", "row_format", "with_nulls"]

_STRINGS: Final = (rows.VARCHAR, rows.STRING, rows.VAR_STRING)
_BLOBS: Final = (rows.BLOB, rows.BLOB_COMPRESSED)
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
    **dict.fromkeys(("VARCHAR", "VARBINARY"), (*_STRINGS, rows.VARCHAR_COMPRESSED)),
    **dict.fromkeys(("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"), _BLOBS),
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), _BLOBS),
}
_LENGTHS: Final[Mapping[str, int]] = {
    name: size
    for size, prefix in enumerate(("TINY", "", "MEDIUM", "LONG"), 1)
    for name in (f"{prefix}TEXT", f"{prefix}BLOB")
}


def fits(table: SqlTable, mapped: TableMap) -> bool:
    """Whether a table is the one of which a table map tells, by types, and by names where it has them."""
    mapped = without_period(table, mapped)
    if len(table.columns) != len(mapped.wires):
        return False
    if mapped.names and tuple(each.name for each in table.columns) != mapped.names:
        return False
    return all(_is_of(each.type, wire) for each, wire in zip(table.columns, mapped.wires, strict=True))


def without_period(table: SqlTable, mapped: TableMap) -> TableMap:
    """Return a table map without the two columns of a system-versioned table that no statement names."""
    ends = mapped.wires[-2:]
    if len(mapped.wires) != len(table.columns) + 2 or ends[0] != ends[1] or ends[0] not in _PERIODS:
        return mapped
    return replace(mapped, wires=mapped.wires[:-2], nullable=mapped.nullable[:-2], names=mapped.names[:-2])


def row_end(table: SqlTable, mapped: TableMap) -> int | None:
    """Return which column says until when a row has been; None of a table that is not system-versioned."""
    if len(mapped.wires) == len(table.columns) + 2:
        return len(mapped.wires) - 1
    name = (table.row_end or "").lower()
    return next((at for at, each in enumerate(table.columns) if each.name.lower() == name), None)


def is_over(end: int) -> bool:
    """Whether a row with that end of its time is one of the past: others end with the last moment, or transaction."""
    return end != _LAST_TRANSACTION and end < _LAST_MOMENT_US


_PERIODS: Final = (WireColumn(rows.TIMESTAMP2, 6), WireColumn(rows.LONGLONG))
_LAST_MOMENT_US: Final = 0x7FFFFFFF * 1_000_000
_LAST_TRANSACTION: Final = (1 << 64) - 1


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


def by_names(mapped: TableMap, candidates: Sequence[SqlTable]) -> SqlTable | None:
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


def with_nulls(table: SqlTable, mapped: TableMap) -> SqlTable:
    """Return a table whose columns may be null where the table map says so: the server knows it best."""
    columns = tuple(
        replace(each, is_required=not nullable) if each.is_required == nullable else each
        for each, nullable in zip(table.columns, mapped.nullable, strict=False)  # a versioned table has two more
    )
    return replace(table, columns=columns)


def row_format(table: SqlTable, mapped: TableMap) -> RowFormat:
    """Return what reads a table's rows; raises DataError for columns that cannot be read."""
    types, names = [each.type for each in table.columns], [each.name for each in table.columns]
    for wire in mapped.wires[len(types) :]:
        types.append(SqlType("TIMESTAMP", 6) if wire.type == rows.TIMESTAMP2 else SqlType("BIGINT", is_unsigned=True))
        names.append("")
    return RowFormat(types, mapped.wires, names)
