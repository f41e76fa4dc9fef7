"""What a statement does to tables: `CREATE`, `ALTER`, `DROP`, `RENAME` and `TRUNCATE` followed over the tables known. Pure.

The server has run the statement already, so that it is well formed. What says nothing of columns and keys is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.ddl_columns import (
    ColumnDefinition,
    KeyDefinition,
    charset_clause,
    column_definition,
    default_value,
    key_columns,
    key_definition,
    skip_clause,
)
from ottla.connectors.cdc.mysql.ddl_words import DdlError, Words
from ottla.connectors.cdc.mysql.tables import SqlColumn, SqlTable, Tables

__all__ = ["Effect", "TableChange", "follow"]


@dataclass(frozen=True, slots=True)
class TableChange:
    """What became of a table: CREATE, ALTER, DROP or TRUNCATE; `table` is as it is behind the statement."""

    kind: str
    id: TableId
    table: SqlTable | None = None
    previous: TableId | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement has changed; `database` is the one that it was about."""

    database: str
    changes: tuple[TableChange, ...] = ()
    is_ddl: bool = True
    """Whether it is a statement that belongs into the schema history."""


def follow(statement: str, database: str, tables: Tables, charsets: Mapping[str, str]) -> Effect:
    """Apply a statement to the tables; `database` is the one in use, `charsets` those of databases, of the server under ''.

    Raises DdlError where a statement about tables is not understood.
    """
    words = Words(statement)
    statement_of = _Statement(words, database, tables, charsets)
    if words.takes("CREATE"):
        return statement_of.create()
    if words.takes("ALTER"):
        return statement_of.alter()
    if words.takes("DROP"):
        return statement_of.drop()
    if words.takes("RENAME", "TABLE") or words.takes("RENAME", "TABLES"):
        return statement_of.rename()
    if words.takes("TRUNCATE"):
        words.takes("TABLE")
        name = statement_of.table_name()
        return Effect(name.schema, (TableChange("TRUNCATE", name, tables.get(name)),))
    return Effect(database, is_ddl=False)


