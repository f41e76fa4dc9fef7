"""Incremental snapshots: tables read in chunks by their keys, between marks in the stream of changes, while that goes on.

The way is DBLog's (Andreakis and Papapanagiotou, "DBLog: A Watermark Based Change-Data-Capture Framework", 2020): a mark is
written into the signals' table, a chunk is read, and a second mark is written. Both come back in the stream. What the stream
tells from the reading on until the second mark is as new as what was read, or newer, and leaves the chunk; the rest of it is
written behind that mark. Where no marks may be written (`read.only`), the log's end behind the reading is the second mark.
How far a snapshot is, is part of the source's offsets: killed, it goes on behind the last chunk that was stored.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect import ConnectError, DataError, SourceRecord
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.chunks import Chunks, ChunkServer, Keys, comparable
from ottla.connectors.cdc.events import Events, Row, Table
from ottla.connectors.cdc.notifications import INCREMENTAL as AGGREGATE
from ottla.connectors.cdc.notifications import Notifications
from ottla.connectors.cdc.refused import Refused
from ottla.connectors.cdc.replication import ServerAwayError, ServerSaysError, is_of_the_table
from ottla.connectors.cdc.signals import Request, Signal, requests_of

__all__ = ["IncrementalSnapshot", "Progress"]

log = logging.getLogger(__name__)
PREFIX: Final = "incremental_snapshot_"
"""What the names begin with that progress has in source offsets."""
COLLECTIONS, LAST, MOST, CORRELATION, PAUSED = (
    f"{PREFIX}{each}" for each in ("collections", "primary_key", "maximum_key", "correlation_id", "paused")
)
_ID, _CONDITION, _SURROGATE = (f"{COLLECTIONS}_{each}" for each in ("id", "additional_condition", "surrogate_key"))
OPEN, CLOSE = "snapshot-window-open", "snapshot-window-close"
READS_MAX: Final = 5
"""How often a chunk is read whose table is altered at the same time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is still to be read: tables, the first of them from behind `last` up to `most`."""

    queue: tuple[Request, ...] = ()
    last: Keys | None = None
    most: Keys | None = None
    """The greatest key when the table's turn came; None before that."""
    correlation: str = ""
    """The id of the signal that asked."""
    is_paused: bool = False

    def offset(self) -> dict[str, Any]:
        """Return it as a part of a source offset; nothing where nothing is to be read. Debezium's names."""
        if not self.queue:
            return {}
        listed = [{_ID: each.table, _CONDITION: each.condition, _SURROGATE: each.surrogate} for each in self.queue]
        return {
            COLLECTIONS: json.dumps(listed),
            LAST: None if self.last is None else json.dumps(self.last),
            MOST: None if self.most is None else json.dumps(self.most),
            CORRELATION: self.correlation,
            **({PAUSED: True} if self.is_paused else {}),
        }

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Progress:
        """Read a source offset; keys in Java's own form, which Debezium writes, have their table read from its start."""
        try:
            listed = json.loads(offset.get(COLLECTIONS) or "[]")
            queue = tuple(Request(each[_ID], each.get(_CONDITION), each.get(_SURROGATE)) for each in listed)
        except (ValueError, TypeError, KeyError, RecursionError):
            log.warning("What an incremental snapshot had still to read cannot be understood: it is ended")
            return cls()
        last, most = _keys(offset.get(LAST)), _keys(offset.get(MOST))
        if last is None or most is None:
            last = most = None
        return cls(queue, last, most, str(offset.get(CORRELATION) or ""), bool(offset.get(PAUSED)))

    def without_first(self) -> Progress:
        """Return the same behind the first table."""
        return replace(self, queue=self.queue[1:], last=None, most=None)


def _keys(text: Any) -> Keys | None:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return tuple(map(str, found)) if isinstance(found, list) else None


@dataclass(slots=True)
class _Window:
    """A chunk that was read, and waits for the stream to come as far."""

    id: str
    table: TableId
    records: dict[tuple[Any, ...], list[SourceRecord]]
    behind: Progress
    """Where reading is when the chunk is written."""
    until: Any = None
    """Where the stream has to come for the chunk to be written, of one without marks."""
    has_own_keys: bool = True
    """Whether records' keys are the table's: else other rows may have them, too."""
    is_spoiled: bool = False
    """Whether something has changed of which nobody can say what: the chunk is read again."""


