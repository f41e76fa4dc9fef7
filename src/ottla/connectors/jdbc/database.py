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

__all__ = ["Database", "UnreachableError", "open_database", "passes_by_itself", "reason_of"]

log = logging.getLogger(__name__)

CONNECT_SECONDS_MAX = 10
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
    """One database and how it is spoken to. `shown` is its URL without the password."""

    def __init__(self, engine: Engine, dialect: Dialect, *, attempts: int, backoff_ms: int) -> None:
        self.engine, self.dialect = engine, dialect
        self.attempts, self.backoff_ms = attempts, backoff_ms
        self.shown = engine.url.render_as_string(hide_password=True)

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
    """Return whether trying again may help: a lost connection, a deadlock, a lock, a server that starts."""
    if isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, UnreachableError | sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.TimeoutError)


def reason_of(error: BaseException) -> str:
    """Return the database's own words, without the statement, its values and the rows that it quotes."""
    origin = getattr(error, "orig", None) or error
    primary = getattr(getattr(origin, "diag", None), "message_primary", None)
    return " ".join(str(primary or origin).split()) or type(origin).__name__
