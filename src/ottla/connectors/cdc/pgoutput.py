"""Messages of PostgreSQL's output plugin `pgoutput`, protocol version 1. Pure.

The layout is that of the chapter "Logical Replication Message Formats" in PostgreSQL's documentation. Values of columns
are the texts that the server prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error
from typing import Final

from ottla.connect import DataError

__all__ = [
    "UNCHANGED",
    "Begin",
    "Change",
    "Commit",
    "LogicalMessage",
    "Message",
    "Origin",
    "RelationColumn",
    "RelationMessage",
    "Row",
    "Truncate",
    "Unchanged",
    "decode",
]


class Unchanged:
    """What stands for a large value that an update has left as it was: the server does not send it."""

    def __repr__(self) -> str:
        return "UNCHANGED"

    def __reduce__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
Row = list[bytes | Unchanged | None]
"""A row's columns in the relation's order: a text, None for null."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins, of which everything follows up to its commit."""

    final_lsn: int
    """Where its commit record begins."""
    commit_us: int
    """Microseconds since 1970."""
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction has ended; `end_lsn` is behind its commit record."""

    commit_lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a transaction came from first, for what was itself replicated."""

    lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as the stream knows it."""

    name: str
    type_oid: int
    type_modifier: int
    is_key: bool
    """Part of the replica identity."""


@dataclass(frozen=True, slots=True)
class RelationMessage:
    """A table as it is from here on; sent before its first change, and after it was altered."""

    oid: int
    schema: str
    table: str
    identity: str
    """`d` primary key, `n` nothing, `f` all columns, `i` an index."""
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A row was inserted (`I`), updated (`U`) or deleted (`D`)."""

    kind: str
    oid: int
    old: Row | None
    """The row before, as far as the replica identity has it."""
    old_is_key: bool
    """Whether `old` has the key's columns alone."""
    new: Row | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables were emptied."""

    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """What `pg_logical_emit_message` wrote."""

    is_transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message = Begin | Commit | Origin | RelationMessage | Change | Truncate | LogicalMessage

EPOCH_US: Final = 946_684_800_000_000
"""PostgreSQL's clock begins with the year 2000."""
_BEGIN, _COMMIT = Struct(">QqI"), Struct(">BQQq")
_U64, _U32, _I32, _U16 = Struct(">Q"), Struct(">I"), Struct(">i"), Struct(">H")
_COLUMN = Struct(">Ii")


def decode(data: bytes, errors: str = "strict") -> Message | None:
    """Return what a message says; None for what means nothing here, such as a type's name.

    `errors` says what becomes of names that are not UTF-8, as for `bytes.decode`.
    Raises DataError for bytes that are no message.
    """
    try:
        return _decoded(data, errors)
    except (error, IndexError, ValueError, UnicodeDecodeError) as failure:
        raise DataError(f"The replication stream holds no message of pgoutput: {data[:40]!r} ({failure})") from None


def _decoded(data: bytes, errors: str) -> Message | None:
    kind = data[0]
    if kind == 0x49:  # I
        _expect(data, 5, b"N")
        new, _ = _row(data, 6)
        return Change("I", _U32.unpack_from(data, 1)[0], None, False, new)
    if kind == 0x55:  # U
        return _update(data)
    if kind == 0x44:  # D
        old, _ = _row(data, 6)
        return Change("D", _U32.unpack_from(data, 1)[0], old, _is_key(data[5]), None)
    if kind == 0x42:  # B
        final, at, xid = _BEGIN.unpack_from(data, 1)
        return Begin(final, at + EPOCH_US, xid)
    if kind == 0x43:  # C
        _, lsn, end, at = _COMMIT.unpack_from(data, 1)
        return Commit(lsn, end, at + EPOCH_US)
    if kind == 0x52:  # R
        return _relation(data, errors)
    if kind == 0x54:  # T
        (count,) = _U32.unpack_from(data, 1)
        return Truncate(tuple(_U32.unpack_from(data, 6 + 4 * each)[0] for each in range(count)))
    if kind == 0x4D:  # M
        prefix, at = _text(data, 10, errors)
        (size,) = _U32.unpack_from(data, at)
        return LogicalMessage(bool(data[1] & 1), _U64.unpack_from(data, 2)[0], prefix, _bytes(data, at + 4, size))
    if kind == 0x4F:  # O
        return Origin(_U64.unpack_from(data, 1)[0], _text(data, 9, errors)[0])
    if kind == 0x59:  # Y
        return None
    raise ValueError(f"unknown kind {chr(kind)!r}")


def _update(data: bytes) -> Change:
    (oid,) = _U32.unpack_from(data, 1)
    old: Row | None = None
    at, old_is_key = 5, False
    if data[at] != 0x4E:
        old_is_key = _is_key(data[at])
        old, at = _row(data, at + 1)
    _expect(data, at, b"N")
    new, _ = _row(data, at + 1)
    return Change("U", oid, old, old_is_key, new)


def _is_key(mark: int) -> bool:
    if mark not in b"KO":
        raise ValueError(f"an old row is marked {chr(mark)!r}")
    return mark == 0x4B


def _expect(data: bytes, at: int, mark: bytes) -> None:
    if data[at : at + 1] != mark:
        raise ValueError(f"{mark!r} was expected at byte {at}")


def _row(data: bytes, at: int) -> tuple[Row, int]:
    """Return the columns of a row, and where it ends."""
    (count,) = _U16.unpack_from(data, at)
    at += 2
    found: Row = []
    size_of = _I32.unpack_from
    for _ in range(count):
        kind = data[at]
        if kind == 0x74:  # t
            (size,) = size_of(data, at + 1)
            begin = at + 5
            at = begin + size
            if size < 0 or at > len(data):
                raise ValueError(f"a column of {size} bytes")
            found.append(data[begin:at])
        elif kind == 0x6E:  # n
            found.append(None)
            at += 1
        elif kind == 0x75:  # u
            found.append(UNCHANGED)
            at += 1
        else:
            raise ValueError(f"a column is marked {chr(kind)!r}")
    return found, at


def _relation(data: bytes, errors: str) -> RelationMessage:
    (oid,) = _U32.unpack_from(data, 1)
    schema, at = _text(data, 5, errors)
    table, at = _text(data, at, errors)
    identity = chr(data[at])
    (count,) = _U16.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        name, at = _text(data, at + 1, errors)
        type_oid, modifier = _COLUMN.unpack_from(data, at)
        at += 8
        columns.append(RelationColumn(name, type_oid, modifier, bool(flags & 1)))
    return RelationMessage(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _text(data: bytes, at: int, errors: str) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(errors=errors), end + 1


def _bytes(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError(f"{size} bytes were expected")
    return data[at : at + size]
