"""The keys that the JDBC source and sink share: where the database is, who asks, and how often it is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import ConfigDef, Importance, Width, validators

__all__ = ["Key", "adder", "connection_keys", "time_zone_rule"]

DATABASE = "Database"

Key = Callable[..., None]
"""Adds a key to a definition: name, type, default, what it is for, and how a form shows it."""


def adder(definition: ConfigDef, group: str) -> Key:
    """Return a function that adds keys to one group, in order."""
    order = 0

    def add(
        name: str,
        type_: ConfigType,
        default: Any,
        doc: str,
        *,
        title: str,
        importance: Importance = Importance.MEDIUM,
        width: Width = Width.MEDIUM,
        validator: validators.Validator | None = None,
    ) -> None:
        nonlocal order
        order += 1
        definition.define(
            name,
            type_,
            default,
            importance=importance,
            doc=doc,
            validator=validator,
            group=group,
            order=order,
            width=width,
            display_name=title,
        )

    return add


def time_zone_rule(name: str, value: Any) -> None:
    """Refuse what is no time zone's name; raises ConfigError."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise ConfigError(name, value, "a time zone such as UTC or Europe/Vienna") from error


def connection_keys(definition: ConfigDef, required: Any) -> None:
    """Add the keys of the group `Database`."""
    add = adder(definition, DATABASE)
    add(
        "connection.url",
        ConfigType.STRING,
        required,
        "Where the database is: a JDBC URL (jdbc:postgresql://host:5432/db, jdbc:sqlite:/path/file.db, "
        "jdbc:mysql://host/db) or one of SQLAlchemy (postgresql+psycopg://host/db). User and password belong into "
        "keys of their own.",
        title="JDBC URL",
        importance=Importance.HIGH,
        width=Width.LONG,
        validator=validators.Lambda(_url_rule, "a JDBC or SQLAlchemy URL"),
    )
    add(
        "connection.user",
        ConfigType.STRING,
        None,
        "The database's user.",
        title="JDBC user",
        importance=Importance.HIGH,
    )
    add(
        "connection.password",
        ConfigType.PASSWORD,
        None,
        "That user's password. It is shown nowhere.",
        title="JDBC password",
        importance=Importance.HIGH,
    )
    add(
        "connection.attempts",
        ConfigType.INT,
        3,
        "How often connecting is tried before it counts as failed.",
        title="JDBC connection attempts",
        importance=Importance.LOW,
        validator=validators.Range(least=1),
    )
    add(
        "connection.backoff.ms",
        ConfigType.LONG,
        10_000,
        "How long to wait between two attempts to connect, in milliseconds.",
        title="JDBC connection backoff",
        importance=Importance.LOW,
        validator=validators.Range(least=0),
    )
    _dialect_keys(add)


def _dialect_keys(add: Key) -> None:
    add(
        "dialect.name",
        ConfigType.STRING,
        "",
        "The database's kind, for where the URL does not say it: PostgreSqlDatabaseDialect, SqliteDatabaseDialect, "
        "MySqlDatabaseDialect or SQLAlchemy's own name (postgresql). It must be the URL's.",
        title="Database dialect",
        importance=Importance.LOW,
    )
    add(
        "quote.sql.identifiers",
        ConfigType.STRING,
        "always",
        "Whether names of tables and columns are quoted in statements: always, or never, which leaves their case to "
        "the database.",
        title="Quote identifiers",
        validator=validators.CaseInsensitiveValidString("always", "never"),
    )
    add(
        "db.timezone",
        ConfigType.STRING,
        "UTC",
        "The time zone in which the database keeps times without a zone.",
        title="DB time zone",
        validator=validators.Lambda(time_zone_rule, "a time zone"),
    )


def _url_rule(name: str, value: Any) -> None:
    """Refuse an empty URL; what is inside is read once SQLAlchemy is there."""
    if isinstance(value, str) and not value.strip():
        raise ConfigError(name, value, "a JDBC or SQLAlchemy URL, such as jdbc:postgresql://host:5432/db")


def typed(definition: ConfigDef, props: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed values of a task's configuration, of which the worker adds keys that are none of ours."""
    return definition.parse({key: value for key, value in props.items() if key in definition.keys})
