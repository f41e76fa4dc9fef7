"""Statements that write many rows at once: inserts, upserts, updates and deletes.

PostgreSQL gets each column as one array in binary form, which is about twice as fast as a statement for each row; others
get the driver's own many-row execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Insert

from ottla.connectors.jdbc.dialects import Dialect
from ottla.connectors.jdbc.sink_tables import SinkTable

__all__ = ["Target", "Writer", "writer_of"]

MYSQL = ("mysql", "mariadb")
Columns = Sequence[Sequence[Any]]
"""Values, column by column."""


@dataclass(frozen=True, slots=True)
class Target:
    """Columns of a table, of which the first are the primary key."""

    table: SinkTable
    columns: tuple[str, ...]
    keys: int

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The primary key's columns."""
        return self.columns[: self.keys]

    @property
    def others(self) -> tuple[str, ...]:
        """The columns beside the primary key."""
        return self.columns[self.keys :]


class Writer:
    """Writes through SQLAlchemy's own statements."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def insert(self, connection: Connection, target: Target, values: Columns) -> None:
        """Add rows."""
        connection.execute(sa.insert(self._table(target)), self._rows(target, values))

    def upsert(self, connection: Connection, target: Target, values: Columns) -> None:
        """Add rows, or change those that have the key; no key comes twice."""
        statement = self._upsert_statement(target)
        if statement is not None:
            connection.execute(statement, self._rows(target, values))
            return
        for row in self._rows(target, values):
            self._upsert_row(connection, target, row)

    def _upsert_row(self, connection: Connection, target: Target, row: dict[str, Any]) -> None:
        """Change the row that has the key, or add one; raises IntegrityError where another row is in its way."""
        if self._changed(connection, target, row):
            return
        try:
            connection.execute(sa.insert(self._table(target)), [row])
        except sa.exc.IntegrityError:
            if self.dialect.name not in MYSQL or not self._changed(connection, target, row):
                raise  # else another task has added it in between

    def _changed(self, connection: Connection, target: Target, row: dict[str, Any]) -> bool:
        """Change the row that has the key; returns whether there is one."""
        if target.others and connection.execute(self._update_statement(target), [self._bound(row)]).rowcount > 0:
            return True
        return self._exists(connection, target, row)

    def update(self, connection: Connection, target: Target, values: Columns) -> None:
        """Change the rows that have the key."""
        if target.others:
            connection.execute(self._update_statement(target), [self._bound(row) for row in self._rows(target, values)])

    def delete(self, connection: Connection, target: Target, keys: Columns) -> None:
        """Delete the rows that have the key."""
        table = self._table(target)
        statement = sa.delete(table).where(*(table.c[each] == sa.bindparam(f"b_{each}") for each in target.key_columns))
        connection.execute(statement, [self._bound(row) for row in self._rows(target, keys)])

    def _table(self, target: Target) -> Any:
        name, quote = target.table.name, self.dialect.quotes
        columns: list[sa.ColumnClause[Any]] = [sa.column(sa.quoted_name(each, quote)) for each in target.columns]
        schema = None if name.schema is None else sa.quoted_name(name.schema, quote)
        return sa.table(sa.quoted_name(name.table, quote), *columns, schema=schema)

    @staticmethod
    def _rows(target: Target, values: Columns) -> list[dict[str, Any]]:
        return [dict(zip(target.columns, row, strict=False)) for row in zip(*values, strict=True)]

    @staticmethod
    def _bound(row: dict[str, Any]) -> dict[str, Any]:
        """Return a row under names that are no column's, as statements with conditions need them."""
        return {f"b_{name}": value for name, value in row.items()}

    def _upsert_statement(self, target: Target) -> Insert | None:
        table = self._table(target)
        match self.dialect.name:
            case "postgresql":
                from sqlalchemy.dialects.postgresql import insert
            case "sqlite":
                from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
            case "mysql" | "mariadb":
                if target.table.unique != {tuple(sorted(target.key_columns))}:
                    return None  # ON DUPLICATE KEY means any unique key, and would change another's row
                from sqlalchemy.dialects.mysql import insert as mysql_insert

                made = mysql_insert(table)
                names = target.others or target.key_columns
                return made.on_duplicate_key_update({each: made.inserted[each] for each in names})
            case _:
                return None
        statement = insert(table)
        keys = [table.c[each] for each in target.key_columns]
        if not target.others:
            return statement.on_conflict_do_nothing(index_elements=keys)
        changed = {each: statement.excluded[each] for each in target.others}
        return statement.on_conflict_do_update(index_elements=keys, set_=changed)

    def _update_statement(self, target: Target) -> Any:
        table = self._table(target)
        same = (table.c[each] == sa.bindparam(f"b_{each}") for each in target.key_columns)
        return sa.update(table).where(*same).values({each: sa.bindparam(f"b_{each}") for each in target.others})

    def _exists(self, connection: Connection, target: Target, row: dict[str, Any]) -> bool:
        table = self._table(target)
        same = (table.c[each] == row[each] for each in target.key_columns)
        return connection.execute(sa.select(sa.literal(1)).select_from(table).where(*same)).first() is not None


