"""Watches an application's queries: starts them, takes their progress in, starts again what failed, and gives up in the end.

`step` does what is due and returns; it neither sleeps nor knows a thread, so that tests walk it through time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from ottla.base import Offset, OttlaError, TopicPartition
from ottla.spark.streams.progress import BatchProgress, QueryMetrics
from ottla.spark.streams.restarts import Failure, Restarts, failure_of
from ottla.spark.streams.states import State, StateMachine
from ottla.streams import StreamsSettings

__all__ = ["ErrorHandler", "Launcher", "OnError", "QueryStatus", "RunningQuery", "Supervisor"]

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.02
COMMIT_SECONDS = 1.0
"""How often progress is committed at most; a graceful stop commits the rest."""


class OnError(StrEnum):
    """What an uncaught exception leads to, in Kafka Streams' words."""

    REPLACE_THREAD = "REPLACE_THREAD"
    """Start the query again, after a pause."""
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    """Stop the application, in state ERROR."""
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"
    """The same: an application runs as one driver."""


ErrorHandler = Callable[[Failure], OnError]


class RunningQuery(Protocol):
    """A query that was started."""

    def poll(self) -> Sequence[BatchProgress]:
        """Return the batches that were finished since the last call."""

    def failure(self) -> str | None:
        """Return None while it is active, and then what Spark says of its end."""

    def stop(self, patience_s: float) -> None:
        """Stop it between two batches; within a batch only when the patience is over."""


class Launcher(Protocol):
    """Starts queries."""

    def start(self, stage: Any) -> RunningQuery:
        """Start the query of a stage; it goes on from its checkpoint where it has one."""


@dataclass
class QueryStatus:
    """One stage's query, as it stands."""

    stage: Any
    restarts: Restarts
    query: RunningQuery | None = None
    start_at_s: float = 0.0
    """When it is to be started, while `query` is None."""
    metrics: QueryMetrics = field(default_factory=QueryMetrics)

    @property
    def name(self) -> str:
        """The stage's name."""
        return str(self.stage.name)

    def facts(self, now_s: float) -> dict[str, Any]:
        """Return what status pages show."""
        last = self.restarts.last
        return {
            "name": self.name,
            "kind": self.stage.kind,
            "active": self.query is not None,
            "restart_in_s": None if self.query is not None else max(0.0, round(self.start_at_s - now_s, 1)),
            "restarts": self.restarts.total,
            "last_error": None if last is None else last.reason,
            "batch": self.metrics.last_batch,
            "batches": self.metrics.batches,
            "batch_seconds": self.metrics.last_batch_s,
            "rows": self.metrics.rows,
            "rows_per_second": round(self.metrics.rows_per_second(now_s), 1),
            "lag": self.metrics.lag,
            "late": self.metrics.late,
            "dropped": self.metrics.dropped,
            "skipped": self.metrics.skipped,
        }


