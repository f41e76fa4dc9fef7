"""Tables that are read whole are locked first, so that nobody alters, empties or drops them before they are read.

A transaction sees rows of one moment, and the catalogue as it is by now. A table that is rewritten by ALTER, or truncated,
is empty for it. ACCESS SHARE, which every reader takes and `pg_dump` takes as early, keeps such statements waiting.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import Catalog, CatalogTable, TableId
from ottla.connectors.cdc.replication import ServerAwayError, ServerSaysError, quoted

__all__ = ["begun_with_tables"]

log = logging.getLogger(__name__)
LOCK_SECONDS: Final = 5
"""How long a table is waited for, until somebody is told and all are looked for again."""
TRIES_MAX: Final = 100
"""How often the tables are looked for that come and go at the same time."""
_DENIED: Final = "42501"
_BUSY: Final = "55P03"
_CHANGED: Final = ("42P01", "3F000", "42809", "40P01")
"""A table that is gone, or its schema, or no table any more; two that wait for each other."""


def begun_with_tables(
    catalog: Catalog, level: str, wanted: Callable[[TableId], bool], stopping: threading.Event
) -> list[CatalogTable]:
    """Begin a transaction to read the wanted tables, and return them as they stay until it ends. Raises ConnectError.

    One that is `serializable` may be ended by what others do meanwhile (40001), and sees the rows that `repeatable read`
    sees: what others commit later comes by the stream in any case. So it is read as such.
    """
    level = "repeatable read" if level == "serializable" else level
    for _ in range(TRIES_MAX):
        named = [each for each in catalog.names() if wanted(each)]
        catalog.run(f"begin transaction isolation level {level}, read only")
        is_locked = _locked(catalog, named)
        if is_locked is None:
            catalog.run("rollback")
        else:
            tables = catalog.tables(wanted)  # the first that is asked: from here on the transaction has its moment
            if not is_locked or {each.id for each in tables} <= {*named}:
                return tables
            catalog.run("rollback")
        if stopping.is_set():
            raise ConnectError("The connector was stopped before its tables were read")
    raise ConnectError(
        f"The tables to be read could not be locked {TRIES_MAX} times: somebody alters, makes or drops some all the time"
    )


def _locked(catalog: Catalog, named: list[TableId]) -> bool | None:
    """Whether all are locked: not where the user may not, None where they have to be looked for again."""
    if not named:
        return True
    listed = ", ".join(f"{quoted(each.schema)}.{quoted(each.table)}" for each in named)
    try:
        catalog.run(f"set local lock_timeout = '{LOCK_SECONDS}s'")
        catalog.run(f"lock table {listed} in access share mode")
        catalog.run("set local lock_timeout = 0")
    except (ServerAwayError, ServerSaysError) as error:
        if error.code == _BUSY:
            log.warning("A table to be read is being altered by somebody, who is waited for: %s", error)
        elif error.code == _DENIED:
            log.warning("Tables are read without a lock, and must not be altered until they are read: %s", error)
            catalog.run("rollback and chain")
            return False
        elif error.code not in _CHANGED:
            raise
        return None
    return True
