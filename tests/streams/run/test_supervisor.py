"""Queries are watched, restarted with back-off, given up at the limit, and their progress is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.spark import Failure, OnError, State
from ottla.spark.streams.progress import BatchProgress, QueryMetrics, duration_ms, read_progress
from ottla.spark.streams.restarts import failure_of
from ottla.spark.streams.states import StateMachine
from ottla.spark.streams.supervisor import RunningQuery, Supervisor
from ottla.streams import StreamsSettings

IN = TopicPartition("in", 0)


@dataclass
class Stage:
    name: str
    kind: str = "stateless"

    def topics_read(self) -> tuple[str, ...]:
        return ("in",)


@dataclass
class Query:
    """A query in the place of Spark's: it reports and fails as it is told."""

    reports: list[BatchProgress] = field(default_factory=list)
    failed: str | None = None
    stopped: float | None = None

    def poll(self) -> Sequence[BatchProgress]:
        found, self.reports = self.reports, []
        return found

    def failure(self) -> str | None:
        return self.failed

    def stop(self, patience_s: float) -> None:
        self.stopped = patience_s


class World:
    """A supervisor over queries of the test's, with the time in the test's hands."""

    def __init__(self, *names: str, on_error: Any = None, **settings: Any) -> None:
        self.started: list[Query] = []
        self.commits: list[Mapping[TopicPartition, Offset]] = []
        self.refuse: str | None = None
        self.machine = StateMachine()
        self.machine.to(State.REBALANCING)
        given = StreamsSettings.of(application_id="app", bootstrap_servers="x:1", **settings)
        stages = [Stage(name) for name in names or ("one",)]
        self.supervisor = Supervisor(stages, self, self.machine, given, commit=self.commits.append, on_error=on_error)

    def start(self, stage: Any) -> RunningQuery:
        if self.refuse is not None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, self.refuse)
        self.started.append(Query())
        return self.started[-1]

    def step(self, now_s: float) -> bool:
        return self.supervisor.step(now_s)


def done(batch: int, offset: int, rows: int = 5) -> BatchProgress:
    return BatchProgress(batch, rows, 0.5, {IN: Offset(offset)}, {IN: Offset(offset + 7)})


def test_it_is_running_once_every_query_has_started() -> None:
    world = World("one", "two")
    assert world.step(0.0)
    assert len(world.started) == 2 and world.machine.state is State.RUNNING


def test_a_failed_query_starts_again_after_a_pause_that_doubles() -> None:
    world = World()
    world.step(0.0)
    at = 0.0
    for pause in (1.0, 2.0, 4.0):
        world.started[-1].failed = "java.io.IOException: broken"
        world.step(at)
        assert world.machine.state is State.REBALANCING
        count = len(world.started)
        world.step(at + pause - 0.01)
        assert len(world.started) == count
        at += pause
        world.step(at)
        assert len(world.started) == count + 1 and world.machine.state is State.RUNNING
    assert world.supervisor.queries[0].facts(at)["last_error"] == "IOException: broken"


def test_a_finished_batch_forgives_earlier_failures() -> None:
    world = World(restart_attempts_max=1)
    world.step(0.0)
    for at in (0.0, 10.0, 20.0):
        world.started[-1].failed = "IOException: broken"
        assert world.step(at)
        assert world.step(at + 5)
        world.started[-1].reports = [done(int(at) + 1, 1)]
        assert world.step(at + 6)
    assert world.supervisor.queries[0].restarts.total == 3


def test_at_the_limit_the_application_fails_and_says_why() -> None:
    world = World("one", "two", restart_attempts_max=0)
    world.step(0.0)
    world.started[0].failed = "IOException: broken"
    assert not world.step(1.0)
    assert world.machine.state is State.ERROR
    assert world.supervisor.failed is not None and "broken" in world.supervisor.failed.reason
    assert world.started[1].stopped == 0.0


