"""`StreamsApplication`: a topology and its settings, started on Spark, watched, queried and stopped.

It has `KafkaStreams`' states. `start` looks at the cluster, makes internal topics and checks the upgrade, so whatever stands
against the plan is raised there; then one thread watches one Spark query per stage.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.background import count_failure, supervise_thread
from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import BlockingClient
from ottla.spark.checkpoint_files import Files, HadoopFiles
from ottla.spark.continuous.mode import CONTINUOUS, EXECUTION, MICRO_BATCH, Mode, batches, choose, continuous_hosts
from ottla.spark.private_api.sessions import is_classic
from ottla.spark.shipping import ship_files
from ottla.spark.streams.backlog import backlog
from ottla.spark.streams.membership import SESSION_TIMEOUT_MS_DEFAULT, Membership
from ottla.spark.streams.preparation import Checkpoint, Prepared, is_uri, prepare
from ottla.spark.streams.progress import OWN_WORDS, delete_read_records
from ottla.spark.streams.restarts import Failure
from ottla.spark.streams.secured import driver_network
from ottla.spark.streams.states import State, StateListener, StateMachine
from ottla.spark.streams.supervisor import ErrorHandler, Launcher, Supervisor
from ottla.streams import SourceNode, Stages, StreamsSettings, Topology, cut, partition_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.continuous.jobs import HostJobs
    from ottla.spark.continuous.metrics import Metric
    from ottla.spark.continuous.plan import ApplicationPlan
    from ottla.spark.continuous.preparation import ContinuousPrepared
    from ottla.spark.continuous.promotion import Move, Promotion
    from ottla.spark.continuous.service import HostService
    from ottla.spark.continuous.shared import SharedHosts
    from ottla.spark.continuous.supervisor import ContinuousSupervisor
    from ottla.spark.streams.state.stores import StoreReader, StoreView
    from ottla.spark.streams.web import ApplicationServer

__all__ = ["StreamsApplication"]

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.1
"""How often queries are looked at."""
PROMOTE_SECONDS = 300.0
PATIENCE_SECONDS = 30.0
"""How long a graceful stop waits for the batch that is being done."""


class StreamsApplication:
    """An application of Kafka Streams' kind, on Spark.

    `settings` are a `StreamsSettings` or what `StreamsSettings.of` takes. `spark` is a session to use; without one the
    application makes its own, by `spark.master` and the `spark.…` settings, and stops it in the end. `launcher` is what
    starts queries, for tests. Works as a context manager: started on entry, closed on exit.
    """

    def __init__(
        self,
        topology: Topology,
        settings: StreamsSettings | Mapping[str, Any] | None = None,
        *,
        spark: SparkSession | None = None,
        launcher: Launcher | None = None,
        jobs: HostJobs | None = None,
        shared: SharedHosts | None = None,
        **keywords: Any,
    ) -> None:
        """`jobs` is where hosts of continuous mode run; None: as jobs of the session.

        `shared` is what it has of a service that runs others, too (`StreamsService.add`).
        """
        self.settings = settings if isinstance(settings, StreamsSettings) else StreamsSettings.of(settings, **keywords)
        topology = topology.of_application(self.settings.application_id)
        self.topology = topology
        is_continuous = self.settings[EXECUTION] == CONTINUOUS
        self.stages: Stages = (
            Stages((), topology.repartition_topics, {}) if is_continuous else _stages(topology, self.settings)
        )
        """Micro-batches' stages; none where `execution=continuous` was asked for."""
        self.prepared: Prepared | ContinuousPrepared | None = None
        """What the start found out; None before it."""
        self.mode: Mode | None = None
        """How it is executed, and why; None before the start."""
        self._jobs = jobs
        self._is_launched_by_others = launcher is not None
        self._move: Move | None = None
        """A promotion that was asked for and is not done yet."""
        self._shared = shared
        self._service: HostService | None = None
        self._is_paused = False
        self._moving = threading.Lock()
        self._machine = StateMachine()
        self._spark = spark
        self._launcher = launcher
        self._on_error: ErrorHandler | None = None
        self._supervisor: Supervisor | ContinuousSupervisor | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._patience_s = PATIENCE_SECONDS
        self._client: BlockingClient | None = None
        self._membership: Membership | None = None
        self._made: SparkSession | None = None
        self._starting: Future[SparkSession] | None = None
        """A session of this application's own that another thread starts."""
        self._purged_at_s = 0.0
        self._began_at_s = 0.0
        self._stores: StoreReader | None = None
        self._raised: BaseException | None = None
        self._server: ApplicationServer | None = None

    # -- life

    @property
    def state(self) -> State:
        """The state now, in Kafka Streams' words."""
        return self._machine.state

    @property
    def error(self) -> Failure | None:
        """Why the application is in state ERROR."""
        return self._supervisor.failed if self._supervisor is not None else None

    def on_state_change(self, listener: StateListener) -> None:
        """Have `listener(new, old)` called at every change (`setStateListener`)."""
        self._machine.listen(listener)

    def on_uncaught_exception(self, handler: ErrorHandler) -> None:
        """Have `handler(failure)` decide what a failed query leads to (`setUncaughtExceptionHandler`).

        It returns one of `OnError`. Without a handler a query is restarted, up to `restart.attempts.max` times in a row;
        poison and faults of the plan, which would fail again, end the application. Only before `start`.
        """
        if self.state is not State.CREATED:
            words = f"Can only set UncaughtExceptionHandler before calling start(). Current state is: {self.state}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, words)
        self._on_error = handler

    def start(self) -> Self:
        """Start; returns once queries are being started.

        Raises KafkaError, ConfigError or UpgradeError for whatever stands against it; the state is ERROR then.
        """
        words = "The client is either already started or already stopped, cannot re-start"
        self._machine.require(State.REBALANCING, words)
        for notice in self.settings.notices:
            log.info("%s", notice)
        try:
            self._serve()
            self._client = self._open_client()
            self.mode = self._choose(self._client)
            log.info("application %s: %s (%s)", self.settings.application_id, self.mode.name, self.mode.why)
            self._begin_session(self._client)
            is_joined = self._join()
            self._supervisor = self._begin(self._client, self.mode)
            if not is_joined and self._membership is not None:
                self._membership.begin()
        except BaseException as error:
            self._machine.to(State.PENDING_ERROR)
            self._machine.to(State.ERROR)
            self._release(waits=isinstance(error, Exception))  # who interrupts does not wait for Spark
            raise
        self._began_at_s = time.monotonic()
        if self._shared is not None:
            from ottla.spark.continuous.shared import Watched

            self._shared.watch(Watched(self.settings.application_id, self.is_due, self.look))
            return self
        name = f"streams-{self.settings.application_id}"
        self._thread = supervise_thread(self._watch, name=name, serves=f"application {self.settings.application_id}")
        return self

    def close(self, timeout_s: float = PATIENCE_SECONDS) -> bool:
        """Stop gracefully: queries end between two batches, progress is committed. Returns whether all stopped in time.

        A batch that takes longer is given up; the next start does it again from the checkpoint.
        """
        if not self._machine.to(State.PENDING_SHUTDOWN):
            return self._machine.wait(lambda state: state.is_final, timeout_s)
        self._patience_s = timeout_s
        self._stopping.set()
        if self._shared is not None and self._began_at_s:
            self._shared.wake()
            return self._machine.wait(lambda state: state.is_final, timeout_s + PATIENCE_SECONDS)
        if self._thread is None:
            self._release()
            self._machine.to(State.NOT_RUNNING)
            return True
        return self._machine.wait(lambda state: state.is_final, timeout_s + PATIENCE_SECONDS)

    def promote(self, to: str, *, dry_run: bool = False, timeout_s: float = PROMOTE_SECONDS) -> Promotion:
        """Go on in mode `to` (`continuous` or `micro-batch`), over the same offsets, changelogs and place in the group.

        What runs commits and ends first; the state is REBALANCING until the other mode runs. Raises KafkaError with all
        reasons where equal results are not proven, or something is half done: the application goes on as it was then.
        With `dry_run` only the plan is looked at, which is all that can be known while records come.
        """
        from ottla.spark.continuous.promotion import Move, Promotion, check_plan

        name, mode = self.settings.application_id, self.mode
        if mode is None or not self.state.is_running_or_rebalancing:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"application {name} is in state {self.state}, and does not run"
            )
        for is_so, words in (
            (to not in (CONTINUOUS, MICRO_BATCH), f"mode {to} is none of {CONTINUOUS} and {MICRO_BATCH}"),
            (to == mode.name, f"application {name} is in mode {to} already"),
            (self._shared is not None, f"application {name} runs in a service, which has continuous mode alone"),
            (self._is_launched_by_others, f"application {name} was given a launcher of queries, which is for one mode"),
            (self._is_paused, f"application {name} is paused; have it go on first"),
        ):
            if is_so:
                raise KafkaError(ErrorCode.INVALID_REQUEST, words)
        check_plan(self.topology, _stages(self.topology, self.settings), self.settings, to)
        if dry_run:
            return Promotion(name, mode.name, to, {})
        with self._moving:
            self._move = move = Move(to)
            until_s = time.monotonic() + timeout_s
            while not move.answer.done() and not self.state.is_final and time.monotonic() < until_s:
                with suppress(TimeoutError):
                    return move.answer.result(LOOK_SECONDS)
            if move.answer.done():
                return move.answer.result()
            words = f"application {name} is not in mode {to} after {timeout_s:.0f} s, and in state {self.state}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, words)

    @property
    def is_paused(self) -> bool:
        """Whether it is paused (`isPaused`)."""
        return self._is_paused

    def pause(self) -> None:
        """Have nothing processed until `resume` (`KafkaStreams.pause`, KIP-834): works keep their state and their places.

        Raises KafkaError in micro-batch mode, and where the application does not run.
        """
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Go on after `pause` (`KafkaStreams.resume`); raises KafkaError as that does."""
        self._set_paused(paused=False)

    def _set_paused(self, *, paused: bool) -> None:
        pause = getattr(self._supervisor, "pause", None)
        if pause is None or not self.state.is_running_or_rebalancing:
            what = "runs in micro-batches" if self.state.is_running_or_rebalancing else f"is in state {self.state}"
            words = f"application {self.settings.application_id} {what}, and cannot be paused or resumed"
            raise KafkaError(ErrorCode.INVALID_REQUEST, words)
        pause(paused=paused)
        self._is_paused = paused

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the application has stopped or failed; raises KafkaError with the reason where it failed."""
        ended = self._machine.wait(lambda state: state.is_final, timeout_s)
        if self.state is State.ERROR:
            if self._raised is not None:
                raise self._raised
            reason = self.error.reason if self.error is not None else "it did not start"
            words = f"application {self.settings.application_id} failed: {reason}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, words)
        return ended

    def wait_running(self, timeout_s: float | None = None) -> bool:
        """Wait until every query runs; false where the time was over or the application ended first."""
        self._machine.wait(lambda state: state is State.RUNNING or state.is_final, timeout_s)
        return self.state is State.RUNNING

    def clean_up(self) -> None:
        """Remove the checkpoint (`cleanUp`): the next start rebuilds state from changelogs, or reads its input again."""
        if self.state not in (State.CREATED, State.NOT_RUNNING, State.ERROR):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Cannot clean up while running.")
        if self.prepared is not None:
            self.prepared.checkpoint.remove()
            return
        with self._open_client() as client:
            cluster = client.metadata(())
        try:
            Checkpoint.of(self.settings, cluster.cluster_id or "cluster", self._files()).remove()
        finally:
            self._stop_made()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- looking

    def status(self) -> dict[str, Any]:
        """Return what is going on, fit for JSON: state, one entry for each query, and totals."""
        now_s = time.monotonic()
        queries = [] if self._supervisor is None else [each.facts(now_s) for each in self._supervisor.queries]
        failure = self.error
        return {
            "application_id": self.settings.application_id,
            "state": str(self.state),
            "paused": self._is_paused,
            "execution": None if self.mode is None else self.mode.name,
            "execution_because": None if self.mode is None else self.mode.why,
            "error": None if failure is None else failure.reason,
            "member_id": self._member_id(),
            "processing_guarantee": self.settings["processing.guarantee"],
            "uptime_seconds": round(now_s - self._began_at_s, 1) if self._began_at_s else 0.0,
            "checkpoint": None if self.prepared is None else self.prepared.checkpoint.root,
            "rebuilt": [] if self.prepared is None else list(self.prepared.rebuilt),
            "rows": sum(each["rows"] for each in queries),
            "rows_per_second": round(sum(each["rows_per_second"] for each in queries), 1),
            "lag": sum(each["lag"] for each in queries),
            "queries": queries,
            "stores": [store.name for store in self.topology.stores.values() if store.queryable],
            "notices": list(self.settings.notices),
            "hosts": self._supervisor_hosts(),
        }

    def metrics(self) -> list[Metric]:
        """Return Kafka Streams' metrics (`KafkaStreams.metrics`); none in micro-batch mode, which has no threads."""
        metrics = getattr(self._supervisor, "metrics", None)
        return [] if metrics is None else metrics(str(self.state), time.monotonic())

    def store(self, name: str) -> StoreView:
        """Return a materialised store to look keys up in: what its changelog topic says, read by this process.

        Raises KafkaError for a name that is none, or a store without a changelog.
        """
        if self._stores is None:
            from ottla.spark.streams.state.stores import StoreReader

            self._stores = StoreReader(self.topology, self.settings)
        return self._stores.view(name)

    @property
    def http_port(self) -> int | None:
        """The port at which status and stores are served, where `http.listener` asks for it."""
        return self._server.port if self._server is not None else None

    @property
    def http_url(self) -> str | None:
        """The address at which they are served."""
        return self._server.url if self._server is not None else None

    # -- inside

    def _choose(self, client: BlockingClient) -> Mode:
        """Decide how to execute, by the settings, the plan and what an earlier start has left."""
        if self._launcher is not None:
            return Mode("micro-batch", "a launcher of queries was given")
        cluster = client.metadata(())
        noted = Checkpoint.of(self.settings, cluster.cluster_id or "cluster", self._files()).plan()
        committed = client.committed_offsets(self.settings.application_id)
        words = {each.metadata for each in committed.values()}
        return choose(self.settings, self.topology, noted, words, why_batches=lambda: self._why_batches(client))

    def _why_batches(self, client: BlockingClient) -> str | None:
        """Return why `execution=auto` begins in micro-batches; None where it does not."""
        if self._spark is not None:
            return "a session was given, whose slots hosts would keep; execution=continuous takes them"
        if is_uri(self.settings.state_dir):
            return "state.dir is a URI, which is read by a session for micro-batches"
        return batches(self.stages, self.settings, lambda: backlog(client, self.topology, self.settings))

    def _begin(self, client: BlockingClient, mode: Mode) -> Supervisor | ContinuousSupervisor:
        return self._begin_continuous(client) if mode.is_continuous else self._begin_batches(client)

    def _begin_batches(self, client: BlockingClient) -> Supervisor:
        """Prepare queries of micro-batches, and what starts them."""
        self.prepared = prepare(client, self.topology, self.stages, self.settings, self._files())
        self._launcher = launcher = self._launcher or self._spark_launcher(self.prepared)
        self._made = self._starting = None  # the session is the launcher's now
        return Supervisor(
            self.stages.stages,
            launcher,
            self._machine,
            self.settings,
            commit=self._commit,
            on_error=self._on_error,
        )

    def _begin_continuous(self, client: BlockingClient) -> ContinuousSupervisor:
        """Prepare works, and start the hosts that they run on."""
        from ottla.spark.continuous.application import continuous_service, fence_earlier_life
        from ottla.spark.continuous.preparation import prepare_continuous
        from ottla.spark.continuous.supervisor import ContinuousSupervisor

        assert self._membership is not None, "it joined first"
        membership, settings = self._membership, self.settings
        cluster = client.metadata(())
        checkpoint = Checkpoint.of(settings, cluster.cluster_id or "cluster", self._files())
        hosts = continuous_hosts(settings)
        shared = None if self._shared is None else self._shared.hosts

        def begin(fence: Callable[[ApplicationPlan], None]) -> ContinuousPrepared:
            return prepare_continuous(client, self.topology, settings, checkpoint, membership.known, fence=fence)

        if shared is not None:
            self.prepared = prepared = begin(shared.fence)
            service = shared
        else:
            name = settings.application_id
            self.prepared = prepared = begin(lambda plan: fence_earlier_life(client, name, hosts, plan))
            service = self._service = continuous_service(settings, hosts, self._jobs or self._host_jobs())
        return ContinuousSupervisor(
            prepared.plan,
            service,
            self._machine,
            settings,
            member=lambda: membership.known,
            renew=membership.renew,
            begin=lambda: log.debug("prepared again: %s", begin(lambda plan: None).cluster_id),
            on_error=self._on_error,
        )

    def _host_jobs(self) -> HostJobs:
        """Return the session's slots as places of hosts; a session of this application's own gets what its workers need."""
        from ottla.spark.continuous.jobs import SparkHostJobs
        from ottla.spark.streams.launch import take_over

        spark = self._spark
        if spark is None:
            spark = self._own_session()
            ship_files(spark, with_ottla=not self.settings["spark.master"].startswith("local"))
        else:
            take_over(spark, self.settings)
        return SparkHostJobs(spark)

    def _member_id(self) -> str | None:
        """Return the driver's name in its group; None while it is in none."""
        membership = self._membership
        known = None if membership is None or membership.lost is not None else membership.known
        return None if known is None else known.member_id

    def _supervisor_hosts(self) -> list[dict[str, Any]]:
        hosts = getattr(self._supervisor, "hosts", None)
        return [] if hosts is None else hosts()

    def _serve(self) -> None:
        """Serve status and stores; raises ConfigError for an address that is none, OSError for one that is taken."""
        if not self.settings["http.listener"]:
            return
        from ottla.spark.streams.web import ApplicationServer, door_of

        door = door_of(self.settings)
        self._server = ApplicationServer(self, door.host, door.port, tls=door.tls, logins=door.logins, hosts=door.hosts)

    def _open_client(self) -> BlockingClient:
        if self._shared is not None:
            return self._shared.client(self.settings)
        name = self.settings["client.id"] or f"{self.settings.application_id}-driver"
        return BlockingClient(self.settings.bootstrap_servers, client_id=name, network=driver_network(self.settings))

    def _begin_session(self, client: BlockingClient) -> None:
        """Begin to start a session, which takes seconds, as joining a group does; first the cluster has to answer.

        Raises KafkaError for topics that are missing: nobody should learn it after Spark has started.
        """
        if any(each is not None for each in (self._spark, self._launcher, self._jobs, self._shared)):
            return
        cluster = client.metadata()
        known = {name: len(topic.partitions) for name, topic in cluster.topics.items() if not topic.error}
        partition_plan(self.topology, known)  # raises for topics that are missing
        from ottla.spark.streams.launch import application_session

        threads = ThreadPoolExecutor(1, thread_name_prefix="streams-session")
        self._starting = threads.submit(application_session, self.settings, continuous=self._is_continuous)
        threads.shutdown(wait=False)

    def _own_session(self) -> SparkSession:
        """Return a session of this application's own, when it has started; it is asked for once."""
        if self._made is None and self._starting is not None:
            self._made, self._starting = self._starting.result(), None
        if self._made is None:
            from ottla.spark.streams.launch import application_session

            self._made = application_session(self.settings, continuous=self._is_continuous)
        return self._made

    @property
    def _is_continuous(self) -> bool | None:
        return None if self.mode is None else self.mode.is_continuous

    def _files(self) -> Files | None:
        """Return the file system of a `state.dir` that is a URI; None for folders, and where it cannot be seen."""
        place = self.settings.state_dir
        if place is None or not is_uri(place):
            return None
        spark = self._spark or self._own_session()
        return HadoopFiles(spark, place) if is_classic(spark) else None

    def _stop_made(self) -> None:
        """Stop a session that no launcher has taken over: one for a look at files, or of a start that failed."""
        if self._starting is not None and self._starting.exception() is None:
            self._made = self._starting.result()
        self._starting = None
        if self._made is not None:
            from ottla.spark.sessions import let_go

            let_go(self._made)
            self._made = None

    def _join(self) -> bool:
        """Become the application's one driver; raises KafkaError that names the other where one lives.

        A broker has a new group wait for more members, 3 s by default. On hosts that are warm, at least once, an application
        whose group is empty need not: it begins, and commits when it has joined. Returns whether it has.
        """
        settings = self.settings
        names = {name for node in self.topology.nodes.values() if isinstance(node, SourceNode) for name in node.topics}
        shared: dict[str, Any] = {}
        if self._shared is not None:
            hosts = self._shared.hosts
            shared = {"loop": hosts.loop, "shared": self._shared.client(settings).client, "rejoined": hosts.set_member}
        self._membership = Membership(
            settings.bootstrap_servers,
            settings.application_id,
            topics=sorted(names),
            session_ms=settings.session_timeout_ms or SESSION_TIMEOUT_MS_DEFAULT,
            client_id=settings["client.id"] or f"{settings.application_id}-driver",
            network=lambda: driver_network(settings),
            **shared,
        )
        if self._shared is not None and not settings.exactly_once and self._membership.is_free():
            return False
        self._membership.join()
        return True

    def _spark_launcher(self, prepared: Prepared) -> Launcher:
        from ottla.spark.streams.launch import SparkLauncher

        assert self._membership is not None, "it joined first"
        membership = self._membership
        spark, owns = (self._own_session(), True) if self._spark is None else (self._spark, False)
        return SparkLauncher(prepared, self.settings, spark, lambda: membership.member, owns=owns)

    def _watch(self) -> None:
        """The thread of an application of its own: step, wait a moment, and in the end stop everything."""
        while self.look():
            self._stopping.wait(LOOK_SECONDS)

    def is_due(self, now_s: float) -> bool:
        """Whether `look` would find something to do; for a service that watches many."""
        assert self._supervisor is not None and self._membership is not None
        return (
            self._stopping.is_set()
            or self._membership.lost is not None
            or now_s >= self._purged_at_s + self.settings["repartition.purge.interval.ms"] / 1000
            or getattr(self._supervisor, "is_due", lambda now_s: True)(now_s)
        )

    def look(self) -> bool:
        """Do what is due; returns false once everything is stopped. For whoever watches it: one call at a time."""
        try:
            if self._goes_on():
                return True
            if self.state is State.PENDING_SHUTDOWN:
                assert self._supervisor is not None
                self._supervisor.stop(self._patience_s)
        except BaseException as error:  # our own mistake: the application ends with it, and who waits hears of it
            log.exception("watching application %s failed", self.settings.application_id)
            count_failure("Streams applications")
            self._raised = error
            if self._supervisor is not None:
                self._supervisor.give_up(Failure(f"{type(error).__name__}: {error}", fatal=True))
        try:
            self._release()
        finally:
            self._machine.to(State.NOT_RUNNING)
            self._machine.to(State.ERROR)
        return False

    def _change_mode(self, move: Move) -> None:
        """Do a promotion, as the watcher: end what runs, promote, begin in the other mode; refused, begin as before."""
        from ottla.spark.continuous.promotion import Promoting

        assert self._client is not None and self._membership is not None and self._supervisor is not None
        client, refused, found = self._client, None, None
        self._machine.to(State.REBALANCING)
        stages = _stages(self.topology, self.settings)
        try:
            promoting = Promoting(client, self.topology, stages, self.settings, move.to, self._membership.member)
            if move.to == MICRO_BATCH:
                drain = getattr(self._supervisor, "drain", lambda: None)
                promoting.drain(drain, self._stopping.is_set)
            self._supervisor.stop(PATIENCE_SECONDS)
            if move.to == CONTINUOUS:
                finish, begin = getattr(self._supervisor, "finish", None), getattr(self._launcher, "finish", None)
                assert finish is not None and begin is not None, "it runs in micro-batches"
                finish(begin, promoting.is_unfinished, PATIENCE_SECONDS)
            self._end_execution()
            found = promoting.run(dry_run=False)
        except KafkaError as error:
            refused = error
            self._supervisor.stop(PATIENCE_SECONDS)
            self._end_execution()
        if found is not None:
            self.settings = StreamsSettings.of({**self.settings.given, EXECUTION: move.to})
            self.stages = Stages((), self.topology.repartition_topics, {}) if move.to == CONTINUOUS else stages
        self.mode = self._choose(client)
        log.info("application %s: %s (%s)", self.settings.application_id, self.mode.name, self.mode.why)
        self._begin_session(client)
        self._supervisor = self._begin(client, self.mode)
        if found is not None:
            move.answer.set_result(found)
        else:
            move.answer.set_exception(refused or RuntimeError("neither promoted nor refused"))

    def _goes_on(self) -> bool:
        assert self._supervisor is not None
        if self._stopping.is_set():
            return False
        if self._membership is not None and (lost := self._membership.lost) is not None:
            self._supervisor.give_up(Failure(str(lost), fatal=True))
            return False
        if self._move is not None:
            move, self._move = self._move, None
            try:
                self._change_mode(move)
            except BaseException as error:
                move.answer.set_exception(error)
                raise
        if not self._supervisor.step(time.monotonic()):
            return False
        self._purge(self._supervisor)
        return True

    def _release(self, *, waits: bool = True) -> None:
        if not waits and self._starting is not None:
            from ottla.spark.streams.launch import end_when_started

            end_when_started(self._starting)
            self._starting = None
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._server is not None:
            self._server.close()
        if self._stores is not None:
            self._stores.close()
        self._end_execution()
        if self._move is not None:
            move, self._move = self._move, None
            words = f"application {self.settings.application_id} has ended"
            move.answer.set_exception(KafkaError(ErrorCode.INVALID_REQUEST, words))
        if self._membership is not None:  # the last, so that nothing of this driver runs when the next one begins
            self._membership.leave()

    def _end_execution(self) -> None:
        """End the hosts, or what starts queries, and a session of this application's own."""
        if self._service is not None:
            self._service.close()
            self._service = None
        close = getattr(self._launcher, "close", None)
        if close is not None:
            close()
        if not self._is_launched_by_others:
            self._launcher = None
        self._stop_made()

    def _commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        assert self._client is not None and self._membership is not None
        member = self._membership.member
        application = self.settings.application_id
        self._client.commit_offsets(application, offsets, metadata=OWN_WORDS, member=member)

    def _purge(self, supervisor: Supervisor | ContinuousSupervisor) -> None:
        """Delete what was processed of repartition topics, every `repartition.purge.interval.ms`."""
        now_s = time.monotonic()
        assert self.prepared is not None and self._client is not None
        if now_s < self._purged_at_s + self.settings["repartition.purge.interval.ms"] / 1000:
            return
        self._purged_at_s = now_s
        names = {topic.name for topic in self.prepared.internal if topic.store is None}
        if not names:
            return
        read = {each: offset for each, offset in supervisor.processed().items() if each.topic in names and offset}
        try:
            delete_read_records(self._client, read)
        except KafkaError as error:
            log.warning("processed records of repartition topics are not deleted yet: %s", error)


def _stages(topology: Topology, settings: StreamsSettings) -> Stages:
    return cut(topology, stream_time=settings["stream.time"], every_update=not settings.cache)
