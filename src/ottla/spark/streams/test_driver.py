"""`TopologyTestDriver`: a topology without a broker, for tests of applications, on either of the two engines.

In micro-batches the plan is cut and lowered as it is for a cluster, on a local Spark session; only topics are files
(`local_topics`) and results are kept in memory. With `{"execution": "continuous"}` the engine of hosts runs in this process
without Spark. Records that are piped in wait until something is asked; then they are one batch, in which updates of a
key coalesce as in Kafka Streams' record cache. `{"statestore.cache.max.bytes": 0}` shows every update.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.spark.continuous.mode import CONTINUOUS, EXECUTION
from ottla.spark.private_api.batches import batches_held_up
from ottla.spark.private_api.checkpoints import BY_FILE_SYSTEM, FILES_BY
from ottla.spark.source.local_topics import LocalRecord, LocalTopics, LocalTopicsSource
from ottla.spark.streams.internal_topics import changelog_topic, repartition_topic
from ottla.spark.streams.lowering.pushed import packed_steps, unpacked_steps
from ottla.spark.streams.starts import STARTS_MAX, QueryStarts, worker_was_late
from ottla.spark.streams.state.store_tables import LoggedEntry, StoreTable
from ottla.spark.streams.state.stores import Position, StoreView, log_topic
from ottla.streams import (
    Serde,
    SerdeLike,
    SinkNode,
    SourceNode,
    Stage,
    StreamsSettings,
    Topology,
    cut,
    partition_plan,
    serde_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]

T = TypeVar("T")
SETTINGS = {"application.id": "test", "bootstrap.servers": "test:9092"}
BATCH_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.005
CHECKPOINT_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    FILES_BY: BY_FILE_SYSTEM,
    "spark.sql.streaming.pollingDelay": "1ms",
}
"""One task is enough, and nothing has to outlive the test."""
_numbers = count(1)


class TestRecord(NamedTuple):
    """A record, with values of the topic's serdes; `timestamp` in milliseconds."""

    key: Any
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


TestRecord.__test__ = False  # type: ignore[attr-defined]  # no test case, though pytest would take its name for one's


