"""A task's metrics under Kafka's names: totals, rates over the last half minute, averages, ratios."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

__all__ = ["Average", "TaskMetrics", "Total"]

WINDOW_SECONDS = 30.0
SAMPLES_MAX = 32
REPORT_SECONDS = 1.0


class Total:
    """A count, and how fast it grows."""

    def __init__(self) -> None:
        self.value = 0
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, count: int = 1) -> None:
        """Count."""
        self.value += count

    def rate(self, now: float) -> float:
        """Return the growth per second over the last half minute; call it about once a second."""
        samples = self._samples
        if not samples or now - samples[-1][0] >= WINDOW_SECONDS / SAMPLES_MAX:
            samples.append((now, self.value))
        while len(samples) > 2 and samples[1][0] <= now - WINDOW_SECONDS:
            samples.popleft()
        since, before = samples[0]
        return (self.value - before) / (now - since) if now > since else 0.0


class Average:
    """Measured values: their mean and the largest, for good."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = self.max = 0.0
        self.min = float("inf")

    def add(self, value: float) -> None:
        """Take a value."""
        self.count += 1
        self.sum += value
        self.max = max(self.max, value)
        self.min = min(self.min, value)

    @property
    def mean(self) -> float:
        """The mean, 0 without values."""
        return self.sum / self.count if self.count else 0.0


class TaskMetrics:
    """What both loops count: connector-task-metrics and task-error-metrics. Each loop adds its own by `more`."""

    def __init__(self, report: Callable[[dict[str, float]], None]) -> None:
        self._report = report
        self._next = time.monotonic() + REPORT_SECONDS
        self._since = self._changed = time.monotonic()
        self._paused = False
        self._paused_s = 0.0
        self.more: Callable[[float], dict[str, float]] = lambda now: {}
        self.batch_size, self.commit_ms = Average(), Average()
        self.commits_failed = 0
        self.failures, self.errors, self.skipped, self.retries, self.logged = (Total() for _ in range(5))
        self.dead_letters, self.dead_letters_failed = Total(), Total()
        self.last_error_ms = 0

    def paused(self, is_paused: bool) -> None:
        """Hear whether the task is paused from now on."""
        now = time.monotonic()
        if self._paused:
            self._paused_s += now - self._changed
        self._paused, self._changed = is_paused, now

    def committed(self, took_ms: float, *, failed: bool = False) -> None:
        """Hear of an offset commit that succeeded or failed."""
        self.commit_ms.add(took_ms)
        self.commits_failed += failed

    def maybe_report(self) -> None:
        """Hand the metrics over, about once a second."""
        if time.monotonic() >= self._next:
            self.report()

    def report(self) -> None:
        """Hand the metrics over now."""
        now = time.monotonic()
        self._next = now + REPORT_SECONDS
        paused_s = self._paused_s + (now - self._changed if self._paused else 0.0)
        ratio = paused_s / (now - self._since) if now > self._since else 0.0
        failed = self.commits_failed / self.commit_ms.count if self.commit_ms.count else 0.0
        self._report(
            {
                "running-ratio": 1.0 - ratio,
                "pause-ratio": ratio,
                "batch-size-max": self.batch_size.max,
                "batch-size-avg": self.batch_size.mean,
                "offset-commit-max-time-ms": self.commit_ms.max,
                "offset-commit-avg-time-ms": self.commit_ms.mean,
                "offset-commit-failure-percentage": failed,
                "offset-commit-success-percentage": 1.0 - failed if self.commit_ms.count else 0.0,
                "total-record-failures": self.failures.value,
                "total-record-errors": self.errors.value,
                "total-records-skipped": self.skipped.value,
                "total-retries": self.retries.value,
                "total-errors-logged": self.logged.value,
                "deadletterqueue-produce-requests": self.dead_letters.value,
                "deadletterqueue-produce-failures": self.dead_letters_failed.value,
                "last-error-timestamp": self.last_error_ms,
                **self.more(now),
            }
        )
