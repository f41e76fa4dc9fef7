"""What a statement does to tables: `CREATE`, `ALTER`, `DROP`, `RENAME` and `TRUNCATE` followed over the tables known. Pure.

The server has run the statement already, so that it is well formed. What says nothing of columns and keys is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.ddl_alter import Alteration, altered, with_key
from ottla.connectors.cdc.mysql.ddl_columns import (
    ColumnDefinition,
    KeyDefinition,
    charset_clause,
    charset_of_collation,
    column_definition,
    column_name,
    default_value,
    key_columns,
    key_definition,
    settled,
    skip_clause,
)
from ottla.connectors.cdc.mysql.ddl_words import DdlError, Words, is_about_database, skip_settings
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables
from ottla.connectors.cdc.refused import Refused

__all__ = ["Effect", "TableChange", "follow", "forget_gone", "note_charset"]

_CHARSET: Final = re.compile(r"(?:CHARACTER\s+SET|CHARSET)\s*(?:=\s*)?(\w+)|COLLATE\s*(?:=\s*)?(\w+)", re.I)


@dataclass(frozen=True, slots=True)
class TableChange:
    """What became of a table: CREATE, ALTER, DROP or TRUNCATE; `table` is as it is behind the statement."""

    kind: str
    id: TableId
    table: SqlTable | None = None
    previous: TableId | None = None
    is_new: bool = False
    """Whether it was made, and what there was under its name before is gone."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement has changed; `database` is the one that it was about."""

    database: str
    changes: tuple[TableChange, ...] = ()
    is_ddl: bool = True
    """Whether it is a statement that belongs into the schema history."""
    is_database_gone: bool = False
    """Whether the database was dropped, and all tables with it."""


def follow(statement: str, database: str, tables: Tables, charsets: Mapping[str, str], sql_mode: int = 0) -> Effect:
    """Apply a statement to the tables; `database` is the one in use, `charsets` those of databases, of the server under ''.

    `sql_mode` is the session's, as the binlog has it: how it quotes. Raises DdlError where a statement about tables is not
    understood.
    """
    words = Words(statement, sql_mode)
    if words.takes("SET", "STATEMENT"):
        skip_settings(words)
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


def forget_gone(effect: Effect, refused: Refused) -> None:
    """Forget refused tables that a statement has dropped."""
    if effect.is_database_gone:
        refused.dropped_schema(effect.database)
    for change in effect.changes:
        if change.kind == "DROP":
            refused.dropped(change.id)