def test_poison_is_not_tried_again() -> None:
    world = World()
    world.step(0.0)
    trace = "Traceback (most recent call last):\nottla.streams.errors.DeserializationError: in-0 at 3: no long"
    world.started[0].failed = f"org.apache.spark.SparkException: x\n{trace}"
    assert not world.step(0.0)
    failed = world.supervisor.failed
    assert failed is not None and failed.fatal and failed.reason == "DeserializationError: in-0 at 3: no long"


def test_the_handler_of_uncaught_exceptions_decides() -> None:
    heard: list[Failure] = []

    def shut_down(failure: Failure) -> OnError:
        heard.append(failure)
        return OnError.SHUTDOWN_CLIENT

    world = World(on_error=shut_down)
    world.step(0.0)
    world.started[0].failed = "IOException: broken"
    assert not world.step(0.0)
    assert heard[0].reason == "IOException: broken" and world.machine.state is State.ERROR


def test_a_query_that_cannot_start_is_tried_again() -> None:
    world = World()
    world.refuse = "no broker answers"
    assert world.step(0.0)
    world.refuse = None
    world.step(1.0)
    assert world.machine.state is State.RUNNING


def test_progress_is_committed_by_the_slowest_query_that_reads_a_partition() -> None:
    world = World("one", "two")
    world.step(0.0)
    world.started[0].reports = [done(0, 10)]
    world.step(1.0)
    assert world.commits == []
    world.started[1].reports = [done(0, 4)]
    world.step(2.0)
    assert world.commits == [{IN: 4}]
    world.step(3.0)
    assert len(world.commits) == 1
    world.started[1].reports = [done(1, 10)]
    world.supervisor.stop(3.0)
    assert world.commits[-1] == {IN: 10} and world.started[0].stopped == 3.0


def test_metrics_count_each_batch_once() -> None:
    metrics = QueryMetrics()
    assert metrics.add(done(0, 5), 1.0) and not metrics.add(done(0, 5), 1.1) and metrics.add(done(1, 9, rows=15), 2.0)
    assert (metrics.batches, metrics.rows, metrics.lag) == (2, 20, 7)
    assert metrics.rows_per_second(2.0) == 2.0
    assert metrics.rows_per_second(100.0) == 0.0


def test_progress_of_spark_is_read_with_our_sources_offsets() -> None:
    report = """{"batchId": 7, "numInputRows": 12, "durationMs": {"triggerExecution": 250},
      "observedMetrics": {"ottla-state": {"late": 3, "null_keys": 1, "poison": null}},
      "stateOperators": [{"numRowsDroppedByWatermark": 2}],
      "sources": [{"endOffset": {"in": {"0": 40}}, "latestOffset": {"in": {"0": 42}}},
                  {"endOffset": "{\\"other\\": {\\"1\\": 3}}", "latestOffset": null}, {"endOffset": 5}]}"""
    found = read_progress(report)
    assert (found.batch, found.rows, found.seconds, found.late) == (7, 12, 0.25, 5)
    assert (found.dropped, found.skipped) == (1, 0)
    assert found.offsets == {IN: 40, TopicPartition("other", 1): 3} and found.latest == {IN: 42}


@pytest.mark.parametrize(("text", "reason"), [("", "no reason given"), ("something odd", "something odd")])
def test_a_failure_without_an_exceptions_name_is_told_as_it_is(text: str, reason: str) -> None:
    assert failure_of(text).reason == reason and not failure_of(text).fatal


def test_durations_are_iso_8601() -> None:
    assert duration_ms("P1DT2H3M4.5S") == ((26 * 60 + 3) * 60 + 4) * 1000 + 500


def test_a_state_changes_only_as_kafka_streams_states_do() -> None:
    machine = StateMachine()
    seen: list[tuple[State, State]] = []
    machine.listen(lambda new, old: seen.append((new, old)))
    assert not machine.to(State.RUNNING)
    assert machine.to(State.REBALANCING) and machine.to(State.RUNNING) and machine.to(State.PENDING_SHUTDOWN)
    assert not machine.to(State.RUNNING) and machine.to(State.NOT_RUNNING)
    assert seen[0] == (State.REBALANCING, State.CREATED) and len(seen) == 4
    assert machine.wait(lambda state: state.is_final, 0.0)
