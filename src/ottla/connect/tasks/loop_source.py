"""The loop of a source task: poll → transformations → converters → produce → offsets, until the worker wants it to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base import KafkaError
from ottla.client.arrow.batches import binary
from ottla.connect import (
    ConnectError,
    Converter,
    Plugins,
    RetriableError,
    SourceBatch,
    SourceColumns,
    SourceRecord,
    SourceState,
    SourceTask,
    TransactionContext,
    error_policy,
    storage,
)
from ottla.connect.tasks import record_runs
from ottla.connect.tasks.creation import TopicCreator, creation_groups
from ottla.connect.tasks.dead_letters import dead_letter_refused, ensure_queue, source_dead_letter
from ottla.connect.tasks.error_handler import ErrorHandler, Failed, StoppingError
from ottla.connect.tasks.interface import TaskPort, TaskSpec
from ottla.connect.tasks.metrics import Average, SampleWindow, TaskMetrics, Total, flat
from ottla.connect.tasks.offsets_topic import OffsetsTopic
from ottla.connect.tasks.pipeline import FailedSource, Headers, SourcePipeline, converts_columns
from ottla.connect.tasks.plugins import TaskPlugins, equip
from ottla.connect.tasks.producer import Outcome, RowChunk, TaskProducer
from ottla.connect.tasks.progress import HeldSince, TaskProgress, checked_state
from ottla.connect.tasks.reach import TCP, Reach
from ottla.connect.tasks.settings import (
    Boundary,
    admin_settings,
    boolean,
    error_settings,
    integer,
    producer_settings,
    source_settings,
)
from ottla.connect.tasks.source_offsets import AtLeastOnce, ExactlyOnce, LoopCalls, SourceOffsets
from ottla.connect.tasks.spare_memory import SpareMemory
from ottla.connect.tasks.submitted import Submitted
from ottla.connect.tasks.task_client import LazyClient

__all__ = ["SourceLoop"]

log = logging.getLogger(__name__)
CHUNK_ROWS_MAX = 5_000
"""Rows of one poll that are handed to the producer at once, so that sending begins before converting ends."""
SEND_FAILED_BACKOFF_SECONDS = 0.1
GRACEFUL_MS_DEFAULT = 5_000
PAUSED_SECONDS = 1.0
IDLE_SECONDS_MIN, IDLE_SECONDS_MAX = 0.001, 0.05
"""The wait behind a `poll` that returned nothing without waiting itself; it doubles from the first to the last."""
WORKER_TASK = "org.apache.kafka.connect.runtime.WorkerSourceTask"

Columns = SourceColumns
Polled = list[SourceRecord | Columns | SourceBatch]
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_ONE_BY_ONE = object()


class _Context:
    """The task's `SourceTaskContext`."""

    def __init__(self, configs: Mapping[str, str], offsets: SourceOffsets, *, takes_columns: bool) -> None:
        self._configs, self._offsets, self._takes_columns = configs, offsets, takes_columns

    @property
    def configs(self) -> Mapping[str, str]:
        return self._configs

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any]:
        [found] = self._offsets.read([partition])
        return {} if found is None else found

    @property
    def transaction(self) -> TransactionContext | None:
        return self._offsets.transaction

    @property
    def takes_columns(self) -> bool:
        return self._takes_columns


