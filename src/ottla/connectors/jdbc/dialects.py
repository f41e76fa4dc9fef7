"""What databases do not agree on: their clocks, their times as values, how they read in pieces and write or change rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.types import TypeEngine

from ottla.connect import data
from ottla.connectors.jdbc.far_values import LocalFar, aware_or_far, far_bound

__all__ = ["Dialect", "dialect_of"]

Stamp = datetime | date | LocalFar | data.FarTimestamp | data.FarDate

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Dialect:
    """What most databases understand."""

    name = "sql"
    streams = True
    """Whether an open cursor over many rows stands in nobody's way."""

    limits = True
    """Whether LIMIT is understood."""

    has_catalogs = False
    """Whether a name may begin with the database's own."""

    def __init__(self, *, zone: ZoneInfo, quote: bool) -> None:
        self.zone, self.quotes = zone, quote

    # Connecting

    def connect_args(self, seconds_max: int) -> dict[str, Any]:
        """Return the driver's arguments."""
        return {}

    session: tuple[str, ...] = ()
    """Statements that pin what servers, databases and roles may set otherwise, and that would change values."""

    def attach(self, engine: Engine) -> None:
        """Prepare every connection of an engine."""
        self.preparer = engine.dialect.identifier_preparer
        self.has_schemas = True
        self.database = engine.url.database
        if self.session:
            sa.event.listen(engine, "connect", self._pin)

    def _pin(self, connection: Any, record: Any) -> None:
        """Execute the session's statements on a driver's connection."""
        cursor = connection.cursor()
        try:
            for each in self.session:
                cursor.execute(each)
        finally:
            cursor.close()
        connection.commit()

    def give_up(self, connection: Connection) -> None:
        """Ask the database, from any thread, to give up what a connection has it do; it fails there then."""
        driver: Any = connection.connection.driver_connection
        for name in ("cancel", "interrupt"):
            if callable(getattr(driver, name, None)):
                getattr(driver, name)()
                return

    def default_schema(self, inspector: sa.Inspector) -> str | None:
        """Return the schema that names without one are looked up in, None where there are no schemas."""
        return inspector.default_schema_name

    def user_schemas(self, inspector: sa.Inspector) -> list[str | None]:
        """Return the schemas that hold users' tables."""
        hidden = ("information_schema", "pg_catalog", "pg_toast", "mysql", "performance_schema", "sys")
        return [each for each in inspector.get_schema_names() if each not in hidden and not each.startswith("pg_")]

    # Names

    def quote(self, name: str) -> str:
        """Return a name as statements have it."""
        if not self.quotes:
            return name
        begin, end = self.preparer.initial_quote, self.preparer.final_quote
        return begin + name.replace(end, end * 2) + end

    def named(self, schema: str | None, table: str) -> str:
        """Return a table's name as statements have it."""
        return self.quote(table) if schema is None else f"{self.quote(schema)}.{self.quote(table)}"

    def cast_names(self, connection: Connection, schema: str | None, table: str) -> dict[str, str]:
        """Return the names of a table's types, without lengths, for statements that say which type a value has."""
        return {}

    def columns(self, connection: Connection, schema: str | None, table: str) -> Sequence[Any]:
        """Return a table's columns as SQLAlchemy finds them; raises NoSuchTableError."""
        return sa.inspect(connection).get_columns(table, schema)

    def merging_columns(self, connection: Connection, schema: str | None, table: str) -> frozenset[str]:
        """Return a table's columns whose collation takes different texts for one, as far as statements have to know."""
        return frozenset()

    def unique_keys(self, connection: Connection, schema: str | None, table: str) -> frozenset[tuple[str, ...]]:
        """Return the columns of each of a table's unique keys, where an upsert cannot say which of them it means."""
        return frozenset()

    def definition(self, connection: Connection, schema: str | None, table: str) -> Any:
        """Return what changes whenever writing to a table has to be thought over, None where that is not known.

        It holds until the transaction's end for tables that the transaction has written.
        """
        return None

    # Times

    def now(self, connection: Connection) -> datetime:
        """Return the database's time, in UTC."""
        value: datetime = connection.execute(sa.text("SELECT CURRENT_TIMESTAMP")).scalar_one()
        return (value.replace(tzinfo=self.zone) if value.tzinfo is None else value).astimezone(UTC)

    def utc(self, value: Stamp) -> datetime | data.FarTimestamp:
        """Return a database's time in UTC; one without a zone, or a day, is one of `db.timezone`."""
        if isinstance(value, data.FarTimestamp):
            return value
        if isinstance(value, data.FarDate):
            return LocalFar(value.days * 86_400_000_000).utc(self.zone)
        if isinstance(value, LocalFar):
            return value.utc(self.zone)
        if not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        return aware_or_far(value, self.zone) if value.tzinfo is None else value.astimezone(UTC)

    def moment(self, columns: Sequence[str]) -> str:
        """Return an expression for the first of some columns that is not null, as it is compared and returned."""
        return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"

    def moment_value(self, at: datetime | data.FarTimestamp, *, zoned: bool) -> Any:
        """Return a time as it is bound beside `moment`: as it is where it is local already, or where columns are `zoned`."""
        if isinstance(at, data.FarTimestamp):
            return self.far_value(at, zoned=zoned)
        return at if zoned or at.tzinfo is None else self._local(at)

    def far_value(self, at: data.FarTimestamp, *, zoned: bool) -> Any:
        """Return a time that `datetime` has not as it is bound: the nearest that it has, where databases have no others."""
        return datetime.min if at.microseconds < 0 else datetime.max

    def moment_end(self, now: datetime, *, zoned: bool) -> Any:
        """Return the time, as it is bound, before which everything is read that will ever be.

        In the hour before a clock is put back, local times are shown that come a second time: they are not read before
        the second time, else what is written then would be behind what has been read.
        """
        local = now.astimezone(self.zone)
        again = local.replace(fold=1)
        put_back = (local.utcoffset() or timedelta()) - (again.utcoffset() or timedelta())
        if zoned or put_back <= timedelta():
            return self.moment_value(now, zoned=zoned)
        return self.moment_value(local.replace(tzinfo=None) - put_back, zoned=False)

    def is_zoned(self, type_: Any) -> bool:
        """Return whether a column's times are moments, and not what a clock of `db.timezone` shows."""
        return bool(getattr(type_, "timezone", False))

    def moment_read(self, value: Any, *, zoned: bool = False) -> tuple[datetime | data.FarTimestamp, datetime | None]:
        """Return the time that `moment` gave, and as the database has it where `moment_value` would bind another."""
        if not isinstance(value, date | LocalFar | data.FarTimestamp | data.FarDate):  # a datetime is a date
            raise TypeError(f"a value of {type(value).__name__} is no time")
        at = self.utc(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime) or value.tzinfo is not None:
            return at, None
        return at, None if isinstance(at, datetime) and self._local(at) == value else value

    def _local(self, at: datetime) -> datetime:
        return at.astimezone(self.zone).replace(tzinfo=None)

    # Reading

    def query_types(self, connection: Connection, query: str) -> list[tuple[str, TypeEngine[Any] | None]]:
        """Return a query's columns with their types, None for a type that only its values show."""
        result = connection.execute(sa.text(f"SELECT * FROM ({_escaped(query)}) AS ottla_query WHERE 1 = 0"))
        return [(each[0], self.type_of_cursor(each)) for each in _description(result)]

    def type_of_cursor(self, column: Any) -> TypeEngine[Any] | None:
        """Return the type that a cursor says of a column, None where it says none."""
        return None

    def told(self, connection: Connection, result: sa.CursorResult[Any], count: int) -> Any:
        """Return the server's own description of a result's first columns: it differs where their types do."""
        return tuple(tuple(each) for each in _description(result)[:count])

    def inexact(self, type_: Any) -> bool:
        """Return whether the database would send fewer digits of a column than it has."""
        return False

    integer_holds_64_bits = False
    keeps_types = False
    """Whether a column's values are of its type and nothing else, so that they need not be looked at one by one."""

    reflects_midway = True
    """Whether a table can be looked at while rows of a statement are still to come."""


