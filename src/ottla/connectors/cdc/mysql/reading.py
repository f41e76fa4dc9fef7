"""What the binlog's events become: records, each with the place behind it; tables followed through statements about them."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from struct import error as StructError
from typing import Any, Final

from ottla.connect import ConnectError, DataError, SourceRecord
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.events import Events, TableEvents, Transaction
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.mysql.binlog import (
    BinlogEvent,
    Gtid,
    Mapped,
    Query,
    Rotated,
    Rows,
    RowsQuery,
    XaPrepared,
    Xid,
)
from ottla.connectors.cdc.mysql.binlog_events import BinlogMoment, SchemaChanges, stands_at
from ottla.connectors.cdc.mysql.cascades import Cascades
from ottla.connectors.cdc.mysql.ddl import Effect, TableChange, follow, forget_gone, note_charset
from ottla.connectors.cdc.mysql.ddl_words import DdlError, words_of
from ottla.connectors.cdc.mysql.definitions import asked_table
from ottla.connectors.cdc.mysql.gtids import GtidFilter
from ottla.connectors.cdc.mysql.history import HistoryStore, history_record
from ottla.connectors.cdc.mysql.plain_bytes import TableMap
from ottla.connectors.cdc.mysql.positions import Position, Start
from ottla.connectors.cdc.mysql.prepared import Held, Prepared, Unsettled, xid_of
from ottla.connectors.cdc.mysql.renames import renames_of
from ottla.connectors.cdc.mysql.server import SYSTEM, Server, Where
from ottla.connectors.cdc.mysql.shapes import by_names, fits, row_end, row_format, with_nulls
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables
from ottla.connectors.cdc.mysql.transaction_state import OpenTransaction, Readable, Replay, as_of_now, parts_of
from ottla.connectors.cdc.mysql.unsent import Unsent, emptied, writes_rows
from ottla.connectors.cdc.refused import Refused
from ottla.connectors.cdc.replication import ServerAwayError
from ottla.connectors.cdc.signalling import Signalling

__all__ = ["BinlogReading"]

log = logging.getLogger(__name__)
_SILENT: Final = re.compile(r"(?:SAVEPOINT|ROLLBACK TO|ROLLBACK WORK TO|RELEASE SAVEPOINT)\b", re.I)
_XA: Final = re.compile(r"XA\s+(START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\b", re.I)
_ENDS: Final = re.compile(r"(?:COMMIT|ROLLBACK)\b", re.I)
_BEGINS: Final = re.compile(r"(?:BEGIN|START TRANSACTION)\b", re.I)
_H: Final = "schema.history.internal"


class BinlogReading:
    """Takes the stream's events in their order; `waiting` are the records that they have become."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        events: Events,
        history: HistoryStore,
        metrics: CaptureMetrics,
        opened: Callable[[], Server],
        position: Position,
    ) -> None:
        self._filter = GtidFilter(settings)
        self.signals: Signalling | None = None
        """What signals have asked for."""
        self._prepared, self.refused = Prepared(), Refused()
        self._replay: Replay | None = None
        self._settings, self._events, self._history, self._metrics = settings, events, history, metrics
        self._opened = opened
        """Connects to the server, to look at a table."""
        self._selection = events.selection
        self.cascades = Cascades(opened, self._is_told)
        self._unsent = Unsent(opened, self._is_told, self._is_at, self._refuse)
        self._skips = frozenset(each.strip() for each in settings["skipped.operations"])
        self._schema_changes = SchemaChanges(events) if settings["include.schema.changes"] else None
        self._has_blocks, self._has_queries = settings["provide.transaction.metadata"], settings["include.query"]
        self._failure: str = settings["event.processing.failure.handling.mode"]
        self.position = position
        self.waiting: list[SourceRecord] = []
        self._tables, self._charsets = Tables(), {"": "utf8mb4"}
        self._transaction: OpenTransaction | None = None
        self._file, self._at = "", 0
        self._server, self._has_names, self._is_mariadb = 0, False, False
        self._passed: Position | None = None
        """The end of the last transaction that this connection has told, in its server's files."""
        self._is_first = True
        self._mapped: dict[int, Mapped] = {}
        self._formats: dict[TableMap, Readable | None] = {}

    @property
    def is_between(self) -> bool:
        """Whether no transaction is under way."""
        return self._transaction is None

    def begin(self, position: Position, charsets: Mapping[str, str], tables: Tables | None = None) -> None:
        """Go on from a position, with the tables as they are there."""
        self.position, self._charsets = position, dict(charsets)
        self._tables = Tables() if tables is None else tables
        self.cascades.begin(self._tables)
        self._prepared.restore(position.more)
        self.refused.restore(position.more)
        self._unsent.restore(position.more)

    @property
    def place(self) -> Mapping[str, Any]:
        """How far the binlog was read, also within a transaction."""
        return {"file": self._file, "position": self._at}

    def await_prepared(self, found: Mapping[str, Unsettled]) -> None:
        """Tell XA transactions at their commit that were prepared before the position."""
        for xid, each in found.items():
            self._prepared.add(xid, each)
        self.keep()

    def keep(self) -> None:
        """Have what signals have asked for, and what is prepared, stand in the offsets from now on."""
        signals = {} if self.signals is None else self.signals.kept()
        kept = {**signals, **self._prepared.kept(), **self.refused.kept(), **self._unsent.kept()}
        if kept != self.position.more:
            self.position = self.position.keeping(kept)

    def defined(self, server: Server, name: TableId) -> SqlTable | None:
        """Return a table as the server has it now, as the stream knows it where that is the same; None where it is gone."""
        table, known = asked_table(server, name, self._charsets), self._tables.get(name)
        if table is None or known is None:
            return table
        return known if (known.columns, known.key) == (table.columns, table.key) else table

    def connected(self, server: int, *, has_names: bool, is_mariadb: bool) -> None:
        """Note which server tells what comes, from the position on; `has_names` where it tells columns' names."""
        self._server, self._has_names, self._is_mariadb = server, has_names, is_mariadb
        self.lost()
        self._file, self._is_first, self._passed = self.position.file, True, None
        self._mapped = {}
        self._prepared.restore(self.position.more)
        self.refused.restore(self.position.more)
        self._unsent.restore(self.position.more)
        if self.signals is not None:
            self.signals.incremental.lost()

    def lost(self) -> None:
        """Forget what is under way: it comes again."""
        self._transaction = self._replay = None
        self.cascades.forget()
        self.waiting = self.waiting[: self.ready]

    def taken(self) -> list[SourceRecord]:
        """Return the records that are waiting, but for those at the end that have no place of their own yet.

        A BEGIN goes with the first change behind it: else it would come again after an end between the two.
        """
        ready = self.ready
        found, self.waiting = self.waiting[:ready], self.waiting[ready:]
        return found

    @property
    def ready(self) -> int:
        """Return how many records wait up to the last that has an offset."""
        count = len(self.waiting)
        while count and self.waiting[count - 1].source_offset is None:
            count -= 1
        return count

    # -- events

    def take(self, event: BinlogEvent) -> None:
        """Take the next event; raises ConnectError, DataError."""
        self._at = event.end
        held = None if self._transaction is None else self._transaction.held
        match event:
            case Rows() | Mapped() | RowsQuery() if held is not None:
                held.take(event, most=self._prepared.room)
                if not isinstance(event, RowsQuery):
                    self._count()
            case Rows():
                self._rows(event)
            case Mapped():
                self._map(event)
            case Gtid():
                self._begun(event)
            case Xid():
                self._ended(event)
            case XaPrepared():
                self._xa_prepared(event)
            case Query():
                self._query(event)
            case RowsQuery():
                if self._transaction is not None and self._has_queries:
                    self._transaction.query = event.text
            case Rotated():
                self._file = event.file
                self._mapped.clear()
                if event.at_s and not self.position.event and not self.position.row:
                    self.position = self.position.at(event.file, event.position)

    def _map(self, event: Mapped) -> None:
        self._mapped[event.number] = event
        name = TableId(event.table_map.database, event.table_map.table)
        self.cascades.mapped(name, f"{self._file}:{event.begin}")
        self._count()

    def _count(self) -> None:
        if self._transaction is not None:
            self._transaction.events += 1

    def _begun(self, event: Gtid) -> None:
        at = self.position
        transaction = OpenTransaction(event.gtid, self._is_mariadb and not event.is_whole)
        is_same = self._is_first and at.gtid == event.gtid and at.server == self._server
        if is_same and (at.event or at.row):
            transaction.told = at.event, at.row
            self.position = at.anew(self._file, event.begin)
        else:
            self.position = at.at(self._file, event.begin)
        self._is_first = False
        transaction.is_foreign = not self._filter.has_rows(event.gtid)
        self._transaction = transaction
        self._count()
        if event.is_prepared:
            transaction.held = Held()
        elif transaction.is_open:
            self._open_block(event)

    def _open_block(self, event: BinlogEvent) -> None:
        transaction = self._transaction
        assert transaction is not None
        if not self._has_blocks or transaction.held is not None:
            return
        id_ = transaction.source_gtid or f"file={self._file},pos={event.begin}"
        transaction.block = Transaction(id_)
        if transaction.told == (0, 0):
            self.waiting.append(self._events.transaction("BEGIN", id_, event.at_s * 1_000_000))

    def _ended(self, event: BinlogEvent) -> None:
        transaction = self._transaction
        self.cascades.ended(f"{self._file}:{event.end}")
        self._pass(event)
        self._metrics.committed += 1
        if transaction is not None and transaction.block is not None:
            block = transaction.block
            self.waiting.append(self._events.transaction("END", block.id, event.at_s * 1_000_000, block))
        self.settle()
        if self.waiting:
            self.waiting[-1].source_offset = self._offset(event)

    def _pass(self, event: BinlogEvent) -> None:
        """Be behind a transaction."""
        gtid = "" if self._transaction is None else self._transaction.gtid
        at = self.position
        self.position = at.at(self._file, at.pos).behind(event.end, gtid)
        self._passed = Position(self._file, event.end)
        self._transaction = None

    def settle(self) -> None:
        """Tell the rows that an incremental snapshot has read without marks, where the stream has come as far."""
        if self.signals is None or self._transaction is not None:
            return
        if found := self.signals.incremental.reached(self._is_at):
            at = self.position
            gtid = at.gtids if "," not in at.gtids and ":" not in at.gtids else None
            for each in found:
                stands_at(each, BinlogMoment(at.file, at.pos, 0, self._server, gtid or None))
            self.waiting += found
            self.keep()
            self.waiting[-1].source_offset = self.position.offset()

    def _is_at(self, where: Where) -> bool:
        """Whether a place of a server was passed: by GTIDs; or by the file, where the stream is of the same server."""
        if where.start.gtids and self.position.gtids and self.position.reaches(where.start):
            return True
        if where.server_id != self._server or self._passed is None:
            return not where.start.gtids and self.position.reaches(where.start)
        return self._passed.reaches(replace(where.start, gtids=""))

    def _offset(self, event: BinlogEvent) -> dict[str, Any]:
        return self.position.offset(ts_sec=event.at_s, server_id=event.server_id)

    def _query(self, event: Query) -> None:
        text = event.text.strip()
        transaction = self._transaction
        if _BEGINS.match(text):
            if transaction is None:
                transaction = self._transaction = OpenTransaction("", is_open=True)
                self.position = self.position.at(self._file, event.begin)
            transaction.is_open, transaction.thread = True, event.thread
            self._count()
            if transaction.block is None:
                self._open_block(event)
            return
        if _SILENT.match(text):
            self._count()
            return
        if (verb := _XA.match(text)) is not None:
            self._xa(event, verb[1].upper(), xid_of(text))
            return
        if not _ENDS.match(text):
            self._statement(event, text)
            self._count()
            if transaction is not None and transaction.is_open:
                return
        self._ended(event)

    # -- transactions of two phases

    def _xa(self, event: Query, verb: str, xid: str) -> None:
        """Hold what an XA transaction does; tell it at its commit."""
        transaction = self._transaction
        if verb in ("START", "BEGIN"):
            if transaction is None:
                transaction = self._transaction = OpenTransaction("", is_open=True)
                self.position = self.position.at(self._file, event.begin)
            transaction.thread = event.thread
            transaction.held = transaction.held or Held()
        if transaction is not None and transaction.held is not None:
            self._count()
            transaction.held.xid = xid
            if verb == "PREPARE":
                self._xa_prepared(XaPrepared(event.at_s, event.server_id, event.end, event.size, False))
            return
        found = self._prepared.get(xid) if verb == "COMMIT" else None
        if found is not None:
            if transaction is None:
                self._transaction = OpenTransaction("", is_open=False)
                self.position = self.position.at(self._file, event.begin)
            self._begin_replay(event, xid, found)
            return
        if verb == "COMMIT":
            log.warning(
                "XA transaction %s is committed at %s:%d, and was prepared before this connector read the binlog: what it "
                "has changed is not told",
                *(xid, self._file, event.begin),
            )
        self._prepared.settled(xid)
        self.keep()
        self._ended(event)

    def _xa_prepared(self, event: XaPrepared) -> None:
        transaction = self._transaction
        if transaction is None or transaction.held is None:
            self._ended(event)
            return
        held, start = transaction.held, self.position.start
        if event.is_one_phase:
            transaction.held = None
            found = Unsettled(start, transaction.gtid, self._file, held.events, 0, transaction.thread)
            self._begin_replay(event, held.xid, found)
            return
        size = 0 if held.events is None else held.bytes
        found = Unsettled(start, transaction.gtid, self._file, held.events, size, transaction.thread)
        self._prepared.add(held.xid, found)
        self._pass(event)
        self.keep()

    def _begin_replay(self, event: BinlogEvent, xid: str, found: Unsettled) -> None:
        assert self._transaction is not None
        self._transaction.made_by, self._transaction.thread = found.gtid, found.thread
        self._transaction.is_foreign = not self._filter.has_rows(found.gtid)
        outer = self._file, self._mapped
        self._replay = Replay(event, xid, found, deque(found.events or ()), outer)
        self._file, self._mapped = found.file, {}
        self._open_block(event)

    @property
    def is_replaying(self) -> bool:
        """Whether an XA transaction is being told, and no other event can be taken."""
        return self._replay is not None

    @property
    def reread(self) -> Start | None:
        """Return from where the binlog has to be read for the XA transaction that is being told; None where it is not."""
        return None if self._replay is None or self._replay.found.events is not None else self._replay.found.start

    def replay(self) -> None:
        """Tell the next event of an XA transaction that was kept in memory, or come to its end."""
        replay = self._replay
        assert replay is not None
        if replay.events:
            self._inner(replay.events.popleft())
        else:
            self._end_replay()

    def take_again(self, event: BinlogEvent) -> bool:
        """Take an event of an XA transaction that is read once more; true where it was its last."""
        replay, transaction = self._replay, self._transaction
        assert replay is not None and transaction is not None
        match event:
            case Gtid() if event.gtid == replay.found.gtid:
                replay.is_found = True
            case Gtid() if replay.found.gtid and event.gtid != transaction.gtid:
                replay.is_found = False  # a replica may have another order
            case Gtid():
                raise ConnectError(
                    f"XA transaction {replay.xid} is committed, and {replay.found.start.file}:"
                    f"{replay.found.start.position} has another one now: what it has changed cannot be told. Reset the "
                    "connector's offsets to read the tables anew"
                )
            case Rotated():
                self._file = event.file
            case _ if not replay.is_found:
                pass
            case Query() if (verb := _XA.match(event.text.strip())) is not None and verb[1].upper() != "PREPARE":
                if verb[1].upper() != "END":
                    transaction.thread = event.thread
            case XaPrepared() | Query():
                self._end_replay()
                return True
            case _:
                self._inner(event)
        return False

    def _inner(self, event: BinlogEvent) -> None:
        match event:
            case Rows():
                self._rows(event)
            case Mapped():
                self._map(event)
            case RowsQuery() if self._has_queries and self._transaction is not None:
                self._transaction.query = event.text

    def _end_replay(self) -> None:
        replay = self._replay
        assert replay is not None
        self._replay = None
        self._file, self._mapped = replay.outer
        self._prepared.settled(replay.xid)
        self.keep()
        self._ended(replay.end)

    # -- rows

    def _rows(self, event: Rows) -> None:
        transaction = self._transaction
        if transaction is None:
            raise ConnectError(f"The binlog has rows at {self._file}:{event.begin} outside of a transaction")
        number = transaction.events
        transaction.events += 1
        mapped = self._mapped.get(event.number)
        if mapped is None:
            raise ConnectError(f"The binlog has rows at {self._file}:{event.begin} of a table that it has not told of")
        name = TableId(mapped.table_map.database, mapped.table_map.table)
        self.cascades.changed(name, event.op)
        if transaction.is_foreign or name in self.refused:
            self._metrics.filtered()
            return
        try:
            found = self._table(mapped)
            is_watched = found is not None and self._is_watched(name)
            if found is None or (event.op in self._skips and not is_watched):
                self._metrics.filtered()
                return
            self._check_image(event, found)
            self._tell_rows(event, found, number, is_watched=is_watched)
        except ServerAwayError:
            raise
        except (ConnectError, DataError, ValueError, IndexError, StructError) as error:
            self.refuse(name, f"{error} (rows at {self._file}:{event.begin})")

    def refuse(self, name: TableId, why: str) -> None:
        """Tell a table no more, of which something is not known; or pass over that, where it is asked for."""
        self._refuse(name, why)
        self.keep()

    def _refuse(self, name: TableId, why: str) -> None:
        if self._failure == "fail":
            self.refused.add(name, why)
        elif self._failure == "warn":
            log.warning("Of table %s something is not told: %s", name, why)

    def _check_image(self, event: Rows, found: Readable) -> None:
        """Raise DataError where an event does not tell rows whole."""
        if event.is_partial:
            raise DataError("parts of JSON documents were sent: SET GLOBAL binlog_row_value_options = ''")
        if lacking := found.format.lacking(event.body):
            columns = ", ".join(found.format.names[at] for at in lacking)
            raise DataError(
                f"rows were not sent whole, and {columns} are not known: a session has another binlog_row_image than FULL"
            )

    def _tell_rows(self, event: Rows, found: Readable, number: int, *, is_watched: bool) -> None:
        transaction = self._transaction
        assert transaction is not None
        table, at_us = found.table, event.at_s * 1_000_000
        for place, (before, after) in enumerate(found.format.rows(event.body, is_update=event.op == "u")):
            op = event.op
            if found.row_end is not None:
                now = as_of_now(op, before, after, found.row_end)
                if now is None:
                    continue
                op, after = now
                before, after = before and before[: found.width], after[: found.width]
            if op in self._skips and not is_watched:
                continue
            moment = BinlogMoment(
                *(self._file, event.begin, at_us, event.server_id, transaction.source_gtid or None, place),
                *(transaction.thread, transaction.query),
            )
            made = self._made(op, table, before, after, moment, transaction.block)
            if (number, place) < transaction.told:
                continue
            self.position = self.position.within(number, place + 1, transaction.gtid, self._server)
            if made:
                self._metrics.changed(op, at_us)
            if is_watched:
                made = self._signalled(op, table, before, after, moment, made)
            if made:
                self.waiting += made
                made[-1].source_offset = self._offset(event)

    def _made(
        self, op: str, table: TableEvents, before: Any, after: Any, moment: BinlogMoment, block: Transaction | None
    ) -> list[SourceRecord]:
        if op in self._skips:
            return []
        if op == "c":
            return table.inserted(after, moment, block)
        if op == "d":
            return table.deleted(after, moment, block)
        return table.updated(before, after, moment, block, old_is_key=False)

    def _is_watched(self, table: TableId) -> bool:
        """Whether changes of a table matter that are not told: of signals, or to a snapshot that reads it."""
        return self.signals is not None and (
            str(table) == self._selection.signals or self.signals.incremental.is_waiting
        )

    def _signalled(
        self, op: str, table: TableEvents, before: Any, after: Any, moment: BinlogMoment, made: list[SourceRecord]
    ) -> list[SourceRecord]:
        """Say a change to the snapshot that goes on beside the stream; returns its records, and those of a mark."""
        assert self.signals is not None
        if self.signals.incremental.is_waiting:
            for row in (before, after) if op == "u" else (after,):
                self.signals.incremental.changed(table.id, table.key_of(row))
        if str(table.id) != self._selection.signals:
            return made
        texts = [each if isinstance(each, str) else None for each in after[:3]]
        found = self.signals.noted(texts, op)
        for each in found:
            stands_at(each, moment)
        self.keep()
        return [*made, *found]

    def _table(self, mapped: Mapped) -> Readable | None:
        """Return what reads a table's rows, and makes its records; None for one that is not captured."""
        shape = mapped.table_map
        if shape in self._formats:
            return self._formats[shape]
        name = TableId(shape.database, shape.table)
        found = None
        if self._selection.is_published(name):
            table = self._tables.get(name)
            if table is None or not (table.is_sequence or fits(table, shape)):
                table = self._tables[name] = self._looked_at(name, mapped, table)
            if table.is_sequence:
                self._formats[shape] = None
                return None
            table = with_nulls(table, shape)
            found = Readable(
                self._events.table(table), row_format(table, shape), len(table.columns), row_end(table, shape)
            )
        self._formats[shape] = found
        return found

    def _looked_at(self, name: TableId, mapped: Mapped, known: SqlTable | None) -> SqlTable:
        """Return a table that the history has not, or otherwise, as the server has it now, if that fits its rows."""
        log.warning("Table %s is in the binlog otherwise than in the history, and is asked for", name)
        server, told = self._opened(), mapped.table_map
        try:
            table = asked_table(server, name, self._charsets)
        finally:
            server.close()
        if table is not None and fits(table, told):
            return table
        merged = by_names(told, [each for each in (known, table) if each is not None])
        if merged is not None:
            return merged
        raise ConnectError(
            f"Table {name} has {len(told.wires)} columns at {self._file}:{mapped.begin} that neither the history nor the "
            "server has so, and its rows cannot be read. SET GLOBAL binlog_row_metadata=FULL has the binlog tell columns' "
            "names; what is written already can be passed over by resetting the connector's offsets"
        )

    # -- statements

    def _statement(self, event: Query, text: str) -> None:
        """Follow a statement about tables; refuse those that one in the place of rows may have changed."""
        text = emptied(text) or text
        known = {*self._tables}
        try:
            effect = follow(text, event.database, self._tables, self._charsets, event.sql_mode)
        except (DdlError, ValueError, IndexError, OverflowError) as error:
            self._not_understood(event, text, error)
            effect = Effect(event.database, is_ddl=False)
        known |= self._tables.keys()
        for each in effect.changes:
            if each.is_new:
                self.refused.dropped(each.id)
        if not writes_rows(text, event.sql_mode):
            self.cascades.altered(text, known)
            self._unsent.altered(text, f"{self._file}:{event.begin}", event.sql_mode, known)
        elif self._transaction is None or not self._transaction.is_foreign:
            self._unsent.said(text, event.database, f"{self._file}:{event.begin}", event.sql_mode, known)
        for name, new in renames_of(text, event.database, event.sql_mode):
            self.refused.renamed(name, new)
        self.keep()
        if not effect.is_ddl or effect.database.lower() in SYSTEM:
            return
        note_charset(text, effect.database, self._charsets)
        forget_gone(effect, self.refused)
        self.keep()
        self._formats.clear()
        if self.signals is not None:
            for name in {
                each for change in effect.changes for each in (change.id, change.previous) if each is not None
            }:
                self.signals.incremental.changed(name, None)
        transaction = self._transaction
        is_told = transaction is not None and (transaction.events, 0) < transaction.told
        for words, part in parts_of(text, effect):
            if not is_told:
                self._keep(event, words, part)
                self._tell(event, words, part)

    def _is_told(self, table: TableId) -> bool:
        return self._selection.has_table(table) and table not in self.refused

    def _not_understood(self, event: Query, text: str, error: Exception) -> None:
        """Forget what is known of the tables that a statement names: where their rows come, the server is asked."""
        named = words_of(text)
        forgotten = [
            each
            for each in self._tables
            if each.table in named and (each.schema in named or each.schema == event.database)
        ]
        for each in forgotten:
            del self._tables[each]
        log.warning(
            "A statement at %s:%d is not understood (%s), and tables that it names are asked for when rows come: %.500s",
            *(self._file, event.begin, error, text),
        )
        self._formats.clear()
        gone = tuple(TableChange("DROP", each) for each in forgotten)
        self._keep(event, text, Effect(event.database, gone) if gone else None)

    def _keep(self, event: Query, text: str, effect: Effect | None) -> None:
        """Write a statement into the history, before any row behind it is told."""
        database = event.database if effect is None else effect.database
        changes = () if effect is None else effect.changes
        if changes and all(each.kind == "TRUNCATE" for each in changes):
            return
        if self._settings[f"{_H}.store.only.captured.databases.ddl"] and not self._selection.has_schema(database):
            return
        names = [name for each in changes for name in (each.id, each.previous) if name is not None]
        is_foreign = bool(names) and not any(map(self._selection.has_table, names))
        if self._settings[f"{_H}.store.only.captured.tables.ddl"] and is_foreign:
            return
        at = self.position
        place = {"ts_sec": event.at_s, "file": self._file, "pos": at.pos, "server_id": event.server_id, "event": 1}
        if at.gtids:
            place["gtids"] = at.gtids
        self._history.append([history_record(self._events.prefix, place, database, text, effect)])

    def _tell(self, event: Query, text: str, effect: Effect) -> None:
        """Make the records of a statement: of the topic of statements, and of a table that was emptied."""
        gtid = None if self._transaction is None else self._transaction.gtid or None
        moment = BinlogMoment(self._file, event.begin, event.at_s * 1_000_000, event.server_id, gtid)
        for each in effect.changes:
            if each.kind == "TRUNCATE" and "t" not in self._skips and self._is_told(each.id):
                table = each.table or self._tables.get(each.id)
                if table is not None:
                    block = None if self._transaction is None else self._transaction.block
                    try:
                        self.waiting += self._events.table(table).truncated(moment, block)
                        self._metrics.changed("t", moment.at_us)
                    except (ConnectError, DataError) as error:
                        self.refuse(each.id, f"{error} (emptied at {self._file}:{event.begin})")
        if self._schema_changes is None or any(each.kind == "TRUNCATE" for each in effect.changes):
            return
        names = [name for each in effect.changes for name in (each.id, each.previous) if name is not None]
        wanted = any(map(self._selection.has_table, names)) if names else self._selection.has_schema(effect.database)
        if wanted:
            self.waiting.append(
                self._schema_changes.record(moment, effect.database, text, effect, self._events.headers)
            )
