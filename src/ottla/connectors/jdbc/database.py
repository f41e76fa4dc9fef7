"""A database: its engine, how it is connected to with patience, and which of its errors pass by themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool

from ottla.base import ConfigError
from ottla.config import Password
from ottla.connect import ConnectError
from ottla.connectors.jdbc.dialects import Dialect, dialect_of
from ottla.connectors.jdbc.urls import database_url

__all__ = [
    "Database",
    "UnreachableError",
    "met_twice",
    "of_another_table",
    "open_database",
    "passes_by_itself",
    "reason_of",
]

log = logging.getLogger(__name__)

CONNECT_SECONDS_MAX = 10
_PASSING_STATES = ("08", "25006", "40", "53", "55P03", "57P")
"""SQLSTATE: connections; a server that is read-only, as during a failover; rollbacks; no room; a lock; shutdowns."""
_PASSING_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL")
_PASSING_MYSQL = frozenset((1021, 1040, 1041, 1053, 1114, 1205, 1213, 1290, 1412, 1836, 2002, 2003, 2006, 2013, 2055))
"""MySQL: full disks and tables, too many connections, shutdown, lock waits, deadlocks, read-only, a table that was altered
meanwhile, lost connections."""
_OTHER_TABLE_MYSQL = (1054, 1146)
"""MySQL: an unknown column, an unknown table."""
_DIALECT_NAMES = {
    "PostgreSqlDatabaseDialect": "postgresql",
    "SqliteDatabaseDialect": "sqlite",
    "MySqlDatabaseDialect": "mysql",
    "OracleDatabaseDialect": "oracle",
    "SqlServerDatabaseDialect": "mssql",
}


class UnreachableError(ConnectError):
    """A database that cannot be connected to, though it was tried as often as is configured."""


class Database:
    """One database and how it is spoken to. `shown` is its URL without the password and all that stands behind `?`."""

    def __init__(self, engine: Engine, dialect: Dialect, *, attempts: int, backoff_ms: int) -> None:
        self.engine, self.dialect = engine, dialect
        self.attempts, self.backoff_ms = attempts, backoff_ms
        self.shown = engine.url.set(query={}).render_as_string(hide_password=True)  # a key's password may stand there

    def connect(self, wait: Callable[[float], bool] | None = None) -> Connection:
        """Return a connection after as many attempts as are configured; raises UnreachableError.

        `wait` sleeps so many seconds and returns True where the caller should give up.
        """
        attempt = 1
        while True:
            try:
                return self.engine.connect()
            except sa.exc.SQLAlchemyError as error:
                text = f"{self.shown} cannot be connected to: {reason_of(error)}"
                gave_up = wait is None or attempt >= self.attempts or wait(self.backoff_ms / 1000)
                if gave_up:
                    raise UnreachableError(text) from None  # the driver's own error may quote what it was given
                log.warning("%s (attempt %d of %d)", text, attempt, self.attempts)
                attempt += 1

    def close(self) -> None:
        """Let go of everything."""
        self.engine.dispose()


def open_database(settings: Mapping[str, Any], *, isolation: str = "DEFAULT") -> Database:
    """Return the database of a connector's typed settings, not connected yet; raises ConfigError or ConnectError."""
    password = settings["connection.password"]
    url = database_url(
        settings["connection.url"],
        settings["connection.user"],
        password.secret if isinstance(password, Password) else password,
    )
    backend = url.get_backend_name()
    wanted = settings["dialect.name"]
    if wanted and _DIALECT_NAMES.get(wanted, wanted.lower()) != backend:
        raise ConfigError("dialect.name", wanted, f"the URL's dialect is {backend}, and this key may only repeat it")
    options: dict[str, Any] = {}
    if isolation.upper() != "DEFAULT":
        options["isolation_level"] = isolation.upper().replace("_", " ")
    zone = ZoneInfo(settings["db.timezone"])
    quote = settings["quote.sql.identifiers"].lower() == "always"
    dialect = dialect_of(backend, zone=zone, quote=quote)
    try:
        engine = sa.create_engine(
            url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args=dialect.connect_args(CONNECT_SECONDS_MAX),
            **options,
        )
    except (sa.exc.ArgumentError, TypeError) as error:
        raise ConfigError("connection.url", None, "", f"connection.url cannot be used: {error}") from error
    dialect.attach(engine)
    return Database(
        engine, dialect, attempts=settings["connection.attempts"], backoff_ms=settings["connection.backoff.ms"]
    )


def passes_by_itself(error: BaseException) -> bool:
    """Return whether trying again may help, since the fault is the database's and not a record's.

    A lost connection, a deadlock, a lock, a server that starts or is short of room: by the code that the database gives,
    since drivers put other faults (a row too large for a page, say) into the same classes of exceptions.
    """
    if isinstance(error, UnreachableError | sa.exc.TimeoutError):
        return True
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    origin: Any = error.orig
    if type(origin).__module__.partition(".")[0] in ("pymysql", "MySQLdb", "mariadb"):
        return bool(origin.args) and origin.args[0] in _PASSING_MYSQL
    state = getattr(origin, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_PASSING_STATES)
    name = getattr(origin, "sqlite_errorname", None)
    if name is not None:
        return str(name).startswith(_PASSING_SQLITE)
    # without a code it came from the driver: there was no connection, or it broke
    return isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)


def reason_of(error: BaseException) -> str:
    """Return the database's own words, without the statement, its values and the rows that it quotes."""
    origin = getattr(error, "orig", None) or error
    primary = getattr(getattr(origin, "diag", None), "message_primary", None)
    return " ".join(str(primary or origin).split()) or type(origin).__name__


def met_twice(error: BaseException) -> bool:
    """Return whether one statement would have written one row twice: its keys are one in the database (SQLSTATE 21000)."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) == "21000"


def of_another_table(error: BaseException) -> bool:
    """Return whether a statement does not go with the table that is there, which may not be the one that was looked at."""
    origin = getattr(error, "orig", None)
    if (getattr(origin, "sqlstate", None) or "").startswith("42"):
        return True
    if getattr(origin, "sqlite_errorname", None) == "SQLITE_ERROR":
        return True
    arguments: tuple[object, ...] = getattr(origin, "args", ())
    return bool(arguments) and arguments[0] in _OTHER_TABLE_MYSQL
