"""A JDBC sink's task: what one delivery brings is one transaction, tried again where that helps.

A record that the database refuses is found by halving its batch, and reported; without somewhere to report it the task
fails, naming where the record stands and what the database said, never what is in it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base import TopicPartition
from ottla.connect import ConnectError, RetriableError, SinkRecord, SinkTask
from ottla.connectors.jdbc.keys import typed
from ottla.connectors.jdbc.sink_keys import sink_def
from ottla.connectors.jdbc.sink_shapes import Shaped, Shapes, ShapeSettings, where
from ottla.connectors.jdbc.urls import require_sqlalchemy

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from ottla.connectors.jdbc.sink_batches import Batches

__all__ = ["JdbcSinkTask"]

log = logging.getLogger(__name__)

Origin = tuple[str | None, int | None, int | None]
UNBINDABLE = (ValueError, TypeError, ArithmeticError, AttributeError)
"""What drivers and conversions raise for a value that a column cannot take, beside errors of their own."""


class JdbcSinkTask(SinkTask):
    """Writes records into tables; see the connector."""

    java_name = "io.confluent.connect.jdbc.sink.JdbcSinkTask"

    def start(self, props: Mapping[str, str]) -> None:
        """Prepare; the database is first connected to when records come."""
        require_sqlalchemy()
        from ottla.connectors.jdbc.database import open_database
        from ottla.connectors.jdbc.sink_batches import Batches

        self._settings = settings = typed(sink_def(), props)
        self._stopping = threading.Event()
        self._database = open_database(settings)
        self._shapes = Shapes(shape_settings(settings))
        self._batches: Batches = Batches(self._database.dialect, self._shapes, settings)
        self._connection: Connection | None = None
        self._tries_left: int = settings["max.retries"]
        self._settled: set[Origin] = set()
        """Records of the delivery at hand that are written or reported, where others of it are to be put again."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records; all of them, or none and an error."""
        if not records:
            return
        if self._settled:
            records = [each for each in records if _origin(each) not in self._settled]
        good, bad = self._shaped(records)
        self._try(good)
        for record, error in bad:
            self._report(record, error)
        self._settled.clear()
        self._tries_left = self._settings["max.retries"]

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget what was written of a delivery that will not come again."""
        self._settled.clear()

    def stop(self) -> None:
        """Let go of the connection."""
        if hasattr(self, "_database"):
            self._stopping.set()
            self._disconnect()

    def _shaped(self, records: Sequence[SinkRecord]) -> tuple[list[Shaped], list[tuple[SinkRecord, ConnectError]]]:
        """Return the records that make a row, and the others, which raise where they cannot be reported."""
        good: list[Shaped] = []
        bad: list[tuple[SinkRecord, ConnectError]] = []
        for record in records:
            try:
                good.append(self._shapes.shaped(record))
            except ConnectError as error:
                if self.context.errant_records is None:
                    raise
                bad.append((record, error))
        return good, bad

    def _report(self, record: SinkRecord, error: BaseException) -> None:
        reporter = self.context.errant_records
        if reporter is None:
            raise error
        reporter.report(record, error)

    def _write(self, records: Sequence[Shaped]) -> None:
        """Write records in one transaction, once more where that is the way out.

        A table that another task has just changed, or somebody else since it was looked at, is looked at again; of keys that
        turn out to be one in the database, each gets a statement of its own.
        """
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        from ottla.connectors.jdbc.sink_batches import TableChangeError

        try:
            self._in_transaction(records)
            return
        except (SQLAlchemyError, TableChangeError, ConnectError, *UNBINDABLE) as failed:
            apart = self._apart_next(failed)
            if apart is None:
                raise
        self._abandon()
        try:
            self._in_transaction(records, apart=apart)
        except TableChangeError as error:
            cause = error.__cause__
            assert isinstance(cause, DBAPIError)
            raise cause from None

    def _apart_next(self, failed: BaseException) -> bool | None:
        """Return how to write records once more: each by its own statement or not; None where that would not help."""
        from sqlalchemy.exc import SQLAlchemyError

        from ottla.connectors.jdbc.database import met_twice, of_another_table, passes_by_itself
        from ottla.connectors.jdbc.sink_batches import TableAlteredError, TableChangeError

        if isinstance(failed, TableChangeError | TableAlteredError):
            log.info("%s; looking at it again", failed)
            return False
        if met_twice(failed) or of_another_table(failed):
            return met_twice(failed)
        if passes_by_itself(failed) or self._connection is None:
            return None
        try:
            self._connection.rollback()
            return False if self._batches.altered(self._connection) else None
        except SQLAlchemyError:
            return None

    def _in_transaction(self, records: Sequence[Shaped], *, apart: bool = False) -> None:
        if self._connection is None:
            self._connection = self._database.connect(self._stopping.wait)
        self._batches.write(self._connection, records, apart=apart)
        self._connection.commit()

    def _abandon(self) -> None:
        """Undo what has been done, on a connection that may be gone."""
        from sqlalchemy.exc import SQLAlchemyError

        self._batches.forget()
        try:
            if self._connection is not None:
                self._connection.rollback()
                if self._connection.invalidated:
                    self._disconnect()
        except SQLAlchemyError:
            log.debug("Rolling back on %s failed, as on a connection that is gone", self._database.shown)
            self._disconnect()

    def _disconnect(self) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                connection.close()
        except SQLAlchemyError as error:
            log.debug("Closing the connection to %s: %s", self._database.shown, type(error).__name__)
        self._database.close()

    def _try(self, records: Sequence[Shaped]) -> None:
        """Write records; RetriableError where trying again may help, else what can be written is."""
        from sqlalchemy.exc import SQLAlchemyError

        from ottla.connectors.jdbc.database import passes_by_itself
        from ottla.connectors.jdbc.sink_batches import TableAlteredError

        if not records:
            return
        try:
            self._write(records)
        except (SQLAlchemyError, ConnectError, *UNBINDABLE) as error:
            self._abandon()
            if passes_by_itself(error) or isinstance(error, TableAlteredError):
                self._again(error)
                raise ConnectError(f"{self._failed(error)} (max.retries={self._settings['max.retries']})") from None
            if waits_for_another_row(error):
                self._again(error)
            self._isolate(records, error)

    def _again(self, error: BaseException) -> None:
        """Ask for the same records later; returns where no tries are left."""
        if self._tries_left <= 0:
            return
        self._tries_left -= 1
        log.warning("%s; trying again in %d ms", self._failed(error), self._settings["retry.backoff.ms"])
        self.context.timeout(self._settings["retry.backoff.ms"])
        raise RetriableError(self._failed(error))

    def _isolate(self, records: Sequence[Shaped], error: BaseException) -> None:
        """Write what can be written, half by half, and report the records that cannot be."""
        first, last = records[0].record, records[-1].record
        if self.context.errant_records is None or first is last:
            span = where(first) if first is last else f"one between {where(first)} and {where(last)}"
            found = ConnectError(f"{self._failed(error)}, in {span}")
            found.__suppress_context__ = True
            self._report(first, found)
            return
        middle = len(records) // 2
        for half in (records[:middle], records[middle:]):
            self._try(half)
            self._settled.update(_origin(each.record) for each in half)

    def _failed(self, error: BaseException) -> str:
        from ottla.connectors.jdbc.database import reason_of

        return f"Writing to {self._database.shown} failed: {reason_of(error)}"


def _origin(record: SinkRecord) -> Origin:
    return record.original_topic, record.original_partition, record.original_offset


def waits_for_another_row(error: BaseException) -> bool:
    """Return whether a row refers to one that is not there yet: another task may be about to write it."""
    origin = getattr(error, "orig", None)
    return getattr(origin, "sqlstate", None) == "23503" or "FOREIGN KEY constraint failed" in str(origin)


def shape_settings(settings: Mapping[str, Any]) -> ShapeSettings:
    """Return what a sink's settings say of shapes."""
    return ShapeSettings(
        pk_mode=settings["pk.mode"].lower(),
        pk_fields=tuple(settings["pk.fields"]),
        whitelist=frozenset(settings["fields.whitelist"]),
        delete_enabled=settings["delete.enabled"],
        replace_null=settings["replace.null.with.default"],
    )
