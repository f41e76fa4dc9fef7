"""The loop of a sink task: consume → converters → transformations → put → pre_commit → commit, until it is to stop.

As Kafka's WorkerSinkTask: offsets are committed behind what the task says it has stored, `open` and `close` come with
rebalances, and a RetriableError brings the same records again while nothing else comes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.base import ConfigError, KafkaError, TopicPartition
from ottla.connect import ConnectError, Plugins, RetriableError, SinkRecord, SinkTask, compile_java, storage
from ottla.connect.tasks.dead_letters import DeadLetters, ensure_queue
from ottla.connect.tasks.error_handler import ErrorHandler, StoppingError
from ottla.connect.tasks.fetcher import Fetcher
from ottla.connect.tasks.interface import TaskPort, TaskSpec, WorkerClients
from ottla.connect.tasks.members import Member
from ottla.connect.tasks.metrics import SampleWindow, TaskMetrics
from ottla.connect.tasks.pipeline import RawRecord, SinkPipeline
from ottla.connect.tasks.plugins import equip
from ottla.connect.tasks.producer import TaskProducer
from ottla.connect.tasks.progress import TaskProgress, sink_positions, waiting_records
from ottla.connect.tasks.reach import TCP, Reach
from ottla.connect.tasks.settings import (
    admin_settings,
    boolean,
    consumer_settings,
    error_settings,
    integer,
    names,
    producer_settings,
    source_settings,
)
from ottla.connect.tasks.sink_context import ErrantRecords, SinkContext
from ottla.connect.tasks.sink_rows import Portion, RowReader, raw_records
from ottla.connect.tasks.sink_state import SinkMeasures, SinkPositions
from ottla.connect.tasks.spare_memory import SpareMemory
from ottla.connect.tasks.task_client import LazyClient

__all__ = ["SinkLoop"]

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.1
"""How long the loop waits for records before it looks at its group and at what the worker wants."""
IDLE_PUT_SECONDS = 1.0
"""How often a task's `put` is called without records; Kafka does so at least with each offset commit."""
REDELIVERY_SECONDS = 1.0
"""After how long records are put again, where the task gives no timeout."""


