"""Where hosts run: each as a one-partition Spark job that a thread waits for; or in threads of this process, for tests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.background import supervise_thread
from ottla.connect.tasks import Dial
from ottla.spark.continuous.executor import HostOnExecutor, run_host
from ottla.spark.private_api.sessions import executor_slots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HostJobs", "SparkHostJobs", "ThreadHostJobs"]

log = logging.getLogger(__name__)
JAVA_STACK = ("\tat ", "\t... ")


class HostJobs(Protocol):
    """Runs hosts, each for as long as it runs."""

    @property
    def is_local(self) -> bool:
        """Whether hosts run on this machine."""
        ...

    @property
    def slots(self) -> int:
        """How many hosts could run at once now."""
        ...

    def run(self, dial: Dial, name: str) -> str | None:
        """Run a host and return when it has ended: None, or what went wrong. Waits."""
        ...

    def cancel(self, dial: Dial) -> None:
        """End a host that does not end by itself; `run` returns soon after."""
        ...


class SparkHostJobs:
    """Hosts as jobs of a Spark session that somebody else starts and stops."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext

    @property
    def is_local(self) -> bool:
        """See `HostJobs`."""
        return str(self._context.master).startswith("local")

    @property
    def slots(self) -> int:
        """See `HostJobs`."""
        return executor_slots(self._context)

    def run(self, dial: Dial, name: str) -> str | None:
        """See `HostJobs`."""
        try:
            self._context.setJobGroup(dial.attempt, name, interruptOnCancel=True)
            self._context.parallelize([0], 1).mapPartitions(HostOnExecutor(dial)).collect()
        except Exception as error:  # Py4J's errors, and whatever the executor's end raised
            return _words(error)
        return None

    def cancel(self, dial: Dial) -> None:
        """See `HostJobs`."""
        try:
            self._context.cancelJobGroup(dial.attempt)
        except Exception as error:  # Py4J's, where the JVM has ended, and every job with it
            log.debug("a host was not cancelled: %s", error)


class ThreadHostJobs:
    """Hosts in threads of this process, without Spark: for tests, and for looking at an application closely."""

    def __init__(self, slots: int = 4, run: Callable[[Dial], str] = run_host) -> None:
        self.slots, self.is_local = slots, True
        self._run = run
        self._cancelled: dict[str, threading.Event] = {}

    def run(self, dial: Dial, name: str) -> str | None:
        """See `HostJobs`."""
        ended = self._cancelled[dial.attempt] = threading.Event()
        failed: list[str] = []

        def work() -> None:
            try:
                self._run(dial)
            except Exception as error:  # what a host ends with
                failed.append(f"{type(error).__name__}: {error}")
            ended.set()

        supervise_thread(work, name=name, serves="a host")
        ended.wait()
        del self._cancelled[dial.attempt]
        return failed[0] if failed else None

    def cancel(self, dial: Dial) -> None:
        """See `HostJobs`; a thread cannot be ended, so such a host runs on, unheard."""
        found = self._cancelled.get(dial.attempt)
        if found is not None:
            found.set()


def _words(error: Exception) -> str:
    """Return what an error says, without the JVM's stack."""
    lines = f"{type(error).__name__}: {error}".splitlines()
    return "\n".join(each for each in lines if each.strip() and not each.startswith(JAVA_STACK))
