"""What is needed of the server before it is read: the log's level, a publication, a slot; refusals say what to do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from ottla.base import bring_extra
from ottla.config import Password
from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import STATEMENT_MAX, Catalog, TableId
from ottla.connectors.cdc.positions import Origin, Position
from ottla.connectors.cdc.replication import (
    ReplicationStream,
    ServerSaysError,
    connecting_error,
    conninfo_of,
    literal,
    lsn_of,
    lsn_text,
    quoted,
)
from ottla.connectors.cdc.sessions import pinning
from ottla.connectors.cdc.settings import Selection

__all__ = ["drop_slot", "opened_catalog", "origin_of", "plain_settings", "prepared_publication", "prepared_slot"]

log = logging.getLogger(__name__)
_ANEW = (
    "Reset the connector's offsets to read the tables anew, or set snapshot.mode=when_needed; rows that the server has no "
    "more stay in the topics until somebody removes them"
)
DENIED = "42501"
"""The SQLSTATE of what the user may not do."""
FOR_ALL_TABLES = "55000"
"""The SQLSTATE of a publication that is for all tables, and takes no list of them."""
MONEY_DIGITS = 2
"""Behind the point in the pinned lc_monetary, C."""
_MONEY_LOCALE = """
select coalesce(
  (select substr(c.one, length('lc_monetary=') + 1)
   from pg_db_role_setting s cross join lateral unnest(s.setconfig) as c(one)
   where s.setrole = 0 and s.setdatabase = (select oid from pg_database where datname = current_database())
     and c.one like 'lc_monetary=%%'),
  (select case when source in ('user', 'database user', 'session') then 'C' else setting end
   from pg_settings where name = 'lc_monetary'))"""
_ORIGIN = (
    "select (select system_identifier from pg_control_system())::text, case when pg_is_in_recovery() "
    "then (select timeline_id from pg_control_checkpoint()) "
    "else ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint end"
)
"""A standby's timeline is that of its last restart point, which may lag behind."""
_END = "select pg_is_in_recovery(), case when pg_is_in_recovery() then '0/0' else pg_current_wal_insert_lsn()::text end"
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
        raise ConnectError(f"The PostgreSQL connector needs psycopg: {bring_extra('connect')}") from error
    try:
        conninfo = conninfo_of(settings, replication=False)
        connection = psycopg.connect(conninfo.decode(), autocommit=True)
    except psycopg.Error as error:
        raise connecting_error(f"The database cannot be reached: {str(error).strip()}", conninfo) from error
    catalog = Catalog(connection)
    for statement in (settings["database.initial.statements"] or "").split(";"):
        if statement.strip():
            catalog.run(statement)
    catalog.money_shift = _money_shift(catalog)
    catalog.rows(pinning())
    [[level]] = catalog.rows("select current_setting('wal_level')")
    if level != "logical":
        catalog.close()
        raise ConnectError(
            f"The server's wal_level is {level}, and changes can be captured with wal_level=logical alone: set it in "
            "postgresql.conf and restart the server"
        )
    return catalog


def _money_shift(catalog: Catalog) -> int:
    """Return by how many digits the point of money is further right than the pinned locale prints it.

    The server keeps whole numbers of the smallest unit, and which that is says the locale that they were written under: the
    database's, or the server's. What the capture's own user has does not matter.
    """
    [[locale]] = catalog.rows(_MONEY_LOCALE)
    catalog.rows("select pg_catalog.set_config('lc_monetary', %s, false)", locale)
    [[digits]] = catalog.rows("select pg_catalog.scale('1'::money::numeric)")
    return MONEY_DIGITS - int(digits)


def log_without_slot(catalog: Catalog, slot: str) -> int:
    """Return where the log is, for a snapshot that no stream follows: a slot that nobody reads would keep the log."""
    if catalog.slot(slot) is not None:
        log.warning(
            "Slot %s is there, and snapshot.mode=initial_only reads none: it keeps the server's log. Drop it, if nobody "
            "else reads it: SELECT pg_drop_replication_slot('%s')",
            slot,
            slot,
        )
    [[text]] = catalog.rows("select pg_current_wal_insert_lsn()::text")
    return lsn_of(text)


def tell_broken_off(catalog: Catalog, slot: str, *, is_again: bool) -> None:
    """Say what a snapshot that is made again leaves behind; `is_again` where it is one, if there was one before."""
    if is_again and catalog.slot(slot) is not None:
        log.warning(
            "Slot %s is there and no offset: an earlier snapshot was broken off, or the offsets were reset. The tables are "
            "read again. Rows that were told then and deleted since stay in the topics: remove them there, or have the "
            "topics made anew; with transaction.boundary=connector and exactly-once a snapshot is whole or not there",
            slot,
        )