def note_charset(statement: str, database: str, charsets: dict[str, str]) -> None:
    """Take in which character set a statement about a database gives it; the server's own is that of the name ""."""
    if not is_about_database(statement):
        return
    found = _CHARSET.search(statement)
    charset = None if found is None else found[1] or charset_of_collation(found[2])
    if charset is not None:
        charsets[database] = charsets[""] if charset.lower() == "default" else charset.lower()
    elif database not in charsets:
        charsets[database] = charsets[""]


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
        if words.takes("SEQUENCE"):
            words.takes("IF", "NOT", "EXISTS")
            name = self.table_name()
            self._tables[name] = SqlTable(name, (), is_sequence=True)
            return Effect(name.schema)
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
            return self._changed("CREATE", model.named(name), is_new=not is_kept)
        items = self._items() if words.takes("(") else []
        charset, comment, is_sequence = self._charset_of(name), None, False
        while not words.is_over:
            if words.takes("COMMENT"):
                words.takes("=")
                comment = words.next().value
            elif (own := charset_clause(words)) is not None:
                charset = self._resolved(own, name) or charset
            elif words.takes("SEQUENCE"):
                words.takes("=")
                is_sequence = words.next().text == "1"
            elif words.sees("("):
                words.skip_brackets()
            else:
                words.next()
        columns = [settled(each, charset) for each in items if isinstance(each, ColumnDefinition)]
        table = SqlTable(name, tuple(each.column for each in columns), charset=charset, comment=comment)
        for each in items:
            for key in (each,) if isinstance(each, KeyDefinition) else each.keys:
                table = with_key(table, key)
        return self._changed("CREATE", replace(table, is_sequence=is_sequence), is_new=not is_kept)

    def _charset_of(self, table: TableId) -> str | None:
        """The character set of a table's database."""
        return self._charsets.get(table.schema, self._charsets.get(""))

    def _resolved(self, charset: str, table: TableId) -> str | None:
        """A character set that was named; None where nothing was said of one."""
        return self._charset_of(table) if charset == "default" else charset or None

    def _items(self) -> list[ColumnDefinition | KeyDefinition]:
        words = self._words
        found: list[ColumnDefinition | KeyDefinition] = []
        while not words.takes(")"):
            key = key_definition(words)
            found.append(column_definition(words) if key is None else key)
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
        return self._changed("ALTER", with_key(self._tables[name], KeyDefinition("UNIQUE", index, key_columns(words))))

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
            return Effect(database, is_database_gone=True)
        if words.takes("INDEX"):
            words.takes("IF", "EXISTS")
            index = words.name()
            words.expect("ON")
            name = self.table_name()
            if name not in self._tables:
                return Effect(name.schema)
            return self._changed("ALTER", altered(self._tables[name], Alteration(dropped_keys={index.lower()})))
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
            new = self.table_name()
            if name in self._tables:  # else a view, or one that was not there (IF EXISTS)
                found.append(self._moved(name, new))
            if not words.takes(","):
                break
        return Effect(found[0].id.schema if found else self._database, tuple(found))

    def _moved(self, name: TableId, new: TableId) -> TableChange:
        table = self._tables.pop(name).named(new)
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
        if name not in self._tables:
            return Effect(name.schema)  # a view or a sequence; or a table that is asked for where its rows come
        before, parts, new = self._tables[name], Alteration(), name
        while not words.is_over:
            new = self._part(parts, name) or new
            skip_clause(words)
            if not words.takes(",") and words.takes(")"):
                raise DdlError("A bracket closes that was not opened")
        table = altered(before, parts).named(new)
        if table == before:
            return Effect(name.schema, (TableChange("ALTER", name, table),))
        if new != name:
            del self._tables[name]
        self._tables[new] = table
        return Effect(new.schema, (TableChange("ALTER", new, table, None if new == name else name),))

    def _part(self, parts: Alteration, name: TableId) -> TableId | None:
        """Take one part; returns the table's new name where it has one."""
        words = self._words
        if words.takes("ADD"):
            self._added(parts)
        elif words.takes("DROP"):
            self._dropped(parts)
        elif (verb := words.takes_any("MODIFY", "CHANGE")) is not None:
            words.takes("COLUMN")
            words.takes("IF", "EXISTS")
            old = column_name(words) if verb == "CHANGE" else None
            found = column_definition(words)
            parts.definitions.append(((old or found.column.name).lower(), found, False))
        elif words.takes("ALTER"):
            self._defaulted(parts)
        elif words.takes("RENAME"):
            return self._renamed(parts)
        else:
            parts.is_converted |= words.takes("CONVERT", "TO")
            words.takes("DEFAULT")
            if (charset := charset_clause(words)) is not None:
                parts.charset = self._resolved(charset, name) or parts.charset
        return None

    def _added(self, parts: Alteration) -> None:
        words = self._words
        if words.sees("PARTITION") or words.sees("SYSTEM", "VERSIONING"):
            return
        if (key := key_definition(words)) is not None:
            parts.keys.append(key)
            return
        words.takes("COLUMN")
        is_kept = words.takes("IF", "NOT", "EXISTS")
        if not words.takes("("):
            parts.definitions.append((None, column_definition(words), is_kept))
            return
        while not words.takes(")"):
            if (key := key_definition(words)) is not None:
                parts.keys.append(key)
            else:
                parts.definitions.append((None, column_definition(words), is_kept))
            if not words.takes(",") and not words.sees(")"):
                raise DdlError(f"A definition ends with {words.peek().text!r}")

    def _dropped(self, parts: Alteration) -> None:
        words = self._words
        if words.takes("PRIMARY", "KEY"):
            parts.drops_primary = True
        elif words.takes_any("INDEX", "KEY", "CONSTRAINT"):
            words.takes("IF", "EXISTS")
            parts.dropped_keys.add(words.name().lower())
        elif words.takes("SYSTEM", "VERSIONING") or words.takes("PERIOD", "FOR"):
            parts.drops_versions = True
        elif not (words.sees("FOREIGN", "KEY") or words.sees("PARTITION") or words.sees("CHECK")):
            words.takes("COLUMN")
            words.takes("IF", "EXISTS")
            parts.dropped.add(column_name(words).lower())

    def _defaulted(self, parts: Alteration) -> None:
        words = self._words
        if words.sees("INDEX") or words.sees("CHECK") or words.sees("CONSTRAINT") or words.sees("KEY"):
            return
        words.takes("COLUMN")
        words.takes("IF", "EXISTS")
        name = column_name(words).lower()
        if words.takes("SET", "DEFAULT"):
            parts.defaults[name] = default_value(words)
        elif words.takes("DROP", "DEFAULT"):
            parts.defaults[name] = None

    def _renamed(self, parts: Alteration) -> TableId | None:
        words = self._words
        kind = words.takes_any("COLUMN", "INDEX", "KEY")
        if kind is None:
            words.takes_any("TO", "AS", "=")
            return self.table_name()
        words.takes("IF", "EXISTS")
        old = words.name().lower()
        words.expect("TO")
        (parts.renamed if kind == "COLUMN" else parts.renamed_keys)[old] = words.name()
        return None

    # -- tables

    def _known(self, name: TableId) -> SqlTable:
        found = self._tables.get(name)
        if found is None:
            raise DdlError(f"Table {name} is not known")
        return found

    def _changed(self, kind: str, table: SqlTable, *, is_new: bool = False) -> Effect:
        self._tables[table.id] = table
        return Effect(table.id.schema, (TableChange(kind, table.id, table, is_new=is_new),))
