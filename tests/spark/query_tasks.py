"""Query sinks run as a worker runs them, in threads: a port that stands for the worker, and what to wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from ottla.base import Millis, TopicPartition
from ottla.client import BlockingClient
from ottla.connect import Plugins, discover, storage
from ottla.connect.decisions import Progress
from ottla.connect.tasks.interface import TaskSpec, WorkerClients
from ottla.connectors import CONNECTORS
from ottla.spark.connect.query_sinks import run_query_sink
from ottla.wire import Record, build_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Port", "produce", "query_task", "until", "until_failed"]

SECONDS_MAX = 120.0
JSON_WITHOUT_SCHEMAS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class Port:
    """A `TaskPort` to the test."""

    def __init__(self, target: storage.TargetState = storage.TargetState.STARTED) -> None:
        self.states: list[storage.State] = []
        self.trace = ""
        self.metrics: dict[str, float] = {}
        self.told = Progress()
        self.topics: set[str] = set()
        self._target = target
        self._changed = threading.Condition()

    @property
    def target(self) -> storage.TargetState:
        return self._target

    def aim(self, target: storage.TargetState) -> None:
        with self._changed:
            self._target = target
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        with self._changed:
            before = self._target
            self._changed.wait_for(lambda: self._target is not before, seconds)

    def tell(self, state: storage.State, trace: str | None = None) -> None:
        self.states.append(state)
        self.trace = trace or self.trace

    def used(self, topic: str) -> None:
        self.topics.add(topic)

    def progress(self, told: Progress) -> None:
        self.told = told

    def report(self, metrics: Mapping[str, float]) -> None:
        self.metrics = dict(metrics)

    def offsets(self, partitions: object) -> list[None]:
        raise AssertionError("a sink has no source offsets")

    def store_offsets(self, offsets: object) -> None:
        raise AssertionError("a sink has no source offsets")

    def confirm(self) -> None:
        raise AssertionError("a sink has no transactions")

    @property
    def records(self) -> int:
        """How many offsets have been written and committed."""
        return int(self.metrics.get("sink-record-send-total", 0))


@cache
def plugins() -> Plugins:
    return discover([], more=CONNECTORS)


@contextmanager
def query_task(
    spark: SparkSession, bootstrap: str, config: Mapping[str, str], *, consumer: Mapping[str, str] | None = None
) -> Iterator[Port]:
    """Run a connector's task until the block ends, and then to its orderly end."""
    worker = {**JSON_WITHOUT_SCHEMAS, "task.shutdown.graceful.timeout.ms": "30000"}
    clients = WorkerClients(bootstrap, consumer=dict(consumer or {}))
    task = storage.TaskId(config["name"], 0)
    spec = TaskSpec(task, config, config, worker, clients, storage.TargetState.STARTED, 0)
    port = Port()
    thread = threading.Thread(
        target=run_query_sink, args=(spec, port), kwargs={"spark": spark, "plugins": plugins()}, daemon=True
    )
    thread.start()
    try:
        yield port
    finally:
        port.aim(storage.TargetState.STOPPED)
        thread.join(SECONDS_MAX)
        assert not thread.is_alive(), "the task does not end"


def until(port: Port, holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails with the task's trace where it has failed, or after a while."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert storage.State.FAILED not in port.states, port.trace
        assert time.monotonic() < deadline, f"waited for {SECONDS_MAX} s; {port.states}, {port.metrics}"
        time.sleep(0.02)


def until_failed(port: Port) -> None:
    """Wait until the task has told that it failed."""
    deadline = time.monotonic() + SECONDS_MAX
    while storage.State.FAILED not in port.states:
        assert time.monotonic() < deadline, f"waited for {SECONDS_MAX} s; {port.states}, {port.metrics}"
        time.sleep(0.02)


def produce(
    client: BlockingClient,
    topic: str,
    values: Sequence[bytes | None],
    *,
    partition: int = 0,
    first_ms: int = 1_700_000_000_000,
    step_ms: int = 1,
) -> None:
    """Append records without keys to a partition."""
    records = [
        Record(timestamp=Millis(first_ms + number * step_ms), key=None, value=value)
        for number, value in enumerate(values)
    ]
    for appended in client.produce({TopicPartition(topic, partition): bytes(build_batch(records))}):
        appended.check()