class PostgresWriter(Writer):
    """Writes whole columns: `INSERT … SELECT * FROM unnest(…)`."""

    def insert(self, connection: Connection, target: Target, values: Columns) -> None:
        """See `Writer`."""
        if not self._in_columns(target):
            super().insert(connection, target, values)
            return
        self._execute(connection, self._insert_text(target), values)

    def upsert(self, connection: Connection, target: Target, values: Columns) -> None:
        """See `Writer`."""
        if not self._in_columns(target):
            super().upsert(connection, target, values)
            return
        named = {each: self._quoted(each) for each in target.columns}
        keys = ", ".join(named[each] for each in target.key_columns)
        changed = ", ".join(f"{named[each]} = excluded.{named[each]}" for each in target.others)
        action = f"DO UPDATE SET {changed}" if changed else "DO NOTHING"
        self._execute(connection, f"{self._insert_text(target)} ON CONFLICT ({keys}) {action}", values)

    def update(self, connection: Connection, target: Target, values: Columns) -> None:
        """See `Writer`."""
        if not self._in_columns(target):
            super().update(connection, target, values)
        elif target.others:
            names = [self._quoted(each) for each in target.columns]
            changed = ", ".join(f"{each} = v.{each}" for each in names[target.keys :])
            sql = f"UPDATE {self._named(target)} t SET {changed} FROM {self._arrays(target.columns, target)} v"
            self._execute(connection, f"{sql} WHERE {self._same(names[: target.keys])}", values)

    def delete(self, connection: Connection, target: Target, keys: Columns) -> None:
        """See `Writer`."""
        if not self._in_columns(target):
            super().delete(connection, target, keys)
            return
        names = [self._quoted(each) for each in target.key_columns]
        sql = f"DELETE FROM {self._named(target)} t USING {self._arrays(target.key_columns, target)} v"
        self._execute(connection, f"{sql} WHERE {self._same(names)}", keys)

    @staticmethod
    def _in_columns(target: Target) -> bool:
        """Return whether no column is an array, which `unnest` would take apart."""
        return all(not target.table.casts.get(each, "[]").endswith("[]") for each in target.columns)

    def _quoted(self, name: str) -> str:
        return self.dialect.quote(name).replace("%", "%%")

    def _named(self, target: Target) -> str:
        return self.dialect.named(target.table.name.schema, target.table.name.table).replace("%", "%%")

    def _arrays(self, columns: Sequence[str], target: Target) -> str:
        """Return a relation `v` of one array parameter for each column."""
        types = ", ".join(f"%b::{target.table.casts[each].replace('%', '%%')}[]" for each in columns)
        return f"(SELECT * FROM unnest({types}) AS u({', '.join(map(self._quoted, columns))}))"

    def _insert_text(self, target: Target) -> str:
        names = ", ".join(map(self._quoted, target.columns))
        return f"INSERT INTO {self._named(target)} ({names}) SELECT * FROM {self._arrays(target.columns, target)} v"

    @staticmethod
    def _same(names: Sequence[str]) -> str:
        return " AND ".join(f"t.{each} = v.{each}" for each in names)

    @staticmethod
    def _execute(connection: Connection, sql: str, values: Columns) -> None:
        connection.exec_driver_sql(sql, tuple(_array(each) for each in values))


def _array(values: Sequence[Any]) -> list[Any]:
    """Return values of one type, for an array has one: numbers of several kinds as texts, which the cast reads."""
    kinds = {type(each) for each in values if each is not None}
    if len(kinds) < 2 and kinds:
        return list(values)
    return [None if each is None else str(each) for each in values]


def writer_of(dialect: Dialect) -> Writer:
    """Return the writer of a database."""
    return PostgresWriter(dialect) if dialect.name == "postgresql" else Writer(dialect)
