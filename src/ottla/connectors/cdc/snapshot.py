"""Tables read whole, in one transaction that sees one moment, a stretch of rows at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.connect import ConnectError, DataError, SourceColumns, SourceRecord
from ottla.connectors.cdc.catalog import Catalog, CatalogTable
from ottla.connectors.cdc.events import Events, TableEvents
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.notifications import INITIAL, Notifications
from ottla.connectors.cdc.positions import SeenTransactions
from ottla.connectors.cdc.postgres_events import Moment, Moments
from ottla.connectors.cdc.raw_columns import columns_of_csv
from ottla.connectors.cdc.refused import Refused
from ottla.connectors.cdc.replication import ServerSaysError, is_of_the_table, lsn_of, quoted
from ottla.connectors.cdc.scan import mark, marks, scanned
from ottla.connectors.cdc.signals import Request
from ottla.connectors.cdc.table_locks import begun_with_tables

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Snapshot"]

PIECE_ROWS_MAX: Final = 8192
"""Rows that are made at once: so that the first are sent while the next are made."""


class Snapshot:
    """Begins its transaction when it is made; `records` gives the tables' rows, and ends it. Raises ConnectError."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Mapping[str, Any],
        events: Events,
        notifications: Notifications,
        metrics: CaptureMetrics,
        refused: Refused,
        stopping: threading.Event,
        requests: Sequence[Request] | None = None,
    ) -> None:
        """Read all captured tables, or those of the `requests` of a signal, with their conditions.

        A table that has a value that no record can hold is put among the `refused`, and no more of it is told.
        """
        self._metrics, self._notifications, self._refused = metrics, notifications, refused
        self._catalog, self._events = catalog, events
        self._conditions = {} if requests is None else {each.table: each.condition for each in requests}
        self._fetch = settings["snapshot.fetch.size"]
        selection = events.selection
        self._tables = begun_with_tables(
            catalog,
            settings["snapshot.isolation.mode"].replace("_", " "),
            lambda each: (
                selection.has_table(each) and selection.is_read(each) and str(each) != selection.signals
                if requests is None
                else str(each) in self._conditions
            ),
            stopping,
        )
        [[text, xid]] = catalog.rows(
            "select pg_current_snapshot()::text, pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        )
        [[lsn]] = catalog.rows("select pg_current_wal_insert_lsn()::text")
        self.seen = SeenTransactions(text, lsn_of(lsn))
        self._moment = Moment(lsn_of(lsn), time.time_ns() // 1000, xid & 0xFFFFFFFF, None, "true")

    def records(self, *, in_columns: bool = False) -> Iterator[SourceRecord | SourceColumns]:
        """Yield each row's record, marked as Debezium marks the first and last of a table and of all.

        With `in_columns` those of many rows are made at once, wherever their table allows it.
        """

        def pieces(table: CatalogTable) -> Iterator[_Piece]:
            return self._pieces(table, in_columns=in_columns)

        yield from scanned(self._tables, pieces, self._metrics, self._notifications, self._refused.__contains__)
        with suppress(ConnectError):  # nothing was written, and everything is read: it is all the same how this ends
            self._catalog.run("commit")
        self._metrics.snapshot_ended()
        self._notifications.tell(INITIAL, "COMPLETED")

    def _pieces(self, table: CatalogTable, *, in_columns: bool) -> Iterator[_Piece]:
        """Yield a table's rows, some at a time."""
        if table.trouble is not None:
            self._refused.add(table.id, table.trouble)
        if table.id in self._refused:
            return
        try:
            maker = self._events.table(table)
        except DataError as error:
            self._refused.add(table.id, str(error))
            return
        listed = ", ".join(quoted(each.name) for each in table.columns) or "null"
        name = f"{quoted(table.id.schema)}.{quoted(table.id.table)}"
        condition = self._conditions.get(str(table.id))
        query = f"select {listed} from {name}" + (f" where ({condition})" if condition else "")
        in_columns = in_columns and maker.columns is not None
        self._catalog.run("savepoint one_table")
        try:
            for lines in self._catalog.copied(query, min(self._fetch, PIECE_ROWS_MAX)):
                columns = columns_of_csv(lines, max(1, len(table.columns)))
                yield _Piece(maker, self._moment, len(lines), columns, self._refused, in_columns=in_columns)
        except ServerSaysError as error:
            if condition or not is_of_the_table(error):
                raise
            self._refused.add(table.id, str(error))
            self._catalog.run("rollback to savepoint one_table")
        with suppress(ConnectError):  # the table is read: a connection that is gone is told of by the next one
            self._catalog.run("release savepoint one_table")


@dataclass(slots=True)
class _Piece:
    """Rows of a table, one by one or in columns."""

    maker: TableEvents
    moment: Moment
    count: int
    columns: list[pa.Array]
    refused: Refused
    in_columns: bool
    first: str = "true"
    last: str = "true"

    def made(self) -> Iterator[SourceRecord | SourceColumns]:
        """See `scan.Piece`; none behind a row that no record can hold, whose table is refused."""
        if self.maker.id in self.refused:
            return
        found = marks(self.count, self.first, self.last)
        if self.in_columns and self.maker.columns is not None:
            at, like = self.moment, self.first == self.last == "true"
            moments = Moments(at.lsn, at.commit_us, at.xid, None, "true" if like else found)
            made = self.maker.columns.made("r", self.columns, moments, None)
            if made is not None:
                yield made
                return
        rows = zip(*(each.to_pylist() for each in self.columns), strict=True)
        for row, each in zip(rows, found, strict=True):
            try:
                record = self.maker.read(row, self.moment)
            except DataError as error:
                self.refused.add(self.maker.id, str(error))
                return
            mark(record, each)
            yield record
