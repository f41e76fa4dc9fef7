"""The task: a snapshot first, where one is due, then the binlog's changes, each with the place to go on from behind it."""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Final

from ottla.connect import ConnectError, SourceColumns, SourceRecord
from ottla.connectors.cdc.capture_task import CaptureTask
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.column_masks import column_rules
from ottla.connectors.cdc.events import INCREMENTAL, Events
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.mysql.binlog import BinlogEvent, BinlogStream
from ottla.connectors.cdc.mysql.binlog_events import BinlogMoment, SchemaChanges, binlog_dialect
from ottla.connectors.cdc.mysql.chunks import BinlogChunks
from ottla.connectors.cdc.mysql.gtids import GtidFilter
from ottla.connectors.cdc.mysql.history import MEMORY, history_store, recovered
from ottla.connectors.cdc.mysql.positions import Position, Start
from ottla.connectors.cdc.mysql.prepared import Prepared
from ottla.connectors.cdc.mysql.reading import BinlogReading
from ottla.connectors.cdc.mysql.server import (
    FIRST_BYTE,
    LOCK_TIMEOUT,
    Server,
    code_of,
    connection_settings,
    opened_server,
    start_of,
)
from ottla.connectors.cdc.mysql.settings import BINLOG_DEF, sql_kinds
from ottla.connectors.cdc.mysql.snapshot import Snapshot
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables
from ottla.connectors.cdc.notifications import INITIAL, Notifications
from ottla.connectors.cdc.replication import ServerAwayError
from ottla.connectors.cdc.scan import Scan
from ottla.connectors.cdc.server import plain_settings
from ottla.connectors.cdc.settings import Selection, keys_without_effect
from ottla.connectors.cdc.signalling import Signalling
from ottla.connectors.cdc.unmatched import Unmatched

__all__ = ["MariaDbSourceTask", "MySqlSourceTask"]

log = logging.getLogger(__name__)
SERVER_IDS: Final = (5400, 6400)
"""Of which one is taken by chance where none is given, as Debezium does."""
SYNONYMS: Final = {"schema_only": "no_data", "schema_only_recovery": "recovery"}


