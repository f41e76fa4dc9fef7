"""What is needed of the server before it is read: the log's level, a publication, a slot; refusals say what to do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from ottla.config import Password
from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import Catalog, TableId
from ottla.connectors.cdc.positions import Position
from ottla.connectors.cdc.replication import ServerAwayError, conninfo_of, literal, lsn_of, lsn_text, quoted
from ottla.connectors.cdc.settings import Selection

__all__ = ["drop_slot", "opened_catalog", "plain_settings", "prepared_publication", "prepared_slot"]

log = logging.getLogger(__name__)
DROP_SECONDS_MAX = 10.0
"""How long a slot is waited for whose reader has hung up, which the server notices a little later."""


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose password is readable, for the driver alone."""
    return {name: value.secret if isinstance(value, Password) else value for name, value in settings.items()}


def opened_catalog(settings: Mapping[str, Any]) -> Catalog:
    """Connect; raises ConnectError in the server's words, ServerAwayError where it cannot be reached."""
    try:
        import psycopg
    except ImportError as error:
        raise ConnectError("The PostgreSQL connector needs psycopg: pip install 'ottla[connect]'") from error
    try:
        connection = psycopg.connect(conninfo_of(settings, replication=False).decode(), autocommit=True)
    except psycopg.Error as error:
        raise ServerAwayError(f"The database cannot be reached: {str(error).strip()}") from error
    catalog = Catalog(connection)
    for statement in (settings["database.initial.statements"] or "").split(";"):
        if statement.strip():
            catalog.run(statement)
    [[level]] = catalog.rows("select current_setting('wal_level')")
    if level != "logical":
        catalog.close()
        raise ConnectError(
            f"The server's wal_level is {level}, and changes can be captured with wal_level=logical alone: set it in "
            "postgresql.conf and restart the server"
        )
    return catalog


def prepared_publication(catalog: Catalog, settings: Mapping[str, Any], selection: Selection) -> None:
    """Make the publication where it is missing and may be made; raises ConnectError where tables are outside of it."""
    name, mode = settings["publication.name"], settings["publication.autocreate.mode"]
    exists = bool(catalog.rows("select 1 from pg_publication where pubname = %s", name))
    tables = {each: is_divided for each, is_divided in catalog.names().items() if selection.is_published(each)}
    if selection.signals is not None and all(str(each) != selection.signals for each in tables):
        raise ConnectError(
            f"The table of signals is not there: CREATE TABLE {selection.signals} (id varchar(42) PRIMARY KEY, "
            "type varchar(32) NOT NULL, data varchar(2048))"
        )
    root = settings["publish.via.partition.root"]
    options = " with (publish_via_partition_root = true)" if root else ""
    listed = ", ".join(f"{quoted(each.schema)}.{quoted(each.table)}" for each in tables)
    if not exists:
        if mode == "disabled":
            raise ConnectError(
                f"Publication {name} is not there, and publication.autocreate.mode=disabled: CREATE PUBLICATION "
                f"{name} FOR TABLE … first, or let the connector make it"
            )
        if mode == "filtered" and not tables:
            raise ConnectError("No table matches table.include.list and its kin, so there is nothing to publish")
        what = {"all_tables": " for all tables", "filtered": f" for table {listed}", "no_tables": ""}[mode]
        catalog.run(f"create publication {quoted(name)}{what}{options}")
        log.info("Made publication %s", name)
        return
    if mode == "filtered" and tables:
        catalog.run(f"alter publication {quoted(name)} set table {listed}")
    if mode != "no_tables":
        _refuse_unpublished(catalog, name, tables)


def _refuse_unpublished(catalog: Catalog, name: str, tables: Mapping[TableId, bool]) -> None:
    rows = catalog.rows("select schemaname, tablename from pg_publication_tables where pubname = %s", name)
    published = {TableId(*row) for row in rows}
    # what is divided is told under one of two names
    outside = [str(each) for each, is_divided in tables.items() if each not in published and not is_divided]
    if outside:
        raise ConnectError(
            f"Publication {name} lacks tables to be captured, whose changes would never come: {', '.join(outside)}. "
            f"ALTER PUBLICATION {name} ADD TABLE …, or publication.autocreate.mode=filtered"
        )


def prepared_slot(
    catalog: Catalog, settings: Mapping[str, Any], position: Position | None, stopping: threading.Event
) -> int:
    """Return where the slot begins, made where there is none; raises ConnectError where going on would lose changes."""
    name = settings["slot.name"]
    found = catalog.slot(name)
    if found is None:
        if position is not None:
            raise ConnectError(
                f"Slot {name} is gone, and the changes since {lsn_text(position.commit_lsn)} may be gone with it. Reset the "
                "connector's offsets to read the tables anew, or set snapshot.mode=when_needed"
            )
        failover = ", false, false, true" if settings["slot.failover"] else ""
        [[text]] = catalog.rows(
            f"select lsn::text from pg_create_logical_replication_slot({literal(name)}, 'pgoutput'{failover})"
        )
        log.info("Made slot %s at %s", name, text)
        return lsn_of(text)
    _refuse_foreign(name, found, settings)
    for tries in range(settings["slot.max.retries"] + 1):
        if not found["active"]:
            break
        log.warning("Slot %s is read by process %s of the server; trying again", name, found["active_pid"])
        if tries == settings["slot.max.retries"] or stopping.wait(settings["slot.retry.delay.ms"] / 1000):
            raise ConnectError(f"Slot {name} is read by somebody else (process {found['active_pid']} of the server)")
        found = catalog.slot(name) or found
    confirmed = lsn_of(found["confirmed"])
    if position is not None and confirmed > position.commit_lsn:
        raise ConnectError(
            f"Slot {name} was read up to {found['confirmed']} by somebody else, and the connector's offset is "
            f"{lsn_text(position.commit_lsn)}: changes between the two are lost. Reset the connector's offsets to read the "
            "tables anew, or set snapshot.mode=when_needed"
        )
    return confirmed


def _refuse_foreign(name: str, found: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    if found["slot_type"] != "logical" or found["plugin"] != "pgoutput":
        raise ConnectError(
            f"Slot {name} is one of {found['plugin'] or found['slot_type']}, not of pgoutput: choose another slot.name"
        )
    if found["database"] != settings["database.dbname"]:
        raise ConnectError(f"Slot {name} belongs to database {found['database']}: choose another slot.name")
    if found["wal_status"] == "lost" or found["confirmed"] is None:
        raise ConnectError(
            f"The server has removed what slot {name} needs (max_slot_wal_keep_size): drop the slot and reset the "
            "connector's offsets to read the tables anew, or set snapshot.mode=when_needed"
        )


def drop_slot(catalog: Catalog, name: str) -> None:
    """Drop a slot once nobody reads it; raises ConnectError where somebody goes on."""
    until_s = time.monotonic() + DROP_SECONDS_MAX
    while (found := catalog.slot(name)) is not None and found["active"] and time.monotonic() < until_s:
        time.sleep(0.02)
    if found is not None:
        catalog.rows("select pg_drop_replication_slot(%s)", name)
