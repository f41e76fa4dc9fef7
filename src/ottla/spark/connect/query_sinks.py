"""`run_query_sink`: a task that is a streaming query, from its start to its orderly stop or its failure.

It runs in the worker, in a thread of its own, and has `run_task`'s manners: the same port, the same states. There is one
query for a connector, and `tasks.max` bounds how many of Spark's tasks work on a micro-batch.

Where the query goes on stands in the consumer group `connect-<name>` alone; Spark's own checkpoint is made anew for each
start. So offsets that an operator sets or deletes are followed, and any worker can go on. One thing is kept from being done
twice: a batch that the sink has, and whose commit was lost. Every commit carries the token of the run in its words; the sink
keeps the token with its batches (`Recovered`), and where both are the same, the sink is ahead of the group and is right.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import ConfigError, ErrorCode, KafkaError, Offset, OffsetRange, TopicPartition, Uuid
from ottla.client import LATEST, BlockingClient, Isolation, client_network, security_of
from ottla.config import is_secret
from ottla.connect import (
    ConnectError,
    Files,
    Plugins,
    QueryBatch,
    QueryFrame,
    QuerySink,
    Reading,
    RetriableError,
    Shape,
    compile_java,
    storage,
)
from ottla.connect.tasks import Lags, SampleWindow, TaskPort, TaskSpec
from ottla.spark.checkpoint_files import LocalFiles
from ottla.spark.connect.override_placeholders import refuse_placeholders
from ottla.spark.connect.query_progress import QueryProgress, query_mark
from ottla.spark.private_api.arrow_types import spark_schema
from ottla.spark.private_api.checkpoints import QueryCheckpoint
from ottla.spark.source.options import Subscription
from ottla.spark.source.positions import find_partitions, offsets_of_json, offsets_to_json
from ottla.spark.source.secured import KeptAside
from ottla.spark.streams.progress import reset_offsets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["is_query_sink", "of_these_topics", "run_query_sink"]

log = logging.getLogger(__name__)
TRIGGER_MS_MIN = 250
"""How often topics are looked at, at most."""
CONVERSION_PREFIXES = ("key.converter.", "value.converter.", "header.converter.", "transforms.", "predicates.")
LOOK_SECONDS = 0.2
GRACEFUL_SETTING, GRACEFUL_MS_DEFAULT = "task.shutdown.graceful.timeout.ms", 5_000
PATIENCE = 0.7
"""How much of the time that a stop has is given to the batch that is being written."""
RENEWED_SECONDS = 2.0
"""How often it is looked whether a topic was deleted and made again; it is also looked before each batch."""
COMMIT_SECONDS_MAX = 60.0
RETRY_SECONDS_MAX = 60.0
NEW_COLUMNS_MAX = 3
"""How often a batch is looked through for columns before that is given up."""
MARK = "ottla:"
"""What our commits' words begin with; the token of the run follows."""
STRING_CONVERTER = "StringConverter"
FETCH_KEYS = ("client.id", "request.timeout.ms", "max.partition.fetch.bytes")


def is_query_sink(spec: TaskSpec, plugins: Plugins) -> bool:
    """Return whether a task is to be run by `run_query_sink`."""
    try:
        task = _task_class(spec, plugins)
    except ConnectError:
        return False  # nobody knows the connector's class, which whoever runs the task says
    return isinstance(task, type) and issubclass(task, QuerySink)


def _task_class(spec: TaskSpec, plugins: Plugins) -> Any:
    return plugins.connector((spec.connector_config.get("connector.class") or "").strip()).cls.task_class


def run_query_sink(
    spec: TaskSpec, port: TaskPort, *, spark: SparkSession, plugins: Plugins, archives: tuple[str, ...] = ()
) -> storage.State:
    """Run a task until `port.target` is STOPPED, or it fails; see `run_task`, whose place this takes.

    `archives` are the names under which Spark's workers find what is on `plugin.path`, where they do not see it themselves.
    """
    try:
        return _Run(spec, port, spark, plugins, archives).run()
    except ConnectionError:
        raise
    except Exception:  # a plugin or Spark may raise anything; the worker is told and decides
        port.tell(storage.State.FAILED, traceback.format_exc())
        return storage.State.FAILED


