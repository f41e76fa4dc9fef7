"""At least once or exactly once, as a strategy: when a source task's offsets are stored, and what goes with that.

They are stored behind acknowledged records, or in the records' own transaction (KIP-618).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from ottla.base import ErrorCode, KafkaError
from ottla.connect import ConnectError, SourceBatch, SourceColumns, SourceRecord, TransactionContext
from ottla.connect.tasks.interface import TaskPort
from ottla.connect.tasks.metrics import Average, TaskMetrics
from ottla.connect.tasks.offsets_topic import OffsetsTopic
from ottla.connect.tasks.producer import Outcome, TaskProducer
from ottla.connect.tasks.settings import Boundary, SourceSettings
from ottla.connect.tasks.submitted import Committable, Submitted, SubmittedRecords, partition_name
from ottla.connect.tasks.transaction_context import BoundaryRequests

__all__ = ["AtLeastOnce", "ExactlyOnce", "LoopCalls", "SourceOffsets", "transaction_error"]

log = logging.getLogger(__name__)
Map = Mapping[str, Any]
Source = SourceRecord | SourceColumns | SourceBatch


class SourceOffsets(Protocol):
    """What the source loop tells of each record, and when it does so."""

    keeps_records: bool
    """Whether a record is wanted once more when it is acknowledged, or refused."""
    trouble: str | None
    """Why offsets are not stored now, where that is tried again; None where they are."""

    @property
    def transaction(self) -> TransactionContext | None:
        """What the task may end transactions with, where that is for it to do."""
        ...

    def start(self) -> None:
        """Take the task over from whoever had it, and the producer with it; raises ConnectError."""
        ...

    def read(self, partitions: Sequence[Map]) -> list[Map | None]:
        """Return the stored offsets of source partitions."""
        ...

    def tick(self) -> None:
        """Do what is due between two polls."""
        ...

    def submit(self, record: Source | None, partition: Map, offset: Map | None, *, count: int) -> Any:
        """Called when a record, or a column's rows, are about to be sent; return their token for the producer."""
        ...

    def dispatched(self, record: SourceRecord | None, partition: Map, offset: Map | None) -> None:
        """Called when a record was handed to the producer."""
        ...

    def submit_all(self, records: Sequence[SourceRecord]) -> Sequence[Any]:
        """Called as `submit`, for records that are about to be sent one behind the other."""
        ...

    def dispatched_all(self, records: Sequence[SourceRecord]) -> None:
        """Called as `dispatched`, for records that were handed over together."""
        ...

    def dropped(self, record: SourceRecord) -> None:
        """Called when a record was left out; its offset counts as if it had been sent."""
        ...

    def batch_dispatched(self) -> None:
        """Called when what `poll` returned was handed over."""
        ...

    def settled(self, outcome: Outcome) -> None:
        """Called when it is known what became of rows; raises ConnectError where the task cannot go on behind it."""
        ...

    def send_failed(self, error: ConnectError) -> NoReturn:
        """Raise what ends the task when its producer cannot go on."""
        ...

    def paused(self) -> None:
        """Called when the task is paused."""
        ...

    def finish(self, *, failed: bool) -> None:
        """Store what can be stored, at the task's end."""
        ...

    def own_metrics(self) -> dict[str, float]:
        """Return what is measured of this alone."""
        ...


@dataclass(frozen=True)
class LoopCalls:
    """What the strategies call in the source loop."""

    flush_rows: Callable[[], None]
    """Hand gathered rows to the producer."""
    forget_rows: Callable[[], None]
    """Drop them."""
    take_outcomes: Callable[[], None]
    """Take what the producer knows of rows."""
    failed: Callable[[Outcome, KafkaError], None]
    """Take rows that no broker will have."""
    commit_record: Callable[[SourceRecord, int | None], None] | None
    """Tell the task of one record; None for a task that does not listen."""
    commit_batch: Callable[[SourceBatch, Outcome], None]
    """Tell it of records of a batch."""
    commit: Callable[[], None]
    """Tell the task that offsets are stored."""
    now: Callable[[], float]


