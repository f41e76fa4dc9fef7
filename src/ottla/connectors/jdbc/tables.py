"""Tables: which of a database's are meant, and what they look like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ottla.base import ConfigError
from ottla.connect import ConnectError
from ottla.connectors.jdbc.column_types import Column, TypeMapping
from ottla.connectors.jdbc.dialects import Dialect
from ottla.java import Wildcards, compile_java

__all__ = ["TableName", "TableShape", "duplicated", "matching_tables", "reflected"]


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's name, with its schema where the database has schemas."""

    schema: str | None
    table: str

    def __str__(self) -> str:
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    def packed(self) -> list[str | None]:
        """Return it as plain values; `TableName(*packed)` is it again."""
        return [self.schema, self.table]


@dataclass(frozen=True, slots=True)
class TableShape:
    """What a table is made of, as far as reading it matters."""

    columns: tuple[Column, ...]
    types: Mapping[str, sa.types.TypeEngine[Any]]
    nullable: frozenset[str]
    counted: str | None
    """The column that the database counts up by itself."""


def matching_tables(connection: Connection, dialect: Dialect, settings: Mapping[str, Any]) -> list[TableName]:
    """Return the tables that a source's settings mean, in order; raises ConfigError for another database's catalog."""
    catalog = settings["catalog.pattern"]
    database = connection.engine.url.database
    if catalog and dialect.has_schemas and catalog != database:
        raise ConfigError("catalog.pattern", catalog, f"the database of connection.url, which is {database}")
    inspector = sa.inspect(connection)
    kinds = {each.upper() for each in settings["table.types"]}
    found: list[TableName] = []
    for schema in _schemas(inspector, dialect, settings["schema.pattern"]):
        names = list(inspector.get_table_names(schema)) if "TABLE" in kinds else []
        names += inspector.get_view_names(schema) if "VIEW" in kinds else []
        if hasattr(inspector, "get_materialized_view_names") and "VIEW" in kinds and dialect.name == "postgresql":
            names += inspector.get_materialized_view_names(schema)
        found += [TableName(schema, each) for each in names]
    return sorted((each for each in set(found) if _is_meant(each, settings)), key=str)


def _schemas(inspector: sa.Inspector, dialect: Dialect, pattern: str | None) -> list[str | None]:
    if not pattern:
        return [dialect.default_schema(inspector)]
    wanted = Wildcards(pattern)
    return [each for each in dialect.user_schemas(inspector) if each is None or wanted.matches(each)]


def _is_meant(name: TableName, settings: Mapping[str, Any]) -> bool:
    """Return whether the lists take a table in: by its name, or with its schema before it."""
    both = {name.table, str(name)}
    listed, expressions = settings["table.whitelist"], settings["table.include.list"]
    if (listed or expressions) and not (both & set(listed) or _matches(both, expressions)):
        return False
    return not (both & set(settings["table.blacklist"]) or _matches(both, settings["table.exclude.list"]))


def _matches(names: Iterable[str], expressions: Iterable[str]) -> bool:
    return any(compile_java(each).fullmatch(name) for each in expressions for name in names)


def duplicated(names: Iterable[TableName]) -> list[TableName]:
    """Return tables whose names differ by their schemas only: their rows would be mixed in one topic."""
    names = list(names)
    counted: dict[str, int] = {}
    for each in names:
        counted[each.table] = counted.get(each.table, 0) + 1
    return [each for each in names if counted[each.table] > 1]


def reflected(connection: Connection, name: TableName, mapping: TypeMapping) -> TableShape:
    """Return what a table is made of; raises ConnectError where it is not there."""
    inspector = sa.inspect(connection)
    try:
        found = mapping.dialect.columns(connection, name.schema, name.table)
    except sa.exc.NoSuchTableError as error:
        raise ConnectError(f"There is no table {name}") from error
    if not found:
        raise ConnectError(f"There is no table {name}")
    keys = set(inspector.get_pk_constraint(name.table, name.schema)["constrained_columns"])
    types = {each["name"]: each["type"] for each in found}
    nullable = {each["name"] for each in found if each["nullable"] and each["name"] not in keys}
    columns = tuple(
        mapping.column(each["name"], each["type"], optional=each["name"] in nullable, default=each.get("default"))
        for each in found
    )
    rows_are_numbered = mapping.dialect.name == "sqlite"
    return TableShape(columns, types, frozenset(nullable), _counted(found, keys if rows_are_numbered else set()))


def _counted(columns: Iterable[Any], keys: set[str]) -> str | None:
    """Return the column that is an identity, a serial, or SQLite's own number of rows."""
    integers = [each for each in columns if isinstance(each["type"], sa.Integer)]
    for each in integers:
        if each.get("identity") or each.get("autoincrement") is True or "nextval(" in str(each.get("default") or ""):
            return str(each["name"])
    sole = [each["name"] for each in integers if keys == {each["name"]} and type(each["type"]) is sa.INTEGER]
    return str(sole[0]) if sole else None