class TopologyTestDriver:
    """Runs a topology for a test: pipe records in, read records out, look into stores, let time pass.

    `settings` are an application's; `application.id` and `bootstrap.servers` may be left out. `execution=continuous` chooses
    the engine of hosts, in this process; any other is micro-batches. `spark` is a session to use for those: without one the
    session of this process is taken or made, and left for the next test. `wall_clock_ms` is where the wall
    clock stands at first; it moves by `advance_wall_clock_time` alone. Raises what a plan is refused with, KafkaError with
    Spark's reason where a record fails the plan. Works as a context manager.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Mapping[str, Any] | None = None,
        *,
        spark: SparkSession | None = None,
        wall_clock_ms: int = 0,
    ) -> None:
        self.settings = StreamsSettings.of({**SETTINGS, **(settings or {})})
        topology = topology.of_application(self.settings.application_id)
        self.topology = topology
        self._piped: dict[str, list[LocalRecord]] = {}
        self._now_ms = self._clock_ms = wall_clock_ms
        names = frozenset(_names(topology, self.settings.application_id))
        self._run: _Run
        if self.settings[EXECUTION] == CONTINUOUS:
            self._topics = LocalTopics(None, names)
            self._run = _continuous(topology, self.settings, self._topics, wall_clock_ms)
        else:
            self._run = _Queries(topology, self.settings, names, spark, wall_clock_ms)
            self._topics = self._run.topics
        self._has_begun = False
        self._stores = _Stores(topology, self._topics, self.settings.application_id, self.flush)
        self._failure: BaseException | None = None

    # -- topics

    def create_input_topic(
        self,
        name: str,
        key_serde: SerdeLike = "string",
        value_serde: SerdeLike = "string",
        *,
        start_ms: int = 0,
        auto_advance_ms: int = 0,
    ) -> TestInputTopic:
        """Return a way to put records into a source topic; raises ConfigError for a topic that nothing reads.

        Records without a timestamp of their own get `start_ms`, each `auto_advance_ms` later than the one before.
        """
        if not any(
            isinstance(each, SourceNode) and name in each.topics_among([name]) for each in self.topology.nodes.values()
        ):
            raise ConfigError("topic", name, "no source of the topology reads it")
        serdes = serde_of(key_serde, "key_serde"), serde_of(value_serde, "value_serde")
        return TestInputTopic(self, name, serdes, start_ms, auto_advance_ms)

    def create_output_topic(
        self, name: str, key_serde: SerdeLike = "string", value_serde: SerdeLike = "string"
    ) -> TestOutputTopic:
        """Return a way to read what the topology has written to a topic, from the beginning."""
        return TestOutputTopic(self, name, (serde_of(key_serde, "key_serde"), serde_of(value_serde, "value_serde")))

    def produced_topic_names(self) -> set[str]:
        """Return the topics that something was written to, internal ones with them."""
        self.flush()
        return {name for name, kept in self._topics.records.items() if kept} - self._source_names()

    # -- stores

    def get_store(self, name: str) -> StoreView:
        """Return a store of any kind, to look into; raises KafkaError for a name that is none."""
        return self._stores.view(name)

    def get_key_value_store(self, name: str) -> StoreView:
        """Return a key-value store; raises KafkaError for one of another kind."""
        return self._of_kind(name, "key_value", "versioned")

    def get_window_store(self, name: str) -> StoreView:
        """Return a window store; raises KafkaError for one of another kind."""
        return self._of_kind(name, "window")

    def get_session_store(self, name: str) -> StoreView:
        """Return a session store; raises KafkaError for one of another kind."""
        return self._of_kind(name, "session")

    def _of_kind(self, name: str, *kinds: str) -> StoreView:
        view = self.get_store(name)
        if not any(kind in view.spec.kind for kind in kinds):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"store {name} is of kind {view.spec.kind}, not {kinds[0]}")
        return view

    # -- time

    def advance_wall_clock_time(self, by_ms: int) -> None:
        """Let the wall clock go on: punctuators that are due are called."""
        self._now_ms += by_ms
        self.flush()

    # -- running

    def flush(self) -> None:
        """Process what was piped in; everything that is asked does this first."""
        if self._failure is not None:
            raise self._failure
        if not self._piped and self._clock_ms == self._now_ms and self._has_begun:
            return
        piped, self._piped = self._piped, {}
        self._clock_ms, self._has_begun = self._now_ms, True
        try:
            self._run.process(piped, self._now_ms)
        except Exception as error:  # a user's function may raise anything
            self._failure = failure_of(error)
            raise self._failure from error

    def close(self) -> None:
        """Stop what runs and remove what it kept; a session stays. Raises what Spark says where a query does not stop."""
        self._run.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close it."""
        self.close()

    # -- for its topics

    def pipe(self, topic: str, record: LocalRecord) -> None:
        """Have a record wait for the next flush."""
        self._piped.setdefault(topic, []).append(record)

    def written(self, topic: str) -> Sequence[LocalRecord]:
        """Return everything that a topic holds now."""
        self.flush()
        return self._topics.records.get(topic, ())

    def _source_names(self) -> set[str]:
        nodes = self.topology.nodes.values()
        return {topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics}


class _Run(Protocol):
    """An engine of the driver's."""

    def process(self, piped: Mapping[str, list[LocalRecord]], now_ms: int) -> None:
        """Add records to topics, process everything that is there, and let the wall clock be `now_ms`."""
        ...

    def close(self) -> None:
        """End."""
        ...


def _continuous(topology: Topology, settings: StreamsSettings, topics: LocalTopics, now_ms: int) -> _Run:
    """Return the engine of hosts; raises ConfigError for a plan that it cannot run."""
    from ottla.spark.continuous.local_run import LocalRun
    from ottla.spark.continuous.mode import choose

    choose(settings, topology)
    partitions = partition_plan(topology, topics.partition_counts())
    return LocalRun(topology, settings, partitions, topics, now_ms)


