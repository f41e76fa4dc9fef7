"""When a source task's offsets are stored: behind acknowledged records, or in the records' own transaction (KIP-618)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ottla.base import ErrorCode, KafkaError
from ottla.connect import ConnectError, SourceColumns, SourceRecord
from ottla.connect.tasks.interface import TaskPort
from ottla.connect.tasks.metrics import Average, TaskMetrics
from ottla.connect.tasks.offsets_topic import OffsetsTopic
from ottla.connect.tasks.producer import Outcome, TaskProducer
from ottla.connect.tasks.settings import Boundary, SourceSettings
from ottla.connect.tasks.submitted import Committable, Submitted, SubmittedRecords, partition_name
from ottla.connect.tasks.transaction_context import BoundaryRequests

__all__ = ["AtLeastOnce", "ExactlyOnce", "SourceOffsets", "transaction_error"]

log = logging.getLogger(__name__)
Map = Mapping[str, Any]
Source = SourceRecord | SourceColumns


class SourceOffsets(Protocol):
    """What the source loop tells of each record, and when it does so."""

    def read(self, partitions: Sequence[Map]) -> list[Map | None]:
        """Return the stored offsets of source partitions."""
        ...

    def tick(self) -> None:
        """Do what is due between two polls."""
        ...

    def submit(self, record: Source | None, partition: Map, offset: Map | None, *, count: int) -> Any:
        """Hear of a record, or of a column's rows, that are about to be sent; return their token for the producer."""
        ...

    def dispatched(self, record: SourceRecord | None, partition: Map, offset: Map | None) -> None:
        """Hear that a record was handed to the producer."""
        ...

    def dropped(self, record: SourceRecord) -> None:
        """Hear that a record was left out; its offset counts as if it had been sent."""
        ...

    def batch_dispatched(self) -> None:
        """Hear that what `poll` returned was handed over."""
        ...

    def settled(self, outcome: Outcome) -> None:
        """Hear what became of rows."""
        ...

    def paused(self) -> None:
        """Hear that nothing comes for a while."""
        ...

    def finish(self, *, failed: bool) -> None:
        """Store what can be stored, at the task's end."""
        ...


