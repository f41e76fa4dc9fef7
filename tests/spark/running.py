"""A task's loop in a thread, its port to nobody but the test, and plain readers of topics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ottla.base import Offset, TopicPartition
from ottla.client import LATEST, BlockingClient, FetchPosition, Isolation
from ottla.connect import Plugins, discover
from ottla.connect.decisions import Progress
from ottla.connect.storage import State, TargetState, TaskId
from ottla.connect.tasks.interface import TaskSpec, WorkerClients
from ottla.connect.tasks.run import run_task
from ottla.wire import ColumnDecoder, Record, iter_records

__all__ = ["Port", "Running", "await_true", "committed_records", "records_of", "running", "spec_of"]

SECONDS_MAX = 100.0
JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {
    "key.converter": JSON,
    "value.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "200",
}


class Port:
    """A `TaskPort` that keeps what the task says."""

    def __init__(self, target: TargetState = TargetState.STARTED) -> None:
        self._changed = threading.Condition()
        self._target = target
        self.states: list[tuple[State, str | None]] = []
        self.stored: dict[str, Any] = {}
        self.topics: set[str] = set()
        self.metrics: dict[str, float] = {}
        self.refuses: Exception | None = None
        self.not_mine: Exception | None = None

    def tell(self, state: State, trace: str | None = None) -> None:
        with self._changed:
            self.states.append((state, trace))
            self._changed.notify_all()

    @property
    def target(self) -> TargetState:
        return self._target

    def want(self, target: TargetState) -> None:
        with self._changed:
            self._target = target
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        with self._changed:
            before = self._target
            self._changed.wait_for(lambda: self._target is not before, seconds)

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return [self.stored.get(json.dumps(dict(each), sort_keys=True)) for each in partitions]

    def store_offsets(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        if self.refuses is not None:
            raise self.refuses
        for partition, offset in offsets:
            self.stored[json.dumps(dict(partition), sort_keys=True)] = offset

    def confirm(self) -> None:
        if self.not_mine is not None:
            raise self.not_mine

    def used(self, topic: str) -> None:
        self.topics.add(topic)

    def progress(self, told: Progress) -> None:
        self.told = told

    def report(self, metrics: Mapping[str, float]) -> None:
        self.metrics = dict(metrics)

    @property
    def state(self) -> State | None:
        return self.states[-1][0] if self.states else None

    @property
    def trace(self) -> str:
        return next((trace for _, trace in reversed(self.states) if trace), "")


class Running:
    """A task in a thread."""

    def __init__(self, spec: TaskSpec, port: Port, plugins: Plugins) -> None:
        self.port = port
        self.result: State | None = None
        self._thread = threading.Thread(target=self._run, args=(spec, plugins), daemon=True)
        self._thread.start()

    def _run(self, spec: TaskSpec, plugins: Plugins) -> None:
        self.result = run_task(spec, self.port, plugins=plugins)

    def stop(self) -> State | None:
        self.port.want(TargetState.STOPPED)
        return self.ended()

    def ended(self) -> State | None:
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive(), "the task did not end"
        return self.result


def spec_of(
    bootstrap: str,
    config: Mapping[str, str],
    *,
    worker: Mapping[str, str] | None = None,
    task: TaskId | None = None,
    producer: Mapping[str, str] | None = None,
    consumer: Mapping[str, str] | None = None,
    exactly_once: bool = False,
) -> TaskSpec:
    name = config["name"]
    made = TaskSpec(
        task=task or TaskId(name, 0),
        connector_config=config,
        config=config,
        worker={**WORKER, "bootstrap.servers": bootstrap, "offset.storage.replication.factor": "1", **(worker or {})},
        clients=WorkerClients(bootstrap, producer=producer or {}, consumer=consumer or {}),
        target=TargetState.STARTED,
        generation=1,
    )
    if exactly_once:
        return replace(made, offsets_topic="connect-offsets", transactional_id=f"connect-cluster-{name}-0")
    return made


@contextmanager
def running(spec: TaskSpec, *classes: type[Any], port: Port | None = None) -> Iterator[Running]:
    """Run a task of some connector class until the block ends."""
    task = Running(spec, port or Port(), discover(more=classes))
    try:
        yield task
    finally:
        task.stop()


def await_true(condition: Callable[[], Any], what: str = "", *, seconds: float = SECONDS_MAX) -> Any:
    """Wait for a condition and return what it returned."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"not within {seconds} s: {what or condition}"
        time.sleep(0.01)
    return found


def _partitions(client: BlockingClient, topic: str) -> list[TopicPartition]:
    found = client.metadata([topic])
    return list(found.partitions_of(topic)) if topic in found.topics and not found.topics[topic].error else []


def records_of(bootstrap: str, topic: str) -> list[Record]:
    """Return every record of a topic, aborted ones too, by partition."""
    records: list[Record] = []
    with BlockingClient(bootstrap) as client:
        for partition in _partitions(client, topic):
            end = client.list_offsets({partition: LATEST})[partition].offset
            at = 0
            while at < end:
                [fetched] = client.fetch([FetchPosition(partition, Offset(at), 8 << 20)])
                found = [each for each in iter_records(fetched.check().records) if each.offset >= at]
                if not found:
                    break
                records += found
                at = found[-1].offset + 1
    return records


def committed_records(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of what a reader with read_committed sees, by partition."""
    records: list[tuple[bytes | None, bytes | None]] = []
    with BlockingClient(bootstrap) as client:
        for partition in _partitions(client, topic):
            committed = Isolation.READ_COMMITTED
            end = client.list_offsets({partition: LATEST}, isolation=committed)[partition].offset
            at = Offset(0)
            while at < end:
                [fetched] = client.fetch([FetchPosition(partition, at, 8 << 20)], isolation=committed)
                decoded = ColumnDecoder().decode(fetched.check().records, start=at, aborted=fetched.aborted)
                for columns in decoded.columns:
                    for row in range(len(columns)):
                        pair = []
                        for bounds, nulls in (
                            (columns.key_bounds, columns.key_nulls),
                            (columns.value_bounds, columns.value_nulls),
                        ):
                            pair.append(None if nulls[row] else columns.data[bounds[2 * row] : bounds[2 * row + 1]])
                        records.append((pair[0], pair[1]))
                at = decoded.next_offset
    return records
