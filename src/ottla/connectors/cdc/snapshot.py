"""Tables read whole, in one transaction that sees one moment, a stretch of rows at a time."""

from __future__ import annotations

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
from ottla.connectors.cdc.scan import scanned
from ottla.connectors.cdc.signals import Request

__all__ = ["Snapshot"]


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
        yield from scanned(self._tables, self._rows, self._metrics, self._notifications)
        self._catalog.run("commit")
        self._metrics.snapshot_ended()
        self._notifications.tell(INITIAL, "COMPLETED")

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
