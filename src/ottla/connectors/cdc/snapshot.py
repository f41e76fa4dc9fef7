"""Tables read whole, in one transaction that sees one moment, a stretch of rows at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.connect import SourceRecord
from ottla.connectors.cdc.catalog import Catalog, CatalogTable
from ottla.connectors.cdc.events import Events
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.notifications import INITIAL, Notifications
from ottla.connectors.cdc.positions import SeenTransactions
from ottla.connectors.cdc.postgres_events import Moment
from ottla.connectors.cdc.replication import lsn_of, quoted
from ottla.connectors.cdc.signals import Request

__all__ = ["Snapshot", "blocking_of", "blocking_offset"]

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

    def records(self) -> Iterator[SourceRecord]:
        """Yield each row's record, marked as Debezium marks the first and last of a table and of all."""
        self._metrics.snapshot_began(len(self._tables))
        tell, names = self._notifications.tell, [str(each.id) for each in self._tables]
        tell(INITIAL, "STARTED")
        tell(INITIAL, "DATA_COLLECTIONS_RESOLVED", tables=names)
        waiting: SourceRecord | None = None
        for table in self._tables:
            tell(INITIAL, "IN_PROGRESS", tables=names, current_collection_in_progress=table.id)
            is_first, count = True, 0
            for record in self._rows(table):
                if waiting is not None:
                    yield waiting
                    mark = "first_in_data_collection" if is_first else "true"
                else:
                    mark = "first"
                _mark(record, mark)
                waiting, is_first, count = record, False, count + 1
                self._metrics.read(str(table.id))
            self._metrics.table_done()
            done: dict[str, Any] = {"scanned_collection": table.id, "total_rows_scanned": count, "status": "SUCCEEDED"}
            tell(INITIAL, "TABLE_SCAN_COMPLETED", tables=names, **done)
            if waiting is not None and not is_first and waiting.value["source"]["snapshot"] != "first":
                _mark(waiting, "last_in_data_collection")
        if waiting is not None:
            _mark(waiting, "last")
            yield waiting
        self._catalog.run("commit")
        self._metrics.snapshot_ended()
        tell(INITIAL, "COMPLETED")

    def _rows(self, table: CatalogTable) -> Iterator[SourceRecord]:
        maker = self._events.table(table)
        listed = ", ".join(quoted(each.name) for each in table.columns) or "null"
        name = f"{quoted(table.id.schema)}.{quoted(table.id.table)}"
        condition = self._conditions.get(str(table.id))
        where = f" where ({condition})" if condition else ""
        self._catalog.run(f"declare snapshot_rows no scroll cursor for select {listed} from {name}{where}")
        while True:
            rows = self._catalog.texts(f"fetch {self._fetch} from snapshot_rows")
            for row in rows:
                yield maker.read(row, self._moment)
            if len(rows) < self._fetch:
                break
        self._catalog.run("close snapshot_rows")


def blocking_offset(requests: Sequence[Request]) -> dict[str, Any]:
    """Return the tables that a signal wants read, as a part of a source offset; nothing where there are none."""
    return {_BLOCKING: json.dumps([[each.table, each.condition] for each in requests])} if requests else {}


def blocking_of(offset: Mapping[str, Any]) -> tuple[Request, ...]:
    """Return the tables of a source offset that were asked for and not read whole."""
    try:
        return tuple(Request(str(table), condition) for table, condition in json.loads(offset.get(_BLOCKING) or "[]"))
    except (ValueError, TypeError):
        return ()


def _mark(record: SourceRecord, mark: str) -> None:
    source = record.value.values[2]
    source.values[4] = mark
