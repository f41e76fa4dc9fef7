"""A table as its server has it now, by the statement that would make it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.ddl import follow
from ottla.connectors.cdc.mysql.ddl_words import DdlError
from ottla.connectors.cdc.mysql.server import Server
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables

__all__ = ["asked_table"]

log = logging.getLogger(__name__)


def asked_table(server: Server, name: TableId, charsets: Mapping[str, str]) -> SqlTable | None:
    """Return a table as the server has it now; None where it is gone, or its definition is not understood.

    `charsets` are those of databases. Raises ServerAwayError.
    """
    definition = server.definition(name)
    now = Tables()
    if definition is not None:
        try:
            follow(definition, name.schema, now, charsets)
        except DdlError as error:
            log.warning("The definition of %s is not understood (%s): %s", name, error, definition)
    return now.get(name)