class _Statement:
    def __init__(self, words: Words, database: str, tables: Tables, charsets: Mapping[str, str]) -> None:
        self._words, self._database, self._tables, self._charsets = words, database, tables, charsets

    def table_name(self) -> TableId:
        first = self._words.name()
        return TableId(first, self._words.name()) if self._words.takes(".") else TableId(self._database, first)

    # -- CREATE

    def create(self) -> Effect:
        words = self._words
        words.takes("OR", "REPLACE")
        if words.takes("TEMPORARY"):
            return Effect(self._database, is_ddl=False)
        if words.takes("TABLE"):
            return self._create_table()
        if words.takes_any("DATABASE", "SCHEMA"):
            words.takes("IF", "NOT", "EXISTS")
            return Effect(words.name())
        is_unique = words.takes("UNIQUE")
        words.takes_any("ONLINE", "OFFLINE", "FULLTEXT", "SPATIAL")
        if words.takes("INDEX"):
            return self._create_index(is_unique=is_unique)
        return Effect(self._database, is_ddl=False)

    def _create_table(self) -> Effect:
        words = self._words
        is_kept = words.takes("IF", "NOT", "EXISTS")
        name = self.table_name()
        if is_kept and name in self._tables:
            return Effect(name.schema)
        is_bracketed = words.sees("(", "LIKE") and words.takes("(")
        if words.takes("LIKE"):
            model = self._known(self.table_name())
            words.takes(")")
            del is_bracketed
            return self._changed("CREATE", model.named(name))
        items = self._items() if words.takes("(") else []
        charset, comment = self._charsets.get(name.schema, self._charsets.get("")), None
        while not words.is_over:
            if words.takes("COMMENT"):
                words.takes("=")
                comment = words.next().value
            elif (own := charset_clause(words)) is not None:
                charset = own
            elif words.sees("("):
                words.skip_brackets()
            else:
                words.next()
        table = SqlTable(name, (), charset=charset, comment=comment)
        for each in items:
            table = (
                _with_key(table, each) if isinstance(each, KeyDefinition) else _with_column(table, _in(each, charset))
            )
        return self._changed("CREATE", table)

    def _items(self) -> list[ColumnDefinition | KeyDefinition]:
        words = self._words
        found: list[ColumnDefinition | KeyDefinition] = []
        while not words.takes(")"):
            key = key_definition(words)
            found.append(column_definition(words, None) if key is None else key)
            if not words.takes(",") and not words.sees(")"):
                raise DdlError(f"A definition ends with {words.peek().text!r}")
        return found

    def _create_index(self, *, is_unique: bool) -> Effect:
        words = self._words
        words.takes("IF", "NOT", "EXISTS")
        index = words.name()
        while not words.takes("ON"):
            words.next()
            if words.is_over:
                raise DdlError("An index is on no table")
        name = self.table_name()
        if not is_unique or name not in self._tables:
            return Effect(name.schema)
        return self._changed("ALTER", _with_key(self._tables[name], KeyDefinition("UNIQUE", index, key_columns(words))))

    # -- DROP, RENAME

    def drop(self) -> Effect:
        words = self._words
        if words.takes("TEMPORARY"):
            return Effect(self._database, is_ddl=False)
        if words.takes_any("TABLE", "TABLES"):
            words.takes("IF", "EXISTS")
            found = []
            while not words.is_over:
                name = self.table_name()
                self._tables.pop(name, None)
                found.append(TableChange("DROP", name))
                if not words.takes(","):
                    break
            return Effect(found[0].id.schema if found else self._database, tuple(found))
        if words.takes_any("DATABASE", "SCHEMA"):
            words.takes("IF", "EXISTS")
            database = words.name()
            for each in self._tables.of_database(database):
                del self._tables[each]
            return Effect(database)
        if words.takes("INDEX"):
            words.takes("IF", "EXISTS")
            index = words.name()
            words.expect("ON")
            name = self.table_name()
            if name not in self._tables:
                return Effect(name.schema)
            return self._changed("ALTER", _without_index(self._tables[name], index))
        return Effect(self._database, is_ddl=False)

    def rename(self) -> Effect:
        words = self._words
        words.takes("IF", "EXISTS")
        found = []
        while not words.is_over:
            name = self.table_name()
            if words.takes("WAIT"):
                words.next()
            words.takes("NOWAIT")
            words.expect("TO")
            found.append(self._moved(name, self.table_name()))
            if not words.takes(","):
                break
        return Effect(found[0].id.schema, tuple(found))

    def _moved(self, name: TableId, new: TableId) -> TableChange:
        table = self._known(name).named(new)
        del self._tables[name]
        self._tables[new] = table
        return TableChange("ALTER", new, table, name)

    # -- ALTER

    def alter(self) -> Effect:
        words = self._words
        while words.takes_any("ONLINE", "OFFLINE", "IGNORE"):
            pass
        if words.takes_any("DATABASE", "SCHEMA"):
            return Effect(words.name() if not words.sees("CHARACTER") and not words.sees("DEFAULT") else self._database)
        if not words.takes("TABLE"):
            return Effect(self._database, is_ddl=False)
        words.takes("IF", "EXISTS")
        name = self.table_name()
        if words.takes("WAIT"):
            words.next()
        words.takes("NOWAIT")
        table = before = self._known(name)
        while not words.is_over:
            table = self._altered(table)
            skip_clause(words)
            if not words.takes(",") and words.takes(")"):
                raise DdlError("A bracket closes that was not opened")
        if table.id != name:
            del self._tables[name]
        previous = None if table.id == name else name
        if table == before:
            return Effect(name.schema, (TableChange("ALTER", name, table),))
        self._tables[table.id] = table
        return Effect(table.id.schema, (TableChange("ALTER", table.id, table, previous),))

    def _altered(self, table: SqlTable) -> SqlTable:
        """Take one specification."""
        words = self._words
        if words.takes("ADD"):
            return self._added(table)
        if words.takes("DROP"):
            return self._dropped(table)
        if words.takes("MODIFY"):
            words.takes("COLUMN")
            words.takes("IF", "EXISTS")
            found = column_definition(words, table.charset)
            return _replaced(table, found.column.name, found)
        if words.takes("CHANGE"):
            words.takes("COLUMN")
            words.takes("IF", "EXISTS")
            old = words.name()
            return _replaced(table, old, column_definition(words, table.charset))
        if words.takes("ALTER"):
            return self._defaulted(table)
        if words.takes("RENAME"):
            return self._renamed(table)
        if words.takes("CONVERT", "TO"):
            charset = charset_clause(words)
            columns = tuple(
                replace(each, type=replace(each.type, charset=charset))
                if each.type.is_text or each.type.values
                else each
                for each in table.columns
            )
            return replace(table, charset=charset, columns=columns)
        words.takes("DEFAULT")
        charset = charset_clause(words)
        return table if charset is None else replace(table, charset=charset)

    def _added(self, table: SqlTable) -> SqlTable:
        words = self._words
        if words.sees("PARTITION") or words.sees("SYSTEM", "VERSIONING"):
            return table
        key = key_definition(words)
        if key is not None:
            return _with_key(table, key)
        words.takes("COLUMN")
        words.takes("IF", "NOT", "EXISTS")
        if not words.takes("("):
            return _with_column(table, column_definition(words, table.charset))
        while not words.takes(")"):
            key = key_definition(words)
            table = (
                _with_column(table, column_definition(words, table.charset)) if key is None else _with_key(table, key)
            )
            words.takes(",")
        return table

    def _dropped(self, table: SqlTable) -> SqlTable:
        words = self._words
        if words.takes("PRIMARY", "KEY"):
            return replace(table, primary=())
        if words.takes_any("INDEX", "KEY", "CONSTRAINT"):
            words.takes("IF", "EXISTS")
            return _without_index(table, words.name())
        if words.sees("FOREIGN", "KEY") or words.sees("PARTITION") or words.sees("CHECK") or words.sees("SYSTEM"):
            return table
        words.takes("COLUMN")
        words.takes("IF", "EXISTS")
        name = words.name().lower()
        unique = tuple(
            (index, left)
            for index, columns in table.unique
            if (left := tuple(each for each in columns if each.lower() != name))
        )
        return replace(
            table,
            columns=tuple(each for each in table.columns if each.name.lower() != name),
            primary=tuple(each for each in table.primary if each.lower() != name),
            unique=unique,
        )

    def _defaulted(self, table: SqlTable) -> SqlTable:
        words = self._words
        if words.sees("INDEX") or words.sees("CHECK") or words.sees("CONSTRAINT") or words.sees("KEY"):
            return table
        words.takes("COLUMN")
        words.takes("IF", "EXISTS")
        name = words.name()
        if words.takes("SET", "DEFAULT"):
            default = default_value(words)
        elif words.takes("DROP", "DEFAULT"):
            default = None
        else:
            return table
        columns = tuple(
            replace(each, default=default) if each.name.lower() == name.lower() else each for each in table.columns
        )
        return replace(table, columns=columns)

    def _renamed(self, table: SqlTable) -> SqlTable:
        words = self._words
        if words.takes("COLUMN"):
            words.takes("IF", "EXISTS")
            old = words.name()
            words.expect("TO")
            return _with_name(table, old, words.name())
        if words.takes_any("INDEX", "KEY"):
            words.takes("IF", "EXISTS")
            old = words.name()
            words.expect("TO")
            new = words.name()
            unique = tuple((new if index.lower() == old.lower() else index, columns) for index, columns in table.unique)
            return replace(table, unique=unique)
        words.takes_any("TO", "AS", "=")
        return table.named(self.table_name())

    # -- tables

    def _known(self, name: TableId) -> SqlTable:
        found = self._tables.get(name)
        if found is None:
            raise DdlError(f"Table {name} is not known")
        return found

    def _changed(self, kind: str, table: SqlTable) -> Effect:
        self._tables[table.id] = table
        return Effect(table.id.schema, (TableChange(kind, table.id, table),))


