"""PostgreSQL as a side of the machine: sessions, captures, and what its tables have in a form that can be compared."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from ottla.connectors.cdc import PostgresConnector
from tests.connectors.cdc.replay import connected
from tests.fuzz_capture.model import Table
from tests.fuzz_capture.values import clock_us, number, real, us_of
from tools.postgres import PASSWORD, USER, PostgresServer

__all__ = ["PostgresSide"]

SIGNALS = "create table signals (id varchar(42) primary key, type varchar(32) not null, data varchar(2048))"
PINNED = (
    "set quote_all_identifiers = off",
    "set client_encoding = 'UTF8'",
    "set datestyle = 'ISO, YMD'",
    "set timezone = 'UTC'",
    "set extra_float_digits = 1",
    "set lc_monetary = 'C'",
    "set intervalstyle = 'postgres'",
    "set bytea_output = 'hex'",
    "set xmloption = content",
    "set search_path = public",
    "set standard_conforming_strings = on",
    "set row_security = off",
)
BEGIN = (
    "set client_encoding = 'UTF8'",
    "set default_transaction_read_only = off",
    "set search_path = public",
    "set standard_conforming_strings = on",
    "set idle_in_transaction_session_timeout = 0",
    "set lock_timeout = '300ms'",
    "set statement_timeout = '5s'",
    "set client_min_messages = error",
)
"""Of each session that writes: the hostile settings of its database are for the capture."""
UNKNOWN = frozenset(
    ("box", "circle", "line", "lseg", "path", "polygon", "xid", "cid", "pg_lsn", "box[]", "point[]", "circle[]")
)
_TABLES = """select c.oid, c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
and c.relpersistence = 'p' order by 2"""
_COLUMNS = """select a.attname, case when typbasetype = 0 then format_type(a.atttypid, a.atttypmod)
else format_type(typbasetype, typtypmod) end, a.attgenerated from pg_attribute a join pg_type t on t.oid = a.atttypid
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum"""
_KEY = """select a.attname from pg_index i cross join lateral unnest(i.indkey) with ordinality k(n, o)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.n where i.indrelid = %s and i.indisprimary order by k.o"""


class PostgresSession:
    """A connection whose errors are no faults."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        self._connection = connected(server, database)
        for each in BEGIN:
            self.run(each)

    def run(self, text: str) -> bool:
        """Run a statement; false where the server refuses it."""
        try:
            self._connection.execute(text.encode())
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        """Close it."""
        self._connection.close()