class _Queries:
    """The plan's stages as Spark's queries, in micro-batches."""

    def __init__(
        self,
        topology: Topology,
        settings: StreamsSettings,
        names: frozenset[str],
        spark: SparkSession | None,
        now_ms: int,
    ) -> None:
        self._settings = settings
        self._stages = cut(topology, stream_time=settings["stream.time"], every_update=not settings.cache)
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-test-driver-"))
        self.topics = LocalTopics(self._folder / "topics", names)
        partition_plan(topology, self.topics.partition_counts())
        self._spark = spark if spark is not None else _session()
        self._spark.dataSource.register(LocalTopicsSource)
        self._clock = self._folder / "clock"
        self._tick(now_ms)
        self._queries: list[tuple[Stage, StreamingQuery]] = []
        self._starts = QueryStarts()

    def process(self, piped: Mapping[str, list[LocalRecord]], now_ms: int) -> None:
        """See `_Run`."""
        self._tick(now_ms)
        self._append(piped)
        if not self._queries:
            self._queries = [(stage, self._start(stage)) for stage in self._stages.stages]
        size = -1
        while size != self.topics.size:  # until no stage has anything to tell another
            size = self.topics.size
            for at in range(len(self._queries)):
                self._settle(at)
            if len(self._queries) == 1:
                break

    def close(self) -> None:
        """Stop the queries and remove what they kept; the session stays. Raises what Spark says where one does not stop."""
        with ExitStack() as all_of_it:
            all_of_it.callback(shutil.rmtree, self._folder, ignore_errors=True)
            for _, query in self._queries:
                all_of_it.callback(query.stop)
            self._queries.clear()

    def _tick(self, now_ms: int) -> None:
        """Set the clock of punctuators."""
        hidden = self._clock.with_suffix(".new")
        hidden.write_text(str(now_ms))
        hidden.rename(self._clock)

    def _start(self, stage: Stage) -> StreamingQuery:
        from ottla.spark.streams.lowering.stages import plan_query

        query = plan_query(stage, self._spark, self.topics, self._settings, clock=str(self._clock), direct=True)
        finish = packed_steps(query.finish, stage.name) if query.finish is not None else None
        name = f"{self._settings.application_id}/{stage.name}/{next(_numbers)}"
        writer = (
            query.rows.writeStream.outputMode(query.mode).foreachBatch(partial(self._deliver, finish)).queryName(name)
        )
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoints" / stage.name))
        return self._starts.start(writer.trigger(processingTime="0 seconds"))

    def _deliver(self, finish: str | None, batch: DataFrame, batch_id: int) -> None:
        """Keep a micro-batch's rows, in the order in which their task has made them."""
        made: Iterable[Any] = batch.toArrow().to_batches()
        if finish is not None:
            made = unpacked_steps(finish)(iter(made))
        found: dict[str, list[LocalRecord]] = {}
        for row in (row for each in made for row in each.to_pylist()):
            headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
            found.setdefault(row["topic"], []).append(LocalRecord(row["key"], row["value"], row["timestamp"], headers))
        self._append(found)

    def _append(self, found: Mapping[str, list[LocalRecord]]) -> None:
        """Add records to topics: those of several topics come into a query's micro-batch together."""
        with batches_held_up([query for _, query in self._queries] if len(found) > 1 else ()):
            for topic, records in found.items():
                self.topics.append(topic, records)

    def _settle(self, at: int) -> None:
        """Wait until a query has done all there is; start it again where a Python process of it was late."""
        stage, query = self._queries[at]
        for _ in range(STARTS_MAX - 1):
            try:
                return self._wait(stage, query)
            except Exception as error:  # Spark's, with a user's function's in it
                if not worker_was_late(error):
                    raise
            query = self._start(stage)
            self._queries[at] = stage, query
        return self._wait(stage, query)

    def _wait(self, stage: Stage, query: StreamingQuery) -> None:
        """Wait until a query has done all there is; raises what it failed with."""
        from ottla.spark.streams.state.operator import uses_wall_clock

        if not uses_wall_clock(stage):
            query.processAllAvailable()
            return
        # it runs batches without end, for its punctuators: the second from now has begun after the records were there
        before = _batch(query)
        until = time.monotonic() + BATCH_SECONDS_MAX
        while _batch(query) < before + 2:
            if (error := query.exception()) is not None:
                raise error
            if time.monotonic() > until:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"stage {stage.name} did not settle")
            time.sleep(LOOK_SECONDS)


