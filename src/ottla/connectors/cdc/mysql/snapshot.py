"""All tables as they are at one moment: what they look like, for the history, and their rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.connect import ConnectError, SourceColumns, SourceRecord
from ottla.connectors.cdc.events import Events
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.mysql.binlog_events import BinlogMoment, SchemaChanges
from ottla.connectors.cdc.mysql.ddl import Effect, follow
from ottla.connectors.cdc.mysql.ddl_words import DdlError
from ottla.connectors.cdc.mysql.history import HistoryStore, history_record
from ottla.connectors.cdc.mysql.positions import Position
from ottla.connectors.cdc.mysql.recovering import names_of_prepared, prepared_before
from ottla.connectors.cdc.mysql.server import Server, quoted
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables
from ottla.connectors.cdc.mysql.texts import row_reader, selected
from ottla.connectors.cdc.notifications import INITIAL, Notifications
from ottla.connectors.cdc.scan import RecordPiece, scanned
from ottla.connectors.cdc.signals import Request

__all__ = ["Snapshot"]

log = logging.getLogger(__name__)
_H = "schema.history.internal.store.only.captured"


class Snapshot:
    """Begins when it is made: `position` is its moment, `tables` what there was. Raises ConnectError."""

    def __init__(
        self,
        server: Server,
        settings: Mapping[str, Any],
        events: Events,
        metrics: CaptureMetrics,
        notifications: Notifications,
        requests: Sequence[Request] | None = None,
        *,
        is_open: bool = True,
    ) -> None:
        """Look at the tables of one moment; `is_open` where rows are to be read as of that moment.

        With `requests` they are those of a signal, of the tables that it names, with their conditions.
        """
        self._notifications = notifications
        self._conditions = None if requests is None else {each.table: each.condition for each in requests}
        self._server, self._settings, self._events, self._metrics = server, settings, events, metrics
        self.charsets = server.charsets()
        has_lock = settings["snapshot.locking.mode"] == "minimal"
        if has_lock:
            server.run(f"set session lock_wait_timeout = {max(1, settings['snapshot.lock.timeout.ms'] // 1000)}")
            server.run("flush tables with read lock")
        try:
            prepared = names_of_prepared(server) if requests is None else set()
            where = server.where()
            if is_open:  # behind the place: without the lock what happens between the two comes twice, and is not lost
                server.run("set session transaction isolation level repeatable read")
                server.run("start transaction with consistent snapshot")
            if requests is None:
                prepared |= names_of_prepared(server)
            self.statements = self._read_definitions()
        finally:
            if has_lock:
                server.run("unlock tables")
        start = where.start
        self.position = Position(start.file, start.position, start.gtids)
        self.prepared = prepared_before(server, prepared, self.position) if prepared else {}
        """XA transactions that no row was read of."""
        self.tables = Tables()
        gtid = start.gtids or None if requests is not None and not set(",:") & set(start.gtids) else None
        self._moment = BinlogMoment(start.file, start.position, time.time_ns() // 1000, gtid=gtid, snapshot="true")
        self._effects = [self._followed(*each) for each in self.statements]

    def _read_definitions(self) -> list[tuple[str, str]]:
        """Return statements that make all tables anew, each with its database."""
        selection = self._events.selection
        only_databases = self._settings[f"{_H}.databases.ddl"]
        only_tables = self._settings[f"{_H}.tables.ddl"]
        charset, collations = self.charsets[""], self._server.collations()
        found = [("", f"SET character_set_server={charset}, collation_server={collations['']}")]
        for database in self._server.databases():
            if only_databases and not selection.has_schema(database):
                continue
            tables = [each for each in self._server.tables(database) if not only_tables or selection.has_table(each)]
            if not tables:
                continue
            found += [(database, f"DROP TABLE IF EXISTS {quoted(each.schema)}.{quoted(each.table)}") for each in tables]
            own = self.charsets.get(database, charset)
            found.append((database, f"DROP DATABASE IF EXISTS {quoted(database)}"))
            found.append((database, f"CREATE DATABASE {quoted(database)} CHARSET {own} COLLATE {collations[database]}"))
            found.append((database, f"USE {quoted(database)}"))
            for table in tables:
                definition = self._server.definition(table)
                if definition is not None:
                    found.append((database, definition))
        return found

    def _followed(self, database: str, statement: str) -> Effect:
        try:
            return follow(statement, database, self.tables, self.charsets)
        except DdlError as error:
            raise ConnectError(f"A table's definition is not understood ({error}): {statement}") from error

    def keep(self, history: HistoryStore) -> None:
        """Write the tables into the history, at the snapshot's moment."""
        place = {**self.position.offset(), "ts_sec": self._moment.at_us // 1_000_000, "snapshot": "INITIAL"}
        history.append(
            [
                history_record(self._events.prefix, place, database, statement, effect)
                for (database, statement), effect in zip(self.statements, self._effects, strict=True)
            ]
        )

    def schema_changes(self, makes: SchemaChanges) -> Iterator[SourceRecord]:
        """Yield the records of the statements that are about what is captured."""
        selection = self._events.selection
        for (database, statement), effect in zip(self.statements, self._effects, strict=True):
            if effect.changes:
                wanted = selection.has_table(effect.changes[0].id)
            else:
                wanted = not database or selection.has_schema(database)
            if wanted:
                yield makes.record(self._moment, database, statement, effect, self._events.headers)

    def records(self) -> Iterator[SourceRecord | SourceColumns]:
        """Yield each row's record, marked as Debezium marks the first and last of a table and of all."""
        selection = self._events.selection
        wanted = sorted(
            (
                each
                for each in self.tables.values()
                if (
                    selection.has_table(each.id) and selection.is_read(each.id) and str(each.id) != selection.signals
                    if self._conditions is None
                    else str(each.id) in self._conditions
                )
            ),
            key=lambda each: str(each.id),
        )
        yield from scanned(wanted, self._pieces, self._metrics, self._notifications)
        self._server.run("commit")
        self._metrics.snapshot_ended()
        self._notifications.tell(INITIAL, "COMPLETED")

    def _pieces(self, table: SqlTable) -> Iterator[RecordPiece]:
        maker, read, moment = self._events.table(table), row_reader(table), self._moment
        condition = (self._conditions or {}).get(str(table.id))
        where = f" where ({condition})" if condition else ""
        name = f"{quoted(table.id.schema)}.{quoted(table.id.table)}"
        query = f"select {', '.join(selected(table))} from {name}{where}"
        for rows in self._server.stream(query, self._settings["snapshot.fetch.size"]):
            for row in rows:
                yield RecordPiece(maker.read(read(row), moment))