class SinkLoop:
    """One sink task; `run` once."""

    def __init__(self, spec: TaskSpec, port: TaskPort, plugins: Plugins, reach: Reach = TCP) -> None:
        self._spec, self._port, self._reach = spec, port, reach
        props, (connector, number) = spec.connector_config, spec.task
        commits, errors = source_settings(spec), error_settings(props)
        self._interval_s, self._timeout_s = commits.flush_interval_ms / 1000, commits.flush_timeout_ms / 1000
        equipment = equip(spec, plugins)
        self._topics = names(props, "topics")
        pattern = (props.get("topics.regex") or "").strip()
        if bool(self._topics) == bool(pattern):
            raise ConfigError("topics", props.get("topics"), "exactly one of topics and topics.regex is needed")
        self._pattern = compile_java(pattern) if pattern else None
        settings = consumer_settings(
            spec.clients.consumer, spec.clients.bootstrap, f"connector-consumer-{connector}-{number}"
        )
        clients = spec.clients if errors.dead_letters else WorkerClients(spec.clients.bootstrap)
        dlq = producer_settings(clients.producer, clients.bootstrap, f"connector-dlq-producer-{connector}-{number}")
        admin = admin_settings(clients.admin, clients.bootstrap, f"connector-dlq-adminclient-{connector}-{number}")
        self._task: SinkTask = equipment.connector.cls.task_class()
        window = SampleWindow.of(spec.worker)
        self._metrics = TaskMetrics(port.report, window)
        self._metrics.more = self._own_metrics
        self._progress = TaskProgress()
        self._handler = ErrorHandler(errors, spec.task, port, self._metrics, reach.now)
        pipeline = SinkPipeline(equipment, self._handler)
        self._rows = RowReader(self._task, equipment, pipeline, poll_records=settings.poll_records)
        self._task_client = reach.client(
            settings.bootstrap,
            settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            security=settings.security,
        )
        self._now = self._task_client.now
        self._fetcher = Fetcher(self._task_client, settings, window)
        self._settings, self._dlq_settings, self._errors = settings, dlq, errors
        self._dead_letter_client = LazyClient(
            dlq.bootstrap,
            dlq.client_id,
            request_timeout_ms=dlq.request_timeout_ms,
            security=dlq.security,
            make_client=reach.client,
        )
        self._admin = LazyClient(
            admin.bootstrap,
            admin.client_id,
            request_timeout_ms=admin.request_timeout_ms,
            security=admin.security,
            make_client=reach.client,
        )
        self._member: Member | None = None
        self._dead_letters: DeadLetters | None = None
        reports = bool(errors.dead_letters) or errors.logged
        configs = {key: value for key, value in spec.config.items() if value is not None}
        self._context = SinkContext(configs, self._fetcher)
        if reports:
            self._context.errant_records = ErrantRecords(self._handler, self._raw, self._context.reported)
        self._graceful_s = integer(spec.worker, "task.shutdown.graceful.timeout.ms", 5_000) / 1000
        self._tracks_topics = boolean(spec.worker, "topic.tracking.enable", True)
        self._used: set[str] = set()
        self._at = SinkPositions()
        self._again_at = 0.0
        self._commit_at = self._now() + self._interval_s
        self._put_at = self._now()
        self._committing: float | None = None
        """Since when a commit is under way."""
        self._started = self._stopped = self._is_paused = False
        self._measures = SinkMeasures(window)
        self._spare = SpareMemory(self._now(), reach.free)

    # -- from start to end

    def run(self) -> None:
        """Run until the worker wants the task stopped; raises what ends it otherwise."""
        try:
            self._start()
            try:
                self._loop()
            finally:
                self._close_partitions(list(self._at.current), lost=False)
        finally:
            self._close()

    def _start(self) -> None:
        if self._errors.dead_letters:
            try:
                ensure_queue(self._admin(), self._errors)
            finally:
                self._admin.close()
            self._dead_letters = DeadLetters(
                self._errors, self._metrics, lambda: TaskProducer(self._dead_letter_client(), self._dlq_settings)
            )
            self._handler.reporters.append(self._dead_letters.report)
        self._member = self._reach.member(
            self._settings,
            storage.sink_group(self._spec.task.connector) if not self._group else self._group,
            assigned=self._on_assigned,
            revoked=self._on_revoked,
            committed=self._on_committed,
        )
        self._fetcher.start()
        self._task.context = self._context
        self._started = True
        self._task.start(self._context.configs)
        self._member.subscribe(self._topics, self._pattern)
        self._metrics.beside = self._tell_progress
        self._tell_progress()
        if self._port.target is not storage.TargetState.PAUSED:
            self._port.tell(storage.State.RUNNING)

    @property
    def _group(self) -> str | None:
        return self._spec.clients.consumer.get("group.id")

    def _loop(self) -> None:
        try:
            while (target := self._port.target) is not storage.TargetState.STOPPED:
                self._pause_or_resume(target is storage.TargetState.PAUSED)
                self._iterate()
        except StoppingError:
            log.info("The task stops while it retries; its records come again when it starts again")

    def _pause_or_resume(self, paused: bool) -> None:
        if paused == self._is_paused:
            return
        self._is_paused = paused
        self._metrics.paused(paused)
        self._progress.resumed()
        self._tell_progress()  # what was told before the pause is not to be taken for a standstill
        self._port.tell(storage.State.PAUSED if paused else storage.State.RUNNING)
        if paused:
            self._context.request_commit()

    def _iterate(self) -> None:
        now = self._now()
        if self._committing is None and (self._context.commit_requested or now >= self._commit_at):
            self._commit(list(self._at.current), closing=False)
            self._commit_at = now + self._interval_s
            self._context.commit_requested = False
        if self._committing is not None and now >= self._committing + self._timeout_s:
            log.warning("Commit of offsets timed out")
            self._progress.troubled("commit of offsets", "it was not answered in time")
            self._committing = None
            self._metrics.committed(1000 * self._timeout_s, failed=True)
        self._begin_anew()
        self._rewind()
        assert self._member is not None
        self._member.refresh(self._task_client)
        self._member.poll()
        self._metrics.maybe_report()
        self._spare.look(now)
        if self._at.waiting is not None:
            self._put_again(now)
        elif self._is_paused:
            self._port.wait(LOOK_SECONDS)
            self._put_nothing(now)
        else:
            self._consume(now)

    def _close(self) -> None:
        self._stopped = True
        for close in (
            self._task.stop if self._started else None,
            self._dead_letters.close if self._dead_letters is not None else None,
            self._dead_letter_client.close,
            self._member.close if self._member is not None else None,
            self._fetcher.close,
        ):
            try:
                if close is not None:
                    close()
            except Exception:  # it is over; what a plugin or a client says now changes nothing
                log.exception("Could not close the sink task in good order")
        self._task_client.close()
        self._metrics.report()

    # -- records

    def _consume(self, now: float) -> None:
        answer = self._fetcher.first(self._wait_s(now))
        if answer is None:
            self._put_nothing(now)
            return
        portion = self._rows.portion(answer)
        if portion is None:
            self._at.current[answer.partition] = answer.next_offset
            self._fetcher.done(answer)
            return
        answer.advance(portion.rows)
        self._measures.read.add(portion.rows)
        self._spare.took(portion.rows)
        self._note_topic(portion.partition.topic)
        self._deliver(portion)

    def _wait_s(self, now: float) -> float:
        timeout_ms, self._context.timeout_ms = self._context.timeout_ms, None
        wait_s = min(LOOK_SECONDS, max(self._commit_at - now, 0.0))
        return wait_s if timeout_ms is None else min(wait_s, timeout_ms / 1000)

    def _note_topic(self, topic: str) -> None:
        if self._tracks_topics and topic not in self._used:
            self._used.add(topic)
            self._port.used(topic)

    def _put_nothing(self, now: float) -> None:
        """Let the task do what time asks for, now and then."""
        if self._at.current and now >= self._put_at + IDLE_PUT_SECONDS:
            self._put(None)

    def _put_again(self, now: float) -> None:
        wait_s = self._again_at - now
        if wait_s > 0:
            self._port.wait(min(wait_s, LOOK_SECONDS))
        elif self._at.waiting is not None:
            self._deliver(self._at.waiting)

    def _deliver(self, portion: Portion) -> None:
        """Put records, and count them as the task's; they wait where it asks for them again."""
        if not self._put(portion):
            self._at.waiting = portion
            timeout_ms, self._context.timeout_ms = self._context.timeout_ms, None
            after_s = REDELIVERY_SECONDS if timeout_ms is None else max(timeout_ms, 0) / 1000
            self._again_at = self._now() + after_s
            return
        self._at.waiting = None
        self._context.reported.clear()
        self._at.current[portion.partition] = portion.next_offset
        self._measures.sent.add(len(portion))
        self._progress.moved(len(portion))
        self._metrics.batch_size.add(len(portion))

    def _put(self, portion: Portion | None) -> bool:
        """Call the task; returns False where it wants the same again. Raises ConnectError where it has failed."""
        started = self._put_at = self._now()
        self._at.shown = portion
        self._measures.active.add(0 if portion is None else len(portion))
        try:
            if portion is not None and portion.columns is not None:
                self._task.put_columns(portion.columns)  # type: ignore[attr-defined]
            else:
                self._task.put([] if portion is None else list(portion.records))
            self._handler.check()
        except RetriableError as error:
            log.error("RetriableException from SinkTask: %s", error, exc_info=error)
            self._progress.troubled("put", error)
            return portion is None
        except StoppingError:
            raise
        except Exception as error:  # a plugin may raise anything
            raise ConnectError("Exiting WorkerSinkTask due to unrecoverable exception.") from error
        self._measures.put_ms.add(1000 * (self._now() - started))
        self._progress.well("put")
        return True

    def _raw(self, record: SinkRecord) -> RawRecord:
        """Return the bytes of a record that the task reports; one of an earlier batch is read again."""
        topic, number, offset = record.original_topic, record.original_partition, record.original_offset
        assert topic is not None and number is not None and offset is not None
        portion = self._at.shown
        if portion is not None and portion.partition == (topic, number):
            for raw in portion.raws:
                if raw.offset == offset:
                    return raw
        partition = TopicPartition(topic, number)
        try:
            block = self._fetcher.read_one(partition, offset)
        except KafkaError as error:
            log.warning("The record %s of %s cannot be read again: %s", offset, partition, error)
            block = None
        if block is not None:
            return raw_records(partition, block.rows(0, 1))[0]
        return RawRecord(topic, number, offset, record.timestamp or -1, record.timestamp_type, None, None, [])

    # -- offsets

    def _begin_anew(self) -> None:
        """Read topics that were deleted and made again as new ones; the task stores what it holds of the old ones."""
        renewed = self._fetcher.renewed()
        if not renewed:
            return
        assert self._member is not None
        try:
            self._task.pre_commit({each: self._at.current[each] for each in renewed if each in self._at.current})
        except Exception as error:  # as where partitions are taken away
            log.warning("What the task held of deleted topics could not be stored", exc_info=error)
        self._task.close(renewed)
        positions = self._fetcher.start_offsets(renewed)
        self._at.begin(positions)
        self._task.open(renewed)
        self._fetcher.assign(positions)
        self._member.commit(positions, wait=False)

    def _of_these_topics(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offsets that mean the topics of now; the others count records of topics that are gone.

        Offsets are committed by a topic's name, and while a task is in a long `put` nothing is read that would tell of
        another topic under it. Where nobody can say, none is returned: records come again, and none is passed over.
        """
        try:
            self._fetcher.look()
        except KafkaError as error:
            log.warning("It is not known whether topics are those that were read; no offsets are committed: %s", error)
            return {}
        over = self._fetcher.are_over(offsets)
        return {each: offset for each, offset in offsets.items() if each not in over}

    def _rewind(self) -> None:
        """Go on where the task has asked for."""
        sought, self._context.sought = self._context.sought, {}
        wanted = {each: offset for each, offset in sought.items() if each in self._context.partitions}
        if wanted:
            self._fetcher.assign(wanted)
            self._at.begin(wanted)

    def _commit(self, partitions: Iterable[TopicPartition], *, closing: bool) -> None:
        """Commit what the task has stored; see Kafka's `commitOffsets`. Raises ConnectError for a refused dead letter."""
        try:
            if self._dead_letters is not None:
                self._dead_letters.flush()
        except ConnectError:
            if closing:
                self._task.close(list(partitions))
            raise
        offsets = {each: self._at.current[each] for each in partitions if each in self._at.current}
        if not offsets:
            return
        self._measures.commits += 1
        started = self._now()
        before = {each: self._at.committed[each] for each in offsets if each in self._at.committed}
        try:
            provided = self._task.pre_commit(dict(offsets))
        except Exception as error:  # a plugin may raise anything
            self._commit_refused(error, before, closing=closing)
            self._metrics.committed(1000 * (self._now() - started), failed=True)
            return
        finally:
            if closing:
                self._task.close(list(offsets))
        committable = self._of_these_topics(self._committable(dict(provided or {}), offsets, before))
        if not provided or not committable or committable.items() <= before.items():
            self._measures.commits_skipped.add()
            self._progress.well("commit of offsets")
            self._metrics.committed(1000 * (self._now() - started))
            return
        assert self._member is not None
        self._committing = started
        self._member.commit(committable, wait=closing)

    def _commit_refused(self, error: Exception, before: dict[TopicPartition, int], *, closing: bool) -> None:
        if closing:
            log.warning("Offset commit failed during close", exc_info=error)
            return
        log.error("Offset commit failed, rewinding to last committed offsets", exc_info=error)
        self._progress.troubled("commit of offsets", error)
        self._fetcher.assign(before)
        self._at.begin(before)

    def _committable(
        self, provided: dict[TopicPartition, int], offsets: dict[TopicPartition, int], before: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return what of a task's offsets may be committed: those of its partitions, not beyond what it was given."""
        found = dict(before)
        for partition, offset in provided.items():
            if partition not in offsets:
                if partition not in self._context.partitions:
                    log.warning(
                        "Ignoring invalid task provided offset %s/%s -- partition not assigned", partition, offset
                    )
            elif offset <= offsets[partition]:
                found[partition] = offset
            else:
                log.warning(
                    "Ignoring invalid task provided offset %s/%s -- not yet consumed, taskOffset=%s currentOffset=%s",
                    *(partition, offset, offset, offsets[partition]),
                )
        return found

    def _on_committed(self, error: str | None, offsets: Any) -> None:
        started, self._committing = self._committing, None
        if started is None:
            return
        self._metrics.committed(1000 * (self._now() - started), failed=error is not None)
        if error is not None:
            log.error("Commit of offsets threw an unexpected exception: %s", error)
            self._progress.troubled("commit of offsets", error)
            return
        self._progress.well("commit of offsets")
        self._measures.commits_done.add()
        self._at.committed.update({each: at for each, at in offsets.items() if each in self._context.partitions})

    # -- rebalances

    def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if self._stopped:
            return
        assert self._member is not None
        self._fetcher.recognise(partitions)
        committed = self._member.committed(partitions)
        missing = [each for each in partitions if each not in committed]
        positions = {**committed, **self._fetcher.start_offsets(missing)}
        self._at.begin(positions)
        self._context.partitions |= set(partitions)
        self._context.paused &= self._context.partitions
        if partitions:
            self._task.open(list(partitions))
            self._fetcher.assign(positions)
            self._rewind()

    def _on_revoked(self, partitions: Sequence[TopicPartition], lost: bool) -> None:
        if self._stopped or not partitions:
            return
        self._close_partitions(partitions, lost=lost)

    def _close_partitions(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        gone = set(partitions)
        if not gone:
            return
        try:
            if lost:
                self._task.close(list(partitions))
            else:
                self._committing = None
                self._commit(partitions, closing=True)
        finally:
            self._fetcher.remove(gone)
            self._at.remove(gone)
            self._context.partitions -= gone
            self._context.paused -= gone

    def _tell_progress(self) -> None:
        current, waiting = self._at.current, self._at.waiting
        if not current:
            self._progress.resumed()  # what was tried with partitions that others have now is tried no more
        self._progress.is_so("topics", self._fetcher.trouble())
        self._port.progress(
            self._progress.told(
                waiting_records(current, self._fetcher.ends()),
                mark=sum(current.values()),
                oldest_ms=self._fetcher.oldest_ms() if waiting is None else waiting.oldest_ms,
                position=sink_positions(self._at.committed),
            )
        )

    def _own_metrics(self) -> dict[str, float]:
        waiting = 0 if self._at.waiting is None else len(self._at.waiting)
        return {
            **self._fetcher.metrics(),
            **self._measures.values(self._at.current, self._fetcher.ends(), waiting=waiting),
            "partition-count": len(self._context.partitions),
        }
