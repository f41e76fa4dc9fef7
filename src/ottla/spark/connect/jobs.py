"""Where tasks run: as one-partition Spark jobs, each waited for by a thread; or in threads of this process, for tests."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla.background import supervise_thread
from ottla.base import ConfigError
from ottla.connect import Plugins
from ottla.connect.tasks import Dial, TaskSpec
from ottla.spark.cluster_protection import check_cluster, secured_part
from ottla.spark.connect.cluster import address_settings, first_executor, ship_ottla, ship_plugins
from ottla.spark.connect.executor import OnExecutor, plugins_of, run_here
from ottla.spark.connect.launching import Launch
from ottla.spark.connect.query_sinks import is_query_sink, run_query_sink
from ottla.spark.connect.slots import HEADROOM, SLOTS_DEFAULT, SLOTS_SETTING
from ottla.spark.fork_server import fork_early
from ottla.spark.private_api.gateway import forget_gateway
from ottla.spark.private_api.sessions import executor_slots
from ottla.spark.sessions import let_go, register, session

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

__all__ = ["MASTER_SETTING", "Jobs", "SparkJobs", "ThreadJobs", "prepare_local_python", "spark_settings"]

log = logging.getLogger(__name__)

MASTER_SETTING = "spark.master"
_KILL = {"spark.python.task.killTimeout": "1s"}
_LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Java's thorough compiler at ten times its own thresholds: a start is over before (measured: 7.0 processor seconds of the
JVM until tasks could run without this, 5.0 s with it), and what query sinks do for long is compiled by it all the same."""
_SMALL_HEAP = "-Xms48m -XX:NewRatio=5 -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
"""A heap that begins with what a driver of tasks needs (46 MiB live) and grows with what query sinks make of it: Java's own
start is a 64th of the machine's memory, whose young generation is filled before anything is looked through. A sixth of it is
young and not a third: what a driver allocates between two collections would be held for ever (14 MiB, measured)."""
_TRIMMED = "-XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=10000"
"""The compilers' memory, megabytes of a start, goes back to the system; Java before 17.0.9 does not know how."""
_SETTINGS: Mapping[str, str] = {
    **_KILL,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "1",
    # A task that Spark starts again by itself would run beside what the worker knows of; the worker restarts tasks.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    # How long a standalone cluster's driver waits, after an executor's connection has ended, for the master to say why.
    "spark.standalone.executorRemoveDelayOnDisconnection": "1s",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": f"-Xrs -XX:+UseSerialGC -XX:-UsePerfData {_SMALL_HEAP} {_TRIMMED} {_LATE_COMPILER}",
}
STARTS_MAX = 3
"""How often a session is started whose JVM ends before it is there, and a Python process that ends before it is ready."""
JAVA_STACK = ("\tat ", "\t... ")
_OWN_DAEMON = "ottla.spark.connect.daemon"


def prepare_local_python(worker: Mapping[str, str]) -> None:
    """Have local tasks be forks of this process, with what both import in memory once; before it has threads.

    `worker` are the worker's properties. Tasks on a cluster, and those of another Python, are no matter of this process.
    """
    master, settings = spark_settings(worker)
    named = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    if master.startswith("local") and named == sys.executable:
        chosen = settings["spark.python.daemon.module"]
        fork_early([chosen if chosen.startswith("ottla.") else _OWN_DAEMON])


class Jobs(Protocol):
    """Runs one thing per task, for as long as the task runs. Every method but `run` is quick."""

    local: bool
    """Whether tasks run on the worker's machine, with its files."""

    @property
    def slots(self) -> int:
        """How many tasks run at once now; a cluster's may change, and it is asked."""
        ...

    def start(self) -> None:
        """Make ready; takes seconds, in a thread. Raises OttlaError, RuntimeError."""
        ...

    def give_up(self) -> None:
        """Have a `start` that is under way fail soon; takes a second or two, in another thread."""
        ...

    def run(self, spec: TaskSpec, dial: Dial, levels: Mapping[str, int]) -> str | None:
        """Run a task and return when it has ended: None, or what went wrong beyond the task itself."""
        ...

    def cancel(self, dial: Dial) -> None:
        """End a task that does not end by itself; `run` returns soon after."""
        ...

    def stop(self) -> None:
        """End everything."""
        ...