class _RefusedTable(Exception):
    """The table that is read was refused."""


class IncrementalSnapshot:
    """Reads what signals ask for; the task tells it of marks and changes, in the order of the stream."""

    def __init__(
        self, settings: Mapping[str, Any], events: Events, progress: Progress, notifications: Notifications
    ) -> None:
        self._events, self._notifications = events, notifications
        self._signals: str | None = settings["signal.data.collection"]
        self._is_read_only: bool = settings["read.only"]
        self._chunk: int = settings["incremental.snapshot.chunk.size"]
        self._at_once = self._chunk
        """Rows that are asked for next: fewer behind a chunk that was cut off, since a server sends all it was asked."""
        self._deletes_mark = settings["incremental.snapshot.watermarking.strategy"] == "insert_delete"
        self.progress = progress
        self._window: _Window | None = None
        self._end: Callable[[], Any] | None = None
        self._chunks_read = self._rows_read = 0
        self._total: int | None = None
        """Rows of the table that is read; counted only where somebody is told."""
        self.refused: Refused | None = None
        """Where a table is put that has a value that no record can hold; None where only its row is left out."""

    # -- what signals say

    def request(self, signal: Signal, tables: Sequence[str]) -> None:
        """Have tables read behind those that are waiting; raises DataError where the signal names none that is captured."""
        found = requests_of(signal, tables)
        if not found:
            raise DataError(f"Signal {signal.id}: none of {signal.data['data-collections']} is captured")
        if self._signals is None and not self._is_read_only:
            raise DataError(f"Signal {signal.id}: an incremental snapshot writes marks: set signal.data.collection")
        is_begun = bool(self.progress.queue)
        waiting = {each.table for each in self.progress.queue}
        added = tuple(each for each in found if each.table not in waiting)
        self.progress = replace(self.progress, queue=self.progress.queue + added, correlation=signal.id)
        log.info("An incremental snapshot of %s is asked for", ", ".join(each.table for each in added) or "nothing new")
        if not is_begun:
            self._tell("STARTED", tables=self._tables())
            self._tell("DATA_COLLECTIONS_RESOLVED", tables=self._tables())

    def stop(self, signal: Signal, tables: Sequence[str]) -> None:
        """End what is read, or of the tables that the signal names."""
        named = {each.table for each in requests_of(signal, tables)} if signal.data.get("data-collections") else None
        if self.progress.queue and (named is None or self.progress.queue[0].table in named):
            self._window = None
            self.progress = replace(self.progress, last=None, most=None)
            self._forget_table()
        kept = tuple(each for each in self.progress.queue if named is not None and each.table not in named)
        stopped = [each.table for each in self.progress.queue if each not in kept]
        self.progress = replace(self.progress, queue=kept)
        if stopped:
            self._tell("ABORTED", tables=stopped)

    def pause(self, *, paused: bool) -> None:
        """Read nothing more until it is resumed; a chunk under way is written."""
        if self.progress.queue and paused != self.progress.is_paused:
            self._tell("PAUSED" if paused else "RESUMED", tables=self._tables())
        self.progress = replace(self.progress, is_paused=paused)

    # -- what is told

    def _tell(self, type_: str, **more: Any) -> None:
        self._notifications.tell(AGGREGATE, type_, self.progress.correlation or None, **more)

    def _tables(self) -> list[str]:
        return [each.table for each in self.progress.queue]

    def _tell_chunk(self, chunks: Chunks, table: Table, request: Request, last: Keys, most: Keys) -> None:
        if not self._notifications.are_wanted:
            return
        if self._total is None:
            self._total = chunks.count(table, request)
        self._tell(
            "IN_PROGRESS",
            tables=self._tables(),
            current_collection_in_progress=table.id,
            last_processed_key=",".join(last),
            maximum_key=",".join(most),
            chunk_index=self._chunks_read,
            total_chunks=max(1, -(-self._total // self._chunk)),
            total_rows=self._total,
        )

    def _tell_table(self, table: str, status: str) -> None:
        """Tell that the first table is over, and where it is the last that all are."""
        total = {} if self._total is None or status != "SUCCEEDED" else {"total_rows": self._total}
        tables = self._tables()
        self._tell(
            "TABLE_SCAN_COMPLETED",
            tables=tables,
            scanned_collection=table,
            total_rows_scanned=self._rows_read,
            status=status,
            **total,
        )
        self._forget_table()
        if len(tables) == 1:
            self._tell("COMPLETED")

    def _forget_table(self) -> None:
        self._chunks_read = self._rows_read = 0
        self._total = None

    # -- reading

    def give_up(self) -> None:
        """End what is read, as where the server refuses it."""
        self._tell("ABORTED", tables=self._tables())
        self._window = None
        self._forget_table()
        self.progress = Progress(correlation=self.progress.correlation)

    @property
    def is_waiting(self) -> bool:
        """Whether a chunk waits for the stream, and changes have to be told."""
        return self._window is not None

    @property
    def until(self) -> Any:
        """Where the stream has to come for the chunk that waits; None where none does, or it waits for a mark."""
        return None if self._window is None else self._window.until

    def lost(self) -> None:
        """Forget the chunk under way: the stream begins anew, and with it its marks."""
        self._window = None

    def step(self, server: ChunkServer, end: Callable[[], Any]) -> None:
        """Read the next chunk, where one is due, between two new marks; or up to the log's `end` then (`read.only`).

        Raises ConnectError in the server's words.
        """
        self._end = end if self._is_read_only else None
        chunks = Chunks(server, self._signals, self._at_once)
        while self.progress.queue and not self.progress.is_paused and self._window is None:
            request = self.progress.queue[0]
            table = self._table(server, request)
            for left in reversed(range(READS_MAX)):
                try:
                    self._next(chunks, table, request)
                    break
                except ServerAwayError:
                    raise
                except _RefusedTable:
                    self._window = None
                    self._pass_over(request, "SQL_EXCEPTION")
                    break
                except ServerSaysError as error:
                    if (
                        self.refused is None
                        or request.condition
                        or isinstance(table, str)
                        or not is_of_the_table(error)
                    ):
                        raise
                    self.refused.add(table.id, str(error))
                    self._pass_over(request, "SQL_EXCEPTION")
                    break
                except ConnectError:
                    again = self._table(server, request)
                    if again == table or not left:
                        raise
                    table = again  # it was altered between two looks

    def _next(self, chunks: Chunks, table: Table | str, request: Request) -> None:
        """Read a table's next chunk, or pass it over where there is nothing to read."""
        if isinstance(table, str):
            self._pass_over(request, table)
            return
        key = (request.surrogate,) if request.surrogate else table.key
        progress = self.progress
        if progress.most is None:
            progress = replace(progress, most=chunks.greatest(table, request, key))
            if progress.most is None:
                log.info("Table %s has no rows to read", table.id)
                self._pass_over(request, "EMPTY")
                return
        self._open(chunks, table, key, request, progress)

    def _pass_over(self, request: Request, status: str) -> None:
        self._tell_table(request.table, status)
        self.progress = self.progress.without_first()

    def _table(self, server: ChunkServer, request: Request) -> Table | str:
        """Return the table, or in Debezium's words why it cannot be read."""
        table = server.table(request.table)
        if table is None:
            log.warning("Table %s is gone, and is not read", request.table)
            return "UNKNOWN_SCHEMA"
        if self.refused is not None and table.trouble is not None:
            self.refused.add(table.id, table.trouble)
        if self.refused is not None and table.id in self.refused:
            log.error("Table %s is refused, and is not read", request.table)
            return "SKIPPED"
        if request.surrogate is not None and all(each.name != request.surrogate for each in table.columns):
            log.error("Table %s has no column %s to be read by, and is not read", request.table, request.surrogate)
            return "NO_PRIMARY_KEY"
        if not table.key and request.surrogate is None:
            log.error("Table %s has no key to be read by, and is not read: give a surrogate-key", request.table)
            return "NO_PRIMARY_KEY"
        return table

    def _open(self, chunks: Chunks, table: Table, key: Sequence[str], request: Request, progress: Progress) -> None:
        """Read a chunk, between marks where they are written."""
        assert progress.most is not None
        id_, opened = str(uuid.uuid4()), _now()
        about = {"correlationId": progress.correlation, "dataCollectionId": request.table}
        if self._end is None:
            chunks.mark(f"{id_}-open", OPEN, {"openWindowTimestamp": opened, **about})
        found = chunks.read(table, request, key, progress.last, progress.most)
        until = None
        if self._end is not None:
            until = self._end()
        elif self._deletes_mark:
            chunks.unmark(f"{id_}-open", self._mark_id(chunks.server))
        else:
            times = {"openWindowTimestamp": opened, "closeWindowTimestamp": _now()}
            chunks.mark(f"{id_}-close", CLOSE, {**times, **about})
        last = found.last or progress.most
        is_whole = not found.is_cut and (len(found.rows) < chunks.size or last == progress.most)
        self._at_once = max(1, min(self._chunk, 2 * (len(found.rows) if found.is_cut else chunks.size)))
        behind = progress.without_first() if is_whole else replace(progress, last=last)
        self._chunks_read += 1
        self._rows_read += len(found.rows)
        self._tell_chunk(chunks, table, request, last, progress.most)
        window = self._window = _Window(id_, table.id, {}, behind, until)
        self._fill(window, table, found.rows, chunks.server.moment())

    def _fill(self, window: _Window, table: Table, rows: Sequence[Row], moment: Any) -> None:
        maker = self._events.table(table)
        window.has_own_keys = sorted(maker.key_names) == sorted(table.key)
        for at, row in enumerate(rows):
            try:
                record = maker.read(row, moment)
            except DataError as error:  # it would end the snapshot at each try: the row is named, the others are read
                if self.refused is not None:
                    self.refused.add(table.id, f"{error}; the row's key: {_told(table, row)}")
                    raise _RefusedTable from error
                log.error(
                    "A row is left out of the incremental snapshot of %s: %s; its key: %s",
                    table.id,
                    error,
                    _told(table, row),
                )
                continue
            key = (at,) if record.key is None else tuple(map(comparable, record.key.values))
            window.records.setdefault(key, []).append(record)

    def _mark_id(self, server: ChunkServer) -> str:
        """Return the name of the signals' table's first column."""
        found = server.table(self._signals or "")
        if found is None or not found.columns:
            raise ConnectError(f"The table of signals {self._signals} is gone")
        return found.columns[0].name

    # -- what the stream says

    def marked(self, id_: str, *, deleted: bool = False) -> list[SourceRecord]:
        """Take a mark; returns the rows that are to be written at a second one, none at a foreign one."""
        window = self._window
        if window is None or window.until is not None or id_ != f"{window.id}-{'open' if deleted else 'close'}":
            return []
        return self._closed(window)

    def reached(self, is_at: Callable[[Any], bool]) -> list[SourceRecord]:
        """Return the rows of a chunk without marks, where the stream has come as far as the log had at its reading."""
        window = self._window
        if window is None or window.until is None or not is_at(window.until):
            return []
        return self._closed(window)

    def _closed(self, window: _Window) -> list[SourceRecord]:
        self._window = None
        if window.is_spoiled or (self.refused is not None and window.table in self.refused):
            return []
        if window.behind.last is None:
            self._tell_table(str(window.table), "SUCCEEDED")
        self.progress = self._behind(window)
        return [record for each in window.records.values() for record in each]

    def _behind(self, window: _Window) -> Progress:
        """Return where reading is behind a chunk, with what signals have said meanwhile."""
        same = window.behind.queue[:1] if window.behind.last is not None else ()
        queue = (*same, *self.progress.queue[1:])
        return replace(
            window.behind, queue=queue, correlation=self.progress.correlation, is_paused=self.progress.is_paused
        )

    def changed(self, table: TableId, key: tuple[Any, ...] | None) -> None:
        """A row has changed; without a key nobody can say which, or all have."""
        window = self._window
        if window is None or window.table != table:
            return
        name = None if key is None else tuple(map(comparable, key))
        alike = () if name is None else window.records.get(name, ())
        if name is None or len(alike) > 1 or (alike and not window.has_own_keys):
            window.is_spoiled = True
        else:
            window.records.pop(name, None)


def _told(table: Table, row: Row) -> str:
    """Return a row's key as the server prints it, for people."""
    named = zip(table.columns, row, strict=False)
    key = {each.name: value for each, value in named if each.name in table.key}
    return ", ".join(
        f"{name}={value.decode(errors='replace') if isinstance(value, bytes) else value}" for name, value in key.items()
    )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 1_000_000_000:09d}Z"