class TestInputTopic:
    """Puts records into a topic."""

    __test__ = False

    def __init__(
        self,
        driver: TopologyTestDriver,
        name: str,
        serdes: tuple[Serde, Serde],
        start_ms: int,
        auto_advance_ms: int,
    ) -> None:
        self.name = name
        self._driver = driver
        self._key, self._value = serdes
        self._now_ms = start_ms
        self._step_ms = auto_advance_ms

    def advance_time(self, by_ms: int) -> None:
        """Let later records without a timestamp have a later one."""
        if by_ms < 0:
            raise ConfigError("by_ms", by_ms, "time does not go backwards; give a record its own timestamp")
        self._now_ms += by_ms

    def pipe_input(
        self,
        *key_and_value: Any,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """Put one record in: `pipe_input(value)` or `pipe_input(key, value)`."""
        if not 1 <= len(key_and_value) <= 2:
            raise TypeError(f"pipe_input takes (value) or (key, value), got {len(key_and_value)} arguments")
        key, value = (None, *key_and_value)[-2:]
        at = timestamp
        if at is None:
            at, self._now_ms = self._now_ms, self._now_ms + self._step_ms
        data = self._key.serialize(key), self._value.serialize(value)
        self._driver.pipe(self.name, LocalRecord(*data, at, tuple(headers)))

    def pipe_value_list(self, values: Iterable[Any]) -> None:
        """Put records without a key in."""
        for value in values:
            self.pipe_input(value)

    def pipe_key_value_list(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Put (key, value) in."""
        for key, value in pairs:
            self.pipe_input(key, value)

    def pipe_record_list(self, records: Iterable[TestRecord]) -> None:
        """Put records with their own timestamps and headers in."""
        for record in records:
            self.pipe_input(record.key, record.value, timestamp=record.timestamp, headers=record.headers)


class TestOutputTopic:
    """Reads records from a topic, each once."""

    __test__ = False

    def __init__(self, driver: TopologyTestDriver, name: str, serdes: tuple[Serde, Serde]) -> None:
        self.name = name
        self._driver = driver
        self._key, self._value = serdes
        self._read = 0

    @property
    def queue_size(self) -> int:
        """How many records wait to be read."""
        return len(self._driver.written(self.name)) - self._read

    @property
    def is_empty(self) -> bool:
        """Whether none waits."""
        return self.queue_size == 0

    def read_record(self) -> TestRecord:
        """Return the next record; raises LookupError where there is none."""
        found = self._driver.written(self.name)
        if self._read >= len(found):
            raise LookupError(f"Empty topic: {self.name}")
        self._read += 1
        return self._decoded(found[self._read - 1])

    def read_value(self) -> Any:
        """Return the next record's value."""
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        """Return the next record's key and value."""
        return self.read_record()[:2]

    def read_records_to_list(self) -> list[TestRecord]:
        """Return all records that wait."""
        found = self._driver.written(self.name)
        records = [self._decoded(each) for each in found[self._read :]]
        self._read = len(found)
        return records

    def read_values_to_list(self) -> list[Any]:
        """Return the values of all records that wait."""
        return [each.value for each in self.read_records_to_list()]

    def read_key_values_to_list(self) -> list[tuple[Any, Any]]:
        """Return (key, value) of all records that wait."""
        return [each[:2] for each in self.read_records_to_list()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """Return the last value of each key among the records that wait: what a table of the topic would hold."""
        return dict(self.read_key_values_to_list())

    def _decoded(self, record: LocalRecord) -> TestRecord:
        key, value = self._key.deserialize(record.key), self._value.deserialize(record.value)
        return TestRecord(key, value, record.timestamp, record.headers)


def _names(topology: Topology, application: str) -> Iterable[str]:
    for node in topology.nodes.values():
        topics = node.topics if isinstance(node, SourceNode) else ()
        if isinstance(node, SinkNode) and isinstance(node.topic, str):
            topics = (node.topic,)
        for topic in topics:
            yield repartition_topic(application, topic) if topic in topology.repartition_topics else topic
    for store in topology.stores:
        yield changelog_topic(application, store)


class _Stores:
    """What changelogs tell, as `StoreView` asks for it."""

    def __init__(self, topology: Topology, topics: LocalTopics, application_id: str, flush: Callable[[], None]) -> None:
        self._topology = topology
        self._topics = topics
        self._application_id = application_id
        self._flush = flush
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._tables: dict[str, tuple[StoreTable, str]] = {}
        self._applied: dict[str, int] = {}

    def view(self, name: str) -> StoreView:
        if name not in self._tables:
            topic = log_topic(self._topology, self._application_id, name)
            table = StoreTable(self._database, self._topology.stores[name], len(self._tables))
            self._tables[name] = table, topic
        return StoreView(self, name, self._topology.stores[name])

    def ask(self, name: str, question: Callable[[StoreTable], T], wait_s: float) -> tuple[T, Position]:
        """Answer from a store's table as of now."""
        self._flush()
        table, topic = self._tables[name]
        records, applied = self._topics.records.get(topic, []), self._applied.get(name, 0)
        table.apply(
            LoggedEntry(each.key, each.value, each.timestamp) for each in records[applied:] if each.key is not None
        )
        self._applied[name] = len(records)
        return question(table), Position({0: len(records)}, 0)


def failure_of(error: BaseException) -> KafkaError:
    """Return what made a query fail, in one paragraph: what the plan's own code raised, without Spark's stack."""
    if isinstance(error, KafkaError):
        return error
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith(("ottla.", "pyspark.errors"))]
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, (raised or lines or [type(error).__name__])[-1])


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    from ottla.spark.sessions import session
    from ottla.spark.streams.state.operator import STATE_SETTINGS

    active = SparkSession.getActiveSession()
    return active or session("test", master="local[2]", settings={**STATE_SETTINGS, **CHECKPOINT_SETTINGS})


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