def _in(found: ColumnDefinition, charset: str | None) -> ColumnDefinition:
    """Return a definition whose texts have the table's character set where they have none."""
    type_ = found.column.type
    if type_.charset is None and (type_.is_text or type_.values):
        return replace(found, column=replace(found.column, type=replace(type_, charset=charset)))
    return found


def _with_column(table: SqlTable, found: ColumnDefinition) -> SqlTable:
    """Return a table with one more column; one that is there stays (`IF NOT EXISTS`)."""
    name = found.column.name
    if any(each.name.lower() == name.lower() for each in table.columns):
        return table
    columns = list(table.columns)
    columns.insert(_place(columns, found, len(columns)), found.column)
    return _keyed(replace(table, columns=tuple(columns)), found)


def _replaced(table: SqlTable, old: str, found: ColumnDefinition) -> SqlTable:
    columns = list(table.columns)
    at = next((at for at, each in enumerate(columns) if each.name.lower() == old.lower()), None)
    if at is None:
        return table
    del columns[at]
    new = found.column
    if any(each.lower() == old.lower() for each in table.primary):
        new = replace(new, is_required=True)
    columns.insert(_place(columns, found, at), new)
    return _keyed(_with_name(replace(table, columns=tuple(columns)), old, new.name), found)


def _place(columns: list[SqlColumn], found: ColumnDefinition, otherwise: int) -> int:
    if found.is_first:
        return 0
    if found.after is None:
        return otherwise
    wanted = found.after.lower()
    at = next((at for at, each in enumerate(columns) if each.name.lower() == wanted), None)
    if at is None:
        raise DdlError(f"Column {found.after} is not known")
    return at + 1


def _keyed(table: SqlTable, found: ColumnDefinition) -> SqlTable:
    name = found.column.name
    if found.is_primary:
        return _with_key(table, KeyDefinition("PRIMARY", "", (name,)))
    return _with_key(table, KeyDefinition("UNIQUE", name, (name,))) if found.is_unique else table


def _with_key(table: SqlTable, key: KeyDefinition) -> SqlTable:
    if key.kind == "PRIMARY":
        parts = {each.lower() for each in key.columns}
        columns = tuple(
            replace(each, is_required=True) if each.name.lower() in parts else each for each in table.columns
        )
        return replace(table, primary=key.columns, columns=columns)
    if key.kind == "UNIQUE" and key.columns:
        return replace(table, unique=(*table.unique, (key.name, key.columns)))
    return table


def _without_index(table: SqlTable, index: str) -> SqlTable:
    if index.upper() == "PRIMARY":
        return replace(table, primary=())
    return replace(table, unique=tuple(each for each in table.unique if each[0].lower() != index.lower()))


def _with_name(table: SqlTable, old: str, new: str) -> SqlTable:
    """Return a table with a column's new name, in its keys too."""

    def named(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if each.lower() == old.lower() else each for each in names)

    columns = tuple(replace(each, name=new) if each.name.lower() == old.lower() else each for each in table.columns)
    unique = tuple((index, named(names)) for index, names in table.unique)
    return replace(table, columns=columns, primary=named(table.primary), unique=unique)
