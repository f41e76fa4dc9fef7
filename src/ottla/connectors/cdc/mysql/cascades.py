"""What foreign keys change (`ON DELETE CASCADE` and its like): servers do not write it into the binlog, and it is said.

Of which tables that may be is known by their definitions: it is said when reading begins, and behind each statement that may
have changed a foreign key. What a user may read of the server's own list of foreign keys depends on other rights than
`SELECT`. In a statement that removes or updates rows of a table, MariaDB maps those that its foreign keys may change, too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Final

from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.ddl_words import words_of
from ottla.connectors.cdc.mysql.server import Server
from ottla.connectors.cdc.replication import ServerAwayError

__all__ = ["Cascades", "cascading_keys"]

log = logging.getLogger(__name__)
_KEY: Final = re.compile(
    r"""^\s*CONSTRAINT (?:`(?:[^`]|``)+`|"(?:[^"]|"")+") FOREIGN KEY \([^\n]*?\) REFERENCES """
    r"""(?:(`(?:[^`]|``)+`|"(?:[^"]|"")+")\.)?(`(?:[^`]|``)+`|"(?:[^"]|"")+") \([^\n]*?\)"""
    r"""((?: ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT|RESTRICT|NO ACTION))*)""",
    re.M,
)
"""A foreign key in a definition: with ANSI_QUOTES the server writes names in double quotes."""
_ACTION: Final = re.compile(r"ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)")
_OF_KEYS: Final = frozenset(("FOREIGN", "REFERENCES", "DROP", "RENAME"))
"""Words of statements that may have changed a foreign key."""
NATIVE: Final = "innodb_native_foreign_keys"
"""MySQL's variable (9.6) which is OFF where servers write into the binlog what foreign keys change."""


def cascading_keys(definition: str, database: str) -> dict[TableId, str]:
    """Return the tables whose changes change rows of a table, with what they do; its `SHOW CREATE TABLE` is given."""
    found: dict[TableId, str] = {}
    for schema, table, clauses in _KEY.findall(definition):
        if actions := _ACTION.findall(clauses):
            parent = TableId(_unquoted(schema) if schema else database, _unquoted(table))
            found[parent] = " ".join((*filter(None, (found.get(parent),)), *actions))
    return found


class Cascades:
    """Sees which tables a statement has mapped and changed."""

    def __init__(self, opened: Callable[[], Server], is_told: Callable[[TableId], bool]) -> None:
        """`opened` connects to the server; `is_told` says whether a table matters."""
        self._opened, self._is_told = opened, is_told
        self._mapped: set[TableId] = set()
        self._changed: set[TableId] = set()
        self._has_rows = False
        self._parents: dict[TableId, frozenset[TableId]] = {}
        self._said: set[TableId] = set()
        self._unseen: set[TableId] = set()
        """Tables whose foreign keys may be others than those that are known."""
        self._children: dict[TableId, str] = {}
        """Tables whose rows foreign keys change, with which do."""

    def begin(self, known: Iterable[TableId]) -> None:
        """Reading begins, with these tables."""
        self._unseen = set(filter(self._is_told, known))

    @property
    def are_unseen(self) -> bool:
        """Whether there are tables to be looked at."""
        return bool(self._unseen)

    def look(self, server: Server) -> None:
        """Look at the foreign keys of tables that may have others, and say which are new; raises ServerAwayError."""
        is_written = (server.variable(NATIVE) or "ON").upper() in ("OFF", "0")
        for table in sorted(self._unseen, key=str):
            keys = {} if is_written else cascading_keys(server.definition(table) or "", table.schema)
            why = ", ".join(f"{parent}: {actions}" for parent, actions in keys.items())
            if why and self._children.get(table) != why:
                log.warning("%s", _told(table, why))
            self._children.pop(table, None)
            self._children |= {table: why} if why else {}
            self._unseen.discard(table)

    def pass_over(self) -> None:
        """Do not look at tables that may have other foreign keys."""
        self._unseen.clear()

    def told(self) -> list[str]:
        """Return each table whose rows foreign keys change without anybody being told."""
        return [_told(table, why) for table, why in self._children.items() if self._is_told(table)]

    def mapped(self, table: TableId, place: str) -> None:
        """A table has a number from now on: behind rows the next statement begins."""
        if self._has_rows:
            self.ended(place)
        self._mapped.add(table)

    def changed(self, table: TableId, op: str) -> None:
        """Rows of a table have come."""
        self._has_rows = True
        if op != "c":
            self._changed.add(table)

    def altered(self, text: str, known: Iterable[TableId]) -> None:
        """A statement about tables, of those that are known: foreign keys may be others now."""
        self._parents.clear()
        words = {each.lower() for each in words_of(text)}
        if any(each.lower() in words for each in _OF_KEYS):
            self._unseen |= {each for each in known if each.table.lower() in words and self._is_told(each)}

    def ended(self, place: str) -> None:
        """A statement is over: say of which tables it may have changed rows that are not told; raises ServerAwayError."""
        if self._changed:
            for table in self._mapped - self._said:
                if self._is_told(table) and self._changed & self._parents_of(table):
                    self._said.add(table)
                    log.error(
                        "Foreign keys of table %s may have changed its rows before %s, as one that it refers to was "
                        "changed: the binlog has no such changes, and they are not told",
                        *(table, place),
                    )
        self.forget()

    def forget(self) -> None:
        """What is under way comes again."""
        self._mapped.clear()
        self._changed.clear()
        self._has_rows = False

    def _parents_of(self, table: TableId) -> frozenset[TableId]:
        if table not in self._parents:
            server = self._opened()
            try:
                definition = server.definition(table)
            except ServerAwayError:
                raise
            except ConnectError:  # it may not be seen, and other tables go on
                definition = None
            finally:
                server.close()
            self._parents[table] = frozenset(cascading_keys(definition or "", table.schema))
        return self._parents[table]


def _unquoted(name: str) -> str:
    return name[1:-1].replace(name[0] * 2, name[0])


def _told(table: TableId, why: str) -> str:
    return (
        f"table {table}: what foreign keys change in it ({why}) is not in the server's binlog, and is not told. Let the "
        "application change those rows itself, or read the table again"
    )
