"""The tables that the sink writes: what they have, and creating and widening them where that is allowed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateColumn, CreateTable
from sqlalchemy.types import TypeEngine

from ottla.connect import ConnectError
from ottla.connectors.jdbc.dialects import Dialect
from ottla.connectors.jdbc.sink_shapes import UNKNOWN, TableField
from ottla.connectors.jdbc.sink_types import column_type, default_clause
from ottla.connectors.jdbc.tables import TableName

__all__ = ["SinkTable", "SinkTables", "parse_table_name"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table that is there: its columns with their types, and the names that cast to them."""

    name: TableName
    types: Mapping[str, TypeEngine[Any]]
    casts: Mapping[str, str]
    """PostgreSQL's names of the columns' types, without lengths; empty elsewhere."""

    keys: tuple[str, ...]
    merging: frozenset[str] = frozenset()
    """Columns whose collation takes different texts for one, where that is asked for."""

    def column(self, field: str) -> str | None:
        """Return the column of a field: of the same name, or the only one that differs by case alone."""
        if field in self.types:
            return field
        found = [each for each in self.types if each.lower() == field.lower()]
        return found[0] if len(found) == 1 else None


def parse_table_name(text: str, *, has_schemas: bool) -> TableName:
    """Return the name that a text says: `schema.table`, either of them in double quotes where it has dots."""
    parts: list[str] = []
    rest = text
    while rest:
        if rest.startswith('"') and '"' in rest[1:]:
            part, _, rest = rest[1:].partition('"')
            rest = rest.removeprefix(".")
        else:
            part, _, rest = rest.partition(".")
        parts.append(part)
    if not has_schemas:
        return TableName(None, text.replace('"', ""))
    return TableName(parts[-2] if len(parts) > 1 else None, parts[-1] if parts else text)


class SinkTables:
    """What is known of the tables, on one database."""

    def __init__(self, dialect: Dialect, *, create: bool, evolve: bool, types: Sequence[str] = ("TABLE",)) -> None:
        self.dialect, self.create, self.evolve = dialect, create, evolve
        self.kinds = {each.upper() for each in types}
        self._known: dict[TableName, SinkTable] = {}

    def forget(self) -> None:
        """Look at every table again when it is next written."""
        self._known.clear()

    def find(self, connection: Connection, name: TableName) -> SinkTable | None:
        """Return a table, None where it is not there; raises ConnectError for one of another kind."""
        known = self._known.get(name)
        if known is None:
            known = self._look(connection, name)
            if known is not None:
                self._known[name] = known
        return known

    def ready(self, connection: Connection, name: TableName, fields: Sequence[TableField]) -> SinkTable:
        """Return a table that has a column for every field, made or widened if need be; raises ConnectError."""
        table = self.find(connection, name)
        wanted = [each for each in fields if each.schema != UNKNOWN]
        if table is None:
            self._create(connection, name, wanted)
        else:
            missing = [each for each in wanted if table.column(each.name) is None]
            if not missing:
                return table
            self._widen(connection, table, missing)
        self._known.pop(name, None)
        found = self.find(connection, name)
        if found is None:
            raise ConnectError(f"Table {name} was created, and is not there")
        return found

    def _look(self, connection: Connection, name: TableName) -> SinkTable | None:
        inspector = sa.inspect(connection)
        table = self._spelled(inspector, name)
        if table is None:
            return None
        columns = self.dialect.columns(connection, table.schema, table.table)
        keys = inspector.get_pk_constraint(table.table, table.schema)["constrained_columns"]
        types = {each["name"]: each["type"] for each in columns}
        where = (connection, table.schema, table.table)
        return SinkTable(
            table, types, self.dialect.cast_names(*where), tuple(keys), self.dialect.merging_columns(*where)
        )

    def _spelled(self, inspector: sa.Inspector, name: TableName) -> TableName | None:
        """Return the name as the database has it, which may be in another case."""
        if inspector.has_table(name.table, name.schema):
            views = inspector.get_view_names(name.schema)
            kind = "VIEW" if name.table in views else "TABLE"
            if kind not in self.kinds:
                raise ConnectError(
                    f"{name} is a {kind.lower()}, and table.types allows {', '.join(sorted(self.kinds))}"
                )
            return name
        if self.dialect.quotes:
            return None
        listed = inspector.get_table_names(name.schema) if "TABLE" in self.kinds else []
        listed += inspector.get_view_names(name.schema) if "VIEW" in self.kinds else []
        found = [each for each in listed if each.lower() == name.table.lower()]
        return TableName(name.schema, found[0]) if len(found) == 1 else None

    def _create(self, connection: Connection, name: TableName, fields: Sequence[TableField]) -> None:
        if not self.create:
            raise ConnectError(f"Table {name} is not there: create it, or set auto.create=true")
        columns = [self._column(each) for each in fields]
        quote = self.dialect.quotes
        schema = None if name.schema is None else sa.quoted_name(name.schema, quote)
        table = sa.Table(sa.quoted_name(name.table, quote), sa.MetaData(), *columns, schema=schema)
        connection.execute(CreateTable(table))
        log.info("Created table %s with %s", name, ", ".join(each.name for each in fields))

    def _widen(self, connection: Connection, table: SinkTable, missing: Sequence[TableField]) -> None:
        listed = ", ".join(each.name for each in missing)
        if not self.evolve:
            raise ConnectError(f"Table {table.name} has no column {listed}: add it, or set auto.evolve=true")
        refused = [each.name for each in missing if not each.schema.optional and each.schema.default is None]
        if refused:
            raise ConnectError(
                f"Column {', '.join(refused)} cannot be added to table {table.name}: its field is neither optional nor has "
                "a default, and the rows that are there would have no value"
            )
        named = self.dialect.named(table.name.schema, table.name.table)
        for each in missing:
            written = CreateColumn(self._column(each)).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {named} ADD {written}")
        log.info("Added %s to table %s", listed, table.name)

    def _column(self, field: TableField) -> sa.Column[Any]:
        return sa.Column(
            sa.quoted_name(field.name, self.dialect.quotes),
            column_type(field.schema, self.dialect.name, is_key=field.is_key),
            primary_key=field.is_key,
            autoincrement=False,
            nullable=field.nullable,
            server_default=None if field.is_key else default_clause(field.schema, self.dialect.name),
        )
