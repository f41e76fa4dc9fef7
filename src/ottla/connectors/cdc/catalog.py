"""What PostgreSQL's catalogue says of tables (columns with types and defaults, primary keys) and of slots."""

from __future__ import annotations

import re
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ottla.connect import ConnectError, DataError
from ottla.connectors.cdc.column_kinds import ColumnKind, ColumnType
from ottla.connectors.cdc.replication import (
    LOOK_SECONDS,
    ServerSaysError,
    asking_error,
    is_ready,
    sqlstate_of,
)

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Catalog", "CatalogColumn", "CatalogTable", "TableId", "default_of"]

COPIED_BYTES_MAX: Final = 4 << 20
"""Rows that are handed on together are no more than these bytes, but for one that is larger itself."""
FETCHED_MAX: Final = 64
"""Rows that are fetched at once by who has to look how large they are."""
STATEMENT_MAX: Final = 500
"""So much of a statement stands in an error: one that locks thousands of tables would fill the status topic."""
_AS_SENT: Final = ("SQL_ASCII", "UTF8")
"""Encodings of databases whose texts the server never converts; with SQL_ASCII they may be of any."""
_POINT: Final = "ottla_text"
_CONVERT: Final = "select pg_catalog.convert(%s::bytea, %s::name, 'UTF8')"
LAST_WORDS_MAX: Final = 8
"""How often is read what a server has said unasked, before it is asked all the same."""


def _bytes_of(text: str) -> str:
    """Return the query of a text as the database has it: it may have no form in UTF-8, and then the server sends nothing."""
    return f"pg_catalog.convert_to({text}::text, pg_catalog.getdatabaseencoding())"


_TABLES: Final = f"""
select c.oid, {_bytes_of("n.nspname")}, {_bytes_of("c.relname")}, c.relkind = 'p' or c.relispartition
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_toast'
  and c.relpersistence = 'p'"""
_PARTS: Final = f"""
select {_bytes_of("wn.nspname")}, {_bytes_of("w.relname")}, {_bytes_of("pn.nspname")}, {_bytes_of("p.relname")}
from pg_inherits i
join pg_class w on w.oid = i.inhparent join pg_namespace wn on wn.oid = w.relnamespace
join pg_class p on p.oid = i.inhrelid join pg_namespace pn on pn.oid = p.relnamespace
where p.relispartition and p.relkind in ('r', 'p') order by 1, 2, 3, 4"""
_PUBLISHED: Final = f"""
select {_bytes_of("schemaname")}, {_bytes_of("tablename")} from pg_publication_tables where pubname = %s"""
_COLUMNS: Final = f"""
select {_bytes_of("a.attname")}, a.atttypid, a.atttypmod, a.attnotnull, {_bytes_of("pg_get_expr(d.adbin, d.adrelid)")}
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum"""
_KEY: Final = f"""
select {_bytes_of("a.attname")} from pg_index i cross join lateral unnest(i.indkey) with ordinality as k(attnum, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indexrelid = (
  select x.indexrelid from pg_index x where x.indrelid = %s and (x.indisprimary or (
    x.indisunique and x.indpred is null and x.indexprs is null and not exists (
      select 1 from pg_attribute b where b.attrelid = x.indrelid and b.attnum = any(x.indkey) and not b.attnotnull)))
  order by x.indisprimary desc, x.indexrelid limit 1)
order by k.place"""
_TYPE: Final = f"""
select {_bytes_of("t.typname")}, t.typtype::text, t.typelem, t.typbasetype, t.typtypmod, t.typcategory::text,
       t.typdelim::text,
       array(select {_bytes_of("e.enumlabel")} from pg_enum e where e.enumtypid = t.oid order by e.enumsortorder)
from pg_type t where t.oid = %s"""