class _StoppedError(ConnectError):
    """The task is to end or pause: the batch that is being written is given up, and done again later."""


class _Context:
    """See `QuerySinkContext`."""

    def __init__(self, name: str, session: SparkSession, stopping: Callable[[], bool]) -> None:
        self.name, self.session = name, session
        self._stopping = stopping

    @property
    def stopping(self) -> bool:
        """See `QuerySinkContext`."""
        return self._stopping()

    def files(self, address: str, settings: Mapping[str, str] | None = None) -> Files:
        """See `QuerySinkContext`."""
        from ottla.spark.connect.hadoop_files import HadoopFiles

        return HadoopFiles(self.session, address, settings)


class _Run:
    """One task. The watching thread is `run_query_sink`'s caller; batches come on a thread of Spark's."""

    def __init__(
        self, spec: TaskSpec, port: TaskPort, spark: SparkSession, plugins: Plugins, archives: tuple[str, ...]
    ) -> None:
        self._spec, self._port, self._spark = spec, port, spark
        self._name = spec.task.connector
        self._config = {key: value for key, value in spec.connector_config.items() if value is not None}
        refuse_placeholders(self._config, spec.worker)
        self._consumer = dict(spec.clients.consumer)
        self._bootstrap = self._consumer.get("bootstrap.servers") or spec.clients.bootstrap
        is_local = str(spark.sparkContext.master).startswith("local")
        self._security = KeptAside(security_of(self._consumer), local=is_local)
        self._dead_letter_security = KeptAside(security_of(spec.clients.producer), local=is_local)
        self._producer = {**spec.clients.producer, **self._dead_letter_security.properties}
        self._group = self._consumer.get("group.id") or storage.sink_group(self._name)
        self._subscription = _subscription(self._config)
        self._archives = archives
        self._sink: QuerySink = _task_class(spec, plugins)()
        self._sink.context = _Context(self._name, spark, lambda: self._stopping.is_set())
        self._reading = Reading()
        self._frames: _Frames | None = None
        self._token = ""
        self._positions: dict[TopicPartition, Offset] = {}
        self._committed: dict[TopicPartition, Offset] = {}
        self._ids: dict[str, Uuid] = {}
        self._look_again = 0.0
        self._stopping = threading.Event()
        self._writing = threading.Lock()
        self._progress = QueryProgress()
        self._lags = Lags(SampleWindow.of(spec.worker))
        self._error: BaseException | None = None
        self._metrics = {
            "sink-record-read-total": 0.0,
            "sink-record-send-total": 0.0,
            "offset-commit-completion-total": 0.0,
        }

    def run(self) -> storage.State:
        """Run; returns UNASSIGNED after an orderly end."""
        self._reading = self._sink.start({key: value for key, value in self._spec.config.items() if value is not None})
        try:
            self._frames = _Frames(self._spec, self._config, self._reading, self._archives, self._producer)
            while self._port.target is not storage.TargetState.STOPPED:
                if self._port.target is storage.TargetState.PAUSED:
                    self._port.tell(storage.State.PAUSED)
                    while self._port.target is storage.TargetState.PAUSED:
                        self._port.wait(LOOK_SECONDS * 5)
                    continue
                self._run_query()
        finally:
            self._sink.stop()
        self._port.tell(storage.State.UNASSIGNED)
        return storage.State.UNASSIGNED

    def _run_query(self) -> None:
        """Run the query until something else is wanted; raises what made it fail."""
        self._stopping.clear()
        self._error = None
        network = client_network(self._consumer)
        with BlockingClient(self._bootstrap, client_id=f"{self._group}-0", network=network) as client:
            self._begin(client)
            checkpoint = Path(tempfile.mkdtemp(prefix="ottla-connect-query-"))
            query = self._start(client, checkpoint)
            try:
                self._progress.began()
                self._tell_progress(client, query)
                self._port.tell(storage.State.RUNNING)
                while self._port.target is storage.TargetState.STARTED and self._runs(query):
                    if self._is_to_begin_anew(client):
                        break
                    self._tell_progress(client, query)
                    self._port.wait(LOOK_SECONDS)
                if not self._runs(query) and not isinstance(self._error, _StoppedError):
                    raise self._failure(query)
            finally:
                self._stop(query)
                shutil.rmtree(checkpoint, ignore_errors=True)
        if self._error is not None and not isinstance(self._error, _StoppedError):
            raise self._error

    def _tell_progress(self, client: BlockingClient, query: StreamingQuery) -> None:
        """Tell about once a second; where topics end is asked between batches, as the client is for one thread at a time."""
        if not self._progress.is_due:
            return
        if self._progress.looks and self._writing.acquire(blocking=False):
            try:
                committed = self._consumer.get("isolation.level", "read_committed") == "read_committed"
                isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
                self._progress.look(client, self._positions, isolation)
            finally:
                self._writing.release()
        is_active, mark = query_mark(self._spark, query)
        told = self._progress.told(self._positions.copy(), self._committed.copy(), is_active=is_active, mark=mark)
        self._port.progress(told)

    def _runs(self, query: StreamingQuery) -> bool:
        return self._error is None and query.isActive

    def _failure(self, query: StreamingQuery) -> BaseException:
        if self._error is not None:
            return self._error
        error = query.exception()
        return ConnectError(str(error) if error is not None else "the query was stopped from outside")

    def _stop(self, query: StreamingQuery) -> None:
        """Stop between two batches; a batch that takes longer is broken off, and done again by the next start."""
        graceful_ms = int(self._spec.worker.get(GRACEFUL_SETTING) or GRACEFUL_MS_DEFAULT)
        if self._writing.acquire(timeout=graceful_ms * PATIENCE / 1000):
            self._stopping.set()
            self._writing.release()
        self._stopping.set()
        query.stop()
        with self._writing:  # nobody writes any more when this returns
            pass

    # -- where reading goes on

    def _begin(self, client: BlockingClient) -> None:
        """Find where each partition goes on, and write that into the group under this run's token."""
        recovered = self._sink.recover()
        committed = client.committed_offsets(self._group)
        renewed = self._renewed(client)
        committed = {each: found for each, found in committed.items() if each.topic not in renewed}
        known = {each: found.offset for each, found in committed.items()}
        if recovered is not None:
            under = {each: (found.offset, _token_of(found.metadata)) for each, found in committed.items()}
            ahead = {each: end for each, end in recovered.positions(under).items() if end != known[each]}
            for each, end in ahead.items():
                words = "%s: %s has been written up to %d; committed is %d"
                log.info(words, self._name, each, end, known[each])
            known |= ahead
        found = find_partitions(client, self._subscription)
        self._ids = {}
        reset = self._consumer.get("auto.offset.reset", "earliest")
        self._positions = reset_offsets(client, found, known, dict.fromkeys({each.topic for each in found}, reset))
        self._renewed(client)  # notes the topics' ids
        self._token = uuid.uuid4().hex
        self._sink.begin(self._token, self._positions)
        self._committed = {}
        self._commit(client, self._positions)

    def _is_to_begin_anew(self, client: BlockingClient) -> bool:
        """Look now and then, between batches, for topics that are new ones; the client is for one thread at a time."""
        if time.monotonic() < self._look_again or not self._writing.acquire(blocking=False):
            return False
        try:
            self._look_again = time.monotonic() + RENEWED_SECONDS
            return bool(self._renewed(client))
        finally:
            self._writing.release()

    def _renewed(self, client: BlockingClient) -> set[str]:
        """Return the topics that were deleted and made again under their names since the query began."""
        names = {*self._ids, *(each.topic for each in self._positions)}
        try:
            topics = client.metadata(names).topics if names else {}
        except KafkaError as error:
            log.debug("%s: topics are not known now: %s", self._name, error)
            return set()
        ids = {name: each.topic_id for name, each in topics.items() if not each.error}
        found = {name for name, each in ids.items() if self._ids.setdefault(name, each) != each}
        for name in found:
            log.warning("%s: the topic %s was deleted and made again; it is read as a new one", self._name, name)
        return found

    def _commit(self, client: BlockingClient, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit under this run's token; raises KafkaError where that does not work for a while."""
        wanted = {each: Offset(offset) for each, offset in offsets.items() if self._committed.get(each) != offset}
        deadline = time.monotonic() + COMMIT_SECONDS_MAX
        while True:
            try:
                client.commit_offsets(self._group, wanted, metadata=MARK + self._token)
            except KafkaError as error:
                has_members = error.code is ErrorCode.UNKNOWN_MEMBER_ID
                if time.monotonic() > deadline or self._stopping.is_set() or has_members:
                    raise
                log.warning("%s: offsets are not committed yet: %s", self._name, error)
                self._port.wait(1.0)
                continue
            self._committed.update(wanted)
            return

    # -- the query

    def _start(self, client: BlockingClient, checkpoint: Path) -> StreamingQuery:
        assert self._frames is not None
        reader = self._spark.readStream.format("ottla").schema(self._frames.source_schema())
        rows = reader.options(**self._options()).load()

        def write(batch: DataFrame, number: int) -> None:
            with self._writing:
                try:
                    if self._stopping.is_set():
                        raise _StoppedError("the task is to end")
                    self._write(client, batch, number, checkpoint)
                except BaseException as error:  # the query's thread is Spark's; `run` raises it
                    self._error = error
                    # No more than this goes to the JVM: Spark searches what it is told by an expression that recurses. On a
                    # whole stack trace it overflowed its stack, and the query neither ran nor was told to have ended.
                    raise ConnectError(f"batch {number} failed: {type(error).__name__}") from None

        interval = max(self._reading.interval_ms, TRIGGER_MS_MIN)
        return (
            rows.writeStream.queryName(f"connect-{self._name}-{self._token[:8]}")
            .foreachBatch(write)
            .option("checkpointLocation", checkpoint.as_uri())
            .trigger(processingTime=f"{interval} milliseconds")
            .start()
        )

    def _options(self) -> dict[str, str]:
        assert self._frames is not None
        options = {
            "kafka.bootstrap.servers": self._bootstrap,
            "kafka.isolation.level": self._consumer.get("isolation.level", "read_committed"),
            "subscribePattern": self._subscription.pattern,
            "startingOffsets": json.dumps(offsets_to_json(self._positions)),
            "failOnDataLoss": "false",
            "includeHeaders": str(self._frames.with_headers).lower(),
        }
        options |= {f"kafka.{key}": self._consumer[key] for key in FETCH_KEYS if key in self._consumer}
        options |= {f"kafka.{key}": value for key, value in self._security.properties.items()}
        reading = self._reading
        numbers = {
            "maxOffsetsPerTrigger": reading.rows_max,
            "offsetMultiple": reading.rows_per_partition,
            "offsetMultipleDelayMs": reading.wait_ms_max,
        }
        return options | {key: str(number) for key, number in numbers.items() if number is not None}

    def _write(self, client: BlockingClient, rows: DataFrame, number: int, checkpoint: Path) -> None:
        """Have the sink write a batch, and commit it."""
        assert self._frames is not None
        if self._renewed(client):
            raise _StoppedError("a topic was deleted and made again")
        ranges = self._ranges(number, checkpoint)
        self._commit(client, {each.partition: self._positions.get(each.partition, each.start) for each in ranges})
        for topic in {each.partition.topic for each in ranges}:
            self._port.used(topic)
        began, attempt, looked = time.monotonic(), 0, 0
        while True:
            try:
                with self._frames.of(rows) as frames:
                    self._sink.write(QueryBatch(number, frames, ranges, self._token))
                break
            except Exception as error:  # a plugin or Spark may raise anything; what is tried again is decided below
                if self._stopping.is_set():
                    raise
                if self._frames.are_outgrown(error) and looked < NEW_COLUMNS_MAX:
                    looked += 1
                    self._frames.look(rows)
                elif isinstance(error, RetriableError):
                    log.warning("%s: a batch is tried again: %s", self._name, error)
                    self._progress.trouble = str(error)
                    self._port.wait(min(RETRY_SECONDS_MAX, 2.0**attempt))
                    attempt += 1
                    self._check_wanted()
                else:
                    raise
        self._positions.update({each.partition: each.end for each in ranges})
        self._commit(client, of_these_topics(client, self._ids, self._positions))
        lags = self._lag_metrics(client)
        self._progress.trouble = None
        self._progress.records += sum(each.end - each.start for each in ranges)
        self._report(sum(each.end - each.start for each in ranges), time.monotonic() - began, lags)

    def _check_wanted(self) -> None:
        if self._port.target is not storage.TargetState.STARTED:
            raise _StoppedError("the task is to end")

    def _ranges(self, number: int, checkpoint: Path) -> list[OffsetRange]:
        """Return how far a batch goes: Spark has written that down before it began the batch."""
        planned = QueryCheckpoint(str(checkpoint), LocalFiles()).offsets_of_last_source(number)
        found = []
        for each, end in offsets_of_json(json.loads(planned)).items():
            start = self._positions.get(each)
            if start is None:
                start = Offset(0)  # a new partition: the source begins it at its beginning
            if end > start:
                found.append(OffsetRange(each, start, end))
        return sorted(found)

    def _lag_metrics(self, client: BlockingClient) -> dict[str, float]:
        """Return how far the sink is behind its topics now; nothing where nobody says."""
        try:
            ends = client.list_offsets(dict.fromkeys(self._positions, LATEST))
        except KafkaError as error:
            log.debug("The ends of the topics are not known now: %s", error)
            return {}
        return self._lags.values(self._positions, {each: found.offset for each, found in ends.items()})

    def _report(self, records: int, seconds: float, lags: Mapping[str, float]) -> None:
        self._metrics["sink-record-read-total"] += records
        self._metrics["sink-record-send-total"] += records
        self._metrics["offset-commit-completion-total"] += 1
        self._metrics["partition-count"] = len(self._positions)
        self._metrics["put-batch-max-time-ms"] = max(self._metrics.get("put-batch-max-time-ms", 0.0), seconds * 1000)
        self._port.report({**self._metrics, **lags})


def of_these_topics(
    client: BlockingClient, ids: dict[str, Uuid], offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offsets whose topics are those of `ids` still; one that has no id there yet is noted.

    Offsets are committed by a topic's name, and while a sink writes nobody looks whether another topic is under it. Where
    nobody can say, none is returned: records come again, and none is passed over.
    """
    try:
        topics = client.metadata({each.topic for each in offsets}).topics
    except KafkaError as error:
        log.warning("It is not known whether topics are those that were read; no offsets are committed: %s", error)
        return {}
    same = {
        name for name, each in topics.items() if not each.error and ids.setdefault(name, each.topic_id) == each.topic_id
    }
    return {each: offset for each, offset in offsets.items() if each.topic in same}


def _token_of(metadata: str | None) -> str | None:
    """Return the token of the run that committed an offset under these words; None where it was somebody else."""
    return metadata.removeprefix(MARK) if metadata and metadata.startswith(MARK) else None


def _shown(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what converters and transformations may need, without the secrets of the sink and of its clients."""
    secret = {key for key, value in properties.items() if is_secret(key, value)}
    return {key: value for key, value in properties.items() if key not in secret or key.startswith(CONVERSION_PREFIXES)}


class _Frames:
    """Makes the frames of micro-batches, and remembers which columns topics have."""

    def __init__(
        self,
        spec: TaskSpec,
        config: Mapping[str, str],
        reading: Reading,
        archives: tuple[str, ...],
        producer: Mapping[str, str],
    ) -> None:
        """`producer` are the properties of what sends dead letters; they travel with Spark, as the rest does."""
        from ottla.spark.connect.query_rows import Conversion, fixed_kind

        self._conversion = Conversion(
            spec.task.connector,
            _shown(config),
            _shown(spec.worker),
            spec.plugin_path,
            archives,
            reading.shape,
            reading.keys,
            spec.clients.bootstrap,
            producer,
        )
        self._tasks_max = int(config.get("tasks.max") or 1)
        self._kinds: dict[str, pa.DataType] = {}
        self._fixed = fixed_kind(reading.shape)
        self._is_text = self._is_native(config, spec.worker)

    @property
    def with_headers(self) -> bool:
        """Whether records' headers are read."""
        return self._conversion.with_headers

    def source_schema(self) -> Any:
        """Return the columns to read."""
        from pyspark.sql.types import StructType

        from ottla.spark.source.columns import SCHEMA

        left_out = set() if self.with_headers else {"headers"}
        if not (self._conversion.config.get("transforms") or self._conversion.with_keys or self.with_headers):
            left_out.add("key")
        return StructType([field for field in SCHEMA.fields if field.name not in left_out])

    def of(self, rows: DataFrame) -> _Opened:
        """Return a batch's frames, for a `with` block."""
        rows = rows.coalesce(self._tasks_max)
        if self._is_text:
            return _Opened([QueryFrame(_text_rows(rows))])
        if self._fixed is not None:
            return _Opened([self._frame(rows, self._fixed)])
        if not self._kinds:
            self.look(rows)
        from ottla.spark.connect.query_columns import settled

        kinds = list(dict.fromkeys(settled(kind) for kind in self._kinds.values()))
        if len(kinds) > 1:
            rows = rows.persist()
        frames = [self._frame(rows, kind, reports=kind is kinds[0]) for kind in kinds]
        return _Opened(frames, rows if len(kinds) > 1 else None)

    def _frame(self, rows: DataFrame, kind: pa.DataType, *, reports: bool = True) -> QueryFrame:
        """Return the rows with one type of values; every frame goes through all rows, and one reports what fails."""
        from ottla.spark.connect.query_rows import converted, row_schema

        schema = spark_schema(row_schema(kind, with_keys=self._conversion.with_keys))
        conversion = replace(self._conversion, reports=reports)
        return QueryFrame(rows.mapInArrow(partial(converted, conversion, dict(self._kinds), kind), schema))

    def look(self, rows: DataFrame) -> None:
        """Look a batch through for columns."""
        from ottla.spark.connect.query_rows import COLUMNS_FOUND, found_columns, grown

        found = rows.mapInArrow(partial(found_columns, self._conversion), COLUMNS_FOUND).distinct().collect()
        self._kinds = grown(self._kinds, ((row.topic, bytes(row.kind)) for row in found))

    def are_outgrown(self, error: BaseException) -> bool:
        """Whether a job failed for columns that were not known."""
        from ottla.spark.connect.query_rows import NEW_COLUMNS

        return NEW_COLUMNS in str(error)

    def _is_native(self, config: Mapping[str, str], worker: Mapping[str, str | None]) -> bool:
        """Whether values are text that Spark makes of bytes by itself."""
        chosen: Mapping[str, str | None] = config if config.get("value.converter") else worker
        name = (chosen.get("value.converter") or "").rpartition(".")[2]
        encoding = (chosen.get("value.converter.converter.encoding") or "UTF-8").upper()
        wanted = self._conversion.shape is Shape.COLUMNS and not self._conversion.with_keys
        return wanted and name == STRING_CONVERTER and encoding == "UTF-8" and not config.get("transforms")


class _Opened:
    """Frames, and what is let go of when they are done with."""

    def __init__(self, frames: list[QueryFrame], kept: DataFrame | None = None) -> None:
        self._frames, self._kept = frames, kept

    def __enter__(self) -> list[QueryFrame]:
        return self._frames

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            self._kept.unpersist()


def _text_rows(rows: DataFrame) -> DataFrame:
    return rows.selectExpr(
        "topic",
        "partition",
        "if(timestamp < timestamp_millis(0), null, timestamp) timestamp",
        "make_valid_utf8(cast(value as string)) value",
        "topic kafka_topic",
        "partition kafka_partition",
        "offset kafka_offset",
    )


def _subscription(config: Mapping[str, str]) -> Subscription:
    """Return which topics a connector reads, as one pattern: topics that are not there yet are waited for."""
    regex = (config.get("topics.regex") or "").strip()
    if regex:
        return Subscription(pattern=compile_java(regex).pattern)
    names = [each.strip() for each in (config.get("topics") or "").split(",") if each.strip()]
    if not names:
        raise ConfigError("topics", config.get("topics"), "the names of the topics to read; or `topics.regex`")
    return Subscription(pattern="|".join(re.escape(each) for each in names))
