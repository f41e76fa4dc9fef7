"""Tables read whole, in one transaction that sees one moment, a stretch of rows at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.connect import SourceRecord
from ottla.connectors.cdc.catalog import Catalog, CatalogTable
from ottla.connectors.cdc.events import Events, Moment
from ottla.connectors.cdc.positions import SeenTransactions
from ottla.connectors.cdc.replication import lsn_of, quoted

__all__ = ["Snapshot"]


class Snapshot:
    """Begins its transaction when it is made; `records` gives the tables' rows, and ends it. Raises ConnectError."""

    def __init__(self, catalog: Catalog, settings: Mapping[str, Any], events: Events) -> None:
        self._catalog, self._events = catalog, events
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
        self._tables = catalog.tables(lambda each: selection.has_table(each) and selection.is_read(each))

    def records(self) -> Iterator[SourceRecord]:
        """Yield each row's record, marked as Debezium marks the first and last of a table and of all."""
        waiting: SourceRecord | None = None
        for table in self._tables:
            is_first = True
            for record in self._rows(table):
                if waiting is not None:
                    yield waiting
                    mark = "first_in_data_collection" if is_first else "true"
                else:
                    mark = "first"
                _mark(record, mark)
                waiting, is_first = record, False
            if waiting is not None and not is_first and waiting.value["source"]["snapshot"] != "first":
                _mark(waiting, "last_in_data_collection")
        if waiting is not None:
            _mark(waiting, "last")
            yield waiting
        self._catalog.run("commit")

    def _rows(self, table: CatalogTable) -> Iterator[SourceRecord]:
        maker = self._events.table(table)
        listed = ", ".join(quoted(each.name) for each in table.columns) or "null"
        name = f"{quoted(table.id.schema)}.{quoted(table.id.table)}"
        self._catalog.run(f"declare snapshot_rows no scroll cursor for select {listed} from {name}")
        while True:
            rows = self._catalog.texts(f"fetch {self._fetch} from snapshot_rows")
            for row in rows:
                yield maker.read(row, self._moment)  # type: ignore[arg-type]
            if len(rows) < self._fetch:
                break
        self._catalog.run("close snapshot_rows")


def _mark(record: SourceRecord, mark: str) -> None:
    source = record.value.values[2]
    source.values[4] = mark
