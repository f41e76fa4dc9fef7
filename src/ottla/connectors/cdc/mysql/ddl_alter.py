"""What the parts of one `ALTER TABLE` make of a table together, as the server resolves them. Pure.

Names of columns in a part are those from before the statement, and those behind `AFTER` from behind it: so names can be
swapped. First the old columns are taken in their order, dropped or as they become; then new ones, and those that move, in
the order of the parts; then old keys with their columns' new names, and new keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ottla.connectors.cdc.mysql.ddl_columns import ColumnDefinition, KeyDefinition, converted, settled
from ottla.connectors.cdc.mysql.ddl_words import DdlError
from ottla.connectors.cdc.mysql.tables import SqlColumn, SqlTable

__all__ = ["Alteration", "altered", "with_key"]


@dataclass
class Alteration:
    """The parts of a statement; names of what is there already are in small letters."""

    definitions: list[tuple[str | None, ColumnDefinition, bool]] = field(default_factory=list)
    """Columns, each with the one that it replaces, None of a new one; and whether it may be there already."""
    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str | None] = field(default_factory=dict)
    keys: list[KeyDefinition] = field(default_factory=list)
    dropped_keys: set[str] = field(default_factory=set)
    renamed_keys: dict[str, str] = field(default_factory=dict)
    drops_primary: bool = False
    charset: str | None = None
    is_converted: bool = False
    drops_versions: bool = False


def altered(table: SqlTable, parts: Alteration) -> SqlTable:
    """Return a table behind a statement; raises DdlError for what the server would not have run."""
    charset = parts.charset or table.charset
    known = {each.name.lower() for each in table.columns}
    changes = {old: found for old, found, _ in parts.definitions if old is not None}
    columns: list[SqlColumn] = []
    names: dict[str, str | None] = {}
    """The names of old columns now; None where one is gone."""
    for each in table.columns:
        name = each.name.lower()
        new = _changed(each, name, parts, changes, table, charset)
        names[name] = None if new is None else new.name
        if new is not None and not _moves(changes.get(name)):
            columns.append(new)
    for old, found, is_kept in parts.definitions:
        name = found.column.name.lower()
        if old is None and is_kept and (name in known or any(name == each.name.lower() for each in columns)):
            continue
        if old is not None and (old not in known or not _moves(found)):
            continue
        columns.insert(_place(columns, found), _column(found, table, old, charset))
    return _with_keys(replace(table, columns=tuple(columns), charset=charset), parts, names)


def _moves(found: ColumnDefinition | None) -> bool:
    return found is not None and (found.is_first or found.after is not None)


def _changed(
    column: SqlColumn,
    name: str,
    parts: Alteration,
    changes: dict[str, ColumnDefinition],
    table: SqlTable,
    charset: str | None,
) -> SqlColumn | None:
    """Return what becomes of an old column, None where it is dropped."""
    if name in parts.dropped:
        return None
    if (found := changes.get(name)) is not None:
        return _column(found, table, name, charset)
    if name in parts.defaults:
        column = replace(column, default=parts.defaults[name])
    if parts.is_converted and charset is not None:
        column = replace(column, type=converted(column.type, charset))
    return replace(column, name=parts.renamed.get(name, column.name))


def _column(found: ColumnDefinition, table: SqlTable, old: str | None, charset: str | None) -> SqlColumn:
    column = settled(found, charset).column
    is_key = old is not None and any(each.lower() == old for each in table.primary)
    return replace(column, is_required=True) if is_key else column


def _place(columns: list[SqlColumn], found: ColumnDefinition) -> int:
    if found.is_first:
        return 0
    if found.after is None:
        return len(columns)
    wanted = found.after.lower()
    at = next((at for at, each in enumerate(columns) if each.name.lower() == wanted), None)
    if at is None:
        raise DdlError(f"Column {found.after} is not known")
    return at + 1


def _with_keys(table: SqlTable, parts: Alteration, names: dict[str, str | None]) -> SqlTable:
    def now(columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(new for each in columns if (new := names.get(each.lower(), each)) is not None)

    unique = tuple(
        (parts.renamed_keys.get(name.lower(), name), left)
        for name, columns in table.unique
        if name.lower() not in parts.dropped_keys and (left := now(columns))
    )
    is_dropped = parts.drops_primary or "primary" in parts.dropped_keys
    end = None if table.row_end is None or parts.drops_versions else now([table.row_end])
    table = replace(
        table, primary=() if is_dropped else now(table.primary), unique=unique, row_end=end[0] if end else None
    )
    added = {each.column.name.lower() for old, each, _ in parts.definitions if old is None}
    for _, found, is_kept in parts.definitions:
        if is_kept and found.column.name.lower() in names and found.column.name.lower() in added:
            continue
        for key in found.keys:
            table = with_key(table, key)
    for key in parts.keys:
        table = with_key(table, key)
    return table


def with_key(table: SqlTable, key: KeyDefinition) -> SqlTable:
    """Return a table with one more key; one whose name is there stays."""
    if key.kind == "PRIMARY":
        parts = {each.lower() for each in key.columns}
        columns = tuple(
            replace(each, is_required=True) if each.name.lower() in parts else each for each in table.columns
        )
        return replace(table, primary=key.columns, columns=columns)
    if key.kind == "PERIOD" and key.columns:
        return replace(table, row_end=key.columns[-1])
    if key.kind == "UNIQUE" and key.columns:
        return replace(table, unique=(*table.unique, (key.name, key.columns)))
    return table
