"""Incremental snapshots: tables read in chunks by their keys, between marks in the stream of changes, while that goes on.

The way is DBLog's (Andreakis and Papapanagiotou, "DBLog: A Watermark Based Change-Data-Capture Framework", 2020): a mark is
written into the signals' table, a chunk is read, and a second mark is written. Both come back in the stream. What changed
between them is in the stream, newer than what was read, and leaves the chunk; the rest of it is written behind the second
mark. How far a snapshot is, is part of the source's offsets: killed, it goes on behind the last chunk that was stored.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect import ConnectError, DataError, SourceRecord
from ottla.connectors.cdc.catalog import Catalog, CatalogTable, TableId
from ottla.connectors.cdc.events import INCREMENTAL, Events
from ottla.connectors.cdc.notifications import INCREMENTAL as AGGREGATE
from ottla.connectors.cdc.notifications import Notifications
from ottla.connectors.cdc.postgres_events import Moment
from ottla.connectors.cdc.replication import literal, quoted
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
Keys = tuple[str, ...]
"""Values of a key's columns, as the server prints them."""


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
        except (ValueError, TypeError, KeyError):
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
    except ValueError:
        return None
    return tuple(map(str, found)) if isinstance(found, list) else None


@dataclass(slots=True)
class _Window:
    """A chunk between its marks."""

    id: str
    table: TableId
    records: dict[tuple[Any, ...], SourceRecord]
    behind: Progress
    """Where reading is when the chunk is written."""
    is_open: bool = False
    is_spoiled: bool = False
    """Whether something has changed of which nobody can say what: the chunk is read again."""