def spark_settings(worker: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the master and the settings of a worker's properties, ours for those that are not given."""
    given = {key: value for key, value in worker.items() if key.startswith("spark.")}
    slots = int(worker.get(SLOTS_SETTING) or SLOTS_DEFAULT)
    master = given.pop(MASTER_SETTING, f"local[{slots + HEADROOM}]")
    settings = {**_SETTINGS, **given}
    if master.startswith("local"):
        settings.setdefault("spark.python.daemon.module", _OWN_DAEMON)
    return master, settings


class SparkJobs:
    """Tasks as jobs of one Spark session."""

    def __init__(
        self, worker: Mapping[str, str], *, plugins: Plugins | None = None, name: str = "ottla-connect"
    ) -> None:
        self._plugins = plugins
        self._name, self._given = name, worker.get(SLOTS_SETTING)
        self.master, self._settings = spark_settings(worker)
        self._secured = secured_part(worker)
        self.local = self.master.startswith("local")
        if not self.local:
            self._settings |= address_settings(worker, self.master)
        self._is_elastic = self._settings.get("spark.dynamicAllocation.enabled", "").lower() == "true"
        self.spark: SparkSession | None = None
        self._is_warm, self._warming = False, threading.Lock()
        self._row: RDD[int] | None = None
        """One row in one partition, of which each task's job is made."""
        self._is_over, self._reviving = False, threading.Lock()
        self._launch = Launch()
        self._plugin_path = [Path(each.strip()) for each in worker.get("plugin.path", "").split(",") if each.strip()]
        self._archives: tuple[str, ...] = ()
        own = f"/proc/{os.getpid()}/fd"
        self._stdio = (f"{own}/0", f"{own}/1") if self.local else None

    @property
    def slots(self) -> int:
        """See `Jobs`: those of a cluster are its executors' now, except where it adds executors on demand."""
        given = int(self._given or SLOTS_DEFAULT)
        if self.local or self._is_elastic:
            return given
        spark = self.spark
        there = executor_slots(spark.sparkContext) if spark is not None else 0
        return min(there, given) if self._given else there

    def start(self) -> None:
        """See `Jobs`: start the session, send a cluster's executors what they lack, and have Python ready there.

        A JVM that ends meanwhile, killed as by a kernel without memory, is followed by another.
        """
        _repeat(self._start, may_pass=self._jvm_has_ended)

    def _jvm_has_ended(self, _: Exception) -> bool:
        if not self._launch.was_ended:
            return False
        log.error("Spark's JVM has ended while it started; another is started")
        forget_gateway()
        return True

    def _start(self) -> None:
        with self._launch.noted():
            spark = session(
                self._name,
                master=self.master,
                settings=self._settings,
                registered=False,
                secured=self._secured,
                preload=[_OWN_DAEMON],
            )
        self.spark, self._is_warm = spark, False
        if not self.local:
            self._archives = ship_plugins(spark.sparkContext, self._plugin_path)
        if self.local or self._is_elastic or first_executor(spark.sparkContext):
            _repeat(partial(self._warm_up, spark), may_pass=self._python_has_ended)

    def _python_has_ended(self, error: Exception) -> bool:
        """Return whether Python was killed while it started: a worker whose start has failed runs no task."""
        if self._launch.was_ended:
            return False
        log.error("Python has ended on the executor while it started, and is started again: %s", _words(error))
        return True

    def give_up(self) -> None:
        """See `Jobs`."""
        self._launch.give_up()

    def _warm_up(self, spark: SparkSession) -> None:
        """Have what tasks need on an executor, once; later where there was none at the start."""
        with self._warming:
            if self._is_warm:
                return
            context = spark.sparkContext
            context.setJobGroup("warming up", "warming up")
            if not self.local:
                ship_ottla(spark)
            self._row = context.parallelize([0], 1)
            self._row.map(_warm).collect()
            self._is_warm = True

    def run(self, spec: TaskSpec, dial: Dial, levels: Mapping[str, int]) -> str | None:
        """See `Jobs`; a query sink runs here, and gives Spark jobs itself."""
        try:
            spark = self._revived()
        except Exception as error:  # what `start` raises, and Py4J's errors
            return _words(error)
        own = {key: value for key, value in spec.connector_config.items() if value is not None}
        try:
            check_cluster(self.master, secured_part(own), lambda key: spark.sparkContext.getConf().get(key))
        except ConfigError as error:
            return str(error)
        plugins = self._plugins or plugins_of(spec.plugin_path)
        if is_query_sink(spec, plugins):
            return self._run_query(spark, spec, dial, plugins)
        context = spark.sparkContext
        function = OnExecutor(dial, levels, self._archives, self._stdio)
        try:
            self._warm_up(spark)
            context.setJobGroup(dial.attempt, f"[{spec.task.connector}|task-{spec.task.task}]", interruptOnCancel=True)
            assert self._row is not None, "a session that is warm has it"
            self._row.mapPartitions(function).collect()
        except Exception as error:  # Py4J's errors, and whatever the executor's end raised
            return _words(error)
        return None

    def _revived(self) -> SparkSession:
        """Return the session: another where the JVM of the last has been killed, as by a kernel without memory."""
        with self._reviving:
            if self._launch.has_ended and not self._is_over:
                log.error("Spark's JVM has ended; another is started for the tasks")
                self.spark = None
                forget_gateway()
                self.start()
            if self.spark is None:
                raise RuntimeError("the Spark session has ended")
            return self.spark

    def _run_query(self, spark: SparkSession, spec: TaskSpec, dial: Dial, plugins: Plugins) -> str | None:
        """Run a task that is a streaming query of this session, in this thread."""
        run = partial(run_query_sink, spark=spark, archives=self._archives)
        try:
            self._warm_up(spark)
            register(spark, checked=True)  # by `run`
            run_here(dial, run=run, plugins=plugins)
        except Exception as error:  # whatever Spark raises beyond the query
            return _words(error)
        return None

    def cancel(self, dial: Dial) -> None:
        """See `Jobs`; a query stops by itself when its channel is closed."""
        spark = self.spark
        if spark is None:
            return
        try:
            spark.sparkContext.cancelJobGroup(dial.attempt)
        except Exception as error:  # Py4J's, where the JVM has ended, and every job with it
            log.debug("A job was not cancelled: %s", error)

    def stop(self) -> None:
        """See `Jobs`."""
        self._is_over = True
        if self._reviving.locked():
            self._launch.give_up()
        spark, self.spark = self.spark, None
        if spark is not None and not self._launch.given_up:
            try:
                let_go(spark)
            except Exception as error:  # Py4J's, where the JVM has ended first
                log.debug("the Spark session did not stop in order: %s", error)


def _repeat(start: Callable[[], None], *, may_pass: Callable[[Exception], bool]) -> None:
    """Start, and start again while what it fails of `may_pass`, `STARTS_MAX` times in all."""
    for left in reversed(range(STARTS_MAX)):
        try:
            start()
            return
        except Exception as error:  # PySpark's and Py4J's errors
            if not left or not may_pass(error):
                raise


def _words(error: Exception) -> str:
    """Return what an error says, without the JVM's stack."""
    lines = f"{type(error).__name__}: {error}".splitlines()
    return "\n".join(each for each in lines if each.strip() and not each.startswith(JAVA_STACK))


def _warm(number: int) -> int:
    """Import on an executor what tasks need."""
    import ottla.spark.connect.executor

    assert ottla.spark.connect.executor
    return number


class ThreadJobs:
    """Tasks in threads of the worker's process, without Spark: for tests, and for looking at a connector closely."""

    def __init__(self, *, slots: int = SLOTS_DEFAULT, plugins: Plugins | None = None) -> None:
        self.slots, self._plugins = slots, plugins
        self.local = True
        self.runs: Callable[..., str] = run_here
        self.given_up: list[str] = []
        """Attempts that were cancelled: a thread cannot be ended, so such a task runs on, unheard."""
        self._cancelled: dict[str, threading.Event] = {}

    def start(self) -> None:
        """See `Jobs`: there is nothing to start."""

    def give_up(self) -> None:
        """See `Jobs`."""

    def run(self, spec: TaskSpec, dial: Dial, levels: Mapping[str, int]) -> str | None:
        """See `Jobs`."""
        cancelled = self._cancelled[dial.attempt] = threading.Event()
        failed: list[str] = []

        def work() -> None:
            try:
                self.runs(dial, plugins=self._plugins)
            except Exception as error:  # a test's function may raise anything
                failed.append(f"{type(error).__name__}: {error}")
            cancelled.set()

        supervise_thread(work, name=str(spec.task), serves="a task")
        cancelled.wait()
        del self._cancelled[dial.attempt]
        return failed[0] if failed else None

    def cancel(self, dial: Dial) -> None:
        """See `Jobs`."""
        self.given_up.append(dial.attempt)
        found = self._cancelled.get(dial.attempt)
        if found is not None:
            found.set()

    def stop(self) -> None:
        """See `Jobs`."""
