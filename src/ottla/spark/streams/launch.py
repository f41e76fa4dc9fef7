"""A stage becomes a streaming query of Spark's: session, plan, delivery, checkpoint and trigger put together."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.base import ConfigError, Offset, TopicPartition
from ottla.client import BlockingClient, ConsumerGroupMetadata
from ottla.spark.cluster_protection import check_cluster, secured_part
from ottla.spark.continuous.mode import CONTINUOUS, EXECUTION
from ottla.spark.continuous.sessions import hosts_settings
from ottla.spark.private_api.checkpoints import BY_FILE_CONTEXT, FILES_BY
from ottla.spark.private_api.sessions import is_classic
from ottla.spark.shipping import ship_files
from ottla.spark.streams.preparation import Prepared, topics_of
from ottla.spark.streams.progress import BatchProgress, read_progress
from ottla.spark.streams.restarts import failure_of
from ottla.spark.streams.secured import driver_network, told_to_spark
from ottla.spark.streams.starts import QueryStarts
from ottla.spark.streams.warming import WORKER_MODULES, warm_up
from ottla.streams import Stage, StreamsSettings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.spark.streams.batch_errors import BatchErrors
    from ottla.spark.streams.delivery import Delivery
    from ottla.spark.streams.lowering.direct import BatchCounts
    from ottla.spark.streams.lowering.topics import ClusterTopics
    from ottla.spark.streams.state.rebuild import Initial

__all__ = ["SparkLauncher", "SparkQuery", "application_session", "end_when_started", "take_over"]

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.02
LOCAL = "local"
CONNECT = "sc://"
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -Xss4m"
"""Java's quick compiler alone: with the thorough one, compiling Spark's planner took most of the JVM's time for the first
minutes, on the cores that tasks need (measured, a windowed count's second to fifth batch: 7.8 processor seconds of the JVM
for a million records, 3.1 so). Records hardly pass through the JVM; `spark.driver.extraJavaOptions` overrides it. Its code
needs deeper stacks than optimised code, and Spark's plans are walked by recursion."""


def application_session(settings: StreamsSettings, *, continuous: bool | None = None) -> SparkSession:
    """Return the session for an application: `spark.master`, or Spark Connect for `sc://…`, with its `spark.…` settings.

    `continuous` says that it is for hosts alone; None: where `execution=continuous` was asked for.
    Raises RuntimeError where there is no Java, unless the session is a remote one, and ConfigError where something of the
    application is secured and a cluster's own connections are not.
    """
    from ottla.spark.sessions import register, session

    master = settings["spark.master"]
    given = {**_state_settings(settings), **settings.spark}
    secured = _secured_part(settings)
    if not master.startswith(CONNECT):
        is_continuous = settings[EXECUTION] == CONTINUOUS if continuous is None else continuous
        given = {**(hosts_settings(master) if is_continuous else _state_settings(settings)), **settings.spark}
        return session(
            settings.application_id,
            master=master,
            settings=given,
            registered=not is_continuous,
            secured=secured,
            preload=WORKER_MODULES,
        )
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(master).appName(settings.application_id)
    spark = builder.getOrCreate()
    try:
        check_cluster(master, secured, lambda key: settings.spark.get(key) or spark.conf.get(key, None))
    except ConfigError:
        spark.stop()
        raise
    for key, value in given.items():
        if key.startswith("spark.sql."):
            spark.conf.set(key, value)
    register(spark, checked=True)
    return spark


def end_when_started(starting: Future[SparkSession]) -> None:
    """Have a session end by itself that another thread still starts, for whoever no longer waits for it."""

    from ottla.spark.sessions import let_go

    def end(started: Future[SparkSession]) -> None:
        if started.exception() is None:
            let_go(started.result())

    starting.add_done_callback(end)


def take_over(spark: SparkSession, settings: StreamsSettings) -> None:
    """Have a session that somebody else made read and write secured topics.

    Raises ConfigError where its cluster's own connections are not secured.
    """
    from ottla.spark.sessions import register, settings_of

    if (secured := _secured_part(settings)) is not None:
        value = settings_of(spark)
        check_cluster(value("spark.master") or "a cluster", secured, value)
        register(spark, checked=True)


def _secured_part(settings: StreamsSettings) -> str | None:
    return secured_part({**settings.security, "http.listener": settings["http.listener"] or ""})