class BinlogSourceTask(CaptureTask[BinlogStream]):
    """See the module's description. `stop` may come from another thread than the other calls."""

    flavour: ClassVar[str]
    """mysql or mariadb, as records have it."""

    def __init__(self) -> None:
        super().__init__()
        self._server: Server | None = None
        """While a snapshot reads."""
        self._asked: Server | None = None
        """For what is read beside the stream."""
        self._again: BinlogStream | None = None
        """An XA transaction that is read once more, while the stream is closed."""
        self._events_left: deque[BinlogEvent] = deque()
        """Of the stream, not looked at yet."""

    def start(self, props: Mapping[str, str]) -> None:
        """Look at the server, follow the history, and begin; raises ConnectError where changes would be lost."""
        super().start(props)
        self._props = props
        self._settings = settings = plain_settings(BINLOG_DEF.parse(props))
        if unused := keys_without_effect(props, BINLOG_DEF.keys):
            log.warning("These settings have no effect here: %s", ", ".join(unused))
        if settings["heartbeat.action.query"] and not settings["heartbeat.interval.ms"]:
            raise ConnectError("heartbeat.action.query is run with heartbeats, and heartbeat.interval.ms=0 has none")
        dialect = binlog_dialect(self.flavour, sql_kinds(settings))
        selection = Selection.of(settings, "database")
        self._events = Events(settings, dialect, selection, column_rules(props))
        self._metrics = CaptureMetrics(
            settings["topic.prefix"], plugin="mysql" if self.flavour == "mysql" else "mariadb"
        )
        self._heartbeat_s = settings["heartbeat.interval.ms"] / 1000
        self._heartbeat_at_s = time.monotonic() + self._heartbeat_s
        self._server_id = settings["database.server.id"] or random.randint(*SERVER_IDS)
        self._history = history_store(settings, props)
        self._filter = GtidFilter(settings)
        self._notifications = Notifications(settings, self._events.partition)
        self._mode = SYNONYMS.get(settings["snapshot.mode"], settings["snapshot.mode"])
        self._server = self._opened_server()
        try:
            self._begin()
        except BaseException:  # whatever it was, the connection, and a lock with it, must not stay
            self._close_server()
            raise

    def _begin(self) -> None:
        """Go on from the offset that is stored, or begin anew."""
        settings = self._settings
        stored = self.context.offset(self._events.partition)
        position = Position.of(stored) if stored else None
        if position is not None:
            position = self._usable(position)
        self._changes = BinlogReading(
            settings,
            self._events,
            self._history,
            self._metrics,
            self._opened_server,
            position or Position("", FIRST_BYTE),
        )
        kept = {} if position is None else position.more
        given = (settings, self._props, self._events, self._notifications, kept)
        self._signalling = self._changes.signals = Signalling(*given, self._captured, self._where)
        if position is None or self._mode == "always":
            self._begin_anew()
        else:
            self._recover(position)
        self._keep()
        self._check_signals()
        assert self._server is not None
        self._changes.cascades.look(self._server)
        self._tell_unmatched()
        if self._reading is None:
            self._notifications.tell(INITIAL, "SKIPPED")
            self._close_server()

    def _tell_unmatched(self) -> None:
        """Look which entries of include lists match nothing."""
        assert self._server is not None
        self._unmatched = Unmatched(self._settings, "database")
        self._unmatched.look(_seen_tables(self._server))

    def _check_signals(self) -> None:
        """Raise ConnectError where the table of signals is not there."""
        signals = self._events.selection.signals
        assert self._server is not None
        if signals is None or "source" not in self._settings["signal.enabled.channels"]:
            return
        schema, _, table = signals.partition(".")
        if self._server.definition(TableId(schema, table)) is None:
            raise ConnectError(
                f"signal.data.collection={signals} is not there, or may not be read: CREATE TABLE {signals} "
                "(id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))"
            )

    def _opened_server(self) -> Server:
        return opened_server(self._settings, wants_mariadb=self.flavour == "mariadb")

    def _usable(self, position: Position) -> Position | None:
        """Return the position where the server has what is behind it; None where the tables may be read anew."""
        assert self._server is not None
        try:
            start_of(self._server, position, self._filter)
            if self._mode == "when_needed":  # else it is said at their commits, of which none may come
                for start in Prepared(position.more).starts:
                    start_of(self._server, Position(start.file, start.position, start.gtids), self._filter)
        except ServerAwayError:
            raise
        except ConnectError as error:
            if self._mode not in ("when_needed", "always"):
                raise
            log.warning("The tables are read anew: %s", error)
            return None
        return position

    def _begin_anew(self) -> None:
        """Begin with a snapshot; or, where none is wanted, with the oldest part of the binlog."""
        assert self._server is not None
        if self._mode == "recovery":
            raise ConnectError("snapshot.mode=recovery makes a lost history anew, and there is no offset to go on from")
        charsets = self._server.charsets()
        if self._mode == "never":
            oldest = self._server.oldest()
            self._changes.begin(Position(oldest.file, oldest.position, oldest.gtids), charsets)
            return
        self._stopping.wait(self._settings["snapshot.delay.ms"] / 1000)
        has_rows = self._mode != "no_data"
        is_again = has_rows and next(iter(self._history.load()), None) is not None
        snapshot = Snapshot(*self._given(self._server), is_open=has_rows, failed=self._changes.refuse)
        if is_again:
            captured = sorted(str(each) for each in snapshot.tables if self._events.selection.has_table(each))
            log.warning(
                "A snapshot was begun before, and the tables are read anew: rows that it has told and that were deleted "
                "since stay in the topics of %s",
                ", ".join(captured),
            )
        snapshot.keep(self._history)
        self._changes.begin(snapshot.position, snapshot.charsets, snapshot.tables)
        self._changes.await_prepared(snapshot.prepared)
        for table, why in snapshot.failures.items():
            self._changes.refuse(table, why)
        parts: list[Iterator[SourceRecord | SourceColumns]] = []
        if self._settings["include.schema.changes"]:
            parts.append(snapshot.schema_changes(SchemaChanges(self._events)))
        if has_rows:
            parts.append(snapshot.records())
        self._reading = Scan(chain(*parts))

    def _recover(self, position: Position) -> None:
        """Have the tables as they were at the position."""
        assert self._server is not None
        charsets = self._server.charsets()
        is_lost = self._mode == "recovery" or self._settings["schema.history.internal"] == MEMORY
        tables = None if is_lost else recovered(self._history.load(), position, charsets)
        if tables is None and self._mode == "when_needed":
            log.warning("The tables' history is empty or gone, and the tables are read anew")
            self._begin_anew()
            return
        if tables is None and self._mode == "never":
            tables = Tables()  # each is asked for when its rows come
        if tables is None and not is_lost:
            raise ConnectError(
                "The connector has an offset, and the tables' history is empty or gone: without it rows of the binlog "
                "cannot be read. Restore it; or set snapshot.mode=recovery once, where no table was changed since the "
                "offset; or "
                "reset the connector's offsets to read the tables anew"
            )
        if tables is None:
            snapshot = Snapshot(*self._given(self._server), is_open=False, failed=self._changes.refuse)
            snapshot.position = position
            snapshot.keep(self._history)
            tables = snapshot.tables
        self._changes.begin(position, charsets, tables)

    def _given(self, server: Server) -> tuple[Server, Mapping[str, Any], Events, CaptureMetrics, Notifications]:
        return server, self._settings, self._events, self._metrics, self._notifications

    # -- snapshots

    @property
    def _is_between(self) -> bool:
        return self._changes.reread is None and self._changes.is_between

    def _blocking_scan(self) -> Scan:
        self._hang_up()
        self._server = self._opened_server()
        try:
            snapshot = Snapshot(*self._given(self._server), self._signalling.blocking, failed=_not_read)
        except ServerAwayError as error:
            if (
                code_of(error) == LOCK_TIMEOUT
            ):  # whoever tried again would have the stream wait for as long as others lock
                raise ConnectError(str(error)) from error
            raise
        for table, why in snapshot.failures.items():
            _not_read(table, why)
        return Scan(snapshot.records())

    def _close_snapshot(self) -> None:
        self._close_server()

    def _give_up_snapshot(self) -> None:
        self._close_server()

    def _instead_of_rows(self) -> list[SourceRecord | SourceColumns]:
        return [self._events.heartbeat()]

    # -- what signals ask for

    def _step(self) -> None:
        self._signalling.step(self._chunks, lambda: self._asked_of().where())
        if not self._signalling.is_reading and self._asked is not None:
            self._asked.close()
            self._asked = None

    def _chunks(self) -> BinlogChunks:
        return BinlogChunks(self._asked_of(), self._defined, self._moment)

    def _asked_of(self) -> Server:
        if self._asked is None:
            server = self._opened_server()
            if (server.variable("binlog_order_commits") or "ON").upper() == "OFF":
                server.close()
                raise ConnectError(
                    "The server commits in another order than its binlog has (binlog_order_commits=OFF), and what is read "
                    "beside the stream may be older than what the stream has told: SET GLOBAL binlog_order_commits = ON"
                )
            self._asked = server
        return self._asked

    def _defined(self, name: str) -> SqlTable | None:
        schema, _, table = name.partition(".")
        return self._changes.defined(self._asked_of(), TableId(schema, table))

    def _moment(self) -> BinlogMoment:
        return BinlogMoment("", 0, time.time_ns() // 1000, snapshot=INCREMENTAL)

    def _captured(self) -> list[str]:
        server = self._opened_server()
        try:
            named = (each for database in server.databases() for each in server.tables(database))
            return [str(each) for each in named if self._events.selection.has_table(each)]
        finally:
            server.close()

    def _where(self) -> Mapping[str, Any]:
        return self._changes.position.offset()

    def _keep(self) -> None:
        self._changes.keep()

    def _server_state(self) -> Mapping[str, Any]:
        return {"read": self._changes.place} if self._stream is not None else {}

    def _held(self) -> tuple[int, int | None]:
        return len(self._changes.waiting), None

    def _left_out(self) -> Sequence[str]:
        return [*self._changes.refused.told(), *self._changes.cascades.told()]

    # -- the stream

    def _opened_stream(self) -> BinlogStream:
        server = self._opened_server()
        try:
            start = start_of(server, self._changes.position, self._filter)
            has_names = (server.variable("binlog_row_metadata") or "").upper() == "FULL"
            self._changes.connected(server.where().server_id, has_names=has_names, is_mariadb=server.is_mariadb)
        finally:
            server.close()
        return self._stream_from(start)

    def _stream_from(self, start: Start) -> BinlogStream:
        return BinlogStream(
            connection_settings(self._settings),
            self._server_id,
            start,
            is_mariadb=self.flavour == "mariadb",
            has_queries=self._settings["include.query"],
        )

    def _from_stream(self) -> Sequence[SourceRecord | SourceColumns] | None:
        if self._changes.reread is not None:
            return self._reread(self._settings["max.batch.size"])
        return super()._from_stream()

    def _lost(self, error: ConnectError) -> None:
        super()._lost(error)
        self._changes.lost()

    def _changed(self, most: int) -> list[SourceRecord] | None:
        assert self._stream is not None
        changes = self._changes
        try:
            self._events_left.extend(
                self._stream.read(0 if self._events_left else self._settings["poll.interval.ms"] / 1000)
                if len(self._events_left) < most
                else ()
            )
            while changes.ready < most and changes.reread is None:
                if changes.is_replaying:
                    changes.replay()
                elif self._events_left:
                    changes.take(self._events_left.popleft())
                else:
                    break
            changes.settle()
            if changes.cascades.are_unseen:
                self._look_at_keys()
        except ServerAwayError as error:
            self._lost(error)
        if self._heartbeat_s and changes.is_between and time.monotonic() >= self._heartbeat_at_s:
            try:
                self._beat()
            except ServerAwayError as error:
                self._lost(error)
        return changes.taken() or None

    def _look_at_keys(self) -> None:
        """Look at foreign keys that a statement may have changed; what is only said must not end a task."""
        try:
            server = self._opened_server()
        except ServerAwayError:
            raise
        except ConnectError as error:
            log.warning("It is not known which tables foreign keys change since they were altered: %s", error)
            self._changes.cascades.pass_over()
            return
        try:
            self._changes.cascades.look(server)
        finally:
            server.close()

    def _reread(self, most: int) -> list[SourceRecord] | None:
        """Read an XA transaction once more that is not in memory, while the stream waits."""
        changes = self._changes
        try:
            if self._again is None:
                if self._stream is not None:  # a server tells its binlog to one reader of an id
                    self._stream.close()
                    self._stream = None
                self._events_left.clear()
                assert changes.reread is not None
                self._again = self._stream_from(changes.reread)
            if not self._events_left:
                self._events_left.extend(self._again.read(self._settings["poll.interval.ms"] / 1000))
            while self._events_left and changes.ready < most:
                if changes.take_again(self._events_left.popleft()):
                    self._events_left.clear()
                    self._again.close()
                    self._again = None
                    break
        except ServerAwayError as error:
            self._lost(error)
        return changes.taken() or None

    def _beat(self) -> None:
        """Say where reading is, and run what is to be run with it."""
        self._heartbeat_at_s = time.monotonic() + self._heartbeat_s
        if query := self._settings["heartbeat.action.query"]:
            server = self._opened_server()
            try:
                server.run(query)
            finally:
                server.close()
        record = self._events.heartbeat()
        record.source_offset = self._changes.position.offset()
        self._changes.waiting.append(record)

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        with self._turn:
            self._hang_up()
            if hasattr(self, "_signalling"):
                self._signalling.close()
            if hasattr(self, "_history"):
                self._history.close()

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _hang_up(self) -> None:
        for each in (self._stream, self._again, self._asked):
            if each is not None:
                each.close()
        self._stream = self._again = self._asked = None
        self._events_left.clear()
        if hasattr(self, "_metrics"):
            self._metrics.is_connected = False
        self._close_server()


def _seen_tables(server: Server) -> Iterator[TableId]:
    """Yield all tables that can be seen: a database may be another's, or have been dropped since it was listed."""
    for database in server.databases():
        try:
            yield from server.tables(database)
        except ServerAwayError:
            raise
        except ConnectError as error:
            log.info("The tables of database %s cannot be listed: %s", database, error)


def _not_read(table: TableId, why: str) -> None:
    """A table that a signal asked for cannot be read: its changes are told all the same."""
    log.error("The snapshot that a signal asked for leaves table %s out: %s", table, why)


class MySqlSourceTask(BinlogSourceTask):
    """Of MySQL."""

    java_name = "io.debezium.connector.mysql.MySqlConnectorTask"
    flavour = "mysql"


class MariaDbSourceTask(BinlogSourceTask):
    """Of MariaDB."""

    java_name = "io.debezium.connector.mariadb.MariaDbConnectorTask"
    flavour = "mariadb"
