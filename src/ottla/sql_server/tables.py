"""A table as the server holds it: its topic followed into SQLite, by key and window.

The topic of a table is what the table is: the newest value of each key. So a follower needs no knowledge of the query that
writes it, and a table that others write is followed in the same way. SQLite's own temporary file holds the rows: what does
not fit in its cache goes to the disk, and it is gone with the connection. Threads read it, too, beside the loop: SQLite
lets one at a time in.

A row that cannot be kept or read is told to the processing log, and the others go on. A follower that ends by anything else
leaves a table behind that is never new again: from then on it answers nobody (`failure`).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice

from ottla.background import end, supervise
from ottla.base import OttlaError, TopicPartition
from ottla.sql.answers import TableRows
from ottla.sql.commands import Source
from ottla.sql.expressions import Row
from ottla.sql_server.errors import SERVER_ERROR, StatementError
from ottla.sql_server.reading import TopicReader
from ottla.streams import Record

__all__ = ["FollowedTable", "Stored"]

log = logging.getLogger(__name__)
WAIT_MS = 500
CLOSE_SECONDS = 5.0
CHUNK = 2000
"""Records that are taken in before others have their turn."""
BACKOFF_S, BACKOFF_S_MAX = 0.1, 5.0
SORTED = frozenset({"INTEGER", "BIGINT", "DOUBLE", "STRING", "DATE", "TIME", "TIMESTAMP"})
"""Types of a key whose order SQLite has, too."""
_MAKE = """
CREATE TABLE rows (key BLOB, starts INTEGER, ends INTEGER, sort, value BLOB, time INTEGER, part INTEGER, off INTEGER,
                   PRIMARY KEY (key, starts, ends)) WITHOUT ROWID;
CREATE INDEX sorted ON rows (sort);
"""
_COLUMNS = "key, starts, ends, value, time, part, off"
_ADD = "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CHANGE = "UPDATE rows SET value = ?, time = ?, part = ?, off = ? WHERE key = ? AND starts = ? AND ends = ?"
_DROP = "DELETE FROM rows WHERE key = ? AND starts = ? AND ends = ?"
Stored = tuple[bytes, int, int, bytes, int, int, int]
UNFIT = (ValueError, OverflowError, TypeError, RecursionError, OttlaError)
"""What a row's own values raise where they cannot be kept or read (FormatError among it), and nothing else does."""


