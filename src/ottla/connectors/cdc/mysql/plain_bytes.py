"""Table maps, rows and statements of the binlog taken apart from their bytes. Pure.

The layouts are those of the servers' binary log version 4. Types of columns that no table of ours has are read over: a table
that is not captured must not end what is told of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from ottla.connect import DataError
from ottla.connectors.cdc.mysql import rows
from ottla.connectors.cdc.mysql.compression import HEADER_BYTES, length_coded
from ottla.connectors.cdc.mysql.rows import WireColumn

__all__ = ["QUERY", "ROWS", "TABLE_MAP", "QueryParts", "TableMap", "map_parts", "query_parts", "rows_parts"]

QUERY: Final = 2
TABLE_MAP: Final = 19
ROWS: Final[Mapping[int, str]] = {23: "c", 24: "u", 25: "d", 30: "c", 31: "u", 32: "d"}
"""Types of events of rows, and what they do; from 30 on with more in front of the rows."""
_WITH_MORE: Final = 30
_SHORT: Final = Struct("<H")
_METADATA_BYTES: Final[Mapping[int, int]] = {
    **dict.fromkeys((rows.FLOAT, rows.DOUBLE, rows.BLOB, rows.GEOMETRY, rows.JSON, rows.BLOB_COMPRESSED), 1),
    **dict.fromkeys((rows.TIME2, rows.DATETIME2, rows.TIMESTAMP2), 1),
    **dict.fromkeys((rows.VARCHAR, rows.VARCHAR_COMPRESSED, rows.VAR_STRING, rows.STRING), 2),
    **dict.fromkeys((rows.NEWDECIMAL, rows.BIT, rows.ENUM, rows.SET), 2),
}
_NAMES: Final = 4
"""The field of optional metadata that has columns' names."""
_STATUS_BYTES: Final[Mapping[int, int]] = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 128: 3, 129: 8}
"""Sizes of what a statement says of its session; texts, behind their size, are `_STATUS_TEXTS`."""
_STATUS_TEXTS: Final = (5, 6)
_SQL_MODE, _CHARSETS, _OLD_CATALOG = 1, 4, 2


@dataclass(frozen=True, slots=True)
class TableMap:
    """What a table map says of a table: its form, by which its rows are read."""

    database: str
    table: str
    wires: tuple[WireColumn, ...]
    nullable: tuple[bool, ...]
    names: tuple[str, ...]
    """Of columns, where the server tells them (binlog_row_metadata=FULL)."""


@dataclass(frozen=True, slots=True)
class QueryParts:
    """What an event of a statement says."""

    thread: int
    database: str
    text: bytes
    sql_mode: int
    charset: int
    """The number of a collation of the client's character set; 0 where it is not said."""


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def map_parts(event: bytes) -> tuple[int, TableMap]:
    """Return the number that a table map, its checksum left off, gives a table, and what it says of it; raises DataError."""
    try:
        return _map_parts(event)
    except (IndexError, ValueError) as error:
        raise DataError(f"A table map of the binlog cannot be read: {error}") from error


def _map_parts(event: bytes) -> tuple[int, TableMap]:
    at = HEADER_BYTES + 8
    database, at = _text(event, at)
    table, at = _text(event, at)
    count, at = length_coded(event, at)
    types = event[at : at + count]
    size, at = length_coded(event, at + count)
    wires = _wires(types, event[at : at + size])
    at += size
    nulls = event[at : at + (count + 7) // 8]
    nullable = tuple(bool(nulls[place >> 3] >> (place & 7) & 1) for place in range(count))
    names = _names(event, at + len(nulls))
    number = _number(event[HEADER_BYTES : HEADER_BYTES + 6])
    return number, TableMap(database, table, wires, nullable, names if len(names) == count else ())


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Read a text behind its length, and the zero that ends it."""
    end = at + 1 + data[at]
    return data[at + 1 : end].decode("utf-8", "replace"), end + 1


def _wires(types: bytes, metadata: bytes) -> tuple[WireColumn, ...]:
    found, at = [], 0
    for type_ in types:
        size = _METADATA_BYTES.get(type_, 0)
        found.append(_wire(type_, metadata[at : at + size]))
        at += size
    return tuple(found)


def _wire(type_: int, data: bytes) -> WireColumn:
    if type_ in (rows.STRING, rows.VAR_STRING):
        if data[0] in (rows.ENUM, rows.SET):
            return WireColumn(data[0], data[1])
        return WireColumn(type_, ((data[0] << 4 & 0x300) ^ 0x300) + data[1])
    if type_ == rows.NEWDECIMAL:
        return WireColumn(type_, data[0], data[1])
    if type_ == rows.BIT:
        return WireColumn(type_, data[1] * 8 + data[0])
    if type_ in (rows.FLOAT, rows.DOUBLE):
        return WireColumn(type_)
    return WireColumn(type_, _number(data))


def _names(event: bytes, at: int) -> tuple[str, ...]:
    """The names of columns in the optional metadata; none where the server does not tell them."""
    while at < len(event):
        kind = event[at]
        size, at = length_coded(event, at + 1)
        if kind != _NAMES:
            at += size
            continue
        found, end = [], at + size
        while at < end:
            length, at = length_coded(event, at)
            found.append(event[at : at + length].decode("utf-8", "replace"))
            at += length
        return tuple(found)
    return ()


def rows_parts(event: bytes, type_: int) -> tuple[str, int, int, bytes]:
    """Return what an event of rows does (c, u or d), its table's number, how many columns it has, and the rest.

    `type_` is its type, which its header need not have.
    """
    at = HEADER_BYTES + 8
    try:
        if type_ >= _WITH_MORE:
            at += _SHORT.unpack_from(event, at)[0]
        count, at = length_coded(event, at)
    except (IndexError, KeyError) as error:
        raise DataError(f"Rows of the binlog cannot be read: {error!r}") from error
    return ROWS[type_], _number(event[HEADER_BYTES : HEADER_BYTES + 6]), count, event[at:]


def query_parts(event: bytes) -> QueryParts:
    """Take a statement apart, its checksum left off."""
    at = HEADER_BYTES
    thread, size = _number(event[at : at + 4]), event[at + 8]
    status = event[at + 13 : at + 13 + _SHORT.unpack_from(event, at + 11)[0]]
    at += 13 + len(status)
    database = event[at : at + size].decode("utf-8", "replace")
    sql_mode, charset = _session(status)
    return QueryParts(thread, database, event[at + size + 1 :], sql_mode, charset)


def _session(status: bytes) -> tuple[int, int]:
    """The session's sql_mode and the collation of its client, which stand in front of what may be unknown."""
    at, sql_mode, charset = 0, 0, 0
    while at < len(status):
        key = status[at]
        at += 1
        if key in _STATUS_TEXTS or key == _OLD_CATALOG:
            at += 1 + status[at] + (key == _OLD_CATALOG)
            continue
        size = _STATUS_BYTES.get(key)
        if size is None:
            break
        if key == _SQL_MODE:
            sql_mode = _number(status[at : at + size])
        elif key == _CHARSETS:
            charset = _number(status[at : at + 2])
        at += size
    return sql_mode, charset