def tell_divided(catalog: Catalog, selection: Selection) -> None:
    """Say which captured tables are parts of others that are captured, too."""
    for whole, part in catalog.parts():
        if selection.has_table(whole) and selection.has_table(part):
            log.warning(
                "Table %s and its part %s are both captured: a snapshot tells each row under both names, and a change comes "
                "under one (publish.via.partition.root). Leave the other out by table.exclude.list",
                whole,
                part,
            )


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
        _run_as_owner(catalog, f"create publication {quoted(name)}{what}{options}")
        log.info("Made publication %s", name)
        return
    if mode == "filtered" and tables and catalog.published(name) != {*tables}:
        is_needed = bool(_unpublished(catalog, name, tables))
        _run_as_owner(catalog, f"alter publication {quoted(name)} set table {listed}", is_needed=is_needed)
    if mode != "no_tables" and (outside := _unpublished(catalog, name, tables)):
        raise ConnectError(
            f"Publication {name} lacks tables to be captured, whose changes would never come: {', '.join(outside)}. "
            f"ALTER PUBLICATION {name} ADD TABLE …, or publication.autocreate.mode=filtered"
        )


def _run_as_owner(catalog: Catalog, statement: str, *, is_needed: bool = True) -> None:
    """Run a statement about a publication; raises ConnectError that says who has to, where the user may not."""
    try:
        catalog.run(statement)
    except ServerSaysError as error:
        if error.code != DENIED and (is_needed or error.code != FOR_ALL_TABLES):
            raise
        if is_needed:
            raise ConnectError(
                f"{error}. Let the owner of the tables and of the publication run it: {statement[:STATEMENT_MAX]}"
            ) from error
        log.info(
            "The publication has more than the tables that are captured, and stays as its owner has made it: %s", error
        )


def _unpublished(catalog: Catalog, name: str, tables: Mapping[TableId, bool]) -> list[str]:
    """Return which tables a publication lacks; what is divided is told under one of two names."""
    published = catalog.published(name)
    return [str(each) for each, is_divided in tables.items() if each not in published and not is_divided]


def prepared_slot(
    catalog: Catalog, settings: Mapping[str, Any], position: Position | None, stopping: threading.Event
) -> int:
    """Return where the slot begins, made where there is none; raises ConnectError where going on would lose changes."""
    name = settings["slot.name"]
    if position is not None:
        _refuse_other_log(catalog, settings, position, stopping)
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
    if position is not None and confirmed > position.commit_lsn and not _has_moved_it(settings, position):
        raise ConnectError(
            f"Slot {name} was read up to {found['confirmed']} by somebody else, and the connector's offset is "
            f"{lsn_text(position.commit_lsn)}: changes between the two are lost. Reset the connector's offsets to read the "
            "tables anew, or set snapshot.mode=when_needed"
        )
    return confirmed


def _has_moved_it(settings: Mapping[str, Any], position: Position) -> bool:
    """Whether a slot that is further on may have been moved by the connector itself, where nothing of its tables came."""
    return settings["lsn.flush.mode"] == "connector_and_driver" and not position.changes


def origin_of(catalog: Catalog) -> Origin:
    """Return whose log the server writes, or has received; raises ConnectError."""
    [[system, timeline]] = catalog.rows(_ORIGIN)
    return Origin(str(system), int(timeline))


def _refuse_other_log(
    catalog: Catalog, settings: Mapping[str, Any], position: Position, stopping: threading.Event
) -> None:
    """Raise ConnectError where what was told is not what the server has: it was made of an older copy, or is another."""
    at, known = position.commit_lsn, position.origin
    where = f"the connector's offset is {lsn_text(at)}"
    now = origin_of(catalog)
    if known is not None and known.system != now.system:
        raise ConnectError(
            f"The server is another one (system identifier {now.system}, and {known.system} in the offset): {where}, which "
            f"means nothing here. {_ANEW}"
        )
    if known is not None and known.timeline != now.timeline:
        _refuse_other_timeline(settings, known, now, at, stopping)
    [[is_standby, end]] = catalog.rows(_END)
    if not is_standby and lsn_of(end) < at:
        raise ConnectError(
            f"The server's log ends at {end}, and {where}: it was restored from an older copy, or has lost what it had "
            f"committed. What was told behind that place is in the topics and no more in the tables. {_ANEW}"
        )


def _refuse_other_timeline(
    settings: Mapping[str, Any], known: Origin, now: Origin, at: int, stopping: threading.Event
) -> None:
    stream = ReplicationStream(conninfo_of(settings, replication=True), 10.0, stopping)
    try:
        left = stream.switched_from(known.timeline, now.timeline) if known.timeline < now.timeline else None
    finally:
        stream.close()
    if left is not None and at <= left:
        log.info("The server is on timeline %d now, which has all that was told on %d", now.timeline, known.timeline)
        return
    ends = "does not come from it" if left is None else f"has left it at {lsn_text(left)}"
    raise ConnectError(
        f"The server is on timeline {now.timeline} and the connector's offset, {lsn_text(at)}, on timeline "
        f"{known.timeline}: this one {ends}. The server was restored from an older copy, or is a standby that lacked what "
        f"was told. {_ANEW}"
    )


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
