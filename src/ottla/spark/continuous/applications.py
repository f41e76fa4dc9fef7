"""`StreamsService`: many applications in one process, on one Spark session and the same hosts.

Each application has its own name, plan, settings, principal and fate; an idle one costs its share of a long poll and the
heartbeats of its group. Applications come, pause, go on and end while others run. All methods are for any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.background import count_failure, note_failure, supervise_thread
from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.client import BlockingClient
from ottla.spark.cluster_protection import check_cluster, secured_part
from ottla.spark.continuous.mode import CONTINUOUS, EXECUTION, MICRO_BATCH
from ottla.spark.continuous.service import STOP_SECONDS, HostService
from ottla.spark.continuous.shared import SharedHosts, Watched
from ottla.spark.continuous.supervisor import host_facts
from ottla.spark.streams.restarts import Restarts
from ottla.spark.streams.run import StreamsApplication
from ottla.streams import StreamsSettings, Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.continuous.jobs import HostJobs
    from ottla.spark.streams.states import StateListener
    from ottla.spark.streams.supervisor import ErrorHandler

__all__ = ["StreamsService"]

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.25
"""How often it is looked whether an application has something due; what hosts tell is looked at as it comes."""
CLOSE_SECONDS = 30.0
READY_SECONDS_MAX = 120.0
APPLICATIONS_MAX = 1000
THREADS = 8
"""How many applications may start again, stop or fail at the same moment; others wait for them."""


class StreamsService:
    """See the module's description; `start` first, `close` at the end, or use it as a context manager.

    `name` names the session and begins every transactional id: one service of a name runs at a time. `hosts` are Python
    processes, of one core at most each. The Spark session is `spark`, which its owner stops, or one of the service's own by
    `master` (this machine, with a slot for each host, unless given) and `settings` (`spark.…`). `jobs` is where hosts run
    in the place of a session, for tests.
    """

    def __init__(
        self,
        name: str,
        *,
        hosts: int = 1,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        jobs: HostJobs | None = None,
    ) -> None:
        """Raises ConfigError for a name that is none, or fewer hosts than one."""
        StreamsSettings.of({"application.id": name, "bootstrap.servers": "none:0"})  # the same letters are allowed
        if hosts < 1:
            raise ConfigError("hosts", hosts, "at least one is needed")
        self.name, self.master = name, master or f"local[{hosts}]"
        self._count, self._settings = hosts, dict(settings or {})
        self._spark, self._jobs = spark, jobs
        self._made: SparkSession | None = None
        self._hosts: HostService | None = None
        self._lock = threading.Lock()
        self._applications: dict[str, StreamsApplication] = {}
        self._watched: dict[str, Watched] = {}
        self._busy: set[str] = set()
        """Applications that a thread looks after now."""
        self._wake = threading.Event()
        self._is_closing = False
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"service-{name}")
        self._watcher: threading.Thread | None = None
        self._began_at_s = 0.0

    # -- life

    def start(self, *, wait: bool = True) -> Self:
        """Start the session and the hosts, and wait until these take orders.

        Raises TimeoutError where they do not, ConfigError where the master has no room for them. With `wait=False` it
        returns once the session is there.
        """
        jobs = self._jobs or self._session_jobs()
        if jobs.is_local and jobs.slots < self._count:
            self.close()
            raise ConfigError("hosts", self._count, f"{jobs.slots} have room on master {self.master}")
        self._hosts = HostService(
            self.name,
            jobs,
            hosts=self._count,
            settings=self._settings,
            restarts=lambda: Restarts(1_000_000, 0.5, 10.0),
            changed=self._wake.set,
        )
        self._began_at_s = time.monotonic()
        self._hosts.start(self.master)
        self._watcher = supervise_thread(self._watch, name=f"service-{self.name}", serves=f"service {self.name}")
        if wait and not self.wait_ready(READY_SECONDS_MAX):
            self.close()
            found = ", ".join(f"host {each.number}: {each.last_error or 'not there'}" for each in self._hosts.hosts())
            raise TimeoutError(f"service {self.name}: its hosts do not start: {found}")
        return self

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until every host takes orders; false where the time was over first."""
        until_s = time.monotonic() + timeout_s
        while not all(each.is_ready for each in self.hosts.hosts()):
            if time.monotonic() > until_s:
                return False
            time.sleep(LOOK_SECONDS / 10)
        return True

    def close(self, timeout_s: float = CLOSE_SECONDS) -> bool:
        """End every application, then the hosts, and a session of the service's own; returns whether all was in time."""
        with self._lock:
            if self._is_closing:
                return True
            self._is_closing = True
            running = dict(self._applications)
        until_s = time.monotonic() + timeout_s
        with ThreadPoolExecutor(
            THREADS, thread_name_prefix=f"closing-{self.name}"
        ) as closing:  # the others do what is due
            left = [
                closing.submit(lambda each: each.close(max(0.0, until_s - time.monotonic())), each)
                for each in running.values()
            ]
        in_time = all(each.result() for each in left)
        self._wake.set()
        if self._watcher is not None and self._watcher.is_alive():
            self._watcher.join(timeout_s)
        self._threads.shutdown(wait=False)
        if self._hosts is not None:
            self._hosts.close(min(timeout_s, STOP_SECONDS))
        if self._made is not None:
            from ottla.spark.sessions import let_go

            let_go(self._made)
        return in_time

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- applications

    def add(
        self,
        topology: Topology,
        settings: StreamsSettings | Mapping[str, Any],
        *,
        on_error: ErrorHandler | None = None,
        on_state_change: StateListener | None = None,
    ) -> StreamsApplication:
        """Start an application beside those that run, by its `application.id`; returns it started.

        Its settings are its own, with its principal (`security.protocol`, `sasl.…`, `ssl.…`). Raises what
        `StreamsApplication.start` raises, ConfigError for `execution=micro-batch`, and KafkaError where an application of
        that name runs here. One that has ended or failed is replaced.
        """
        given = settings if isinstance(settings, StreamsSettings) else StreamsSettings.of(settings)
        application = self._new(topology, given)
        if on_error is not None:
            application.on_uncaught_exception(on_error)
        if on_state_change is not None:
            application.on_state_change(on_state_change)
        name = given.application_id
        before = self._enter(name, application)
        try:
            application.start()
        except BaseException:
            with self._lock:
                if before is None:
                    self._applications.pop(name, None)
                else:
                    self._applications[name] = before
            raise
        return application

    def _new(self, topology: Topology, settings: StreamsSettings) -> StreamsApplication:
        if settings[EXECUTION] == MICRO_BATCH:
            words = f"application {settings.application_id}: a service runs applications in continuous mode alone"
            raise ConfigError(EXECUTION, MICRO_BATCH, "", words)
        if self._jobs is None:
            secured = secured_part({**settings.security, "http.listener": settings["http.listener"] or ""})
            session = self._spark or self._made
            if session is not None:
                check_cluster(self.master, secured, session.sparkContext.getConf().get)
        chosen = StreamsSettings.of({**settings.given, EXECUTION: CONTINUOUS, "spark.master": self.master})
        shared = SharedHosts(self.hosts, self._client, self._look_after, self._wake.set)
        return StreamsApplication(topology, chosen, shared=shared, spark=self._spark or self._made)

    def _enter(self, name: str, application: StreamsApplication) -> StreamsApplication | None:
        """Give an application its name; returns the one that has had it, and has ended."""
        with self._lock:
            if self._is_closing or self._hosts is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"service {self.name} does not run")
            before = self._applications.get(name)
            if before is not None and not before.state.is_final:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"application {name} runs in service {self.name} already")
            if before is None and len(self._applications) >= APPLICATIONS_MAX:
                words = f"service {self.name} has {APPLICATIONS_MAX} applications, and takes no more"
                raise KafkaError(ErrorCode.INVALID_REQUEST, words)
            self._applications[name] = application
            return before

    @property
    def applications(self) -> Mapping[str, StreamsApplication]:
        """All by `application.id`, those that have failed with them, until they are ended."""
        with self._lock:
            return MappingProxyType(dict(self._applications))

    def application(self, name: str) -> StreamsApplication:
        """Return an application; raises KeyError."""
        with self._lock:
            return self._applications[name]

    def pause(self, name: str) -> None:
        """Pause an application (KIP-834); raises KeyError, and KafkaError where it does not run."""
        self.application(name).pause()

    def resume(self, name: str) -> None:
        """Have a paused application go on; raises as `pause`."""
        self.application(name).resume()

    def end(self, name: str, timeout_s: float = CLOSE_SECONDS) -> bool:
        """Have an application commit and end, and forget it; returns whether that was in time. Raises KeyError."""
        application = self.application(name)
        in_time = application.close(timeout_s)
        with self._lock:
            if self._applications.get(name) is application:
                del self._applications[name]
        return in_time

    def status(self) -> dict[str, Any]:
        """Return how the service, its hosts and its applications stand, fit for JSON."""
        return {
            "name": self.name,
            "master": self.master,
            "uptime_seconds": round(time.monotonic() - self._began_at_s, 1) if self._began_at_s else 0.0,
            "hosts": [host_facts(each) for each in self.hosts.hosts()],
            "applications": [short_facts(each) for each in self.applications.values()],
        }

    # -- inside

    @property
    def hosts(self) -> HostService:
        """The hosts that all share."""
        assert self._hosts is not None, "the service was started"
        return self._hosts

    def _client(self, settings: StreamsSettings) -> BlockingClient:
        security = tuple(sorted(settings.security.items()))
        return BlockingClient.over(self.hosts.client(settings.bootstrap_servers, security), self.hosts.loop)

    def _look_after(self, application: Watched) -> None:
        with self._lock:
            self._watched[application.name] = application
        self._wake.set()

    # -- the thread

    def _watch(self) -> None:
        while True:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            with self._lock:
                if self._is_closing and not self._watched:
                    return
                idle = [each for name, each in self._watched.items() if name not in self._busy]
            now_s = time.monotonic()
            for each in idle:
                if self._is_due(each, now_s):
                    with self._lock:
                        self._busy.add(each.name)
                    self._threads.submit(self._look, each)

    def _is_due(self, application: Watched, now_s: float) -> bool:
        try:
            return _is_due(application, now_s)
        except Exception as error:  # our own mistake: the look meets it, too, and ends the application
            note_failure(
                f"service {self.name}", f"the watch of {application.name}", error, consequence="it is looked at"
            )
            return True

    def _look(self, application: Watched) -> None:
        """Do what is due of one; others need not wait for it."""
        try:
            goes_on = application.look()
        except Exception:  # our own mistake: the other applications are looked after all the same
            log.exception("application %s cannot be looked after", application.name)
            count_failure("continuous applications")
            goes_on = False
        with self._lock:
            self._busy.discard(application.name)
            if not goes_on:
                self._watched.pop(application.name, None)
        if not goes_on:
            self._wake.set()

    def _session_jobs(self) -> HostJobs:
        from ottla.spark.continuous.jobs import SparkHostJobs
        from ottla.spark.continuous.sessions import hosts_settings
        from ottla.spark.sessions import session
        from ottla.spark.shipping import ship_files

        spark = self._spark
        if spark is None:
            given = {**hosts_settings(self.master), **self._settings}
            spark = self._made = session(self.name, master=self.master, settings=given, registered=False)
            ship_files(spark, with_ottla=not self.master.startswith("local"))
        return SparkHostJobs(spark)


def _is_due(application: Watched, now_s: float) -> bool:
    """Whether an application has something due; one that cannot say so has: what stands against it is seen there."""
    try:
        return application.is_due(now_s)
    except Exception:  # whoever has lost its membership raises; the thread looks after all the others, too
        log.debug("application %s cannot say what is due", application.name, exc_info=True)
        return True


def short_facts(application: StreamsApplication) -> dict[str, Any]:
    """Return what a list of applications shows of one."""
    found = application.status()
    names = ("application_id", "state", "paused", "error", "processing_guarantee", "uptime_seconds", "rows", "lag")
    return {**{name: found[name] for name in names}, "rows_per_second": found["rows_per_second"]}