class AtLeastOnce:
    """Offsets are stored through the worker, every `offset.flush.interval.ms` and at the end."""

    transaction: TransactionContext | None = None
    trouble: str | None = None

    def __init__(
        self, port: TaskPort, producer: TaskProducer, settings: SourceSettings, metrics: TaskMetrics, loop: LoopCalls
    ) -> None:
        self._port, self._producer, self._settings, self._metrics = port, producer, settings, metrics
        self._loop, self._now = loop, loop.now
        self.keeps_records = True
        self._records = SubmittedRecords()
        self._kept: Committable = {}
        """What could not be stored yet."""
        self._next = self._now() + settings.flush_interval_ms / 1000

    def start(self) -> None:
        """See `SourceOffsets`."""
        self._producer.start()

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

    def submit_all(self, records: Sequence[SourceRecord]) -> list[Submitted]:
        """See `SourceOffsets`."""
        return self._records.submit_all(records)

    def dispatched_all(self, records: Sequence[SourceRecord]) -> None:
        """See `SourceOffsets`."""

    def dropped(self, record: SourceRecord) -> None:
        """See `SourceOffsets`; the task is told at once."""
        self.submit(None, record.source_partition, record.source_offset, count=0)
        if self._loop.commit_record is not None:
            self._loop.commit_record(record, None)

    def batch_dispatched(self) -> None:
        """See `SourceOffsets`."""

    def settled(self, outcome: Outcome) -> None:
        """See `SourceOffsets`."""
        if outcome.error is not None:
            self._loop.failed(outcome, outcome.error)
            return
        if outcome.tokens is None:
            if outcome.token is not None:
                outcome.token.left -= outcome.count
                if isinstance(outcome.token.record, SourceBatch):
                    self._loop.commit_batch(outcome.token.record, outcome)
            return
        for token in outcome.tokens:
            token.left = 0
        if self._loop.commit_record is not None:
            for index, token in enumerate(outcome.tokens):
                self._loop.commit_record(
                    token.record, outcome.base_offset + index if outcome.base_offset >= 0 else None
                )

    def send_failed(self, error: ConnectError) -> NoReturn:
        """See `SourceOffsets`."""
        raise error

    def paused(self) -> None:
        """See `SourceOffsets`."""

    def commit(self) -> None:
        """Store what may be stored; what cannot be is stored the next time."""
        self._next = self._now() + self._settings.flush_interval_ms / 1000
        self._loop.take_outcomes()
        self._kept |= self._records.committable()
        started = self._now()
        if self._kept:
            try:
                self._port.store_offsets(list(self._kept.values()))
            except ConnectError as error:
                log.error("Failed to flush offsets to storage: %s", error)
                self.trouble = str(error)
                self._metrics.committed(1000 * (self._now() - started), failed=True)
                return
            self._kept, self.trouble = {}, None
        self._metrics.committed(1000 * (self._now() - started))
        self._loop.commit()

    def own_metrics(self) -> dict[str, float]:
        """See `SourceOffsets`."""
        return {}

    def finish(self, *, failed: bool) -> None:
        """See `SourceOffsets`."""
        self._loop.flush_rows()
        self._producer.flush(self._settings.flush_timeout_ms / 1000)
        self.commit()


class ExactlyOnce:
    """Offsets are records of the transaction that the records are in."""

    trouble: str | None = None

    def __init__(
        self,
        port: TaskPort,
        producer: TaskProducer,
        topic: OffsetsTopic,
        settings: SourceSettings,
        metrics: TaskMetrics,
        loop: LoopCalls,
        worker: Map,
    ) -> None:
        """`worker` is the worker's configuration, which says how an offsets topic is made."""
        self._port, self._producer, self._topic, self._settings = port, producer, topic, settings
        self._worker = worker
        self._metrics, self._loop, self._now = metrics, loop, loop.now
        self._requests = BoundaryRequests()
        self.keeps_records = loop.commit_record is not None
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
        self._sizes = Average(metrics.window)
        """Records in each committed transaction."""

    @property
    def transaction(self) -> TransactionContext | None:
        """See `SourceOffsets`."""
        return self._requests if self._settings.boundary is Boundary.CONNECTOR else None

    def start(self) -> None:
        """See `SourceOffsets`; tasks that had it before are fenced."""
        self._topic.ensure(self._worker)
        self._port.confirm()
        self._producer.start()
        self._port.confirm()  # whoever has the task now would else be fenced by one that had it
        self._topic.read()

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

    def submit_all(self, records: Sequence[SourceRecord]) -> Sequence[SourceRecord | None]:
        """See `SourceOffsets`."""
        self._rows += len(records)
        return records if self.keeps_records else [None] * len(records)

    def dispatched_all(self, records: Sequence[SourceRecord]) -> None:
        """See `SourceOffsets`."""
        for each in records:
            self.dispatched(each, each.source_partition, each.source_offset)

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

    def send_failed(self, error: ConnectError) -> NoReturn:
        """See `SourceOffsets`."""
        raise transaction_error("Unrecoverable exception trying to send", error) from error

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
        self._loop.forget_rows()
        self._producer.abort()
        self._rows = 0

    def commit(self) -> None:
        """Commit records and offsets together; raises ConnectError, behind which the task cannot go on."""
        if self._rows == 0 and not self._pending:
            self._tell()
            return
        started = self._now()
        try:
            self._loop.flush_rows()
            chunk, self._pending = self._topic.chunk(self._pending), {}
            self._producer.send(chunk)
            self._producer.commit()
            self._loop.take_outcomes()
        except (KafkaError, ConnectError) as error:
            self._metrics.committed(1000 * (self._now() - started), failed=True)
            raise transaction_error("Failed to flush offsets and/or records for the task", error) from error
        self._topic.stored(chunk)
        if self._rows:
            self._sizes.add(self._rows)
        self._rows = 0
        self._metrics.committed(1000 * (self._now() - started))
        self._tell()

    def _tell(self) -> None:
        records, self._records = self._records, []
        offsets, self._offsets = self._offsets, {}
        if self._loop.commit_record is not None:
            for each in records:
                self._loop.commit_record(each, offsets.get(id(each)))
        self._loop.commit()

    def own_metrics(self) -> dict[str, float]:
        """See `SourceOffsets`."""
        sizes = self._sizes
        return {
            "transaction-size-min": sizes.min,
            "transaction-size-max": sizes.max,
            "transaction-size-avg": sizes.mean,
        }

    def finish(self, *, failed: bool) -> None:
        """See `SourceOffsets`: what is not complete is aborted, so that readers need not wait for it."""
        if not failed:
            self._loop.flush_rows()
            self.paused()
        if self._rows:
            try:
                self._loop.forget_rows()
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