class FollowedTable:
    """Follows a table from `start` on; look-ups answer from what has been read."""

    def __init__(self, source: Source, reader: TopicReader, tell: Callable[[str], object]) -> None:
        """`tell` takes a line for each row that cannot be kept or read."""
        self.source = source
        self.failure: BaseException | None = None
        """Why nothing is read any more: what is there is old, and nobody is to have it."""
        self._tell = tell
        self.last_asked_s = 0.0
        self._reader = reader
        self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._rows.executescript(_MAKE)
        self.count = 0
        """How many rows there are; SQLite would read them all to say it."""
        layout, schema = source.layout, source.schema
        self._key, self._value = layout.key_codec(schema), layout.value_codec(schema)
        self._is_sorted = len(schema.key) == 1 and schema.key[0].type.base in SORTED
        self._order = _order(source)
        self._moved = asyncio.Condition()
        self.still = asyncio.Lock()
        """Held while nothing may be taken in: a query over several tables reads them at one moment."""
        self.users = 0
        """Queries that look at it now."""
        self.is_closed = False
        """True once it is on its way out: it is not to be held any more."""
        self._unused = asyncio.Event()
        self._unused.set()
        self._task: asyncio.Task[None] | None = None

    # -- following

    async def start(self) -> None:
        """Begin to follow; what is there already is read meanwhile (`wait_for`). Raises KafkaError, SqlError."""
        await self._reader.begin("earliest")
        self._task = supervise(
            self._follow_or_fail(), name=f"follow {self.source.name}", serves=f"table {self.source.name}"
        )

    def hold(self) -> None:
        """Keep the rows until `release`."""
        self.users += 1
        self._unused.clear()

    def release(self) -> None:
        """Let the rows go, as far as one `hold` is concerned."""
        self.users -= 1
        if not self.users:
            self._unused.set()

    async def close(self) -> None:
        """Stop following, and forget the rows, once no query looks at them; a second time it does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._unused.wait(), CLOSE_SECONDS)
        await end(self._task)
        await self._reader.close()
        self._rows.close()

    @property
    def position(self) -> Mapping[TopicPartition, int]:
        """How far the topic has been read: the next offset of each partition."""
        return self._reader.positions

    async def ends(self, *, committed: bool = True) -> Mapping[TopicPartition, int]:
        """Return where the topic ends now: behind what is committed, or behind all that is written."""
        return await self._reader.ends(committed=committed)

    async def wait_for(self, position: Mapping[TopicPartition, int]) -> None:
        """Return when all before a position has been read; raises StatementError where it never will be."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.failure is not None or self._reader.is_past(position))
        self.check()

    def check(self) -> None:
        """Raise StatementError where the table is not followed any more."""
        if self.failure is not None:
            words = f"Table {self.source.name} is not followed any more, so that its rows are old: {self.failure!r}"
            raise StatementError(SERVER_ERROR, f"{words}. The next query reads it anew.")

    async def _follow_or_fail(self) -> None:
        try:
            await self._follow()
        except Exception as error:  # whatever it is: who waits for rows, or comes for them, has to hear of it
            async with self._moved:
                self.failure = error
                self._moved.notify_all()
            raise

    async def _follow(self) -> None:
        backoff_s = BACKOFF_S
        while True:
            try:
                records = await self._reader.read(WAIT_MS)
                backoff_s = BACKOFF_S
            except OttlaError as error:
                log.warning("reading topic %s failed, and is tried again: %s", self.source.topic, error)
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)
                continue
            for at in range(0, len(records), CHUNK):
                async with self.still:
                    self._take(records[at : at + CHUNK])
                await asyncio.sleep(0)
            async with self._moved:
                self._moved.notify_all()

    def _take(self, records: Iterable[Record]) -> None:
        rows = self._rows
        rows.execute("BEGIN")
        for record in records:
            try:
                self._take_one(record)
            except UNFIT as error:
                self._tell(
                    f"a row of table {self.source.name}, offset {record.offset} of partition {record.partition} of "
                    f"{record.topic}, cannot be kept: {error!r}"
                )
        rows.execute("COMMIT")

    def _take_one(self, record: Record) -> None:
        found = self._placed(record.key)
        if found is None:
            return
        if record.value is None:
            self.count -= self._rows.execute(_DROP, found).rowcount
            return
        written = (record.value, record.timestamp, record.partition, record.offset)
        if not self._rows.execute(_CHANGE, (*written, *found)).rowcount:
            self._rows.execute(_ADD, (*found, self._sort(found[0]), *written))
            self.count += 1

    def _placed(self, key: bytes | None) -> tuple[bytes, int, int] | None:
        """A record's key without its window, and the window's bounds."""
        if key is None:
            return None
        window = self.source.window
        if window is None:
            return key, 0, 0
        if window.kind == "SESSION":
            if len(key) < 16:
                return None
            ends, starts = (int.from_bytes(key[at:][:8], "big", signed=True) for at in (len(key) - 16, len(key) - 8))
            return key[:-16], starts, ends
        if len(key) < 8:
            return None
        starts = int.from_bytes(key[-8:], "big", signed=True)
        return key[:-8], starts, starts + (window.size_ms or 0)

    def _sort(self, key: bytes) -> object:
        if not self._is_sorted:
            return None
        try:
            found = self._key.decode(key)
        except UNFIT:
            return None
        return None if found is None else _sortable(found[0])

    # -- looking

    def found(self, wanted: TableRows) -> Iterator[Row]:
        """The rows that are wanted, as they are found; what is written meanwhile may be among them."""
        for each in self._stored(wanted):
            row = self._row(each)
            if row is not None:
                yield row

    def taken(self, wanted: TableRows, most: int) -> list[Stored]:
        """The rows that are wanted as they lie there at this moment, one more than `most` where there are more."""
        return list(islice(self._stored(wanted), most + 1))

    def decoded(self, stored: Iterable[Stored]) -> Iterator[Row | None]:
        """What rows are that were taken, None for one that cannot be read."""
        return map(self._row, stored)

    def _stored(self, wanted: TableRows) -> Iterator[Stored]:
        """Those of its keys, of its range, or all."""
        if wanted.keys is not None:
            return self._of_keys(wanted.keys)
        if self._is_sorted and (wanted.range.low is not None or wanted.range.high is not None):
            return self._between(wanted.range.low, wanted.range.high)
        return self._rows.execute(f"SELECT {_COLUMNS} FROM rows")

    def _of_keys(self, keys: Iterable[tuple[object, ...]]) -> Iterator[Stored]:
        for each in keys:
            key = self._key.encode(each)
            if key is not None:
                yield from self._rows.execute(f"SELECT {_COLUMNS} FROM rows WHERE key = ?", (key,))

    def _between(self, low: object, high: object) -> Iterator[Stored]:
        bounds = [("sort >= ?", low), ("sort <= ?", high)]
        words = " AND ".join(text for text, value in bounds if value is not None)
        values = [_sortable(value) for _, value in bounds if value is not None]
        return self._rows.execute(f"SELECT {_COLUMNS} FROM rows WHERE {words} ORDER BY sort", values)

    def _row(self, stored: Stored) -> Row | None:
        key_bytes, starts, ends, value_bytes, time, partition, offset = stored
        try:
            key, value = self._key.decode(key_bytes), self._value.decode(value_bytes)
        except UNFIT as error:
            self._tell(
                f"a row of table {self.source.name}, offset {offset} of partition {partition} of {self.source.topic}, "
                f"cannot be read: {error!r}"
            )
            return None
        if key is None or value is None:
            return None
        columns = [key[at] if in_key else value[at] for in_key, at in self._order]
        bounds = () if self.source.window is None else (starts, ends)
        return (*columns, time, partition, offset, *bounds)


def _sortable(value: object) -> object:
    """A key as SQLite sorts it; a text as its bytes, whose order is the same, and which half a character has, too."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _order(source: Source) -> list[tuple[bool, int]]:
    """Where each column of a row is: in the key or not, and the place there."""
    counts = {"key": 0, "value": 0, "headers": 0}
    found = []
    for column in source.schema.columns:
        found.append((column.place == "key", counts[column.place]))
        counts[column.place] += 1
    return found
