"""A JDBC source's task: it reads its tables, one after the other as they are due, and keeps one connection."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.connect import ConnectError, SourceRecord, SourceState, SourceTask
from ottla.connectors.jdbc.keys import typed
from ottla.connectors.jdbc.positions import Position, position_of, query_partition, table_partition
from ottla.connectors.jdbc.source_keys import source_def
from ottla.connectors.jdbc.urls import require_sqlalchemy

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from ottla.connectors.jdbc.column_types import TypeMapping
    from ottla.connectors.jdbc.readings import Origin, Plan, Reading
    from ottla.connectors.jdbc.tables import TableName

__all__ = ["TABLES", "JdbcSourceTask"]

log = logging.getLogger(__name__)

TABLES = "tables"
"""The key of a task's configuration that holds its tables, as a list of [schema, table] in JSON."""

WAIT_SECONDS_MAX = 0.5
"""How long one poll waits for something to be due, so that a task sees quickly that it is to stop."""

BACKOFF_SECONDS_MAX = 30.0
READS_MAX = 50
"""Tables that a task names of those that it reads."""


class JdbcSourceTask(SourceTask):
    """Reads tables or a query; see the connector."""

    java_name = "io.confluent.connect.jdbc.source.JdbcSourceTask"

    def start(self, props: Mapping[str, str]) -> None:
        """Prepare to read where the stored offsets say; the database is first asked at the first poll."""
        require_sqlalchemy()
        from ottla.connectors.jdbc.database import open_database

        self._settings = settings = typed(source_def(), props)
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._database = open_database(settings, isolation=settings["transaction.isolation.mode"])
        self._connection: Connection | None = None
        self._failures = 0
        self._trouble: str | None = None
        self._readings: list[Reading] | None = None
        self._current: Reading | None = None
        self._tables = json.loads(props.get(TABLES) or "[]")

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next rows of the table that has waited longest, None where none is due yet."""
        from sqlalchemy.exc import SQLAlchemyError

        from ottla.connectors.jdbc.database import passes_by_itself, reason_of

        try:
            with self._turn:
                found = self._poll()
        except SQLAlchemyError as error:
            if self._stopping.is_set():
                return None
            reading = self._current
            if not passes_by_itself(error):
                what = "" if reading is None else f" {reading.origin}"
                raise ConnectError(f"Reading{what} from {self._database.shown} failed: {reason_of(error)}") from None
            self._lost(reason_of(error))
            return None
        self._failures, self._trouble = 0, None
        return found

    def source_state(self) -> SourceState:
        """Return what is read now, and why the database cannot be asked."""
        readings, current = self._readings or (), self._current
        facts = {
            "reads": [str(each.origin) for each in readings][:READS_MAX],
            "reading": None if current is None else str(current.origin),
        }
        return SourceState(facts, trouble=self._trouble)

    def stop(self) -> None:
        """End; a poll that waits returns at once, and a statement that runs is given up."""
        if not hasattr(self, "_turn"):
            return  # it never began
        self._stopping.set()
        if not self._turn.acquire(timeout=WAIT_SECONDS_MAX):
            if self._connection is not None:
                self._database.dialect.give_up(self._connection)
            self._turn.acquire()
        try:
            self._disconnect()
        finally:
            self._turn.release()

    def _poll(self) -> list[SourceRecord] | None:
        if self._stopping.is_set():
            return None
        if self._connection is None:
            self._connection = self._database.connect(self._stopping.wait)
        if self._readings is None:
            self._readings = self._begin(self._connection)
        reading = self._due()
        if reading is None:
            return None
        self._current = reading
        records = reading.records(self._connection)
        if not reading.open:
            self._connection.rollback()
            wait = 0.0 if reading.more else self._settings["poll.interval.ms"] / 1000
            reading.due = time.monotonic() + wait
            self._current = None
        return records or None

    def _due(self) -> Reading | None:
        """Return what to read now: what is open, else what has been due longest; None after a little waiting."""
        assert self._readings is not None
        if self._current is not None:
            return self._current
        if not self._readings:
            self._stopping.wait(WAIT_SECONDS_MAX)
            return None
        first = min(self._readings, key=lambda each: each.due)
        wait = first.due - time.monotonic()
        if wait > 0:
            self._stopping.wait(min(wait, WAIT_SECONDS_MAX))
        return first if wait <= WAIT_SECONDS_MAX and not self._stopping.is_set() else None

    def _lost(self, reason: str) -> None:
        """Note that the connection is gone: reading goes on behind the last record, on another one."""
        self._failures += 1
        allowed = self._settings["query.retry.attempts"]
        text = f"Reading from {self._database.shown} failed: {reason}"
        if 0 <= allowed < self._failures:
            raise ConnectError(f"{text} (attempt {self._failures}, query.retry.attempts is {allowed})")
        log.warning("%s; trying again", text)
        self._trouble = text
        self._disconnect()
        for each in self._readings or ():
            if each.open:
                each.reset()
        self._current = None
        self._stopping.wait(min(0.1 * 2**self._failures, BACKOFF_SECONDS_MAX))

    def _disconnect(self) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except SQLAlchemyError as error:
                log.debug("Closing the connection to %s: %s", self._database.shown, error)
        self._database.close()

    # What is read

    def _begin(self, connection: Connection) -> list[Reading]:
        from ottla.connectors.jdbc.readings import QueryOrigin, Reading, TableOrigin, beginning
        from ottla.connectors.jdbc.tables import TableName

        mapping, plan = type_mapping(self._settings, self._database.dialect), plan_of(self._settings)
        prefix, query = self._settings["topic.prefix"], self._settings["query"].strip()
        origins: list[Origin] = []
        if query:
            origins.append(QueryOrigin(query, mapping, topic=prefix, partition=query_partition()))
        for packed in () if query else self._tables:
            name = TableName(*packed)
            partition = table_partition(str(name))
            origins.append(TableOrigin(name, mapping, topic=prefix + name.table, partition=partition))
        initial = self._settings["timestamp.initial"]
        return [
            Reading(
                each,
                plan,
                self._database.dialect,
                beginning(initial, self._stored(each), plan, lambda: self._database.dialect.now(connection)),
            )
            for each in origins
        ]

    def _stored(self, origin: Origin) -> Position:
        """Return the stored position; offsets of the connector's first protocol name the table without its schema."""
        offset = self.context.offset(origin.partition)
        if not offset and origin.schema_name is not None:
            offset = self.context.offset({"table": origin.schema_name})
        return position_of(offset or {})


def plan_of(settings: Mapping[str, Any]) -> Plan:
    """Return how a source's settings have everything read."""
    from ottla.connectors.jdbc.readings import Plan

    return Plan(
        mode=settings["mode"],
        number=settings["incrementing.column.name"],
        times=tuple(settings["timestamp.column.name"]),
        delay_ms=settings["timestamp.delay.interval.ms"],
        suffix=settings["query.suffix"],
        rows_max=settings["batch.max.rows"],
        validate_non_null=settings["validate.non.null"],
    )


def type_mapping(settings: Mapping[str, Any], dialect: Any) -> TypeMapping:
    """Return how a source's settings map types."""
    from ottla.connectors.jdbc.column_types import TypeMapping

    older = "precision_only" if settings["numeric.precision.mapping"] else "none"
    numeric = (settings["numeric.mapping"] or older).lower()
    return TypeMapping(dialect, numeric=numeric, granularity=settings["timestamp.granularity"])


def packed_tables(names: Sequence[TableName]) -> str:
    """Return tables as a task's configuration holds them."""
    return json.dumps([each.packed() for each in names])
