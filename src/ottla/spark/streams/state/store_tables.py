"""One store's entries in SQLite: made from its changelog's records, looked up by ordered keys, windows and sessions.

A changelog is written in Kafka Streams' format. Keys of window stores end in the window's start (8 bytes) and a sequence
number (4 bytes), those of session stores in the session's end and start (8 bytes each); of a versioned store every version
is a record whose timestamp is the version's. SQLite orders blobs as RocksDB does: byte by byte.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from ottla.streams import StoreSpec

__all__ = ["Entry", "LoggedEntry", "StoreTable"]

_WINDOW = Struct(">qi")
_SESSION = Struct(">qq")
LAST = (1 << 63) - 1


class LoggedEntry(NamedTuple):
    """A changelog's record."""

    key: bytes
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What a lookup finds, still in bytes; `start` and `end` in milliseconds for windows and sessions, else -1."""

    key: bytes
    value: bytes
    timestamp: int
    start: int = -1
    end: int = -1


class StoreTable:
    """A store's table in an open database; the caller keeps threads apart."""

    def __init__(self, database: sqlite3.Connection, spec: StoreSpec, number: int) -> None:
        self.spec = spec
        self._database = database
        self._name = f"store_{number}"
        self._newest = 0
        database.execute(
            f"create table {self._name} (key blob, first integer, second integer, value blob, ts integer, "
            "primary key (key, first, second)) without rowid"
        )
        if self.is_windowed:
            database.execute(f"create index {self._name}_time on {self._name} (first)")

    @property
    def is_window(self) -> bool:
        """True for a window store."""
        return "window" in self.spec.kind

    @property
    def is_session(self) -> bool:
        """True for a session store."""
        return "session" in self.spec.kind

    @property
    def is_versioned(self) -> bool:
        """True for a versioned store."""
        return self.spec.kind == "versioned"

    @property
    def is_windowed(self) -> bool:
        """True where entries have a time besides their key."""
        return self.is_window or self.is_session

    # -- what the changelog says

    def apply(self, records: Iterable[LoggedEntry]) -> None:
        """Take records in, in the changelog's order."""
        rows = [(*self._place(record), record.value, record.timestamp) for record in records]
        if not self.is_versioned and any(row[3] is None for row in rows):
            for row in rows:
                self._one(row)
        else:
            self._database.executemany(f"insert or replace into {self._name} values (?, ?, ?, ?, ?)", rows)
        if rows:
            self._expire(max(row[1] if self.is_windowed else row[4] for row in rows))

    def _one(self, row: tuple[bytes, int, int, bytes | None, int]) -> None:
        if row[3] is None:
            self._database.execute(f"delete from {self._name} where key = ? and first = ? and second = ?", row[:3])
        else:
            self._database.execute(f"insert or replace into {self._name} values (?, ?, ?, ?, ?)", row)

    def _place(self, record: LoggedEntry) -> tuple[bytes, int, int]:
        """Return key, and what orders a key's entries: window start and number, session end and start, or version."""
        if self.is_window and len(record.key) >= _WINDOW.size:
            start, number = _WINDOW.unpack(record.key[-_WINDOW.size :])
            return record.key[: -_WINDOW.size], start, number
        if self.is_session and len(record.key) >= _SESSION.size:
            end, start = _SESSION.unpack(record.key[-_SESSION.size :])
            return record.key[: -_SESSION.size], end, start
        return record.key, record.timestamp if self.is_versioned else 0, 0

    def _expire(self, newest: int) -> None:
        """Forget windows and versions that are past the store's retention."""
        self._newest = max(self._newest, newest)
        if self.spec.retention_ms < 0:
            return
        oldest = self._newest - self.spec.retention_ms
        if self.is_windowed:
            self._database.execute(f"delete from {self._name} where first < ?", (oldest,))

    # -- lookups

    def get(self, key: bytes, as_of: int = LAST) -> Entry | None:
        """Return a key's entry; of a versioned store the version that was valid at a time."""
        found = self._select("key = ? and first <= ? order by first desc limit 1", key, as_of)
        return next(found, None)

    def range(
        self, low: bytes | None, high: bytes | None, *, reverse: bool = False, limit: int = -1
    ) -> Iterator[Entry]:
        """Yield the entries with keys from `low` to `high`, both included, in the order of their bytes; None is no bound."""
        conditions = ["1"]
        values: list[bytes] = []
        if low is not None:
            conditions.append("key >= ?")
            values.append(low)
        if high is not None:
            conditions.append("key <= ?")
            values.append(high)
        return self._ordered(" and ".join(conditions), values, reverse=reverse, limit=limit)

    def prefix(self, prefix: bytes, *, reverse: bool = False, limit: int = -1) -> Iterator[Entry]:
        """Yield the entries whose keys begin with these bytes, in order."""
        after = _after(prefix)
        if after is None:
            return self.range(prefix, None, reverse=reverse, limit=limit)
        return self._ordered("key >= ? and key < ?", [prefix, after], reverse=reverse, limit=limit)

    def windows(
        self, key: bytes | None, first: int, last: int, *, reverse: bool = False, limit: int = -1
    ) -> Iterator[Entry]:
        """Yield windows that start from `first` to `last`, both included: a key's, or everybody's by key."""
        condition, values = ("1", []) if key is None else ("key = ?", [key])
        return self._ordered(
            f"{condition} and first between ? and ?", [*values, first, last], reverse=reverse, limit=limit
        )

    def sessions(
        self, key: bytes | None, earliest_end: int, latest_start: int, *, reverse: bool = False, limit: int = -1
    ) -> Iterator[Entry]:
        """Yield sessions that end at `earliest_end` or later and start at `latest_start` or earlier (`findSessions`)."""
        condition, values = ("1", []) if key is None else ("key = ?", [key])
        where = f"{condition} and first >= ? and second <= ?"
        return self._ordered(where, [*values, earliest_end, latest_start], reverse=reverse, limit=limit)

    def count(self) -> int:
        """Return how many entries there are."""
        where = " where value is not null" if self.is_versioned else ""
        distinct = "distinct key" if self.is_versioned else "*"
        (found,) = self._database.execute(f"select count({distinct}) from {self._name}{where}").fetchone()
        return int(found)

    def _ordered(self, where: str, values: Sequence[object], *, reverse: bool, limit: int) -> Iterator[Entry]:
        order = " desc" if reverse else ""
        if self.is_versioned:
            where += f" and first = (select max(first) from {self._name} newer where newer.key = {self._name}.key)"
        where += f" order by key{order}, first{order}, second{order} limit {limit}"
        return self._select(where, *values)

    def _select(self, where: str, *values: object) -> Iterator[Entry]:
        found = self._database.execute(f"select key, first, second, value, ts from {self._name} where {where}", values)
        for key, first, second, value, timestamp in found.fetchall():
            if value is None:
                continue
            if self.is_window:
                yield Entry(key, value, timestamp, first, first + max(0, self.spec.window_size_ms))
            elif self.is_session:
                yield Entry(key, value, timestamp, second, first)
            else:
                yield Entry(key, value, timestamp)


def _after(prefix: bytes) -> bytes | None:
    """Return the first key behind all that begin with these bytes; None where there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
