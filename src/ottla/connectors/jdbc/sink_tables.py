"""The tables that the sink writes: what they have, and creating and widening them where that is allowed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
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

    unique: frozenset[tuple[str, ...]] = frozenset()
    """The columns of each unique key, in the alphabet's order, where an upsert cannot say which one it means."""

    def column(self, field: str) -> str | None:
        """Return the column of a field: of the same name, or the only one that differs by case alone."""
        if field in self.types:
            return field
        found = [each for each in self.types if each.lower() == field.lower()]
        return found[0] if len(found) == 1 else None


def parse_table_name(text: str, dialect: Dialect) -> TableName:
    """Return the name that a text says: `schema.table`, each in double quotes where it has dots.

    Three parts are `database.schema.table`, of the one database that is connected to. Raises ConnectError for a text that
    is no name, or names what there is not: none of its parts is left out.
    """
    if not dialect.has_schemas:
        return TableName(None, text.replace('"', ""))
    parts = _parts(text)
    if len(parts) == 3 and dialect.has_catalogs and parts[0] == dialect.database:
        del parts[0]
    if len(parts) > 2:
        known = f"{dialect.database}.schema.table" if dialect.has_catalogs else "schema.table"
        raise ConnectError(
            f"{text} is the name of no table here: it has {len(parts)} parts, and this database knows {known}. Put what is "
            'one name in double quotes (table.name.format="${topic}"), or change the topic\'s name (RegexRouter)'
        )
    return TableName(parts[0] if len(parts) > 1 else None, parts[-1])


def _parts(text: str) -> list[str]:
    """Return the parts of a name, without their quotes; raises ConnectError where it is none."""
    parts: list[str] = []
    rest = f".{text}"
    while rest:
        found = _PART.match(rest)
        if found is None:
            raise ConnectError(
                f"{text} is the name of no table: names with dots between them were expected, each in double quotes or "
                "without any"
            )
        parts.append(found["quoted"] if found["plain"] is None else found["plain"])
        rest = rest[found.end() :]
    return parts


_PART = re.compile(r'\.(?:"(?P<quoted>[^"]+)"|(?P<plain>[^".]+))')


class SinkTables:
    """What is known of the tables, on one database."""

    def __init__(self, dialect: Dialect, *, create: bool, evolve: bool, types: Sequence[str] = ("TABLE",)) -> None:
        self.dialect, self.create, self.evolve = dialect, create, evolve
        self.kinds = {each.upper() for each in types}
        self._known: dict[TableName, SinkTable] = {}
        self._definitions: dict[TableName, Any] = {}

    def forget(self) -> None:
        """Look at every table again when it is next written."""
        self._known.clear()
        self._definitions.clear()

    def known(self, name: TableName) -> SinkTable | None:
        """Return a table as it was last looked at, None where it was not."""
        return self._known.get(name)

    def altered(self, connection: Connection, names: Iterable[TableName]) -> list[TableName]:
        """Return which of these tables somebody has changed since they were looked at.

        A transaction that has written a table holds it, so that what is found after that is so until its end.
        """
        found = []
        for each in names:
            known = self._known.get(each)
            if known is not None and self._defined(connection, known.name) != self._definitions.get(each):
                found.append(each)
        return found

    def _defined(self, connection: Connection, name: TableName) -> Any:
        return self.dialect.definition(connection, name.schema, name.table)

    def find(self, connection: Connection, name: TableName) -> SinkTable | None:
        """Return a table, None where it is not there; raises ConnectError for one of another kind."""
        known = self._known.get(name)
        if known is None:
            inspector = sa.inspect(connection)
            spelled = self._spelled(inspector, name)
            if spelled is None:
                return None
            self._definitions[name] = self._defined(connection, spelled)  # first: what changes meanwhile shows
            known = self._known[name] = self._look(connection, inspector, spelled)
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

    def _look(self, connection: Connection, inspector: sa.Inspector, table: TableName) -> SinkTable:
        columns = self.dialect.columns(connection, table.schema, table.table)
        keys = inspector.get_pk_constraint(table.table, table.schema)["constrained_columns"]
        types = {each["name"]: each["type"] for each in columns}
        where = (connection, table.schema, table.table)
        casts, merging = self.dialect.cast_names(*where), self.dialect.merging_columns(*where)
        return SinkTable(table, types, casts, tuple(keys), merging, self.dialect.unique_keys(*where))

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
