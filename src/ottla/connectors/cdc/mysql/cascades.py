"""What foreign keys change (`ON DELETE CASCADE` and its like): servers do not write it into the binlog, and it is said.

In a statement that removes or updates rows of a table, MariaDB maps those that its foreign keys may change, too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final

from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.server import Server
from ottla.connectors.cdc.replication import ServerAwayError

__all__ = ["Cascades", "cascading_parents"]

log = logging.getLogger(__name__)
_KEY: Final = re.compile(
    r"FOREIGN KEY \([^\n]*?\) REFERENCES (?:`((?:[^`]|``)+)`\.)?`((?:[^`]|``)+)` \([^\n]* ON (?:DELETE|UPDATE) "
    r"(?:CASCADE|SET NULL|SET DEFAULT)"
)


def cascading_parents(definition: str, database: str) -> frozenset[TableId]:
    """Return the tables whose changes change rows of a table, of which `SHOW CREATE TABLE` is given."""
    return frozenset(
        TableId((schema or database).replace("``", "`"), table.replace("``", "`"))
        for schema, table in _KEY.findall(definition)
    )


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

    def altered(self) -> None:
        """A statement about tables: foreign keys may be others now."""
        self._parents.clear()

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
            self._parents[table] = cascading_parents(definition or "", table.schema)
        return self._parents[table]
