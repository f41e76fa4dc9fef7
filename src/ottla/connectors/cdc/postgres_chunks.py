"""PostgreSQL as incremental snapshots ask it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import Catalog, CatalogTable
from ottla.connectors.cdc.chunks import Keys
from ottla.connectors.cdc.events import INCREMENTAL, Row, Table
from ottla.connectors.cdc.positions import SeenTransactions
from ottla.connectors.cdc.postgres_events import Moment
from ottla.connectors.cdc.replication import ServerAwayError, literal, lsn_of, quoted

__all__ = ["PostgresChunks", "end_of_record"]

T = TypeVar("T")
LONG_HEADER, SHORT_HEADER = 40, 24
"""Bytes that a page of the log begins with: the first of a segment, and any other."""
_ENDS = (
    "select pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text, "
    "pg_size_bytes(current_setting('wal_block_size'))::int, pg_size_bytes(current_setting('wal_segment_size'))::bigint"
)
_ENDS_ON_STANDBY = "select greatest(pg_last_wal_replay_lsn(), pg_last_wal_receive_lsn())::text"


def end_of_record(lsn: int, page_bytes: int, segment_bytes: int) -> int:
    """Return where the last record ends, of the place where the next one goes: behind a page's header, at its beginning."""
    into = lsn % page_bytes
    header = LONG_HEADER if (lsn - into) % segment_bytes == 0 else SHORT_HEADER
    return lsn - into if into == header else lsn


class PostgresChunks:
    """See `ottla.connectors.cdc.chunks.ChunkServer`."""

    def __init__(self, catalog: Catalog, lsn: int) -> None:
        """`lsn` is where the stream is."""
        self._catalog, self._lsn = catalog, lsn

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except ServerAwayError:
            raise
        except ConnectError as error:
            if self._catalog.is_lost:
                raise ServerAwayError(str(error)) from error
            raise

    def table(self, name: str) -> CatalogTable | None:
        """See the protocol."""
        found = self._asked(lambda: self._catalog.tables(lambda each: str(each) == name))
        return found[0] if found else None

    def rows(self, query: str) -> list[Sequence[Any]]:
        """See the protocol."""
        return self._asked(lambda: [*self._catalog.texts(query)])

    def first_rows(self, query: str, bytes_max: int) -> tuple[list[Sequence[Any]], bool]:
        """See the protocol."""
        found, is_cut = self._asked(lambda: self._catalog.first_texts(query, bytes_max))
        return [*found], is_cut

    def run(self, statement: str) -> None:
        """See the protocol."""
        self._asked(lambda: self._catalog.run(statement))

    def quoted(self, name: str) -> str:
        """See the protocol."""
        return quoted(name)

    def literal(self, text: str) -> str:
        """See the protocol."""
        return literal(text)

    def columns(self, table: Table) -> Sequence[str]:
        """See the protocol."""
        return [quoted(each.name) for each in table.columns]

    def key(self, table: Table, column: str) -> str:
        """See the protocol."""
        return quoted(column)

    def compared(self, table: Table, key: Sequence[str], sign: str, values: Keys) -> str:
        """See the protocol; rows are compared as such, which finds them by an index."""
        return f"({', '.join(map(quoted, key))}) {sign} ({', '.join(map(literal, values))})"

    def text(self, value: Any) -> str:
        """See the protocol."""
        return "" if value is None else value.decode()

    def row(self, table: Table, values: Sequence[Any]) -> Row:
        """See the protocol."""
        return values

    def snapshot(self) -> SeenTransactions:
        """Return which transactions are seen by who reads now."""
        [[text]] = self._asked(lambda: self._catalog.rows("select txid_current_snapshot()::text"))
        return SeenTransactions(str(text), 0)

    def end(self) -> int:
        """Return a place in the log that is behind the commit of everything that was seen before, and is sent soon.

        A commit may be seen before it is on the disk, and is sent when it is (`synchronous_commit=off`). The log's last
        bytes, as of a page that was tidied up in reading, may wait long for that; a transaction's number that is taken has
        the server write them. On a standby everything that is seen was received.
        """
        [[is_standby]] = self._asked(lambda: self._catalog.rows("select pg_is_in_recovery()"))
        if is_standby:
            [[received]] = self._asked(lambda: self._catalog.rows(_ENDS_ON_STANDBY))
            return lsn_of(received)
        [[inserted, flushed, page_bytes, segment_bytes]] = self._asked(lambda: self._catalog.rows(_ENDS))
        found = end_of_record(lsn_of(inserted), page_bytes, segment_bytes)
        if lsn_of(flushed) < found:
            self._asked(lambda: self._catalog.rows("select txid_current()"))
        return found

    def moment(self) -> Moment:
        """See the protocol."""
        return Moment(self._lsn, time.time_ns() // 1000, None, self._lsn, INCREMENTAL)
