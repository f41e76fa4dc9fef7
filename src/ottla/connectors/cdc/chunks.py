"""Stretches of a table's rows, by a key, and marks in the signals' table: what incremental snapshots ask of any database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.connect.data import Struct
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.events import Row, Table
from ottla.connectors.cdc.signals import Request

__all__ = ["Chunk", "ChunkServer", "Chunks", "Keys", "comparable"]

CHUNK_BYTES_MAX = 16 << 20
"""Rows of a chunk are no more than about these bytes, but for one that is larger itself."""
Keys = tuple[str, ...]
"""Values of a key's columns, as the server prints them."""


def comparable(value: Any) -> Any:
    """Return what equals, and is found by, what an equal value of a key gives: structs, lists and maps by what they hold."""
    if isinstance(value, Struct):
        return tuple(map(comparable, value.values))
    if isinstance(value, Mapping):
        return frozenset((comparable(key), comparable(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(comparable, value))
    return "NaN" if value != value else value  # no number equals NaN, itself included; the server's does


class ChunkServer(Protocol):
    """A database and its words. What asks it raises ConnectError in its words, ServerAwayError where it is gone."""

    def table(self, name: str) -> Table | None:
        """Return a table as it is now, by `schema.table`; None where there is none."""
        ...

    def rows(self, query: str) -> list[Sequence[Any]]:
        """Return a query's rows as the server prints them."""
        ...

    def first_rows(self, query: str, bytes_max: int) -> tuple[list[Sequence[Any]], bool]:
        """Return a query's first rows, as `rows` does, and whether they are cut off behind about so many bytes."""
        ...

    def run(self, statement: str) -> None:
        """Run what gives no rows, in a transaction of its own."""
        ...

    def quoted(self, name: str) -> str:
        """Return a name as statements have it."""
        ...

    def literal(self, text: str) -> str:
        """Return a text as statements have it."""
        ...

    def columns(self, table: Table) -> Sequence[str]:
        """Return what is selected for each column."""
        ...

    def key(self, table: Table, column: str) -> str:
        """Return that by which rows are ordered and compared for a column."""
        ...

    def compared(self, table: Table, key: Sequence[str], sign: str, values: Keys) -> str:
        """Return the condition that a key is `<=` or `>` than some values, as the server orders keys."""
        ...

    def text(self, value: Any) -> str:
        """Return what the server has printed of a part of a key."""
        ...

    def row(self, table: Table, values: Sequence[Any]) -> Row:
        """Return a row as records are made of it; raises DataError."""
        ...

    def moment(self) -> Any:
        """Return where and when a row is read, in records."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows in the order of their keys; `last` is the greatest key, None where there are none."""

    rows: Sequence[Row]
    last: Keys | None
    is_cut: bool = False
    """Whether there would be more of them, which are too large to be read at once."""


class Chunks:
    """Reads tables in chunks, and writes marks."""

    def __init__(self, server: ChunkServer, signals: str | None, size: int) -> None:
        """`signals` is the table of signals, `size` the rows of a chunk."""
        self.server, self.size = server, size
        self._signals = signals or ""

    def greatest(self, table: Table, request: Request, key: Sequence[str]) -> Keys | None:
        """Return a table's greatest key, None where nothing is to be read."""
        names = [self.server.key(table, each) for each in key]
        order = ", ".join(f"{each} desc" for each in names)
        where = self._where([*(f"{each} is not null" for each in names), *_condition(request)])
        rows = self.server.rows(
            f"select {', '.join(names)} from {self._name(table.id)}{where} order by {order} limit 1"
        )
        return self._key(rows[0]) if rows else None

    def count(self, table: Table, request: Request) -> int:
        """Return how many rows are to be read."""
        [[found]] = self.server.rows(f"select count(*) from {self._name(table.id)}{self._where(_condition(request))}")
        return int(self.server.text(found))

    def read(self, table: Table, request: Request, key: Sequence[str], last: Keys | None, most: Keys) -> Chunk:
        """Return the rows behind `last`, up to `most`."""
        server = self.server
        names = [server.key(table, each) for each in key]
        behind = [] if last is None else [server.compared(table, key, ">", last)]
        limit, until = f" limit {self.size}", most
        if request.surrogate is not None:  # several rows may have one value, and a chunk must not end among them
            where = self._where([*behind, server.compared(table, key, "<=", most), *_condition(request)])
            order = ", ".join(names)
            ends = server.rows(
                f"select {order} from {self._name(table.id)}{where} order by {order} limit 1 offset {self.size - 1}"
            )
            limit, until = "", self._key(ends[0]) if ends else most
        width, listed = len(table.columns), [*server.columns(table), *names]

        def query(until: Keys) -> str:
            where = self._where([*behind, server.compared(table, key, "<=", until), *_condition(request)])
            return f"select {', '.join(listed)} from {self._name(table.id)}{where} order by {', '.join(names)}{limit}"

        rows, is_cut = server.first_rows(query(until), CHUNK_BYTES_MAX)
        if is_cut and request.surrogate is not None:
            last_key = self._key(rows[-1][width:])
            ended = [each for each in rows if self._key(each[width:]) != last_key]
            rows = ended or server.rows(query(last_key))  # all have one value, and no chunk ends among them
        found = [server.row(table, each[:width]) for each in rows]
        return Chunk(found, self._key(rows[-1][width:]) if rows else None, is_cut)

    def mark(self, id_: str, type_: str, data: Mapping[str, Any]) -> None:
        """Write a mark."""
        values = ", ".join(map(self.server.literal, (id_, type_, json.dumps(data))))
        self.server.run(f"insert into {self._name(self._signals)} values ({values})")

    def unmark(self, id_: str, column: str) -> None:
        """Delete a mark again; `column` is the first of the signals' table."""
        named = self.server.quoted(column)
        self.server.run(f"delete from {self._name(self._signals)} where {named} = {self.server.literal(id_)}")

    def _key(self, values: Sequence[Any]) -> Keys:
        return tuple(map(self.server.text, values))

    def _name(self, table: TableId | str) -> str:
        schema, _, name = str(table).rpartition(".")
        parts = (table.schema, table.table) if isinstance(table, TableId) else (schema or "public", name)
        return ".".join(map(self.server.quoted, parts))

    def _where(self, conditions: Sequence[str]) -> str:
        return f" where {' and '.join(conditions)}" if conditions else ""


def _condition(request: Request) -> list[str]:
    return [f"({request.condition})"] if request.condition else []
