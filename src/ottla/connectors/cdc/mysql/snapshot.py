"""All tables as they are at one moment: what they look like, for the history, and their rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from ottla.connect import ConnectError, DataError, SourceColumns, SourceRecord
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.events import Events
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.mysql.binlog_events import BinlogMoment, SchemaChanges
from ottla.connectors.cdc.mysql.ddl import Effect, follow
from ottla.connectors.cdc.mysql.ddl_words import DdlError, Words
from ottla.connectors.cdc.mysql.history import HistoryStore, history_record
from ottla.connectors.cdc.mysql.positions import Position
from ottla.connectors.cdc.mysql.recovering import names_of_prepared, prepared_before
from ottla.connectors.cdc.mysql.server import Server, quoted
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables
from ottla.connectors.cdc.mysql.texts import row_reader, selected
from ottla.connectors.cdc.notifications import INITIAL, Notifications
from ottla.connectors.cdc.replication import ServerAwayError
from ottla.connectors.cdc.scan import RecordPiece, scanned
from ottla.connectors.cdc.signals import Request

__all__ = ["Snapshot"]

log = logging.getLogger(__name__)
_H = "schema.history.internal.store.only.captured"
LOCKED_SECONDS = 120
"""So long a server waits for the next word of who has the lock for all writers: a stopped worker must not keep it."""
_POINT = "before_table_"
"""Names of the points in the transaction at which a table was not looked at yet."""


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
        failed: Callable[[TableId, str], None],
    ) -> None:
        """Look at the tables of one moment; `is_open` where rows are to be read as of that moment.

        With `requests` they are those of a signal, of the tables that it names, with their conditions. `failed` is told of a
        table that cannot be read, and why: the others go on.
        """
        self._failed_tables: set[TableId] = set()
        self.failures: dict[TableId, str] = {}
        """Tables of which was seen at once that they cannot be read, and why: `failed` is not told of them."""
        self._tell_failed = failed
        self._notifications = notifications
        self._conditions = None if requests is None else {each.table: each.condition for each in requests}
        self._server, self._settings, self._events, self._metrics = server, settings, events, metrics
        self.charsets = server.charsets()
        has_lock = settings["snapshot.locking.mode"] == "minimal"
        server.run(f"set session lock_wait_timeout = {max(1, settings['snapshot.lock.timeout.ms'] // 1000)}")
        if has_lock:
            server.run(f"set session wait_timeout = {LOCKED_SECONDS}")
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
            self.tables = Tables()
            self._effects = [self._followed(*each) for each in self.statements]
            self._wanted = self._to_be_read()
            if is_open:
                self._hold()
        finally:
            if has_lock:
                server.run("unlock tables")
                server.run("set session wait_timeout = default")
        start = where.start
        self.position = Position(start.file, start.position, start.gtids)
        self.prepared = prepared_before(server, prepared, self.position) if prepared else {}
        """XA transactions that no row was read of."""
        gtid = start.gtids or None if requests is not None and not set(",:") & set(start.gtids) else None
        self._moment = BinlogMoment(start.file, start.position, time.time_ns() // 1000, gtid=gtid, snapshot="true")

    def _to_be_read(self) -> list[SqlTable]:
        selection = self._events.selection
        return sorted(
            (
                each
                for each in self.tables.values()
                if not each.is_sequence
                and (
                    selection.has_table(each.id) and selection.is_read(each.id) and str(each.id) != selection.signals
                    if self._conditions is None
                    else str(each.id) in self._conditions
                )
            ),
            key=lambda each: str(each.id),
        )

    def _hold(self) -> None:
        """Keep each table as it is until it was read: statements that would alter it wait.

        The rows are those of this moment, and the names that they are asked by would be those of a later one. A transaction
        holds the tables that it has looked at, and lets go of them where it goes back to a point before that: so the table
        that is read first is looked at last.
        """
        for number in reversed(range(len(self._wanted))):
            table = self._wanted[number]
            self._at_point(f"savepoint {_POINT}{number}")
            try:
                self._server.run(f"select 1 from {_name(table.id)} limit 0")
            except ServerAwayError:
                raise
            except ConnectError as error:
                self.failures[table.id] = f"its rows cannot be read ({error})"
                self._failed_tables.add(table.id)

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
            for table in [*tables, *self._server.sequences(database)]:
                definition = self._server.definition(table)
                if definition is not None:
                    found.append((database, definition))
                elif selection.has_table(table):
                    self.failures[table] = "the server does not say how it is made (SHOW CREATE TABLE is an error)"
        return found

    def _followed(self, database: str, statement: str) -> Effect:
        try:
            return follow(statement, database, self.tables, self.charsets)
        except (DdlError, ValueError, IndexError, OverflowError) as error:
            return self._not_understood(database, statement, error)

    def _not_understood(self, database: str, statement: str, error: Exception) -> Effect:
        """A table's definition: where it is not captured, it does not matter."""
        name = TableId(database, Words(statement.partition("TABLE")[2]).name())
        log.warning("The definition of %s is not understood (%s): %.1000s", name, error, statement)
        if self._events.selection.has_table(name):
            self.failures[name] = f"its definition is not understood ({error})"
        return Effect(database)

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
            if any(each.table is not None and each.table.is_sequence for each in effect.changes):
                continue
            if effect.changes:
                wanted = selection.has_table(effect.changes[0].id)
            else:
                wanted = not database or selection.has_schema(database)
            if wanted:
                yield makes.record(self._moment, database, statement, effect, self._events.headers)

    def records(self) -> Iterator[SourceRecord | SourceColumns]:
        """Yield each row's record, marked as Debezium marks the first and last of a table and of all."""
        yield from scanned(
            self._wanted, self._pieces, self._metrics, self._notifications, self._failed_tables.__contains__
        )
        self._server.run("rollback")  # points in a transaction that is committed stand in the binlog
        self._metrics.snapshot_ended()
        self._notifications.tell(INITIAL, "COMPLETED")

    def _pieces(self, table: SqlTable) -> Iterator[RecordPiece]:
        """Read a table, and let go of it: who has waited to alter it may."""
        if table.id not in self._failed_tables:
            try:
                yield from self._rows(table)
            except ServerAwayError:
                raise
            except (ConnectError, DataError, ValueError) as error:
                self._failed_tables.add(table.id)
                self._tell_failed(table.id, f"its rows cannot be read ({error})")
        self._at_point(f"rollback to savepoint {_POINT}{self._wanted.index(table)}")

    def _at_point(self, statement: str) -> None:
        """Set a point, or go back to it; behind a table of an engine that has none (Aria) all are held to the end."""
        try:
            self._server.run(statement)
        except ServerAwayError:
            raise
        except ConnectError as error:
            log.info("Tables are held until the snapshot is read: %s", error)

    def _rows(self, table: SqlTable) -> Iterator[RecordPiece]:
        maker, read, moment = self._events.table(table), row_reader(table), self._moment
        condition = (self._conditions or {}).get(str(table.id))
        where = f" where ({condition})" if condition else ""
        query = f"select {', '.join(selected(table))} from {_name(table.id)}{where}"
        with closing(self._server.stream(query, self._settings["snapshot.fetch.size"])) as found:
            for rows in found:
                for row in rows:
                    yield RecordPiece(maker.read(read(row), moment))


def _name(table: TableId) -> str:
    return f"{quoted(table.schema)}.{quoted(table.table)}"
