"""Which tables a statement gives other names, whether or not the rest of it is understood, or the tables are known. Pure.

A table that is refused stays so under its other name, and what is made under its old one is another table.
"""

from __future__ import annotations

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.ddl_words import DdlError, Words, skip_settings

__all__ = ["renames_of"]


def renames_of(statement: str, database: str, sql_mode: int = 0) -> list[tuple[TableId, TableId]]:
    """Return each name with the one in its place, in their order; `database` is the one in use, `sql_mode` the session's.

    Names of views are among them.
    """
    words = Words(statement, sql_mode)
    if words.takes("SET", "STATEMENT"):
        skip_settings(words)
    found: list[tuple[TableId, TableId]] = []
    try:
        if words.takes("RENAME", "TABLE") or words.takes("RENAME", "TABLES"):
            _take_all(words, database, found)
        elif words.takes("ALTER"):
            _take_altered(words, database, found)
    except DdlError:
        pass  # what came before it is known
    return found


def _name(words: Words, database: str) -> TableId:
    first = words.name()
    return TableId(first, words.name()) if words.takes(".") else TableId(database, first)


def _named(words: Words, database: str) -> TableId:
    """Take the name of what is altered, with how long is waited for it."""
    words.takes("IF", "EXISTS")
    name = _name(words, database)
    if words.takes("WAIT"):
        words.next()
    words.takes("NOWAIT")
    return name


def _take_all(words: Words, database: str, found: list[tuple[TableId, TableId]]) -> None:
    is_more = True
    while is_more:
        name = _named(words, database)
        words.expect("TO")
        found.append((name, _name(words, database)))
        is_more = words.takes(",")


def _take_altered(words: Words, database: str, found: list[tuple[TableId, TableId]]) -> None:
    while words.takes_any("ONLINE", "OFFLINE", "IGNORE"):
        pass
    if not words.takes("TABLE"):
        return
    name, is_part = _named(words, database), True
    while not words.is_over:
        if is_part and words.takes("RENAME") and not any(words.sees(each) for each in ("COLUMN", "INDEX", "KEY")):
            words.takes_any("TO", "AS", "=")
            found.append((name, _name(words, database)))
            return
        is_part = words.sees(",")
        if words.sees("("):
            words.skip_brackets()
        else:
            words.next()
