"""MariaDB as a side of the machine: sessions, captures, and what its tables have in a form that can be compared."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql

from ottla.connectors.cdc import MariaDbConnector
from tests.connectors.cdc.mariadb_replay import connected, props_of
from tests.fuzz_capture.model import Table
from tests.fuzz_capture.values import clock_us, number, real, us_of
from tools.mariadb import MariaDbServer

__all__ = ["MariaDbSide"]

SIGNALS = "create table signals (id varchar(42) primary key, type varchar(32) not null, data varchar(2048))"
BEGIN = (
    "set sql_mode = ''",
    "set innodb_lock_wait_timeout = 1",
    "set lock_wait_timeout = 1",
    "set system_versioning_alter_history = 'KEEP'",
)
_NUMBERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"))
_BYTES = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
_STAMPS = frozenset(("date", "datetime", "timestamp"))
_GEOMETRIES = frozenset(("geometry", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"))


class MariaDbSession:
    """A connection whose errors are no faults."""

    def __init__(self, server: MariaDbServer, database: str) -> None:
        self._connection = connected(server, database)
        for each in BEGIN:
            self.run(each)

    def run(self, text: str) -> bool:
        """Run a statement; false where the server refuses it."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(text)
                cursor.fetchall()
        except pymysql.err.InterfaceError:
            return False
        except pymysql.err.MySQLError:
            return False
        return True

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(pymysql.err.Error):
            self._connection.close()


class MariaDbSide:
    """See the module's description."""

    name = "mariadb"

    def __init__(self, server: MariaDbServer) -> None:
        self.server = server

    def new_database(self) -> str:
        """Make two: one is captured, the other, whose name ends with x, is not."""
        name = self.server.new_database()
        with connected(self.server) as connection, connection.cursor() as cursor:
            for each in (name, f"{name}x"):
                cursor.execute(f"create database {each} character set utf8mb4")
            cursor.execute(f"use {name}")
            cursor.execute(SIGNALS)
        return name

    def session(self, database: str) -> MariaDbSession:
        """Connect."""
        return MariaDbSession(self.server, database)

    def quoted(self, name: str) -> str:
        """Return a name as it stands in a statement."""
        return f"`{name}`"

    def signal_name(self, database: str, table: str) -> str:
        """Return a table's name as a signal has it."""
        return f"{database}.{table}"

    def task(self, database: str, name: str, folder: Path, more: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
        """Return a capture that has not begun, and its settings."""
        settings = {
            "topic.prefix": name,
            "database.include.list": database,
            "include.schema.changes": "false",
            "signal.data.collection": f"{database}.signals",
            "incremental.snapshot.chunk.size": "3",
            "bigint.unsigned.handling.mode": "precise",
            "poll.interval.ms": "5",
            "skipped.operations": "none",
            **more,
        }
        return MariaDbConnector.task_class(), {**props_of(self.server, folder / f"history-{name}"), **settings}

    def tables(self, database: str) -> Sequence[Table]:
        """Return all tables that are captured, with their rows."""
        with connected(self.server, database) as connection, connection.cursor() as cursor:
            cursor.execute("set time_zone = '+00:00', sql_mode = ''")
            cursor.execute(
                "select table_name from information_schema.tables where table_schema = %s "
                "and table_type in ('BASE TABLE', 'SYSTEM VERSIONED')",
                (database,),
            )
            return [_table(cursor, database, name) for (name,) in cursor.fetchall()]

    def restart(self, *, hard: bool) -> None:
        """Stop the server, or kill it, and start it again."""
        if hard:
            self.server.kill()
        else:
            self.server.stop()
        self.server.start()

    def retain(self, database: str) -> None:
        """Forget the binlogs before the one that is written now."""
        with connected(self.server) as connection, connection.cursor() as cursor:
            cursor.execute("flush binary logs")
            cursor.execute("show master status")
            [file, *_] = cursor.fetchone()
            cursor.execute(f"purge binary logs to '{file}'")

    def let_go(self, database: str, names: Sequence[str]) -> None:
        """Remove the databases."""
        with (
            contextlib.suppress(pymysql.err.Error),
            connected(self.server) as connection,
            connection.cursor() as cursor,
        ):
            for each in (database, f"{database}x"):
                cursor.execute(f"drop database if exists {each}")


def _table(cursor: Any, database: str, name: str) -> Table:
    cursor.execute(
        "select column_name, data_type, datetime_precision, column_key, column_type, is_nullable "
        "from information_schema.columns where table_schema = %s and table_name = %s order by ordinal_position",
        (database, name),
    )
    columns = cursor.fetchall()
    cursor.execute(
        "select column_name from information_schema.key_column_usage where table_schema = %s and table_name = %s "
        "and constraint_name = 'PRIMARY' order by ordinal_position",
        (database, name),
    )
    key = tuple(each for (each,) in cursor.fetchall())
    kinds = {each[0]: each[1] for each in columns}
    wanted = ", ".join(_expression(each[0], each[1]) for each in columns)
    cursor.execute(f"select {wanted} from `{name}`")
    rows = [
        {
            column[0]: _value(column[1], column[4], value, is_nullable=column[5] == "YES")
            for column, value in zip(columns, row, strict=True)
        }
        for row in cursor.fetchall()
    ]
    return Table(name, tuple(kinds), {each[0]: each[4] for each in columns}, key, rows)


def _expression(column: str, kind: str) -> str:
    name = f"`{column.replace('`', '``')}`"
    if kind in _BYTES:
        return f"hex({name})"
    if kind == "bit":
        return f"{name} + 0"
    if kind == "point":
        return f"concat(st_x({name}), ',', st_y({name}))"
    if kind in _GEOMETRIES:
        return f"hex(st_aswkb({name}))"
    if kind == "float":
        return f"cast({name} as double)"
    if kind in _STAMPS or kind == "time":
        return f"cast({name} as char)"
    return name


def _value(kind: str, type_: str, value: Any, *, is_nullable: bool) -> Any:
    if value is None:
        return None
    if kind in _NUMBERS or kind == "bit":
        return number(value)
    if kind == "float":
        return real(value, single="(" not in type_)
    if kind == "double":
        return real(value)
    if kind in _BYTES or kind in _GEOMETRIES:
        return value.lower()
    if kind in _STAMPS:
        if value.startswith("0000-00-00"):  # told as Debezium does
            return None if is_nullable else "0"
        return us_of(value)
    if kind == "time":
        return clock_us(value)
    if kind == "point":
        x, y = value.split(",")
        return f"{real(x)},{real(y)}"
    return value.decode() if isinstance(value, bytes) else str(value)