def _state_settings(settings: StreamsSettings) -> Mapping[str, str]:
    from ottla.spark.streams.state.operator import LOCAL_SETTINGS, STATE_SETTINGS

    folder = settings.state_dir or ""
    if not settings["spark.master"].startswith(LOCAL):
        return STATE_SETTINGS
    is_here = "://" not in folder.removeprefix("file://")
    checkpoints = LOCAL_SETTINGS if is_here else {FILES_BY: BY_FILE_CONTEXT}  # a local session's own is for disks here
    return {**STATE_SETTINGS, **checkpoints, "spark.driver.extraJavaOptions": QUICK_COMPILER}


class SparkLauncher:
    """Starts stages as queries of one session; a session of the application's own it stops in the end."""

    def __init__(
        self,
        prepared: Prepared,
        settings: StreamsSettings,
        spark: SparkSession,
        member: Callable[[], ConsumerGroupMetadata] | None = None,
        *,
        owns: bool,
    ) -> None:
        """`owns` says that the session is this application's own, which gets what its workers need, and is stopped."""
        self._prepared = prepared
        self._member = member
        self._settings = settings
        self._starts = QueryStarts()
        self._own = owns
        self._spark = spark
        is_local = settings["spark.master"].startswith(LOCAL)
        if not self._own:
            take_over(spark, settings)
        if self._own:
            ship_files(self._spark, with_ottla=not is_local)
        if self._own and is_local:
            warm_up(self._spark)

    def start(self, stage: Stage) -> SparkQuery:
        """Start a stage's query; it goes on from its checkpoint where it has one."""
        return self._start(stage, processingTime=f"{self._settings.commit_interval_ms} milliseconds")

    def finish(self, stage: Stage) -> SparkQuery:
        """Start a stage's query for the one batch that is planned and not finished; it ends by itself behind that."""
        return self._start(stage, once=True)

    def _start(self, stage: Stage, **trigger: Any) -> SparkQuery:
        from ottla.spark.streams.batch_errors import BatchErrors
        from ottla.spark.streams.commits import commits_topic
        from ottla.spark.streams.delivery import delivery_writer
        from ottla.spark.streams.lowering.direct import BatchCounts, direct_writer
        from ottla.spark.streams.lowering.stages import plan_query

        settings, prepared = self._settings, self._prepared
        topics = self.topics(stage)
        noted = commits_topic(settings.application_id, stage.name).topic if settings.exactly_once else ""
        query = plan_query(
            stage,
            self._spark,
            topics,
            settings,
            initial=self._initial(stage),
            commits_topic=noted,
            direct=is_classic(self._spark),
        )
        delivery, counts, errors = self.delivery(stage), BatchCounts(), BatchErrors()
        if query.direct is not None:
            few = settings["driver.records.max"]
            written = direct_writer(query.direct, delivery, counts, driver_records_max=few, errors=errors)
        else:
            is_stateless = stage.kind == "stateless"
            written = delivery_writer(
                query.rows, delivery, mode=query.mode, finish=query.finish, is_stateless=is_stateless, errors=errors
            )
        writer = (
            written.queryName(f"{settings.application_id}/{stage.name}")
            .option("checkpointLocation", prepared.checkpoint.of_stage(stage.name))
            .trigger(**trigger)
        )
        starting = (prepared.starting.get(stage.name) or {}) if query.pushed else None
        return SparkQuery(self._starts.start(writer), counts, starting, errors)

    def topics(self, stage: Stage) -> ClusterTopics:
        """Return the topics of a stage's query, as they were found at the start.

        Exactly once a batch of one with state does without a topic that is gone only where nothing of it was delivered.
        """
        from ottla.spark.streams.lowering.topics import ClusterTopics

        settings, prepared = self._settings, self._prepared
        is_free = stage.kind == "stateless" or not settings.exactly_once
        gone = None if is_free else prepared.gone.get(stage.name, frozenset())
        return ClusterTopics(settings, prepared.counts, prepared.starting.get(stage.name), prepared.topic_ids, gone)

    def delivery(self, stage: Stage) -> Delivery:
        """Return how a stage's results are delivered, as the driver stands in its group now."""
        from ottla.spark.streams.delivery import Delivery

        return Delivery(
            self._settings.application_id,
            stage.name,
            self._write_options(),
            "exactly_once" if self._settings.exactly_once else "at_least_once",
            transaction_timeout_ms=self._transaction_timeout_ms(),
            member=self._member() if self._member is not None else None,
            own_topics=self._own_topics(stage),
            topic_ids=self._prepared.topic_ids,
        )

    def close(self) -> None:
        """Let the session go, if it is this launcher's own."""
        from ottla.spark.sessions import let_go

        if self._own:
            let_go(self._spark)

    def _own_topics(self, stage: Stage) -> frozenset[str]:
        """Return the topics, by full name, that no other stage reads."""
        settings, counts, stages = self._settings, self._prepared.counts, self._prepared.stages.stages
        others = {name for each in stages if each.name != stage.name for name in topics_of(each, settings, counts)}
        return frozenset(topics_of(stage, settings, counts)) - others

    def _initial(self, stage: Stage) -> Initial | None:
        """Return the state of a stage whose checkpoint is lost, read from its changelogs; else None."""
        if stage.name not in self._prepared.rebuilt or stage.kind != "stateful" or self._has_begun(stage):
            return None
        from ottla.spark.streams.state.rebuild import rebuild_state

        log.warning("the checkpoint of %s is gone: its state is rebuilt from the changelogs", stage.name)
        network = driver_network(self._settings)
        with BlockingClient(self._settings.bootstrap_servers, network=network) as client:
            return rebuild_state(self._spark, client, stage, self._settings, self._prepared)

    def _has_begun(self, stage: Stage) -> bool:
        """Whether the query has finished a batch by now: a restart goes on from that."""
        return self._prepared.checkpoint.has_committed(stage.name)

    def _transaction_timeout_ms(self) -> int:
        from ottla.spark.streams.delivery import TRANSACTION_TIMEOUT_MS_DEFAULT

        given = {**self._settings.clients.get("", {}), **self._settings.clients.get("producer", {})}
        return int(given.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS_DEFAULT))

    def _write_options(self) -> dict[str, str]:
        """Return the sink's options: where the brokers are, and what the producer's settings say."""
        given = {**self._settings.clients.get("", {}), **self._settings.clients.get("producer", {})}
        names = ("acks", "compression.type", "batch.size")
        options = {f"kafka.{name}": given[name] for name in names if name in given}
        return {"kafka.bootstrap.servers": self._settings.bootstrap_servers, **options, **told_to_spark(self._settings)}


