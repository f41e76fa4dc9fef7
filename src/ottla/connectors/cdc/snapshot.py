"""Tables read whole, in one transaction that sees one moment, a stretch of rows at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.connect import ConnectError, SourceColumns, SourceRecord
from ottla.connectors.cdc.catalog import Catalog, CatalogTable
from ottla.connectors.cdc.events import Events, Row, TableEvents
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.notifications import INITIAL, Notifications
from ottla.connectors.cdc.positions import SeenTransactions
from ottla.connectors.cdc.postgres_events import Moment, Moments
from ottla.connectors.cdc.raw_columns import columns_of_csv
from ottla.connectors.cdc.replication import lsn_of, quoted
from ottla.connectors.cdc.signals import Request

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Snapshot", "blocking_of", "blocking_offset"]

PIECE_ROWS_MAX: Final = 4096
"""Rows that are made at once: so that the first are sent while the next are made."""
_BLOCKING = "blocking_snapshot_collections"


class Snapshot:
    """Begins its transaction when it is made; `records` gives the tables' rows, and ends it. Raises ConnectError."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Mapping[str, Any],
        events: Events,
        notifications: Notifications,
        metrics: CaptureMetrics,
        requests: Sequence[Request] | None = None,
    ) -> None:
        """Read all captured tables, or those of the `requests` of a signal, with their conditions."""
        self._metrics, self._notifications = metrics, notifications
        self._catalog, self._events = catalog, events
        self._conditions = {} if requests is None else {each.table: each.condition for each in requests}
        self._fetch = settings["snapshot.fetch.size"]
        level = settings["snapshot.isolation.mode"].replace("_", " ")
        catalog.run(f"begin transaction isolation level {level}, read only")
        [[text, xid]] = catalog.rows(
            "select pg_current_snapshot()::text, pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        )
        [[lsn]] = catalog.rows("select pg_current_wal_insert_lsn()::text")
        self.seen = SeenTransactions(text, lsn_of(lsn))
        self._moment = Moment(lsn_of(lsn), time.time_ns() // 1000, xid & 0xFFFFFFFF, None, "true")
        selection = events.selection
        self._tables = catalog.tables(
            lambda each: (
                selection.has_table(each) and selection.is_read(each) and str(each) != selection.signals
                if requests is None
                else str(each) in self._conditions
            )
        )

    def records(self, *, in_columns: bool = False) -> Iterator[SourceRecord | SourceColumns]:
        """Yield each row's record, marked as Debezium marks the first and last of a table and of all.

        With `in_columns` those of many rows are made at once, wherever their table allows it.
        """
        self._metrics.snapshot_began(len(self._tables))
        tell, names = self._notifications.tell, [str(each.id) for each in self._tables]
        tell(INITIAL, "STARTED")
        tell(INITIAL, "DATA_COLLECTIONS_RESOLVED", tables=names)
        waiting: _Piece | None = None
        for table in self._tables:
            tell(INITIAL, "IN_PROGRESS", tables=names, current_collection_in_progress=table.id)
            count = 0
            for piece in self._pieces(table, in_columns=in_columns):
                if waiting is None:
                    piece.first = "first"
                else:
                    yield from self._made(waiting)
                    piece.first = "true" if count else "first_in_data_collection"
                count += piece.count
                waiting = piece
                self._metrics.read(str(table.id), piece.count)
            self._metrics.table_done()
            done: dict[str, Any] = {"scanned_collection": table.id, "total_rows_scanned": count, "status": "SUCCEEDED"}
            tell(INITIAL, "TABLE_SCAN_COMPLETED", tables=names, **done)
            if waiting is not None and count:
                waiting.last = "last_in_data_collection"
        if waiting is not None:
            waiting.last = "last"
            yield from self._made(waiting)
        with suppress(ConnectError):  # nothing was written, and everything is read: it is all the same how this ends
            self._catalog.run("commit")
        self._metrics.snapshot_ended()
        tell(INITIAL, "COMPLETED")

    def _pieces(self, table: CatalogTable, *, in_columns: bool) -> Iterator[_Piece]:
        """Yield a table's rows, some at a time."""
        maker = self._events.table(table)
        listed = ", ".join(quoted(each.name) for each in table.columns) or "null"
        name = f"{quoted(table.id.schema)}.{quoted(table.id.table)}"
        condition = self._conditions.get(str(table.id))
        query = f"select {listed} from {name}" + (f" where ({condition})" if condition else "")
        if in_columns and maker.columns is not None and maker.columns.is_possible:
            for lines in self._catalog.copied(query, min(self._fetch, PIECE_ROWS_MAX)):
                yield _Piece(maker, len(lines), columns=columns_of_csv(lines, len(table.columns)))
            return
        self._catalog.run(f"declare snapshot_rows no scroll cursor for {query}")
        while True:
            rows = self._catalog.texts(f"fetch {self._fetch} from snapshot_rows")
            if rows:
                yield _Piece(maker, len(rows), rows=rows)
            if len(rows) < self._fetch:
                break
        self._catalog.run("close snapshot_rows")

    def _made(self, piece: _Piece) -> Iterator[SourceRecord | SourceColumns]:
        """Yield the records of rows once it is known which of them are first and last."""
        if piece.columns is not None and piece.maker.columns is not None:
            at = self._moment
            moments = Moments(at.lsn, at.commit_us, at.xid, None, piece.marks())
            made = piece.maker.columns.made("r", piece.columns, moments, None)
            if made is not None:
                yield made
                return
            piece.rows = zip(*(each.to_pylist() for each in piece.columns), strict=True)
        for row, mark in zip(piece.rows, piece.marks(), strict=True):
            record = piece.maker.read(row, self._moment)
            record.value.values[2].values[4] = mark
            yield record


@dataclass(slots=True)
class _Piece:
    """Rows of a table, one by one or in columns."""

    maker: TableEvents
    count: int
    rows: Iterable[Row] = ()
    columns: list[pa.Array] | None = None
    first: str = "true"
    last: str = "true"

    def marks(self) -> list[str]:
        """Return each row's `snapshot`."""
        found = ["true"] * self.count
        found[0] = self.first
        if self.last == "last" or (self.last != "true" and found[-1] != "first"):
            found[-1] = self.last
        return found


def blocking_offset(requests: Sequence[Request]) -> dict[str, Any]:
    """Return the tables that a signal wants read, as a part of a source offset; nothing where there are none."""
    return {_BLOCKING: json.dumps([[each.table, each.condition] for each in requests])} if requests else {}


def blocking_of(offset: Mapping[str, Any]) -> tuple[Request, ...]:
    """Return the tables of a source offset that were asked for and not read whole."""
    try:
        return tuple(Request(str(table), condition) for table, condition in json.loads(offset.get(_BLOCKING) or "[]"))
    except (ValueError, TypeError):
        return ()
