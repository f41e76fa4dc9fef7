"""The task: a snapshot first, where one is due, then the slot's changes, each with the place to go on from behind it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla.connect import ConnectError, DataError, SourceColumns, SourceRecord
from ottla.connectors.cdc import pgoutput
from ottla.connectors.cdc.capture_task import CaptureTask
from ottla.connectors.cdc.catalog import Catalog, CatalogColumn, CatalogTable, TableId
from ottla.connectors.cdc.change_runs import HEADER_BYTES, ChangeRun, Span, lsn_in
from ottla.connectors.cdc.column_masks import column_rules
from ottla.connectors.cdc.events import Events, TableEvents, Transaction, sent_with, table_told
from ottla.connectors.cdc.foreign_texts import ForeignTexts, readable
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.notifications import INITIAL, Notifications
from ottla.connectors.cdc.positions import Position, StreamedTransactions
from ottla.connectors.cdc.postgres_chunks import PostgresChunks
from ottla.connectors.cdc.postgres_events import Messages, Moment, postgres_dialect
from ottla.connectors.cdc.refused import Refused
from ottla.connectors.cdc.replication import (
    Keepalive,
    ReplicationStream,
    ServerAwayError,
    UnconvertibleError,
    conninfo_of,
    quoted,
)
from ottla.connectors.cdc.scan import Scan, with_offset
from ottla.connectors.cdc.server import (
    drop_slot,
    log_without_slot,
    opened_catalog,
    origin_of,
    plain_settings,
    prepared_publication,
    prepared_slot,
    tell_broken_off,
    tell_divided,
)
from ottla.connectors.cdc.settings import POSTGRES_DEF, Selection, keys_without_effect, kind_settings
from ottla.connectors.cdc.signalling import Signalling
from ottla.connectors.cdc.snapshot import Snapshot
from ottla.connectors.cdc.unmatched import Unmatched

__all__ = ["PostgresSourceTask"]

log = logging.getLogger(__name__)
OPERATIONS = {"I": "c", "U": "u", "D": "d"}
ASK_SECONDS = 0.1
"""Between two questions how far the server has sent."""


class PostgresSourceTask(CaptureTask[ReplicationStream]):
    """See the module's description. `stop` may come from another thread than the other calls."""

    java_name = "io.debezium.connector.postgresql.PostgresConnectorTask"

    def __init__(self) -> None:
        super().__init__()
        self._catalog: Catalog | None = None
        self._position = Position(0)
        self._transaction: Transaction | None = None
        self._begin: pgoutput.Begin | None = None
        self._origin: pgoutput.Origin | None = None
        self._to_skip = 0
        self._is_seen = False
        self._waiting: list[SourceRecord | ChangeRun] = []
        """Made and not returned yet: of a transaction under way the last change stays until its commit gives it a place."""
        self._last_change = 0
        """How many of them the last change has made, and the BEGIN before it where it is the first."""
        self._run: ChangeRun | None = None
        """The last of them, where the next message of the stream may belong to it."""
        self._begin_waits = False
        """Whether the last of them is a BEGIN, which goes with the first change: it has no place of its own."""
        self._tables: dict[int, TableEvents | None] = {}
        self._last_commit: int | None = None
        """Where the last commit ended that this task, or the one before it, has passed."""
        self._idle_lsn = 0
        self._handed: Mapping[str, Any] | None = None
        """The offset of the last record of the stream that was handed on: stored, nothing waits to be."""
        self._signals: int | None = None
        """The number of the signals' table, where the stream has told of it."""
        self._streamed = StreamedTransactions()
        self._ask_at_s = 0.0
        self._refused = Refused()
        self._converts = True
        """Whether the server converts texts, which it does until it has met one that it cannot."""
        self._foreign: ForeignTexts | None = None
        self._refused_late: set[TableId] = set()
        """Tables that were refused when rows of theirs were made that the stream had told before others."""
        self._told: TableId | None = None
        """Of the last record that had a value: a tombstone behind it is of the same table."""

    def start(self, props: Mapping[str, str]) -> None:
        """Look at the server, make what is missing, and begin; raises ConnectError where changes would be lost."""
        super().start(props)
        self._settings = settings = plain_settings(POSTGRES_DEF.parse(props))
        if unused := keys_without_effect(props, POSTGRES_DEF.keys):
            log.warning("These settings have no effect here: %s", ", ".join(unused))
        self._selection = Selection.of(settings)
        catalog = self._catalog = opened_catalog(settings)
        kinds = replace(kind_settings(settings), money_shift=catalog.money_shift)
        self._events = Events(settings, postgres_dialect(settings, kinds), self._selection, column_rules(props))
        self._messages = Messages(self._events, kinds.binary)
        self._metrics = CaptureMetrics(settings["topic.prefix"])
        self._takes_runs = self.context.takes_columns and not settings["provide.transaction.metadata"]
        self._skips = frozenset(each.strip() for each in settings["skipped.operations"])
        self._heartbeat_s = settings["heartbeat.interval.ms"] / 1000
        self._heartbeat_at_s = time.monotonic() + self._heartbeat_s
        stored = self.context.offset(self._events.partition)
        position = Position.of(stored) if stored else None
        if settings["heartbeat.action.query"] and not self._heartbeat_s:
            raise ConnectError("heartbeat.action.query is run with heartbeats, and heartbeat.interval.ms=0 has none")
        self._mode = mode = settings["snapshot.mode"]
        is_read = mode == "always" or (position is None and mode not in ("no_data", "never"))
        if mode == "initial_only":
            begin = log_without_slot(catalog, settings["slot.name"])
        else:
            prepared_publication(catalog, settings, self._selection)
            if mode == "when_needed" and position is not None:
                position = self._usable(position)
                is_read = position is None
            tell_broken_off(catalog, settings["slot.name"], is_again=is_read and position is None)
            begin = prepared_slot(catalog, settings, position, self._stopping)
        tell_divided(catalog, self._selection)
        self._unmatched = Unmatched(settings)
        self._unmatched.look(catalog.names())
        self._position = self._standing_at(position or Position(begin), begin)
        self._refused.restore(self._position.more)
        for each in filter(self._selection.has_table, catalog.unnamed()):
            self._refused.add(each, "its name has no form in UTF-8, and no statement can say it")
        self._notifications = Notifications(settings, self._events.partition)
        self._signalling = Signalling(
            settings, props, self._events, self._notifications, self._position.more, self._captured, self._where
        )
        self._signalling.incremental.refused = self._refused
        self._keep()
        self._last_commit = None if position is None else position.commit_lsn
        if is_read:
            self._stopping.wait(settings["snapshot.delay.ms"] / 1000)
            snapshot = Snapshot(catalog, settings, *self._for_snapshot())
            self._position = replace(self._position, changes=0, seen=snapshot.seen)
            self._reading = Scan(snapshot.records(in_columns=self.context.takes_columns))
        else:
            self._notifications.tell(INITIAL, "SKIPPED")

    def _standing_at(self, position: Position, begin: int) -> Position:
        """Return the position with whose log it is in; a slot that the task has moved further on itself begins there."""
        assert self._catalog is not None
        position = replace(position, origin=origin_of(self._catalog))
        return position.after_commit(begin) if begin > position.commit_lsn else position

    def _usable(self, position: Position) -> Position | None:
        """Return the position where the slot still has what it needs; else drop the slot, for a snapshot anew."""
        assert self._catalog is not None
        try:
            if self._catalog.slot(self._settings["slot.name"]) is None:
                return None
            prepared_slot(self._catalog, self._settings, position, self._stopping)
        except ServerAwayError:
            raise
        except ConnectError as error:
            log.warning("The tables are read anew: %s", error)
            drop_slot(self._catalog, self._settings["slot.name"])
            return None
        return position

    # -- snapshots

    @property
    def _rows_at_once(self) -> int:
        return 1 if self.context.takes_columns else super()._rows_at_once

    @property
    def _is_between(self) -> bool:
        return self._begin is None and not self._waiting

    @property
    def _is_cut(self) -> bool:
        return self._catalog is None or self._catalog.is_lost

    def _for_snapshot(self) -> tuple[Events, Notifications, CaptureMetrics, Refused, threading.Event]:
        return self._events, self._notifications, self._metrics, self._refused, self._stopping

    def _blocking_scan(self) -> Scan:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        snapshot = Snapshot(self._asked_of(), self._settings, *self._for_snapshot(), self._signalling.blocking)
        return Scan(snapshot.records(in_columns=self.context.takes_columns))

    def _close_snapshot(self) -> None:
        if self._catalog is not None and self._catalog.is_lost:
            self._catalog.close()
            self._catalog = None

    def _give_up_snapshot(self) -> None:
        assert self._catalog is not None
        self._catalog.run("rollback")

    # -- signals

    def _step(self) -> None:
        if self._sees_streamed():
            self._signalling.step(self._chunks, lambda: self._chunks().end())

    def _chunks(self) -> PostgresChunks:
        return PostgresChunks(self._asked_of(), self._position.commit_lsn)

    def _sees_streamed(self) -> bool:
        """Whether a chunk may be read: who reads now sees everything that the stream has told of."""
        is_due = self._signalling.is_reading and not self._signalling.incremental.is_waiting
        if not is_due and not self._streamed.are_many:
            return True
        return self._streamed.are_seen(self._chunks().snapshot())

    def _let_go(self, lsn: int) -> None:
        """Write the rows of a chunk without marks, where the stream has come to `lsn` and that is far enough."""
        if not (found := self._signalling.incremental.reached(lambda until: lsn >= until)):
            return
        self._keep()
        found[-1].source_offset = self._position.offset()
        self._waiting += found

    def _asked_of(self) -> Catalog:
        if self._catalog is not None and self._reading is None and self._catalog.is_lost_by_now():
            log.info("The connection that asks the catalogue has ended, and is opened anew")
            self._catalog.close()
            self._catalog = None
        if self._catalog is None:
            self._catalog = opened_catalog(self._settings)
        return self._catalog

    def _where(self) -> Mapping[str, Any]:
        self._keep()
        return self._position.offset()

    def _server_state(self) -> Mapping[str, Any]:
        if self._stream is None:
            return {}
        read = max(self._position.commit_lsn, self._idle_lsn)
        return {"server_lsn": self._stream.server_lsn, "behind_bytes": max(self._stream.server_lsn - read, 0)}

    def _held(self) -> tuple[int, int | None]:
        return len(self._waiting), None if self._begin is None else self._begin.commit_us // 1000

    def _silent_s(self) -> float:
        return 0.0 if self._stream is None else self._stream.silent_s

    def _left_out(self) -> Sequence[str]:
        return self._refused.told()

    def _captured(self) -> list[str]:
        catalog = self._asked_of()
        return [str(each) for each in catalog.names() if self._selection.has_table(each)]

    def _keep(self) -> None:
        """Have what is to be read, and what is not told, stand in the offsets from now on."""
        if (kept := {**self._signalling.kept(), **self._refused.kept()}) != self._position.more:
            self._position = self._position.keeping(kept)

    def _noted(self, message: pgoutput.Change) -> list[SourceRecord]:
        """Take a row of the signals' table; returns the rows that it has written."""
        row = message.new or message.old
        texts = [each.decode(errors="replace") if isinstance(each, bytes) else None for each in (row or ())[:3]]
        found = self._signalling.noted(texts, OPERATIONS[message.kind])
        self._keep()
        return found

    # -- the stream

    def _opened_stream(self) -> ReplicationStream:
        settings = self._settings
        catalog = self._asked_of()
        begin = prepared_slot(catalog, settings, self._position, self._stopping)
        self._position = self._standing_at(self._position, begin)
        self._foreign = None if self._converts else ForeignTexts(self._asked_of)
        conninfo = conninfo_of(settings, replication=True, encoding="UTF8" if self._converts else "SQL_ASCII")
        stream = ReplicationStream(conninfo, settings["status.update.interval.ms"] / 1000, self._stopping)
        options = {"proto_version": "1", "publication_names": quoted(settings["publication.name"])}
        [[version]] = catalog.rows("select current_setting('server_version_num')::int")
        if version >= 140_000:
            options["messages"] = "true"
        stream.start(settings["slot.name"], self._position.commit_lsn, options)
        self._to_skip = self._position.changes
        self._begin, self._transaction = None, None
        self._tables.clear()
        self._signals = None
        self._signalling.incremental.lost()
        return stream

    def _changed(self, most: int) -> list[SourceRecord | SourceColumns] | None:
        assert self._stream is not None
        try:
            self._ask_how_far(self._stream)
            self._take_all(self._stream.read(most, self._settings["poll.interval.ms"] / 1000))
            if self._begin is None:
                self._let_go(max(self._idle_lsn, self._position.commit_lsn))
            if self._heartbeat_s and self._begin is None and time.monotonic() >= self._heartbeat_at_s:
                self._beat()
        except ServerAwayError as error:
            self._end_run()
            self._lost(error)
        except UnconvertibleError as error:
            if not self._converts:
                raise
            self._converts = False
            self._lost(error)
        found = self._taken()
        self._handed = next((each.source_offset for each in reversed(found) if each.source_offset), self._handed)
        return found or None

    def _take_all(self, found: list[bytes | Keepalive]) -> None:
        """Take what has come, rows that are alike together. Raises ServerAwayError where the catalogue cannot be asked."""
        at = 0
        while at < len(found):
            if self._run is not None and (count := self._run.extend(found, at)):
                at += count
                continue
            each = found[at]
            at += 1
            if isinstance(each, bytes):
                self._take(each)
            elif self._begin is None:
                self._idle_lsn = max(self._idle_lsn, each.wal_end)
        self._end_run()

    def _ask_how_far(self, stream: ReplicationStream) -> None:
        """Have the server say how far it has sent, where a chunk waits for that and nothing may come for long."""
        if self._signalling.incremental.until is not None and time.monotonic() >= self._ask_at_s:
            self._ask_at_s = time.monotonic() + ASK_SECONDS
            stream.ask()

    def _taken(self) -> list[SourceRecord | SourceColumns]:
        """Return what was made, but the last change of a transaction under way."""
        kept = len(self._waiting) - (self._last_change if self._begin is not None else 0)
        found, self._waiting = self._waiting[:kept], self._waiting[kept:]
        if self._waiting and isinstance(run := self._waiting[0], ChangeRun):
            before = replace(self._position, changes=run.changes - 1)
            first, self._waiting[0] = run.without_last(before.offset(txId=run.spans[-1].xid))
            found += [] if first is None else [first]
        return [made for each in found for made in self._made(each)]

    def _made(self, found: SourceRecord | ChangeRun) -> list[SourceRecord | SourceColumns]:
        """Return the records of what was kept; a row that no record can hold has what waits of its table go, too."""
        if self._refused_late and self._is_of_refused(found):
            return []
        made: list[SourceRecord | SourceColumns] = []
        if isinstance(found, ChangeRun):
            made += found.made(self._refused)
            if found.table.id in self._refused:
                self._refused_late.add(found.table.id)
                self._keep()
        else:
            made.append(found)
        if self._refused_late:  # whoever goes on from there has to know of it
            kept = self._refused.kept()
            made = [with_offset(each, {**each.source_offset, **kept}) if each.source_offset else each for each in made]
        return made

    def _is_of_refused(self, found: SourceRecord | ChangeRun) -> bool:
        if isinstance(found, ChangeRun):
            self._told = found.table.id
        elif found.value is not None:
            self._told = table_told(found)
        return self._told in self._refused_late

    def _beat(self) -> None:
        """Say where reading is, and run what keeps the slot moving."""
        self._heartbeat_at_s = time.monotonic() + self._heartbeat_s
        query = self._settings["heartbeat.action.query"]
        if query:
            self._asked_of().run(query)
        record = self._events.heartbeat()
        if self._position.changes == 0 and self._idle_lsn > self._position.commit_lsn:
            self._position = self._position.after_commit(self._idle_lsn)
        record.source_offset = self._position.offset()
        self._waiting.append(record)

    # -- what the stream says

    def _begins_run(self, data: bytes) -> bool:
        """Take a change into a run, the last one or a new one; not where something wants to see it by itself."""
        head = ChangeRun.head_of(data)
        begin = self._begin
        if head is None or begin is None or not self._takes_runs or self._to_skip or self._is_seen or self._origin:
            return False
        oid = int.from_bytes(head[1:5], "big")
        table = self._tables.get(oid)
        if table is None or table.columns is None or oid == self._signals or self._signalling.incremental.is_waiting:
            return False
        if table.id in self._refused or self._foreign is not None:
            return False
        if OPERATIONS[chr(head[0])] in self._skips:
            return False
        last = self._waiting[-1] if self._waiting else None
        span = Span(begin.commit_us, begin.xid, self._last_commit)
        if (
            isinstance(last, ChangeRun)
            and (last.head, last.table) == (head, table)
            and (last.spans[-1].last_commit_lsn is None) == (self._last_commit is None)
        ):
            run = last
            if run.spans[-1] != replace(span, count=run.spans[-1].count):
                run.spans.append(span)
        else:
            run = ChangeRun(table, head, spans=[span])
            self._waiting.append(run)
        self._run = run
        return run.extend([data], 0) == 1

    def _end_run(self) -> None:
        """Have the position stand behind all changes of the run."""
        run, self._run = self._run, None
        if run is None:
            return
        self._position = replace(self._position, changes=self._position.changes + run.uncounted)
        self._metrics.changed(run.operation, run.spans[-1].commit_us, run.uncounted)
        run.uncounted, run.changes = 0, self._position.changes
        run.source_offset = self._position.offset(lsn=lsn_in(run.messages[-1]), txId=run.spans[-1].xid)
        self._last_change, self._begin_waits = 1, False

    def _take(self, data: bytes) -> None:
        self._end_run()
        if self._begins_run(data):
            return
        lsn = lsn_in(data)
        message = pgoutput.decode(data[HEADER_BYTES:], "strict" if self._foreign is None else "surrogateescape")
        if self._foreign is not None:
            message = self._converted(self._foreign, message)
        match message:
            case pgoutput.Begin():
                self._begun(message, lsn)
            case pgoutput.Commit():
                self._committed(message)
            case pgoutput.RelationMessage():
                self._tables[message.oid] = self._table_events(message)
                if f"{message.schema}.{message.table}" == self._selection.signals:
                    self._signals = message.oid
            case pgoutput.Origin():
                self._origin = message
            case pgoutput.Change() | pgoutput.Truncate() | pgoutput.LogicalMessage():
                self._change(message, lsn)

    def _converted(self, foreign: ForeignTexts, message: pgoutput.Message | None) -> pgoutput.Message | None:
        """Return a message in UTF-8; a table whose text cannot be converted is refused, and its rows are left out."""
        match message:
            case pgoutput.RelationMessage():
                try:
                    return foreign.relation(message)
                except DataError as error:
                    columns = tuple(replace(each, name=readable(each.name)) for each in message.columns)
                    name = TableId(readable(message.schema), readable(message.table))
                    message = replace(message, schema=name.schema, table=name.table, columns=columns)
                    self._refuse(name, error)
            case pgoutput.LogicalMessage():
                try:
                    return replace(message, prefix=foreign.name(message.prefix))
                except DataError:
                    return replace(message, prefix=readable(message.prefix))
            case pgoutput.Origin():
                return replace(message, name=readable(message.name))
            case pgoutput.Change() if (table := self._tables.get(message.oid)) is not None:
                try:
                    if table.id not in self._refused:
                        return foreign.change(message)
                except DataError as error:
                    self._refuse(table.id, error)
                if message.oid != self._signals:
                    return replace(message, old=None, new=None)
        return message

    def _refuse(self, table: TableId, error: DataError) -> None:
        if self._selection.is_published(table):
            self._refused.add(table, str(error))
            self._keep()

    def _begun(self, message: pgoutput.Begin, lsn: int) -> None:
        self._begin, self._origin = message, None
        seen = self._position.seen
        self._is_seen = seen is not None and message.final_lsn < seen.until_lsn and seen.has(message.xid)
        self._transaction = None
        if self._settings["provide.transaction.metadata"] and not self._is_seen:
            self._transaction = Transaction(f"{message.xid}:{lsn or message.final_lsn}")
            if not self._to_skip:
                self._waiting.append(self._events.transaction("BEGIN", self._transaction.id, message.commit_us))
                self._last_change, self._begin_waits = 1, True

    def _committed(self, message: pgoutput.Commit) -> None:
        self._position = self._position.after_commit(message.end_lsn)
        self._last_commit, self._to_skip = message.end_lsn, 0
        self._metrics.committed += 1
        if self._transaction is not None and self._begin is not None:
            id_ = f"{self._begin.xid}:{message.end_lsn}"
            self._waiting.append(self._events.transaction("END", id_, self._begin.commit_us, self._transaction))
        if self._waiting:
            self._waiting[-1].source_offset = self._position.offset()
        if self._signalling.may_be_asked and self._begin is not None:
            self._streamed.passed(self._begin.xid)
        self._last_change, self._begin_waits = 0, False
        self._begin, self._transaction, self._is_seen = None, None, False
        self._let_go(message.end_lsn)

    def _change(self, message: pgoutput.Change | pgoutput.Truncate | pgoutput.LogicalMessage, lsn: int) -> None:
        is_alone = isinstance(message, pgoutput.LogicalMessage) and not message.is_transactional
        if is_alone:
            if self._position.seen is None or lsn >= self._position.seen.until_lsn:
                self._waiting += self._records(message, lsn, None)
            return
        if self._is_seen:
            return
        made = self._records(message, lsn, self._transaction)
        if not made:
            self._metrics.filtered()
        elif not self._to_skip:
            operation = OPERATIONS[message.kind] if isinstance(message, pgoutput.Change) else "other"
            self._metrics.changed(operation, None if self._begin is None else self._begin.commit_us)
        if self._signalling.incremental.is_waiting:
            self._tell_changed(message)
        if isinstance(message, pgoutput.Change) and message.oid == self._signals and not self._to_skip:
            made += self._noted(message)
        if self._to_skip:  # stored before; it was made all the same, since it counts in its transaction
            self._to_skip -= 1
            return
        self._position = self._position.after_change()
        self._waiting += made
        if made:
            self._last_change = len(made) + self._begin_waits
            self._begin_waits = False
            made[-1].source_offset = self._position.offset(
                lsn=lsn, txId=None if self._begin is None else self._begin.xid
            )

    def _tell_changed(self, message: pgoutput.Change | pgoutput.Truncate | pgoutput.LogicalMessage) -> None:
        """Say which rows have changed to the chunk that lies between its marks."""
        if isinstance(message, pgoutput.LogicalMessage):
            return
        for oid in message.oids if isinstance(message, pgoutput.Truncate) else (message.oid,):
            table = self._tables.get(oid)
            if table is None:
                continue
            rows: list[Any] = []
            if isinstance(message, pgoutput.Change):
                rows = [message.old, None if message.new is None else sent_with(message.old, message.new)]
            try:
                keys = [table.key_of(row) for row in rows if row is not None]
            except DataError:  # of a table that is refused, or of an operation that is left out
                keys = []
            for key in keys or (None,):
                self._signalling.incremental.changed(table.id, key)

    def _moment(self, lsn: int, *, is_alone: bool = False) -> Moment:
        begin, origin = None if is_alone else self._begin, self._origin
        return Moment(
            lsn,
            time.time_ns() // 1000 if begin is None else begin.commit_us,
            None if begin is None else begin.xid,
            self._last_commit,
            origin=None if origin is None else origin.name,
            origin_lsn=None if origin is None else origin.lsn,
        )

    def _records(
        self,
        message: pgoutput.Change | pgoutput.Truncate | pgoutput.LogicalMessage,
        lsn: int,
        transaction: Transaction | None,
    ) -> list[SourceRecord]:
        """Return a change's records; none of what is not captured."""
        if isinstance(message, pgoutput.LogicalMessage):
            if not self._selection.has_prefix(message.prefix) or "m" in self._skips:
                return []
            alone = not message.is_transactional
            moment = self._moment(message.lsn or lsn, is_alone=alone)
            block = None if transaction is None else transaction.block(message.prefix)
            return [self._messages.record(moment, message.prefix, message.content, block)]
        if isinstance(message, pgoutput.Truncate):
            if "t" in self._skips:
                return []
            found = [each for oid in message.oids if (each := self._tables.get(oid)) is not None]
            moment = self._moment(lsn)
            told = [each for each in found if each.id not in self._refused]
            return [record for each in told for record in each.truncated(moment, transaction)]
        if message.oid not in self._tables:
            raise ConnectError(f"The replication stream has a change of table {message.oid}, which it has not told of")
        table = self._tables[message.oid]
        if table is None or OPERATIONS[message.kind] in self._skips or table.id in self._refused:
            return []
        try:
            return self._records_of(table, message, self._moment(lsn), transaction)
        except DataError as error:
            self._refuse(table.id, error)
            return []

    def _records_of(
        self, table: TableEvents, message: pgoutput.Change, moment: Moment, transaction: Transaction | None
    ) -> list[SourceRecord]:
        """Return the records of a captured row's change; raises DataError for a value that no record can hold."""
        if message.kind == "I":
            assert message.new is not None
            return table.inserted(message.new, moment, transaction)
        if message.kind == "U":
            assert message.new is not None
            made = table.updated(message.old, message.new, moment, transaction, old_is_key=message.old_is_key)
            return made if len(made) == 1 or not self._skips else self._kept(made)
        assert message.old is not None
        return table.deleted(message.old, moment, transaction)

    def _kept(self, made: list[SourceRecord]) -> list[SourceRecord]:
        """Return what is left of a changed key's deletion and insertion where operations are left out."""
        if "c" in self._skips:
            made = made[:-1]
        return made[-1:] if "d" in self._skips and "c" not in self._skips else [] if "d" in self._skips else made

    def _table_events(self, message: pgoutput.RelationMessage) -> TableEvents | None:
        """Return what makes a table's records: columns as the stream has them, what else is known from the catalogue."""
        name = TableId(message.schema, message.table)
        if not self._selection.is_published(name):
            return None
        catalog = self._asked_of()
        known = catalog.table(message.oid)
        by_name = {} if known is None else {each.name: each for each in known.columns}
        columns = []
        for each in message.columns:
            type_ = catalog.type(each.type_oid, each.type_modifier)
            now = by_name.get(each.name)
            required = each.is_key and message.identity != "f" if now is None else now.is_required
            default = now.default if now is not None and now.type == type_ else None
            columns.append(CatalogColumn(each.name, type_, required, default))
        keys = tuple(each.name for each in message.columns if each.is_key) if message.identity != "f" else ()
        key = keys if known is None else known.key
        try:
            return self._events.table(CatalogTable(name, tuple(columns), key))
        except DataError as error:
            self._refuse(name, error)
            return None

    # -- what was stored

    def commit(self) -> None:
        """Tell the server that what is stored is wanted no more."""
        with self._turn:
            self._commit()

    def _commit(self) -> None:
        if self._stream is None or self._settings["lsn.flush.mode"] == "manual":
            return
        stored = self.context.offset(self._events.partition)
        if not stored:
            return
        position = Position.of(stored)
        lsn = position.commit_lsn
        is_stored = self._handed is None or dict(self._handed) == dict(stored)
        is_idle = self._begin is None and not self._waiting and is_stored
        if self._settings["lsn.flush.mode"] == "connector_and_driver" and is_idle and not position.changes:
            lsn = max(lsn, self._idle_lsn)
        self._stream.confirm(lsn)

    def stop(self) -> None:
        """End; the slot stays, unless it is to go."""
        self._stopping.set()
        with self._turn:
            if self._stream is not None and self._catalog is not None and self._settings["slot.drop.on.stop"]:
                self._stream.close()
                self._stream = None
                drop_slot(self._catalog, self._settings["slot.name"])
            self._hang_up()
            if hasattr(self, "_signalling"):
                self._signalling.close()

    def _hang_up(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._catalog is not None:
            self._catalog.close()
        if self._begin_waits:  # it comes again
            self._waiting.pop()
            self._begin_waits = False
        self._stream = self._catalog = None
        self._begin, self._transaction = None, None