class AtLeastOnce:
    """Offsets are stored through the worker, every `offset.flush.interval.ms` and at the end."""

    def __init__(
        self,
        port: TaskPort,
        producer: TaskProducer,
        settings: SourceSettings,
        metrics: TaskMetrics,
        *,
        committed: Callable[[], None],
        drain: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        """`committed` tells the task that offsets are stored; `drain` takes the producer's outcomes."""
        self._port, self._producer, self._settings, self._metrics = port, producer, settings, metrics
        self._committed, self._drain, self._now = committed, drain, now
        self._records = SubmittedRecords()
        self._kept: Committable = {}
        """What could not be stored yet."""
        self._next = self._now() + settings.flush_interval_ms / 1000

    def read(self, partitions: Sequence[Map]) -> list[Map | None]:
        """See `SourceOffsets`."""
        return self._port.offsets(partitions)

    def tick(self) -> None:
        """See `SourceOffsets`."""
        if self._now() >= self._next:
            self.commit()

    def submit(self, record: Source | None, partition: Map, offset: Map | None, *, count: int) -> Submitted:
        """See `SourceOffsets`."""
        stores = offset is not None and bool(partition or offset)
        return self._records.submit(record, partition, offset, count=count, stores=stores)

    def dispatched(self, record: SourceRecord | None, partition: Map, offset: Map | None) -> None:
        """See `SourceOffsets`."""

    def dropped(self, record: SourceRecord) -> None:
        """See `SourceOffsets`."""
        self.submit(None, record.source_partition, record.source_offset, count=0)

    def batch_dispatched(self) -> None:
        """See `SourceOffsets`."""

    def settled(self, outcome: Outcome) -> None:
        """See `SourceOffsets`."""
        if outcome.tokens is None:
            if outcome.token is not None:
                outcome.token.left -= outcome.count
            return
        for token in outcome.tokens:
            token.left = 0

    def paused(self) -> None:
        """See `SourceOffsets`."""

    def commit(self) -> None:
        """Store what may be stored; what cannot be is stored the next time."""
        self._next = self._now() + self._settings.flush_interval_ms / 1000
        self._drain()
        self._kept |= self._records.committable()
        started = self._now()
        if self._kept:
            try:
                self._port.store_offsets(list(self._kept.values()))
            except ConnectError as error:
                log.error("Failed to flush offsets to storage: %s", error)
                self._metrics.committed(1000 * (self._now() - started), failed=True)
                return
            self._kept = {}
        self._metrics.committed(1000 * (self._now() - started))
        self._committed()

    def finish(self, *, failed: bool) -> None:
        """See `SourceOffsets`."""
        self._producer.flush(self._settings.flush_timeout_ms / 1000)
        self.commit()


class ExactlyOnce:
    """Offsets are records of the transaction that the records are in."""

    def __init__(
        self,
        port: TaskPort,
        producer: TaskProducer,
        topic: OffsetsTopic,
        settings: SourceSettings,
        metrics: TaskMetrics,
        requests: BoundaryRequests,
        *,
        flush_rows: Callable[[], None],
        forget_rows: Callable[[], None],
        committed: Callable[[list[tuple[SourceRecord, int | None]]], None],
        drain: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        """`flush_rows` hands gathered rows to the producer, `forget_rows` drops them; `committed` tells the task."""
        self._port, self._producer, self._topic, self._settings = port, producer, topic, settings
        self._metrics, self._requests = metrics, requests
        self._flush_rows, self._forget_rows = flush_rows, forget_rows
        self._committed, self._drain, self._now = committed, drain, now
        self._pending: Committable = {}
        self._offsets: dict[int, int | None] = {}
        self._records: list[SourceRecord] = []
        """Those to be told to the task once they are committed, and their offsets by identity."""
        self._rows = 0
        """Rows in the open transaction."""
        self._is_between = False
        """True while the last row of a column, which has the offset for all of it, is still to come."""
        self._since = self._now()
        self._last: Map | None = None
        self._name = ""
        self.sizes = Average(metrics.window)
        """Records in each committed transaction."""

    def read(self, partitions: Sequence[Map]) -> list[Map | None]:
        """See `SourceOffsets`; what is not in the connector's topic may be in the worker's."""
        found = [self._topic.offset(each) for each in partitions]
        missing = [each for each, offset in zip(partitions, found, strict=True) if offset is None]
        others = iter(self._port.offsets(missing)) if missing else iter(())
        return [next(others) if offset is None else offset for offset in found]

    def tick(self) -> None:
        """See `SourceOffsets`."""

    def submit(self, record: Source | None, partition: Map, offset: Map | None, *, count: int) -> Source | None:
        """See `SourceOffsets`."""
        self._rows += count
        return record

    def dispatched(self, record: SourceRecord | None, partition: Map, offset: Map | None) -> None:
        """See `SourceOffsets`."""
        self._is_between = offset is None
        if offset is not None and (partition or offset):
            if partition is not self._last:
                self._name, self._last = partition_name(partition), partition
            self._pending[self._name] = partition, offset
        if record is not None:
            self._end_at(record)

    def dropped(self, record: SourceRecord) -> None:
        """See `SourceOffsets`; the task is told once what the record was in is committed."""
        self._records.append(record)
        self._offsets[id(record)] = None
        self.dispatched(record, record.source_partition, record.source_offset)

    def _end_at(self, record: SourceRecord) -> None:
        """End the transaction where the connector asked for that behind this record."""
        if self._requests.takes_abort(record):
            self._abort()
            self.commit()
        elif self._requests.takes_commit(record):
            self.commit()

    def batch_dispatched(self) -> None:
        """See `SourceOffsets`."""
        boundary = self._settings.boundary
        if boundary is Boundary.CONNECTOR:
            self._end_batch()
        elif boundary is Boundary.POLL:
            self.commit()
        elif self._now() >= self._since + self._settings.boundary_interval_ms / 1000:
            self._since = self._now()
            self.commit()

    def _end_batch(self) -> None:
        if self._requests.takes_batch_abort():
            self._abort()
            self.commit()
        elif self._requests.takes_batch_commit():
            self.commit()

    def settled(self, outcome: Outcome) -> None:
        """See `SourceOffsets`."""
        if outcome.error is not None:
            raise transaction_error("Unrecoverable exception from producer send callback", outcome.error)
        for index, record in enumerate(outcome.tokens or ()):
            if record is not None:
                self._records.append(record)
                self._offsets[id(record)] = outcome.base_offset + index if outcome.base_offset >= 0 else None

    def paused(self) -> None:
        """See `SourceOffsets`: an open transaction would be fenced while nothing happens.

        Rows whose offset is still to come cannot be committed; they go on, or are aborted with their transaction.
        """
        if self._is_between:
            return
        if self._settings.boundary is Boundary.CONNECTOR:
            self._end_batch()
        else:
            self.commit()

    def _abort(self) -> None:
        """Drop the transaction's records. Their offsets are committed all the same, as Kafka has it."""
        log.info("Aborting transaction as requested by connector")
        self._forget_rows()
        self._producer.abort()
        self._rows = 0

    def commit(self) -> None:
        """Commit records and offsets together; raises ConnectError, behind which the task cannot go on."""
        if self._rows == 0 and not self._pending:
            self._tell()
            return
        started = self._now()
        try:
            self._flush_rows()
            chunk, self._pending = self._topic.chunk(self._pending), {}
            self._producer.send(chunk)
            self._producer.commit()
            self._drain()
        except (KafkaError, ConnectError) as error:
            self._metrics.committed(1000 * (self._now() - started), failed=True)
            raise transaction_error("Failed to flush offsets and/or records for the task", error) from error
        self._topic.stored(chunk)
        if self._rows:
            self.sizes.add(self._rows)
        self._rows = 0
        self._metrics.committed(1000 * (self._now() - started))
        self._tell()

    def _tell(self) -> None:
        records, self._records = self._records, []
        offsets, self._offsets = self._offsets, {}
        self._committed([(each, offsets.get(id(each))) for each in records])

    def finish(self, *, failed: bool) -> None:
        """See `SourceOffsets`: what is not complete is aborted, so that readers need not wait for it."""
        if not failed:
            self.paused()
        if self._rows:
            try:
                self._forget_rows()
                self._producer.abort()
            except (KafkaError, ConnectError, TimeoutError) as error:
                log.warning("The open transaction is not aborted now but by the next task: %s", error)


def transaction_error(text: str, error: BaseException) -> ConnectError:
    """Return the error that ends a task whose transaction cannot be ended, with what may be done about it."""
    cause = error.__cause__ if isinstance(error, ConnectError) and error.__cause__ is not None else error
    code = cause.code if isinstance(cause, KafkaError) else None
    if code is ErrorCode.PRODUCER_FENCED:
        text = f"{text}: another producer has taken its transactional id over"
    elif code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE):
        text = (
            f"{text}: the transaction expired before it was finished, or another task has taken its transactional id over. "
            "Where it expired: a larger transaction.timeout.ms of the producer, or the transaction.boundary poll, may help"
        )
    made = ConnectError(f"{text}: {cause}")
    made.__cause__ = error
    return made