class IncrementalSnapshot:
    """Reads what signals ask for; the task tells it of marks and changes, in the order of the stream."""

    def __init__(
        self, settings: Mapping[str, Any], events: Events, progress: Progress, notifications: Notifications
    ) -> None:
        self._events, self._notifications = events, notifications
        self._signals: str | None = settings["signal.data.collection"]
        self._chunk: int = settings["incremental.snapshot.chunk.size"]
        self._deletes_mark = settings["incremental.snapshot.watermarking.strategy"] == "insert_delete"
        self.progress = progress
        self._window: _Window | None = None
        self._chunks_read = self._rows_read = 0
        self._total: int | None = None
        """Rows of the table that is read; counted only where somebody is told."""

    # -- what signals say

    def request(self, signal: Signal, tables: Sequence[str]) -> None:
        """Have tables read behind those that are waiting; raises DataError where the signal names none that is captured."""
        found = requests_of(signal, tables)
        if not found:
            raise DataError(f"Signal {signal.id}: none of {signal.data['data-collections']} is captured")
        if self._signals is None:
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

    def _tell_chunk(self, catalog: Catalog, table: CatalogTable, request: Request, last: Keys, most: Keys) -> None:
        if not self._notifications.are_wanted:
            return
        if self._total is None:
            where = f" where {request.condition}" if request.condition else ""
            [[self._total]] = catalog.rows(f"select count(*) from {_name(table.id)}{where}".replace("%", "%%"))
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
        """Whether a chunk waits for its second mark, and changes have to be told."""
        return self._window is not None and self._window.is_open

    def lost(self) -> None:
        """Forget the chunk under way: the stream begins anew, and with it its marks."""
        self._window = None

    def step(self, catalog: Catalog, lsn: int) -> None:
        """Read the next chunk between two new marks, where one is due; `lsn` is where the stream is.

        Raises ConnectError in the server's words.
        """
        progress = self.progress
        while progress.queue and not progress.is_paused and self._window is None:
            request = progress.queue[0]
            table = self._table(catalog, request)
            if isinstance(table, str):
                self._tell_table(request.table, table)
                self.progress = progress = progress.without_first()
                continue
            key = (request.surrogate,) if request.surrogate else table.key
            if progress.most is None:
                progress = replace(progress, most=self._greatest(catalog, table, key, request))
                if progress.most is None:
                    log.info("Table %s has no rows to read", table.id)
                    self._tell_table(request.table, "EMPTY")
                    self.progress = progress = progress.without_first()
                    continue
            self._open(catalog, table, key, request, progress, lsn)

    def _table(self, catalog: Catalog, request: Request) -> CatalogTable | str:
        """Return the table, or in Debezium's words why it cannot be read."""
        found = catalog.tables(lambda each: str(each) == request.table)
        if not found:
            log.warning("Table %s is gone, and is not read", request.table)
            return "UNKNOWN_SCHEMA"
        (table,) = found
        if request.surrogate is not None and all(each.name != request.surrogate for each in table.columns):
            log.error("Table %s has no column %s to be read by, and is not read", request.table, request.surrogate)
            return "NO_PRIMARY_KEY"
        if not table.key and request.surrogate is None:
            log.error("Table %s has no key to be read by, and is not read: give a surrogate-key", request.table)
            return "NO_PRIMARY_KEY"
        return table

    def _greatest(self, catalog: Catalog, table: CatalogTable, key: Sequence[str], request: Request) -> Keys | None:
        listed = ", ".join(f"{quoted(each)} desc" for each in key)
        where = f" where ({request.condition})" if request.condition else ""
        rows = catalog.texts(f"select {_names(key)} from {_name(table.id)}{where} order by {listed} limit 1")
        return _texts(rows[0]) if rows else None

    def _open(
        self, catalog: Catalog, table: CatalogTable, key: Sequence[str], request: Request, progress: Progress, lsn: int
    ) -> None:
        """Write a mark, read a chunk, write the other mark."""
        assert progress.most is not None
        id_, opened = str(uuid.uuid4()), _now()
        about = {"correlationId": progress.correlation, "dataCollectionId": request.table}
        self._mark(catalog, f"{id_}-open", OPEN, {"openWindowTimestamp": opened, **about})
        rows = catalog.texts(self._query(table, key, request, progress))
        if self._deletes_mark:
            catalog.run(
                f"delete from {_listed(self._signals)} where {self._mark_id(catalog)} = {literal(f'{id_}-open')}"
            )
        else:
            times = {"openWindowTimestamp": opened, "closeWindowTimestamp": _now()}
            self._mark(catalog, f"{id_}-close", CLOSE, {**times, **about})
        places = [[each.name for each in table.columns].index(name) for name in key]
        last = _texts([rows[-1][at] for at in places]) if rows else progress.most
        is_whole = len(rows) < self._chunk or last == progress.most
        behind = progress.without_first() if is_whole else replace(progress, last=last)
        self._chunks_read += 1
        self._rows_read += len(rows)
        self._tell_chunk(catalog, table, request, last, progress.most)
        moment = Moment(lsn, time.time_ns() // 1000, None, lsn, INCREMENTAL)
        self._window = _Window(id_, table.id, self._records(table, rows, moment), behind)

    def _query(self, table: CatalogTable, key: Sequence[str], request: Request, progress: Progress) -> str:
        names = f"({_names(key)})"
        assert progress.most is not None
        limits = [f"{names} <= ({_literals(progress.most)})"]
        if progress.last is not None:
            limits.append(f"{names} > ({_literals(progress.last)})")
        if request.condition:
            limits.append(f"({request.condition})")
        columns = ", ".join(quoted(each.name) for each in table.columns)
        where = " and ".join(limits)
        return f"select {columns} from {_name(table.id)} where {where} order by {_names(key)} limit {self._chunk}"

    def _records(
        self, table: CatalogTable, rows: Sequence[Sequence[bytes | None]], moment: Moment
    ) -> dict[tuple[Any, ...], SourceRecord]:
        maker = self._events.table(table)
        found: dict[tuple[Any, ...], SourceRecord] = {}
        for at, row in enumerate(rows):
            record = maker.read([*row], moment)
            key = (at,) if record.key is None else tuple(map(repr, record.key.values))
            found[key] = record
        return found

    def _mark(self, catalog: Catalog, id_: str, type_: str, data: Mapping[str, Any]) -> None:
        values = ", ".join(map(literal, (id_, type_, json.dumps(data))))
        catalog.run(f"insert into {_listed(self._signals)} values ({values})")

    def _mark_id(self, catalog: Catalog) -> str:
        """Return the name of the signals' table's first column."""
        found = catalog.tables(lambda each: str(each) == self._signals)
        if not found or not found[0].columns:
            raise ConnectError(f"The table of signals {self._signals} is gone")
        return quoted(found[0].columns[0].name)

    # -- what the stream says

    def marked(self, id_: str, *, deleted: bool = False) -> list[SourceRecord]:
        """Take a mark; returns the rows that are to be written at a second one, none at a foreign one."""
        window = self._window
        if window is None:
            return []
        if id_ == f"{window.id}-open" and not deleted:
            window.is_open = True
        elif window.is_open and id_ == f"{window.id}-{'open' if deleted else 'close'}":
            self._window = None
            if not window.is_spoiled:
                if window.behind.last is None:
                    self._tell_table(str(window.table), "SUCCEEDED")
                self.progress = self._behind(window)
                return list(window.records.values())
        return []

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
        if window is None or not window.is_open or window.table != table:
            return
        if key is None:
            window.is_spoiled = True
        else:
            window.records.pop(tuple(map(repr, key)), None)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 1_000_000_000:09d}Z"


def _name(table: TableId) -> str:
    return f"{quoted(table.schema)}.{quoted(table.table)}"


def _listed(name: str | None) -> str:
    schema, _, table = (name or "").rpartition(".")
    return _name(TableId(schema or "public", table))


def _names(key: Sequence[str]) -> str:
    return ", ".join(map(quoted, key))


def _literals(values: Sequence[str]) -> str:
    return ", ".join(map(literal, values))


def _texts(values: Sequence[bytes | None]) -> Keys:
    return tuple("" if each is None else each.decode() for each in values)