class Supervisor:
    """Keeps the queries of an application running."""

    def __init__(
        self,
        stages: Sequence[Any],
        launcher: Launcher,
        machine: StateMachine,
        settings: StreamsSettings,
        *,
        commit: Callable[[Mapping[TopicPartition, Offset]], None],
        on_error: ErrorHandler | None = None,
    ) -> None:
        self.queries = [
            QueryStatus(
                stage,
                Restarts(
                    settings["restart.attempts.max"],
                    settings["restart.backoff.ms"] / 1000,
                    settings["restart.backoff.max.ms"] / 1000,
                ),
            )
            for stage in stages
        ]
        self.failed: Failure | None = None
        """Why the application gave up."""
        self._launcher = launcher
        self._machine = machine
        self._commit = commit
        self._on_error = on_error
        self._committed: dict[TopicPartition, Offset] = {}
        self._commit_at_s = 0.0

    def step(self, now_s: float) -> bool:
        """Do what is due; returns false when the application has failed and its queries are stopped."""
        for status in self.queries:
            if status.query is not None:
                self._look(status, now_s)
            elif now_s >= status.start_at_s:
                self._start(status, now_s)
            if self.failed is not None:
                return False
        self._machine.to(State.RUNNING if all(status.query for status in self.queries) else State.REBALANCING)
        if now_s >= self._commit_at_s:
            self._commit_at_s = now_s + COMMIT_SECONDS
            self.commit()
        return True

    def stop(self, patience_s: float) -> None:
        """Stop every query between two batches and commit what they have done."""
        for status in self.queries:
            if status.query is not None:
                status.query.stop(patience_s)
                self._take_in(status, status.query, 0.0)
                status.query = None
        self.commit()

    def finish(
        self, begin: Callable[[Any], RunningQuery], is_unfinished: Callable[[str], bool], patience_s: float
    ) -> None:
        """Have queries that `stop` has cut off within a batch do that batch again, and no other one.

        Records that come all the time leave no moment between two batches. `begin` starts a stage's query for one batch.
        """
        cut_off = [each for each in self.queries if is_unfinished(each.name)]
        for status in cut_off:
            status.query = begin(status.stage)
        until_s = time.monotonic() + patience_s
        for status in cut_off:
            assert status.query is not None
            while status.query.failure() is None and time.monotonic() < until_s:
                time.sleep(LOOK_SECONDS)
        self.stop(0.0)

    def commit(self) -> None:
        """Commit what every query that reads a partition has processed of it; a failure is logged and tried again."""
        new = {each: offset for each, offset in self.processed().items() if self._committed.get(each) != offset}
        if not new:
            return
        try:
            self._commit(new)
        except OttlaError as error:
            log.warning("progress is not committed, which only lag tools notice: %s", error)
        else:
            self._committed.update(new)

    def processed(self) -> dict[TopicPartition, Offset]:
        """Return how far each partition is processed: by the slowest of the queries that read it."""
        found: dict[TopicPartition, Offset] = {}
        readers: dict[str, int] = {}
        seen: dict[TopicPartition, int] = {}
        for status in self.queries:
            for topic in {each.topic for each in status.metrics.offsets} | set(status.stage.topics_read()):
                readers[topic] = readers.get(topic, 0) + 1
            for each, offset in status.metrics.offsets.items():
                found[each] = min(offset, found.get(each, offset))
                seen[each] = seen.get(each, 0) + 1
        return {each: offset for each, offset in found.items() if seen[each] >= readers[each.topic]}

    def _start(self, status: QueryStatus, now_s: float) -> None:
        try:
            status.query = self._launcher.start(status.stage)
        except Exception as error:  # Spark's and Py4J's kinds; whether it starts again is decided there
            log.debug("query %s did not start", status.name, exc_info=True)
            self._failed(status, failure_of(f"{type(error).__name__}: {error}"), now_s)

    def _look(self, status: QueryStatus, now_s: float) -> None:
        assert status.query is not None
        self._take_in(status, status.query, now_s)
        words = status.query.failure()
        if words is not None:
            status.query = None
            self._failed(status, failure_of(words), now_s)

    def _take_in(self, status: QueryStatus, query: RunningQuery, now_s: float) -> None:
        for progress in query.poll():
            if status.metrics.add(progress, now_s):
                status.restarts.progressed()

    def _failed(self, status: QueryStatus, failure: Failure, now_s: float) -> None:
        wanted = self._on_error(failure) if self._on_error is not None else OnError.REPLACE_THREAD
        wait_s = status.restarts.after(failure)
        if wanted is OnError.REPLACE_THREAD and wait_s is not None:
            status.start_at_s = now_s + wait_s
            log.warning("query %s failed and starts again in %.1f s: %s", status.name, wait_s, failure.reason)
            self._machine.to(State.REBALANCING)
            return
        log.error("query %s failed, and the application with it: %s", status.name, failure.reason)
        self.give_up(failure)

    def give_up(self, failure: Failure) -> None:
        """Stop every query at once and end in state ERROR."""
        self.failed = failure
        self._machine.to(State.PENDING_ERROR)
        for each in self.queries:
            if each.query is not None:
                each.query.stop(0.0)
                each.query = None
        self._machine.to(State.ERROR)
