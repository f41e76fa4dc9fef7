"""PostgreSQL as incremental snapshots ask it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import Catalog, CatalogTable
from ottla.connectors.cdc.chunks import Keys
from ottla.connectors.cdc.events import INCREMENTAL, Row, Table
from ottla.connectors.cdc.postgres_events import Moment
from ottla.connectors.cdc.replication import ServerAwayError, literal, quoted

__all__ = ["PostgresChunks"]

T = TypeVar("T")


class PostgresChunks:
    """See `ottla.connectors.cdc.chunks.ChunkServer`."""

    def __init__(self, catalog: Catalog, lsn: int) -> None:
        """`lsn` is where the stream is."""
        self._catalog, self._lsn = catalog, lsn

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
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

    def moment(self) -> Moment:
        """See the protocol."""
        return Moment(self._lsn, time.time_ns() // 1000, None, self._lsn, INCREMENTAL)