class PostgresDialect(Dialect):
    """PostgreSQL through psycopg."""

    name = "postgresql"
    has_catalogs = True
    keeps_types = True
    session = ("SET extra_float_digits = 1", "SET datestyle = 'ISO'")

    def connect_args(self, seconds_max: int) -> dict[str, Any]:
        """Return the driver's arguments: no prepared statements, for a table's columns may change between two polls."""
        return {"prepare_threshold": None, "connect_timeout": seconds_max}

    def attach(self, engine: Engine) -> None:
        """Have types that Connect has not as the texts that the database sends."""
        super().attach(engine)

        def loaders(connection: Any, record: Any) -> None:
            from psycopg.types.string import TextLoader

            from ottla.connectors.jdbc.postgres_times import register_far

            for oid in _AS_TEXT:
                connection.adapters.register_loader(oid, TextLoader)
            register_far(connection)

        sa.event.listen(engine, "connect", loaders)

    def cast_names(self, connection: Connection, schema: str | None, table: str) -> dict[str, str]:
        """Return the types of a table's columns as PostgreSQL formats them: enumerations and domains too."""
        sql = (
            "SELECT attname, format_type(atttypid, -1) FROM pg_attribute "
            "WHERE attrelid = CAST(:name AS regclass) AND attnum > 0 AND NOT attisdropped"
        )
        rows = connection.execute(sa.text(sql), {"name": self._regclass(schema, table)})
        return {row[0]: row[1] for row in rows}

    def columns(self, connection: Connection, schema: str | None, table: str) -> Sequence[Any]:
        """Return a table's columns: SQLAlchemy asks for collations as JSON, which is a text to everybody else here."""
        from psycopg.types.json import JsonLoader
        from psycopg.types.string import TextLoader

        adapters: Any = connection.connection.driver_connection.adapters  # type: ignore[union-attr]
        adapters.register_loader(_JSON, JsonLoader)
        try:
            return super().columns(connection, schema, table)
        finally:
            adapters.register_loader(_JSON, TextLoader)

    def merging_columns(self, connection: Connection, schema: str | None, table: str) -> frozenset[str]:
        """Return a table's columns of collations that are not deterministic, which there are since PostgreSQL 12."""
        sql = (
            "SELECT attname FROM pg_attribute JOIN pg_collation c ON c.oid = attcollation WHERE attnum > 0 AND "
            "attrelid = CAST(:name AS regclass) AND to_jsonb(c) ->> 'collisdeterministic' = 'false'"
        )
        rows = connection.execute(sa.text(sql), {"name": self._regclass(schema, table)})
        return frozenset(row[0] for row in rows)

    def definition(self, connection: Connection, schema: str | None, table: str) -> Any:
        """Return the table's own number, and its columns' names, types, lengths and collations."""
        sql = (
            "SELECT attrelid, attname, atttypid, atttypmod, attcollation FROM pg_attribute "
            "WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        return tuple(map(tuple, connection.execute(sa.text(sql), {"name": self._regclass(schema, table)})))

    def told(self, connection: Connection, result: sa.CursorResult[Any], count: int) -> Any:
        """Return each column's name, type and modifier, which the driver's own description knows of few types."""
        cursor: Any = result.cursor
        names = [each[0] for each in _description(result)[:count]]
        found = cursor.pgresult
        return tuple((name, found.ftype(place), found.fmod(place)) for place, name in enumerate(names))

    def _regclass(self, schema: str | None, table: str) -> str:
        return ".".join(self.preparer.quote_identifier(each) for each in (schema, table) if each is not None)

    def now(self, connection: Connection) -> datetime:
        """Return the time by the wall, not of the transaction's beginning."""
        value: datetime = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
        return value.astimezone(UTC)

    def far_value(self, at: data.FarTimestamp, *, zoned: bool) -> Any:
        """Return the time as text, which PostgreSQL reads as of the type that it is compared with."""
        return far_bound(at, None if zoned else self.zone)

    def type_of_cursor(self, column: Any) -> TypeEngine[Any] | None:
        """Return the type of an OID."""
        oid = column[1]
        if oid == _NUMERIC:
            return sa.Numeric(column[4], column[5])
        if oid in _ARRAYS:
            return sa.ARRAY(_OIDS.get(_ARRAYS[oid], sa.String()))
        return _OIDS.get(oid, sa.String())


class SqliteDialect(Dialect):
    """SQLite: times are texts or milliseconds, an open cursor keeps writers out, and every integer has 64 bits."""

    name = "sqlite"
    streams = False
    integer_holds_64_bits = True

    def connect_args(self, seconds_max: int) -> dict[str, Any]:
        """Return the driver's arguments: how long to wait for others' locks, and that the task's threads may change."""
        return {"timeout": seconds_max, "check_same_thread": False}

    def attach(self, engine: Engine) -> None:
        """SQLite has attached files where others have schemas."""
        super().attach(engine)
        self.has_schemas = False

    def default_schema(self, inspector: sa.Inspector) -> str | None:
        """There are none."""
        return None

    def user_schemas(self, inspector: sa.Inspector) -> list[str | None]:
        """There are none."""
        return [None]

    def now(self, connection: Connection) -> datetime:
        """Return the time to the millisecond."""
        text = connection.execute(sa.text("SELECT strftime('%Y-%m-%d %H\\:%M\\:%f', 'now')")).scalar_one()
        return datetime.fromisoformat(text).replace(tzinfo=UTC)

    def moment(self, columns: Sequence[str]) -> str:
        """Return milliseconds since 1970 of what a column holds: an integer is that, a text is a date and time."""
        each = super().moment(columns)
        seconds = f"CAST(strftime('%s', {each}) AS INTEGER)"
        fraction = f"CAST(substr(strftime('%f', {each}), 4) AS INTEGER)"
        return f"CASE typeof({each}) WHEN 'text' THEN {seconds} * 1000 + {fraction} ELSE {each} END"

    def moment_value(self, at: datetime | data.FarTimestamp, *, zoned: bool) -> Any:
        """Return milliseconds, of the database's own clock."""
        if isinstance(at, data.FarTimestamp):
            return at.ms
        naive = at if at.tzinfo is None else self._local(at)
        return (naive.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)

    def moment_read(self, value: Any, *, zoned: bool = False) -> tuple[datetime | data.FarTimestamp, datetime | None]:
        """Return the time of milliseconds."""
        try:
            naive = _EPOCH + timedelta(milliseconds=int(value))
        except OverflowError:
            return data.FarTimestamp(int(value) * 1000), None
        return super().moment_read(naive.replace(tzinfo=None))

    def definition(self, connection: Connection, schema: str | None, table: str) -> Any:
        """Return the statements that made the table and its indexes."""
        sql = "SELECT name, sql FROM main.sqlite_master WHERE tbl_name = :table COLLATE NOCASE ORDER BY rowid"
        return tuple(map(tuple, connection.execute(sa.text(sql), {"table": table})))

    def told(self, connection: Connection, result: sa.CursorResult[Any], count: int) -> Any:
        """Return the columns' names, and the number that every change of any table counts up."""
        version = connection.exec_driver_sql("PRAGMA main.schema_version").scalar_one()
        return version, *list(result.keys())[:count]

    def query_types(self, connection: Connection, query: str) -> list[tuple[str, TypeEngine[Any] | None]]:
        """Return a query's columns: a view of the connection's own says which types columns were declared with."""
        view = "ottla_query_view"
        connection.execute(sa.text(f"DROP VIEW IF EXISTS temp.{view}"))
        connection.execute(sa.text(f"CREATE TEMP VIEW {view} AS {_escaped(query)}"))
        try:
            rows = connection.execute(sa.text(f"PRAGMA temp.table_info({view})")).all()
            found = sa.inspect(connection).get_columns(view, schema="temp")
        finally:
            connection.execute(sa.text(f"DROP VIEW temp.{view}"))
            connection.commit()
        types = {each["name"]: each["type"] for each in found}
        return [(row[1], types[row[1]] if row[2] else None) for row in rows]


class MysqlDialect(Dialect):
    """MySQL and MariaDB: their `TIMESTAMP` is a moment, told in the session's zone; here that is UTC at all times."""

    name = "mysql"
    keeps_types = True
    reflects_midway = False
    session = (
        "SET time_zone = '+00:00'",
        "SET SESSION sql_mode = CONCAT_WS(',', NULLIF(@@SESSION.sql_mode, ''), 'STRICT_ALL_TABLES')",
    )
    """The zone, and that what a column cannot hold is an error and not cut."""

    def now(self, connection: Connection) -> datetime:
        """Return the server's time, whatever zone it is in."""
        value: datetime = connection.execute(sa.text("SELECT UTC_TIMESTAMP(6)")).scalar_one()
        return value.replace(tzinfo=UTC)

    def is_zoned(self, type_: Any) -> bool:
        """See `Dialect`."""
        return isinstance(type_, sa.TIMESTAMP)

    def moment_read(self, value: Any, *, zoned: bool = False) -> tuple[datetime | data.FarTimestamp, datetime | None]:
        """See `Dialect`; moments come without a zone, in the session's."""
        if zoned and isinstance(value, datetime) and value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        return super().moment_read(value)

    def unique_keys(self, connection: Connection, schema: str | None, table: str) -> frozenset[tuple[str, ...]]:
        """Return the columns of each unique key; one of a part of a column, or of an expression, is none of columns."""
        found: dict[str, list[str]] = {}
        for name, column, part in self._unique_columns(connection, schema, table):
            found.setdefault(name, []).append(column if part is None and column is not None else "")
        return frozenset(tuple(sorted(each)) for each in found.values())

    def definition(self, connection: Connection, schema: str | None, table: str) -> Any:
        """Return the columns' types and the unique keys."""
        sql = (
            "SELECT column_name, column_type, collation_name, is_nullable FROM information_schema.columns "
            f"WHERE {_OF_TABLE} ORDER BY ordinal_position"
        )
        columns = connection.execute(sa.text(sql), {"schema": schema, "table": table})
        return (*map(tuple, columns), *self._unique_columns(connection, schema, table))

    def _unique_columns(self, connection: Connection, schema: str | None, table: str) -> list[tuple[Any, ...]]:
        sql = (
            "SELECT index_name, column_name, sub_part FROM information_schema.statistics "
            f"WHERE {_OF_TABLE} AND non_unique = 0 ORDER BY index_name, seq_in_index"
        )
        return [tuple(row) for row in connection.execute(sa.text(sql), {"schema": schema, "table": table})]

    def told(self, connection: Connection, result: sa.CursorResult[Any], count: int) -> Any:
        """Return the driver's description, and what PyMySQL keeps of the server's beside it."""
        fields = getattr(getattr(result.cursor, "_result", None), "fields", None) or ()
        more = tuple((each.type_code, each.length, each.flags, each.charsetnr, each.scale) for each in fields[:count])
        return super().told(connection, result, count), more

    def type_of_cursor(self, column: Any) -> TypeEngine[Any] | None:
        """Return the type of columns whose values do not say enough."""
        return sa.FLOAT() if column[1] == _MYSQL_FLOAT else None

    def inexact(self, type_: Any) -> bool:
        """Return whether it is FLOAT, of which six digits are sent."""
        return isinstance(type_, sa.FLOAT)


def dialect_of(name: str, *, zone: ZoneInfo, quote: bool) -> Dialect:
    """Return the dialect of SQLAlchemy's name for a database."""
    kinds: dict[str, type[Dialect]] = {"postgresql": PostgresDialect, "sqlite": SqliteDialect}
    kinds |= {"mysql": MysqlDialect, "mariadb": MysqlDialect}
    made = kinds.get(name, Dialect)(zone=zone, quote=quote)
    made.name = name
    made.limits = name in ("postgresql", "sqlite", "mysql", "mariadb")
    return made


def _escaped(sql: str) -> str:
    return sql.replace(":", "\\:")


def _description(result: sa.CursorResult[Any]) -> Sequence[Any]:
    cursor: Any = result.cursor
    return list(cursor.description)


_OF_TABLE = "table_schema = COALESCE(:schema, DATABASE()) AND table_name = :table"
_MYSQL_FLOAT = 4
_NUMERIC, _JSON = 1700, 114
_AS_TEXT = (_JSON, 3802, 2950, 869, 650, 1186, 1266, 3904, 3906, 3908, 3910, 3912, 3926)
"""json, jsonb, uuid, inet, cidr, interval, timetz and the ranges."""

_OIDS: dict[int, TypeEngine[Any]] = {
    16: sa.Boolean(),
    17: sa.LargeBinary(),
    20: sa.BigInteger(),
    21: sa.SmallInteger(),
    23: sa.Integer(),
    26: sa.BigInteger(),
    700: sa.REAL(),
    701: sa.Double(),
    1082: sa.Date(),
    1083: sa.Time(),
    1114: sa.DateTime(),
    1184: sa.DateTime(timezone=True),
    _NUMERIC: sa.Numeric(),
}
_ARRAYS = {
    1000: 16,
    1001: 17,
    1005: 21,
    1007: 23,
    1016: 20,
    1021: 700,
    1022: 701,
    1182: 1082,
    1183: 1083,
    1115: 1114,
    1185: 1184,
    1231: _NUMERIC,
    1009: 25,
    1015: 1043,
    2951: 2950,
}
"""An array's OID, and that of what it holds."""
