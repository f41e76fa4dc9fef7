"""What a task does about a record that fails: again, leave it out and report it, or end (RetryWithToleranceOperator).

Errors are reported before anything else is decided, as in Kafka: a record that ends its task is a dead letter too.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ottla.connect import ConnectError, error_policy, storage
from ottla.connect.tasks.interface import TaskPort
from ottla.connect.tasks.metrics import TaskMetrics
from ottla.connect.tasks.settings import ErrorSettings

__all__ = ["ErrorHandler", "Failed", "Reporter", "SkippedError", "StoppingError"]

log = logging.getLogger(__name__)
T = TypeVar("T")


class SkippedError(Exception):
    """The record at hand is left out; it has been reported."""


class StoppingError(Exception):
    """The task is to stop while an operation was tried again and again: its record has not been dealt with."""


class Failed(Protocol):
    """A record that failed, as reports describe it."""

    @property
    def origin(self) -> tuple[str | None, int | None, int | None]:
        """The topic, partition and offset that it was read from; None for a source's."""
        ...

    def describe(self) -> str:
        """Return what `errors.log.include.messages` shows."""
        ...


Reporter = Callable[[Failed, error_policy.ErrorContext], None]


class ErrorHandler:
    """Decides for one task; `reporters` are called for every failure."""

    def __init__(
        self,
        settings: ErrorSettings,
        task: storage.TaskId,
        port: TaskPort,
        metrics: TaskMetrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.metrics = settings, metrics
        self.reporters: list[Reporter] = []
        self.exceeded: BaseException | None = None
        """An error that was not tolerated; the task ends over it even where a plugin swallowed what was raised."""
        self._task, self._port, self._now = task, port, now
        if settings.logged:
            self.reporters.append(self._log)

    def again(
        self, error: Exception, stage: error_policy.Processing, plugin: Any, operation: Callable[[], T], failed: Failed
    ) -> T:
        """Go on after an operation's first failure: return what a later attempt returns.

        Raises SkippedError where the record is to be left out, StoppingError, or ConnectError for the task's end.
        """
        started_ms, attempt = _now_ms(), 1
        while True:
            decision = self.settings.tolerance.decide(
                error, stage=stage, attempt=attempt, started_ms=started_ms, now_ms=_now_ms(), below=random.randrange
            )
            self.metrics.failures.add()
            if not isinstance(decision, error_policy.Retry):
                break
            self._pause(decision.delay_ms, error)
            self.metrics.retries.add()
            attempt += 1
            try:
                return operation()
            except Exception as found:  # a plugin may raise anything; what is tolerated is decided below
                error = found
        self._report(error, stage, plugin, failed)
        if isinstance(decision, error_policy.Fail):
            self.exceeded = error
            raise ConnectError(decision.message) from error
        self.metrics.skipped.add()
        raise SkippedError

    def fail(self, error: BaseException, stage: error_policy.Processing, plugin: Any, failed: Failed) -> None:
        """Take an error that was not met here; raises ConnectError where errors are not tolerated."""
        self.metrics.failures.add()
        self._report(error, stage, plugin, failed)
        if not self.settings.tolerance.all:
            self.exceeded = error
            raise ConnectError("Tolerance exceeded in error handler") from error

    def check(self) -> None:
        """Raise what was not tolerated, where it was raised already and swallowed."""
        if self.exceeded is not None:
            raise ConnectError("Tolerance exceeded in error handler") from self.exceeded

    def _pause(self, delay_ms: int, error: Exception) -> None:
        until = self._now() + delay_ms / 1000
        while (left := until - self._now()) > 0:
            if self._port.target is storage.TargetState.STOPPED:
                raise StoppingError from error
            self._port.wait(left)

    def _report(self, error: BaseException, stage: error_policy.Processing, plugin: Any, failed: Failed) -> None:
        self.metrics.errors.add()
        self.metrics.last_error_ms = _now_ms()
        topic, partition, offset = failed.origin
        context = error_policy.ErrorContext(
            self._task.connector, self._task.task, stage, class_name(plugin), error, topic, partition, offset
        )
        for report in self.reporters:
            report(failed, context)

    def _log(self, failed: Failed, context: error_policy.ErrorContext) -> None:
        record = failed.describe() if self.settings.logged_with_record else None
        log.error("%s", error_policy.error_log_line(context, record=record), exc_info=context.error)
        self.metrics.logged.add()


def class_name(plugin: Any) -> str:
    """Return the class name of a plugin, or the name itself: Java's where Kafka has the plugin."""
    if isinstance(plugin, str):
        return plugin
    cls = type(plugin)
    return getattr(cls, "java_name", "") or f"{cls.__module__}.{cls.__qualname__}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