class SparkQuery:
    """A streaming query that runs, as the supervisor sees it."""

    def __init__(
        self,
        query: StreamingQuery,
        counts: BatchCounts,
        starting: Mapping[TopicPartition, Offset] | None = None,
        errors: BatchErrors | None = None,
    ) -> None:
        """`starting` is given where Spark does not count what is read: offsets tell. `errors` has why batches failed."""
        self._errors = errors
        self._query = query
        self._counts = counts
        self._starting = starting
        self._last = -1

    def poll(self) -> Sequence[BatchProgress]:
        """Return the batches that were finished since the last call."""
        latest = self._query.lastProgress
        if latest is None:
            return []
        newest = self._read(latest)
        missed = newest.batch > self._last + 1
        found = [self._read(each) for each in self._query.recentProgress] if missed else [newest]
        self._last = max(self._last, newest.batch)
        return found

    def _read(self, reported: Any) -> BatchProgress:
        """Read a report; what tasks fetch by themselves they have counted by themselves."""
        found = read_progress(_facts(reported))
        counted = self._counts.of(found.batch)
        if counted is None and self._starting is not None:
            return replace(found, rows=found.offsets_ahead(self._starting))
        if counted is None or not counted.read:
            return found
        return replace(found, rows=counted.read, skipped=found.skipped + counted.left_out)

    def failure(self) -> str | None:
        """Return None while the query is active, and then what Spark says of its end."""
        if self._errors is not None and self._errors.text is not None:
            self._query.stop()  # whether Spark has noticed or not
            return self._errors.text
        if self._query.isActive:
            return None
        error = self._query.exception()
        return str(error) if error is not None else "the query was stopped from outside"

    def stop(self, patience_s: float) -> None:
        """Stop between two batches; in the middle of one where it takes longer than the patience lasts."""
        until = time.monotonic() + patience_s
        while self._query.isActive and self._query.status["isTriggerActive"] and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        try:
            self._query.stop()
        except Exception as error:  # Spark's own words: its `stopTimeout` is over and the batch still runs
            log.error("query %s did not stop: %s", self._query.name, failure_of(str(error)).reason)


def _facts(progress: Any) -> str | Mapping[str, Any]:
    """Return a report as JSON text: classes and dictionaries, by version of PySpark."""
    found: str | Mapping[str, Any] = progress.json if hasattr(progress, "json") else progress
    return found
