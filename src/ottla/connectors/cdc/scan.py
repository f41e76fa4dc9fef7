"""Tables read whole, one behind the other: their rows marked as Debezium marks them, counted, and told of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeVar

from ottla.connect import SourceColumns, SourceRecord
from ottla.connect.data import Struct
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.notifications import INITIAL, Notifications

__all__ = ["Piece", "RecordPiece", "Scan", "mark", "marks", "scanned", "with_offset"]

Read = SourceRecord | SourceColumns
TAKEN_BYTES_MAX = 16 << 20
"""Rows that a poll takes one by one are no more than these bytes."""
_AFTER: Final = 1
"""Where the row itself is in an envelope."""
_SOURCE: Final = 2
_SNAPSHOT: Final = 4
"""Where `source` is in an envelope, and `snapshot` in that."""


class Piece(Protocol):
    """Rows of one table that were read together, before it is known which of them are first and last."""

    first: str
    """What marks the first of them."""
    last: str
    """What marks the last of them, where it is the last of something: else `true`."""

    @property
    def count(self) -> int:
        """Return how many they are."""
        ...

    def made(self) -> Iterator[Read]:
        """Yield their records, or columns of them."""
        ...


@dataclass(slots=True)
class RecordPiece:
    """One row, whose record is made by now."""

    record: SourceRecord
    first: str = "true"
    last: str = "true"

    @property
    def count(self) -> int:
        """See `Piece`."""
        return 1

    def made(self) -> Iterator[Read]:
        """See `Piece`."""
        [found] = marks(1, self.first, self.last)
        mark(self.record, found)
        yield self.record


def marks(count: int, first: str, last: str) -> list[str]:
    """Return what marks each of so many rows; the first of all stays that where it is the last of its table, too."""
    found = ["true"] * count
    found[0] = first
    if last == "last" or (last != "true" and found[-1] != "first"):
        found[-1] = last
    return found


def mark(record: SourceRecord, found: str) -> None:
    """Say in a row's record what it is of the snapshot."""
    record.value.values[_SOURCE].values[_SNAPSHOT] = found


class _Named(Protocol):
    @property
    def id(self) -> TableId: ...


T = TypeVar("T", bound=_Named)


def scanned(
    tables: Sequence[T],
    pieces: Callable[[T], Iterator[Piece]],
    metrics: CaptureMetrics,
    notifications: Notifications,
    is_failed: Callable[[TableId], bool] = lambda _: False,
) -> Iterator[Read]:
    """Yield all rows, the first and the last of a table and of all marked as such; `pieces` reads a table.

    `is_failed` says of a table that was read whether a part of it is not told: the server has refused it, or no record can
    hold it, which is known when its records are made. So what is told of a table comes behind its last piece.
    """
    metrics.snapshot_began(len(tables))
    names = [str(each.id) for each in tables]
    notes = _Notes(notifications, names, is_failed)
    tell = notifications.tell
    tell(INITIAL, "STARTED")
    tell(INITIAL, "DATA_COLLECTIONS_RESOLVED", tables=names)
    waiting: Piece | None = None
    for table in tables:
        notes.begun(table.id, at_once=waiting is None)
        count = 0
        for piece in pieces(table):
            if waiting is None:
                piece.first = "first"
            else:
                yield from waiting.made()
                notes.tell()
                piece.first = "true" if count else "first_in_data_collection"
            count += piece.count
            waiting = piece
            metrics.read(str(table.id), piece.count)
        metrics.table_done()
        notes.ended(table.id, count, at_once=waiting is None)
        if waiting is not None and count:
            waiting.last = "last_in_data_collection"
    if waiting is not None:
        waiting.last = "last"
        yield from waiting.made()
        notes.tell()


@dataclass(slots=True)
class _Notes:
    """What tables have come to, kept until the piece that lies before it is made."""

    notifications: Notifications
    names: Sequence[str]
    is_failed: Callable[[TableId], bool]
    kept: list[tuple[TableId, int | None]] = field(default_factory=list)
    """Tables that have begun, and those that are over with the rows that were read."""

    def begun(self, table: TableId, *, at_once: bool) -> None:
        """A table is read from here on; told `at_once` where no piece waits."""
        self._keep(table, None, at_once)

    def ended(self, table: TableId, count: int, *, at_once: bool) -> None:
        """A table was read, so many rows."""
        self._keep(table, count, at_once)

    def _keep(self, table: TableId, count: int | None, at_once: bool) -> None:
        self.kept.append((table, count))
        if at_once:
            self.tell()

    def tell(self) -> None:
        """Tell what was kept: whether the tables are told as they are is known now."""
        for table, count in self.kept:
            if count is None:
                self.notifications.tell(INITIAL, "IN_PROGRESS", tables=self.names, current_collection_in_progress=table)
                continue
            status = "SQL_EXCEPTION" if self.is_failed(table) else "SUCCEEDED"
            done: dict[str, Any] = {"scanned_collection": table, "total_rows_scanned": count, "status": status}
            self.notifications.tell(INITIAL, "TABLE_SCAN_COMPLETED", tables=self.names, **done)
        self.kept.clear()


class Scan:
    """Records that are taken some at a time, of which is known at once whether they were the last."""

    def __init__(self, records: Iterator[Read]) -> None:
        self._records = records
        self._next: Read | None = None
        self.is_over = False

    def take(self, most: int) -> list[Read]:
        """Return so many at most, columns counted as one, and see whether there are more; raises what reading raises.

        Large rows are fewer: no more than `TAKEN_BYTES_MAX`, but for one that is larger itself.
        """
        found = [] if self._next is None else [self._next]
        size, self._next = sum(map(_bytes_of, found)), None
        for each in self._records:
            if len(found) >= most or size >= TAKEN_BYTES_MAX:
                self._next = each
                break
            found.append(each)
            size += _bytes_of(each)
        self.is_over = self._next is None
        return found


def _bytes_of(found: Read) -> int:
    """Return about how large a row's texts and bytes are; columns are bounded where they are made."""
    value = None if isinstance(found, SourceColumns) else found.value
    row = value.values[_AFTER] if isinstance(value, Struct) and len(value.values) > _AFTER else None
    return sum(len(each) for each in row.values if isinstance(each, str | bytes)) if isinstance(row, Struct) else 0


def with_offset(found: Read, offset: dict[str, Any]) -> Read:
    """Return a record, or columns, with the place behind it."""
    if isinstance(found, SourceColumns):
        return replace(found, source_offset=offset)
    found.source_offset = offset
    return found