class SourceLoop:
    """One source task; `run` once."""

    _measures_failed = _state_failed = False

    def __init__(self, spec: TaskSpec, port: TaskPort, plugins: Plugins, reach: Reach = TCP) -> None:
        self._spec, self._port = spec, port
        self._settings, self._errors = source_settings(spec), error_settings(spec.connector_config)
        self._equipment: TaskPlugins = equip(spec, plugins)
        self._task: SourceTask = self._equipment.connector.cls.task_class()
        window = SampleWindow.of(spec.worker)
        self._metrics = TaskMetrics(port.report, window)
        self._metrics.more = self._own_metrics
        self._progress, self._held = TaskProgress(), HeldSince()
        self._handler = ErrorHandler(self._errors, spec.task, port, self._metrics, reach.now)
        self._pipeline = SourcePipeline(self._equipment, self._handler)
        self._hears_records = type(self._task).commit_record is not SourceTask.commit_record
        self._takes_columns = (
            not self._equipment.stages and not self._hears_records and converts_columns(self._equipment.value)
        )
        self._runs = self._make_runs()
        converters = self._equipment.key, self._equipment.value
        self._takes_batches = (
            not self._equipment.stages
            and spec.transactional_id is None
            and all(type(each).java_name == BYTES for each in converters)
        )
        self._takes_headers = self._takes_batches and type(self._equipment.headers).java_name == BYTES
        connector, number = spec.task
        settings = producer_settings(
            spec.clients.producer, spec.clients.bootstrap, f"connector-producer-{connector}-{number}"
        )
        self._groups = creation_groups(spec.connector_config) if self._settings.creates_topics else ()
        self._task_client = reach.client(
            settings.bootstrap,
            settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            security=settings.security,
        )
        self._now = self._task_client.now
        self._producer = TaskProducer(
            self._task_client, settings, transactional_id=spec.transactional_id, cancelled=self._is_cancelled
        )
        admin = admin_settings(
            spec.clients.admin, spec.clients.bootstrap, f"connector-adminclient-{connector}-{number}"
        )
        self._admin = LazyClient(
            admin.bootstrap,
            admin.client_id,
            request_timeout_ms=admin.request_timeout_ms,
            security=admin.security,
            make_client=reach.client,
        )
        self._creator = TopicCreator(self._admin, self._groups)
        self._offsets = self._make_offsets()
        self._tracks_topics = boolean(spec.worker, "topic.tracking.enable", True)
        self._graceful_s = integer(spec.worker, "task.shutdown.graceful.timeout.ms", GRACEFUL_MS_DEFAULT) / 1000
        self._chunks: dict[str, RowChunk] = {}
        self._to_send: Polled = []
        self._sent = 0
        """How many of `_to_send` are handed over."""
        self._send_error: KafkaError | None = None
        self._refused: ConnectError | None = None
        self._used: set[str] = set()
        self._partition_counts: dict[str, int] = {}
        self._polled, self._written = Total(window), Total(window)
        self._poll_ms, self._active = Average(window), Average(window)
        self._idle_s = IDLE_SECONDS_MIN
        self._stop_seen: float | None = None
        self._started = False
        self._spare = SpareMemory(self._now(), reach.free)
        self._stopper = reach.stopper(self._task, port)
        self._dead_letter_converter: Converter = _dead_letter_converter(plugins)
        if self._errors.dead_letters:
            self._handler.reporters.append(self._dead_letter)

    def _make_runs(self) -> record_runs.RunConverter | None:
        """Return what converts records together; None where each has to be seen by itself."""
        by_connector = self._spec.transactional_id is not None and self._settings.boundary is Boundary.CONNECTOR
        if self._equipment.stages or by_connector:
            return None
        return record_runs.RunConverter(self._equipment, self._pipeline.headers)

    def _make_offsets(self) -> SourceOffsets:
        spec = self._spec
        calls = LoopCalls(
            flush_rows=self._hand_over,
            forget_rows=self._forget_rows,
            take_outcomes=self._take_outcomes,
            failed=self._failed,
            commit_record=self._commit_record if self._hears_records else None,
            commit_batch=self._commit_batch,
            commit=self._commit_task,
            now=self._now,
        )
        if spec.transactional_id is None:
            return AtLeastOnce(self._port, self._producer, self._settings, self._metrics, calls)
        if spec.offsets_topic is None:
            raise ConnectError("A source task under exactly once needs an offsets topic")
        topic = OffsetsTopic(self._task_client, spec.offsets_topic, spec.task.connector)
        return ExactlyOnce(self._port, self._producer, topic, self._settings, self._metrics, calls, spec.worker)

    # -- from start to end

    def run(self) -> None:
        """Run until the worker wants the task stopped; raises what ends it otherwise."""
        try:
            self._start()
            failed = True
            try:
                self._loop()
                failed = False
            finally:
                self._finish(failed=failed)
        finally:
            self._close()

    def _start(self) -> None:
        self._offsets.start()
        if self._errors.dead_letters:
            ensure_queue(self._admin(), self._errors)
        configs = {key: value for key, value in self._spec.config.items() if value is not None}
        takes_columns = self._takes_columns and converts_columns(self._equipment.key)
        self._task.context = _Context(configs, self._offsets, takes_columns=takes_columns)
        self._started = True
        self._stopper.start()
        self._task.start(configs)
        self._metrics.beside = self._tell_progress
        self._tell_progress()
        if self._port.target is not storage.TargetState.PAUSED:
            self._port.tell(storage.State.RUNNING)

    def _loop(self) -> None:
        try:
            while (target := self._port.target) is not storage.TargetState.STOPPED:
                self._take_outcomes()
                self._check_sent()
                self._offsets.tick()
                self._metrics.maybe_report()
                self._spare.look(self._now())
                if target is storage.TargetState.PAUSED:
                    self._pause()
                elif not self._to_send and not self._poll():
                    self._offsets.batch_dispatched()
                elif not self._send():
                    self._port.wait(SEND_FAILED_BACKOFF_SECONDS)
        except StoppingError:
            log.info("The task stops while it retries; its record is read again when it starts again")

    def _pause(self) -> None:
        self._offsets.paused()
        self._port.tell(storage.State.PAUSED)
        self._metrics.paused(True)
        while self._port.target is storage.TargetState.PAUSED:
            self._port.wait(PAUSED_SECONDS)
            self._take_outcomes()
            self._check_sent()
            self._offsets.tick()
            self._metrics.maybe_report()
            self._spare.look(self._now())
        self._metrics.paused(False)
        self._progress.resumed()
        self._tell_progress()  # what was told before the pause is not to be taken for a standstill
        if self._port.target is not storage.TargetState.STOPPED:
            self._port.tell(storage.State.RUNNING)

    def _finish(self, *, failed: bool) -> None:
        """Store what is acknowledged; of a task that has failed this must not hide why."""
        try:
            self._offsets.finish(failed=failed)
            if not failed:
                self._check_sent()
        except ConnectionError:
            raise
        except Exception:  # a plugin or a client: the task has failed already, and this must not hide why
            if not failed:
                raise
            log.exception("Failed to commit offsets for already-failing task")

    def _close(self) -> None:
        if self._started:
            self._stopper.finish()
        try:
            self._producer.close()
        finally:
            self._admin.close()
            self._task_client.close()
        self._metrics.report()

    def _is_cancelled(self) -> bool:
        """Return whether the worker has waited for longer than it does for a task to stop."""
        if self._port.target is not storage.TargetState.STOPPED:
            self._stop_seen = None
            return False
        if self._stop_seen is None:
            self._stop_seen = self._now()
        return self._now() - self._stop_seen > self._graceful_s

    # -- poll and send

    def _poll(self) -> bool:
        """Ask the task for records; returns False where there are none."""
        started = self._now()
        try:
            with self._stopper.waiting():
                found = self._task.poll()
        except RetriableError as error:
            log.warning("Failed to poll records from SourceTask. Will retry operation.", exc_info=error)
            self._progress.troubled("poll", error)
            found = None
        except Exception:  # a plugin that is stopped inside its wait may raise anything
            if not self._stopper.has_stopped:
                raise
            log.info("The task was stopped while it waited for records", exc_info=True)
            found = None
        else:
            self._progress.well("poll")
        took_s = self._now() - started
        polled: list[Any] = [found] if isinstance(found, Columns) else list(found or ())
        if found is None or not polled:
            if took_s < IDLE_SECONDS_MIN:
                self._port.wait(self._idle_s)
                self._idle_s = min(2 * self._idle_s, IDLE_SECONDS_MAX)
            return False
        self._idle_s = IDLE_SECONDS_MIN
        count = len(polled) if set(map(type, polled)) == {SourceRecord} else sum(map(_count_of, polled))
        self._polled.add(count)
        self._spare.took(count)
        self._poll_ms.add(1000 * took_s)
        self._metrics.batch_size.add(count)
        self._active.add(self._polled.value - self._written.value)
        self._to_send, self._sent = polled, 0
        self._held.polled(time.time_ns() // 1_000_000)
        return True

    def _send(self) -> bool:
        """Convert and hand over what was polled; returns False to be asked again later for the rest."""
        try:
            while self._sent < len(self._to_send):
                each = self._to_send[self._sent]
                if isinstance(each, SourceRecord):
                    self._send_records(self._to_send)
                elif self._send_batch(each) if isinstance(each, SourceBatch) else self._send_columns(each):
                    self._sent += 1
                else:  # from now on its rows are records like others, so that a retry begins at the one that failed
                    self._to_send[self._sent : self._sent + 1] = each.records()
            self._hand_over()
        except RetriableError as error:
            log.warning("Failed to send records. Backing off before retrying: %s", error)
            self._progress.troubled("send", error)
            return False
        except KafkaError as error:
            if not error.retriable:
                raise ConnectError(f"Unrecoverable exception trying to send: {error}") from error
            log.warning("Failed to send records. Backing off before retrying: %s", error)
            self._progress.troubled("send", error)
            return False
        self._progress.well("send")
        self._held.sent(self._producer.submitted, self._producer.settled)
        self._progress.at(self._to_send[-1].source_partition, self._to_send[-1].source_offset)
        self._to_send = []
        self._offsets.batch_dispatched()
        return True

    def _send_records(self, records: Sequence[Any]) -> None:
        """Send records from `_sent` on until a column or the end; counts them in `_sent`."""
        convert, offsets = self._pipeline.row, self._offsets
        now_ms = time.time_ns() // 1_000_000
        alone_until = 0
        while self._sent < len(records):
            original = records[self._sent]
            if not isinstance(original, SourceRecord):
                return
            if self._runs is not None and self._sent >= alone_until:
                run = self._runs.run(records, self._sent, now_ms)
                if run is not None:
                    self._add_run(run)
                    continue
                alone_until = self._sent + record_runs.ROWS_MAX
            partition, offset = original.source_partition, original.source_offset
            row = convert(original)
            if row is None:
                self._dropped(original)
            else:
                chunk = self._chunk(row[0])
                kept = original if self._offsets.keeps_records else None
                token = offsets.submit(kept, partition, offset, count=1)
                self._add(chunk, row, token, now_ms)
                offsets.dispatched(original, partition, offset)
            self._sent += 1

    def _add_run(self, run: record_runs.RecordRun) -> None:
        """Gather the rows of a run; counts them in `_sent`."""
        chunk, offsets = self._chunk(run.records[0]), self._offsets
        tokens = offsets.submit_all(run.records)
        chunk.add_all(run.keys, run.values, tokens, headers=run.headers, timestamps=run.timestamps)
        offsets.dispatched_all(run.records)
        self._sent += len(run.records)

    def _dropped(self, record: SourceRecord) -> None:
        self._written.add()
        self._offsets.dropped(record)

    def _chunk(self, record: SourceRecord) -> RowChunk:
        """Return where a record's row goes; raises ConnectError for a partition that its topic does not have."""
        topic = record.topic
        assert topic is not None
        found = self._chunks.get(topic)
        if found is None:
            self._creator.ensure(topic)
            found = self._chunks[topic] = RowChunk(topic)
        elif len(found) >= CHUNK_ROWS_MAX:
            self._producer.send(found)
            found = self._chunks[topic] = RowChunk(topic)
        if record.partition is not None:
            self._check_partition(topic, record.partition)
        return found

    def _check_partition(self, topic: str, partition: int) -> None:
        count = self._partition_counts.get(topic, 0)
        if partition >= count:
            count = self._partition_counts[topic] = self._producer.partition_count(topic)
        if not 0 <= partition < count:
            raise ConnectError(
                f"Unrecoverable exception trying to send: Invalid partition given with record: {partition} is not in the "
                f"range [0...{count})."
            )

    def _add(self, chunk: RowChunk, row: Any, token: Any, now_ms: int) -> None:
        record, key, value, headers = row
        timestamp = record.timestamp
        if timestamp is None or timestamp == -1:
            timestamp = now_ms
        elif timestamp < 0:
            raise ConnectError(f"Invalid record timestamp {timestamp}")
        chunk.add(key, value, token, headers=headers, partition=record.partition, timestamp=timestamp)

    def _send_columns(self, columns: Columns) -> bool:
        """Send all rows at once; returns False where they have to be converted one by one, and nothing was sent."""
        if not len(columns.values):
            self._offsets.submit(None, columns.source_partition, columns.source_offset, count=0)
            self._offsets.dispatched(None, columns.source_partition, columns.source_offset)
            return True
        converted = self._converted(columns)
        if converted is None:
            return False
        values, keys, headers = converted
        self._creator.ensure(columns.topic)
        if columns.partition is not None:
            self._check_partition(columns.topic, columns.partition)
        waiting = self._chunks.pop(columns.topic, None)
        if waiting is not None:
            self._producer.send(waiting)
        partition, offset = columns.source_partition, columns.source_offset
        kept = columns if self._offsets.keeps_records else None
        token = self._offsets.submit(kept, partition, offset, count=len(values))
        timestamp = columns.timestamp
        now_ms = time.time_ns() // 1_000_000 if timestamp is None or timestamp == -1 else timestamp
        where: dict[str, Any] = {"partition": columns.partition, "timestamp": now_ms}
        self._producer.send_columns(columns.topic, values, token, keys=keys, headers=headers, **where)
        self._offsets.dispatched(None, partition, offset)
        return True

    def _send_batch(self, batch: SourceBatch) -> bool:
        """Send a batch as it is; returns False where its records are wanted one by one, and nothing was sent."""
        if not (self._takes_headers if batch.has_headers else self._takes_batches):
            return False
        self._creator.ensure(batch.topic)
        self._check_partition(batch.topic, batch.partition)
        waiting = self._chunks.pop(batch.topic, None)
        if waiting is not None:
            self._producer.send(waiting)
        partition, offset = batch.source_partition, batch.source_offset
        token = self._offsets.submit(batch, partition, offset, count=batch.count)
        self._producer.send_batch(batch, token)
        self._offsets.dispatched(None, partition, offset)
        return True

    def _converted(self, columns: Columns) -> tuple[Any, Any, Headers | None] | None:
        """Return the bytes of all values and keys, and headers; None where they have to be converted one by one."""
        converter: Any = self._equipment.value
        if not self._takes_columns or (columns.timestamp or 0) < -1:
            return None
        try:
            keys = self._converted_keys(columns)
            values = converter.columns_from_connect(columns.topic, columns.schema, columns.values)
            if keys is _ONE_BY_ONE or values is None:
                return None
            headers = self._pipeline.headers(columns.topic, columns.headers) if columns.headers else None
        except Exception:  # the same is met again one by one, and handled there
            return None
        return binary(values), keys, headers

    def _converted_keys(self, columns: Columns) -> Any:
        """Return the bytes of all keys, None for none, `_ONE_BY_ONE` where they have to be converted one by one."""
        converter: Any = self._equipment.key
        if columns.keys is None:
            return None if converter.from_connect(columns.topic, None, None) is None else _ONE_BY_ONE
        if not converts_columns(converter):
            return _ONE_BY_ONE
        found = converter.columns_from_connect(columns.topic, columns.key_schema, columns.keys)
        return _ONE_BY_ONE if found is None else binary(found)

    def _hand_over(self) -> None:
        """Hand gathered rows to the producer."""
        for topic in list(self._chunks):
            self._producer.send(self._chunks.pop(topic))

    def _forget_rows(self) -> None:
        self._chunks.clear()

    def _dead_letter(self, failed: Failed, context: error_policy.ErrorContext) -> None:
        """Send a failed record where dead letters go; its offset is stored once that is."""
        assert isinstance(failed, FailedSource)
        topic, record = self._errors.dead_letters, failed.record
        assert topic is not None
        with_context = self._errors.dead_letters_context
        key, value, headers = source_dead_letter(
            failed, context, self._dead_letter_converter, with_context=with_context
        )
        partition, offset = record.source_partition, record.source_offset
        submitted = failed.submitted
        if submitted is None:
            submitted = self._offsets.submit(record, partition, offset, count=1)
            self._offsets.dispatched(None, partition, offset)
        chunk = self._chunks.setdefault(topic, RowChunk(topic))
        chunk.add(key, value, _DeadLetterToken(submitted), headers=headers, timestamp=time.time_ns() // 1_000_000)
        self._metrics.dead_letters.add()

    # -- what became of it

    def _take_outcomes(self) -> None:
        outcomes = self._producer.outcomes
        while outcomes:
            outcome = outcomes.popleft()
            if outcome.topic == self._errors.dead_letters:
                self._dead_letters_settled(outcome)
                continue
            self._offsets.settled(outcome)
            if outcome.topic == self._spec.offsets_topic:
                continue
            self._written.add(outcome.count)
            if outcome.error is None:
                self._progress.moved(outcome.count)
            if self._tracks_topics and outcome.error is None and outcome.topic not in self._used:
                self._used.add(outcome.topic)
                self._port.used(outcome.topic)

    def _dead_letters_settled(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._metrics.dead_letters_failed.add(outcome.count)
            self._refused = self._refused or dead_letter_refused(outcome.topic, outcome.error)
            return
        for each in outcome.tokens or ():
            submitted = each.token if isinstance(each, _DeadLetterToken) else each
            if isinstance(submitted, Submitted):
                submitted.left -= 1

    def _failed(self, outcome: Outcome, error: KafkaError) -> None:
        """Take rows that no broker will have: left out where errors are tolerated, the task's end elsewhere."""
        log.error("Failed to send record to %s: %s", outcome.topic, error)
        if not self._errors.tolerance.all:
            self._send_error = self._send_error or error
            return
        if outcome.tokens is None:
            whole, rows = outcome.token.record, outcome.rows
            part = whole.slice(outcome.first_row, outcome.count) if rows is None else whole.take(rows)
            refused = [(outcome.token, each) for each in part.records()]
        else:
            refused = [(each, each.record) for each in outcome.tokens]
        for token, record in refused:
            failed = FailedSource(record, token)
            self._handler.fail(error, error_policy.Processing.KAFKA_PRODUCE, WORKER_TASK, failed)
            if self._hears_records:
                self._commit_record(record, None)
            if not self._errors.dead_letters:  # a dead letter takes the record's place until it is stored
                token.left -= 1

    def _check_sent(self) -> None:
        try:
            self._producer.check()
        except ConnectError as error:
            self._offsets.send_failed(error)
        if self._refused is not None:
            raise self._refused
        if self._send_error is not None:
            raise ConnectError(
                f"Unrecoverable exception from producer send callback: {self._send_error}"
            ) from self._send_error

    def _commit_record(self, record: SourceRecord, offset: int | None) -> None:
        try:
            self._task.commit_record(record, offset)
        except Exception:  # a plugin may raise anything; Kafka's workers go on as well
            log.exception("Exception thrown while calling task.commit_record()")

    def _commit_batch(self, batch: SourceBatch, outcome: Outcome) -> None:
        offset = outcome.base_offset if outcome.base_offset >= 0 else None
        try:
            self._task.commit_batch(batch, outcome.first_row, outcome.count, offset)
        except Exception:  # a plugin may raise anything; Kafka's workers go on as well
            log.exception("Exception thrown while calling task.commit_batch()")

    def _commit_task(self) -> None:
        try:
            self._task.commit()
        except Exception:  # a plugin may raise anything; Kafka's workers go on as well
            log.exception("Exception thrown while calling task.commit()")

    def _tell_progress(self) -> None:
        held = max(len(self._to_send) - self._sent, 0) + self._producer.outstanding
        state = self._source_state()
        self._progress.is_so("source", state.trouble)
        self._progress.is_so("commit of offsets", self._offsets.trouble)
        oldest = [each for each in (self._held.oldest_ms(self._producer.settled), state.oldest_ms) if each is not None]
        self._port.progress(
            self._progress.told(
                held + state.waiting,
                mark=(self._polled.value, self._written.value, self._sent, None if held else state.moved),
                oldest_ms=min(oldest, default=None),
                source=state.facts,
                warnings=state.warnings,
            )
        )

    def _source_state(self) -> SourceState:
        """What the task knows of its source; its mistake there costs nothing else."""
        try:
            return checked_state(self._task.source_state())
        except Exception:  # a mistake of the plugin's: it is said once, and costs these facts alone
            if not self._state_failed:
                log.exception("Task %s cannot say how its source is", self._spec.task)
            self._state_failed = True
            return SourceState()

    def _own_metrics(self) -> dict[str, float]:
        found: dict[str, float] = {
            "source-record-poll-total": self._polled.value,
            "source-record-poll-rate": self._polled.rate,
            "source-record-write-total": self._written.value,
            "source-record-write-rate": self._written.rate,
            "poll-batch-max-time-ms": self._poll_ms.max,
            "poll-batch-avg-time-ms": self._poll_ms.mean,
            "source-record-active-count": max(0, self._polled.value - self._written.value),
            "source-record-active-count-max": self._active.max,
            "source-record-active-count-avg": self._active.mean,
        }
        return found | self._offsets.own_metrics() | self._measured()

    def _measured(self) -> dict[str, float]:
        """What the task measures itself; its mistake there costs nothing else."""
        try:
            return flat(self._task.measures())
        except Exception:  # a mistake of the plugin's: it is said once, and costs these metrics alone
            if not self._measures_failed:
                log.exception("Task %s cannot say what it measures", self._spec.task)
            self._measures_failed = True
            return {}


def _count_of(polled: SourceRecord | Columns | SourceBatch) -> int:
    if isinstance(polled, SourceRecord):
        return 1
    return polled.count if isinstance(polled, SourceBatch) else len(polled.values)


class _DeadLetterToken:
    """The token of a dead letter, around the one of its record."""

    __slots__ = ("token",)

    def __init__(self, token: Any) -> None:
        self.token = token


def _dead_letter_converter(plugins: Plugins) -> Converter:
    from ottla.connect import PluginKind

    made: Converter = plugins.require(PluginKind.CONVERTER, "org.apache.kafka.connect.json.JsonConverter")()
    made.configure({"schemas.enable": "false"}, is_key=False)
    return made