@dataclass(frozen=True, slots=True)
class TableId:
    """A table's name."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column as the catalogue has it."""

    name: str
    type: ColumnType
    is_required: bool
    default: str | None
    """The default's expression."""
    comment: str | None = None
    """Not asked for: Debezium does not write PostgreSQL's."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalogue has it; `key` are the columns of its primary key, or of a unique index in its place."""

    id: TableId
    columns: tuple[CatalogColumn, ...]
    key: tuple[str, ...]
    trouble: str | None = None
    """Why nothing of it can be told: a name that has no form in UTF-8, in which no statement can say it."""


class Catalog:
    """Asks a connection of its own, which is in autocommit."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._types: dict[tuple[int, int], ColumnType] = {}
        self._names: dict[bytes, tuple[str, bool]] = {}
        """Texts of the database that were converted, and whether each is what it was."""
        self._encoding = ""
        self.money_shift = 0
        """By how many digits money is larger than it is printed."""

    def table(self, oid: int) -> CatalogTable | None:
        """Return a table by its number, None where it is gone."""
        found = self.rows(f"{_TABLES} and c.oid = %s", oid)
        return self._table(oid, self._id(*found[0][1:3])) if found else None

    def tables(self, wanted: Callable[[TableId], bool]) -> list[CatalogTable]:
        """Return the wanted ones of users' tables, by name."""
        return [self._table(oid, name) for oid, name, _, is_told in self._listed() if is_told and wanted(name)]

    def names(self) -> dict[TableId, bool]:
        """Return all tables of users by name, and whether each is divided or a part of one that is."""
        return {name: is_divided for _, name, is_divided, is_told in self._listed() if is_told}

    def unnamed(self) -> list[TableId]:
        """Return tables whose names have no form in UTF-8, with what is no character as `\\xe9`."""
        return [name for _, name, _, is_told in self._listed() if not is_told]

    def published(self, publication: str) -> set[TableId]:
        """Return the tables of a publication."""
        return {self._id(*row) for row in self.rows(_PUBLISHED, publication)}

    def parts(self) -> list[tuple[TableId, TableId]]:
        """Return each divided table with each table that is a part of it."""
        return [(self._id(*row[:2]), self._id(*row[2:])) for row in self.rows(_PARTS)]

    def named(self, raw: bytes) -> tuple[str, bool]:
        """Return a text of the database for people, and whether it is what it was: it may have no form in UTF-8."""
        if raw.isascii():
            return raw.decode(), True
        if raw not in self._names:
            try:
                self._names[raw] = self.converted(raw).decode(), True
            except DataError:
                self._names[raw] = raw.decode(errors="backslashreplace"), False
        return self._names[raw]

    def converted(self, raw: bytes) -> bytes:
        """Return a text of the database in UTF-8; raises DataError for one that has no such form."""
        if raw.isascii():
            return raw
        if not self._encoding:
            [[self._encoding]] = self.rows("select pg_catalog.getdatabaseencoding()::text")
        if self._encoding in _AS_SENT:
            try:
                raw.decode()
            except UnicodeDecodeError as error:
                raise DataError(f"A text of a database in {self._encoding} is not UTF-8: {error}") from None
            return raw
        from psycopg.pq import TransactionStatus

        is_within = self._connection.info.transaction_status == TransactionStatus.INTRANS
        try:
            if is_within:  # what is refused must not end the transaction of a snapshot
                self.run(f"savepoint {_POINT}")
            [[found]] = self.rows(_CONVERT, raw, self._encoding)
        except ServerSaysError as error:
            if is_within:
                self.run(f"rollback to savepoint {_POINT}")
            raise DataError(f"A text cannot be converted to UTF-8: {error}") from error
        if is_within:
            self.run(f"release savepoint {_POINT}")
        return bytes(found)

    def _id(self, schema: bytes, table: bytes) -> TableId:
        return TableId(self.named(schema)[0], self.named(table)[0])

    def _listed(self) -> list[tuple[int, TableId, bool, bool]]:
        """Return each table's number and name, whether it is divided, and whether the name is what it was."""
        return [
            (oid, self._id(schema, table), is_divided, self.named(schema)[1] and self.named(table)[1])
            for oid, schema, table, is_divided in self.rows(f"{_TABLES} order by n.nspname, c.relname")
        ]

    def _table(self, oid: int, name: TableId) -> CatalogTable:
        columns, untold = list[CatalogColumn](), list[str]()
        for raw, type_oid, modifier, required, default in self.rows(_COLUMNS, oid):
            column, is_told = self.named(raw)
            expression, is_said = (None, True) if default is None else self.named(default)
            columns.append(
                CatalogColumn(column, self.type(type_oid, modifier), required, expression if is_said else None)
            )
            untold += [] if is_told else [column]
        trouble = f"the name of column {', '.join(untold)} has no form in UTF-8" if untold else None
        return CatalogTable(name, tuple(columns), tuple(self.named(row[0])[0] for row in self.rows(_KEY, oid)), trouble)

    def type(self, oid: int, modifier: int) -> ColumnType:
        """Return a type by its number; a domain's is that of what it stands on."""
        found = self._types.get((oid, modifier))
        if found is None:
            found = self._types[oid, modifier] = self._type(oid, modifier)
        return found

    def _type(self, oid: int, modifier: int) -> ColumnType:
        rows = self.rows(_TYPE, oid)
        if not rows:
            return ColumnType(oid, "unknown", modifier)
        raw, kind, element, base, base_modifier, category, delimiter, labels = rows[0]
        name = self.named(raw)[0]
        if kind == "d":
            return replace(self.type(base, base_modifier), domain=name)
        is_array = category == "A" and element
        of_element = self.type(element, modifier) if is_array else None
        return ColumnType(
            oid, name, modifier, tuple(self.named(each)[0] for each in labels), of_element, delimiter=delimiter
        )

    def rows(self, query: str, *parameters: Any) -> list[Sequence[Any]]:
        """Return a query's rows; raises ConnectError in the server's words."""
        from psycopg import Error

        try:
            return list(self._connection.execute(query, parameters).fetchall())
        except Error as error:
            raise self._failure(f"The database cannot be asked: {error}", error.sqlstate) from error

    def _failure(self, words: str, code: str | None) -> ConnectError:
        """Return what has failed: the connection, which may come back, or what was asked."""
        return asking_error(words, code, is_lost=self.is_lost)

    def texts(self, query: str) -> list[list[bytes | None]]:
        """Return a query's rows as the server prints them; raises ConnectError in its words."""
        from psycopg import pq

        result = self._connection.pgconn.exec_(query.encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            words = result.error_message.decode(errors="replace").strip()
            raise self._failure(f"The database cannot be read: {words}", sqlstate_of(result))
        return [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]

    def first_texts(self, query: str, bytes_max: int) -> tuple[list[list[bytes | None]], bool]:
        """Return a query's first rows as the server prints them, and whether more are left behind so many bytes."""
        found, size, count = list[list[bytes | None]](), 0, 1
        self.run("begin")
        try:
            self.run(f"declare first_rows no scroll cursor for {query}")
            while size < bytes_max:
                rows = self.texts(f"fetch {count} from first_rows")
                found += rows
                if len(rows) < count:
                    return found, False
                size += sum(len(value) for row in rows for value in row if value is not None)
                count = min(2 * count, FETCHED_MAX)
            return found, bool(self.texts("fetch 1 from first_rows"))
        finally:
            with suppress(ConnectError):  # nothing was written, and what has failed is told of
                self.run("rollback")

    def copied(self, query: str, rows_max: int) -> Iterator[list[memoryview]]:
        """Yield a query's rows as lines of CSV (`COPY`), so many at once; raises ConnectError in the server's words.

        Nothing else can be asked before all of them are read.
        """
        from psycopg import Error

        try:
            yield from self._copied(query, rows_max)
        except Error as error:
            with suppress(Error):
                while self._connection.pgconn.get_result() is not None:
                    pass
            raise self._failure(f"The database cannot be read: {error}", error.sqlstate) from error

    def _copied(self, query: str, rows_max: int) -> Iterator[list[memoryview]]:
        from psycopg import pq

        connection = self._connection.pgconn
        result = connection.exec_(f"copy ({query}) to stdout with (format csv)".encode())
        get, rows, size = connection.get_copy_data, list[memoryview](), 0
        while result.status == pq.ExecStatus.COPY_OUT:
            read, data = get(1)
            while read > 0:  # a row: the innermost loop of a snapshot
                rows.append(data)
                size += read
                if len(rows) >= rows_max or size >= COPIED_BYTES_MAX:
                    yield rows
                    rows, size = [], 0
                read, data = get(1)
            if read == 0:
                if is_ready(connection.socket, select.POLLIN, LOOK_SECONDS):
                    connection.consume_input()
            elif (ended := connection.get_result()) is not None:
                result = ended
        words = result.error_message.decode(errors="replace").strip()
        while connection.get_result() is not None:
            pass
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise self._failure(f"The database cannot be read: {words}", sqlstate_of(result))
        if rows:
            yield rows

    def run(self, statement: str) -> None:
        """Run what gives no rows; raises ConnectError in the server's words."""
        from psycopg import Error

        try:
            self._connection.execute(statement)
        except Error as error:
            raise self._failure(
                f"The database refuses {statement[:STATEMENT_MAX]!r}: {error}", error.sqlstate
            ) from error

    def slot(self, name: str) -> Mapping[str, Any] | None:
        """Return what is known of a slot, None where there is none."""
        rows = self.rows(
            f"select plugin, slot_type, {_bytes_of('database')}, active, confirmed_flush_lsn::text, wal_status, active_pid "
            "from pg_replication_slots where slot_name = %s",
            name,
        )
        names = ("plugin", "slot_type", "database", "active", "confirmed", "wal_status", "active_pid")
        if not rows:
            return None
        found = dict(zip(names, rows[0], strict=True))
        return {**found, "database": None if found["database"] is None else self.named(found["database"])[0]}

    @property
    def is_lost(self) -> bool:
        """Whether the connection is broken, and nothing can be asked any more."""
        from psycopg import pq

        return self._connection.closed or self._connection.pgconn.status != pq.ConnStatus.OK

    def is_lost_by_now(self) -> bool:
        """Whether the connection is broken, by what has come while nothing was asked: the server's last words."""
        from psycopg import OperationalError, pq

        connection = self._connection.pgconn
        if not self.is_lost and connection.transaction_status == pq.TransactionStatus.IDLE:
            with suppress(OperationalError):
                for _ in range(LAST_WORDS_MAX):
                    if not is_ready(connection.socket, select.POLLIN, 0):
                        break
                    connection.consume_input()
                    connection.is_busy()
        return self.is_lost

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


_LITERAL = re.compile(r"'((?:[^']|'')*)'(?:::[\w\s\"().,]+?(?:\[\])?)?$", re.DOTALL)
_NUMBER = re.compile(r"\(?(-?\d+(?:\.\d+)?)\)?(?:::[\w\s(),]+)?$")
_NOW = re.compile(
    r"(?i)(now\(\)|current_timestamp|current_date|current_time|localtimestamp|localtime|clock_timestamp\(\))"
)
_CALL = re.compile(r"\(?[A-Za-z0-9_.]+\(.*\)", re.DOTALL)


def default_of(expression: str | None, kind: ColumnKind) -> Any:
    """Return a default as a value: of a constant what it is, of what the server makes anew each time the type's zero.

    None where there is none, or none that can be said.
    """
    if expression is None:
        return None
    text = expression.strip()
    if _NOW.match(text) or _CALL.match(text):
        return kind.zero if kind.of_default is None else kind.of_default(b"0")
    if (constant := _LITERAL.match(text)) is not None:
        raw = constant[1].replace("''", "'")
    elif (number := _NUMBER.match(text)) is not None:
        raw = number[1]
    elif text in ("true", "false"):
        raw = text[0]
    else:
        return None
    try:
        return (kind.of_default or kind.parse)(raw.encode())
    except (DataError, ValueError, ArithmeticError):
        return None