class PostgresSide:
    """See the module's description."""

    name = "postgresql"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server

    def new_database(self) -> str:
        """Make one, with a table of signals."""
        name = self.server.new_database()
        with connected(self.server, name) as connection:
            connection.execute(SIGNALS)
        return name

    def session(self, database: str) -> PostgresSession:
        """Connect."""
        return PostgresSession(self.server, database)

    def quoted(self, name: str) -> str:
        """Return a name as it stands in a statement."""
        return '"' + name.replace('"', '""') + '"'

    def signal_name(self, database: str, table: str) -> str:
        """Return a table's name as a signal has it."""
        return f"public.{table}"

    def task(self, database: str, name: str, folder: Path, more: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
        """Return a capture that has not begun, and its settings."""
        slot = f"{name}_{database}"
        return PostgresConnector.task_class(), {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": database,
            "plugin.name": "pgoutput",
            "poll.interval.ms": "5",
            "topic.prefix": name,
            "slot.name": slot,
            "publication.name": slot,
            "signal.data.collection": "public.signals",
            "incremental.snapshot.chunk.size": "3",
            "skipped.operations": "none",
            "interval.handling.mode": "string",
            "decimal.handling.mode": "string",
            **more,
        }

    def tables(self, database: str) -> Sequence[Table]:
        """Return all tables that are captured, with their rows."""
        with connected(self.server, database) as connection:
            for each in PINNED:
                connection.execute(each.encode())
            return [self._table(connection, *each) for each in connection.execute(_TABLES).fetchall()]

    def _table(self, connection: psycopg.Connection[Any], oid: int, name: str) -> Table:
        columns = connection.execute(_COLUMNS, (oid,)).fetchall()
        types = {column: kind for column, kind, _ in columns}
        key = tuple(each for (each,) in connection.execute(_KEY, (oid,)).fetchall())
        wanted = ", ".join(_expression(self.quoted(column), kind) for column, kind in types.items())
        found = connection.execute(f"select {wanted} from {self.quoted(name)}".encode()).fetchall() if types else []
        rows = [
            {column: _value(kind, value) for (column, kind), value in zip(types.items(), row, strict=True)}
            for row in found
        ]
        left_out = {column for column, kind, generated in columns if kind in UNKNOWN or generated}
        return Table(name, tuple(types), types, key, rows, frozenset(left_out))

    def restart(self, *, hard: bool) -> None:
        """Stop the server, or kill it, and start it again."""
        if hard:
            self.server.kill()
        else:
            self.server.stop()
        self.server.start()

    def retain(self, database: str) -> None:
        """Have the log written anew, and what is read already removed."""
        with connected(self.server, database) as connection:
            for each in ("select pg_switch_wal()", "checkpoint"):
                connection.execute(each.encode())

    def let_go(self, database: str, names: Sequence[str]) -> None:
        """Remove slots and the database."""
        with connected(self.server, "postgres") as connection, contextlib.suppress(psycopg.Error):
            connection.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots "
                "where database = %s and active_pid is not null",
                (database,),
            )
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s", (database,)
            )
            connection.execute(f"drop database if exists {database} with (force)".encode())


def _expression(name: str, kind: str) -> str:
    if kind.endswith("[]"):
        return f"array_to_json({name})::text"
    if kind.startswith("timestamp") or kind == "date":
        zoned = f"extract(epoch from {name})" if kind != "date" else f"({name} - date '1970-01-01') * 86400::numeric"
        return f"case when isfinite({name}) then trim_scale({zoned} * 1000000)::text else {name}::text end"
    if kind.startswith("time") and kind.endswith("with time zone"):
        return f"({name} at time zone 'UTC')::time::text"
    if kind.startswith("interval"):
        part = f"extract(hour from {name}) * 3600 + extract(minute from {name}) * 60 + extract(second from {name})"
        months = f"extract(year from {name}) * 12 + extract(month from {name})"
        return f"concat_ws(' ', {months}, extract(day from {name}), trim_scale(({part}) * 1000000)) || left({name}::text, 0)"
    if kind == "bytea":
        return f"encode({name}, 'hex')"
    if kind == "money":
        return f"{name}::numeric::text"
    if kind == "boolean":
        return f"{name}::int::text"
    if kind == "point":
        return f"{name}[0]::text || ',' || {name}[1]::text"
    return f"case when {name} is not null then format('%s', {name}) end"  # a cast cuts blanks, and adds /128


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind.endswith("[]"):
        return _items(kind.removesuffix("[]"), json.loads(value, parse_float=Decimal))
    base = kind.partition("(")[0]
    if (
        base in ("smallint", "integer", "bigint", "oid", "numeric", "money")
        or base.startswith("timestamp")
        or base == "date"
    ):
        return value if base.startswith(("timestamp", "date")) else number(value)
    if base in ("real", "double precision"):
        return real(value, single=base == "real")
    if base.startswith("time"):
        return clock_us(value)
    if base == "bit" or base == "bit varying":
        return str(int(value, 2)) if value else "0"
    if base == "point":
        return ",".join(real(each) for each in value.split(","))
    return value


def _items(kind: str, items: Any) -> Any:
    if items is None or isinstance(items, str):
        return items
    if isinstance(items, list):
        return tuple(_items(kind, each) for each in items)
    if isinstance(items, bool):
        return "1" if items else "0"
    return number(items) if isinstance(items, int | Decimal) else us_of(str(items))
