"""A task's metrics under Kafka's names: totals for good; rates, averages and largest values over the last samples.

`metrics.num.samples` samples of `metrics.sample.window.ms` each are kept, as in Kafka: two of 30 s unless the
worker says otherwise.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ottla.base import TopicPartition
from ottla.connect.api import Measure
from ottla.connect.tasks.settings import integer

__all__ = ["PLUGIN", "Average", "Lags", "SampleWindow", "TaskMetrics", "Total", "flat"]

PLUGIN = "plugin "
"""How names of metrics begin that a task measures itself; then its MBean in JSON, a space, and the attribute."""

REPORT_SECONDS = 1.0
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class SampleWindow:
    """How many samples are kept, and how long each is."""

    seconds: float = 30.0
    samples: int = 2

    @classmethod
    def of(cls, worker: Mapping[str, str]) -> SampleWindow:
        """Return a worker's; raises ConfigError."""
        window_ms = integer(worker, "metrics.sample.window.ms", 30_000)
        return cls(max(window_ms, 1) / 1000, integer(worker, "metrics.num.samples", 2, least=1))


@dataclass(slots=True)
class _Sample:
    since: float
    count: int = 0
    sum: float = 0.0
    max: float = float("-inf")
    min: float = float("inf")


class _Samples:
    def __init__(self, window: SampleWindow, clock: Clock) -> None:
        self._window, self._clock = window, clock
        self._kept: deque[_Sample] = deque()

    def current(self) -> _Sample:
        now = self._clock()
        if not self._kept or now - self._kept[-1].since >= self._window.seconds:
            self._kept.append(_Sample(now))
            if len(self._kept) > self._window.samples:
                self._kept.popleft()
        return self._kept[-1]

    def last(self) -> list[_Sample]:
        """Return the samples that are not too old."""
        oldest = self._clock() - self._window.seconds * self._window.samples
        while self._kept and self._kept[0].since <= oldest:
            self._kept.popleft()
        return list(self._kept)

    def seconds(self, kept: list[_Sample]) -> float:
        """Return for how long samples count: no less than all windows but the running one, as in Kafka's Rate."""
        window = self._window
        elapsed = self._clock() - kept[0].since
        missing = window.samples - 1 - int(elapsed / window.seconds)
        return max(elapsed + max(missing, 0) * window.seconds, window.seconds)


class Total:
    """A count, and how fast it grows."""

    def __init__(self, window: SampleWindow | None = None, clock: Clock = time.monotonic) -> None:
        self.value = 0
        self._samples = _Samples(window or SampleWindow(), clock)

    def add(self, count: int = 1) -> None:
        """Count."""
        self.value += count
        self._samples.current().count += count

    @property
    def rate(self) -> float:
        """The growth per second of late."""
        kept = self._samples.last()
        return sum(each.count for each in kept) / self._samples.seconds(kept) if kept else 0.0


class Average:
    """Measured values: their number, mean, largest and smallest of late."""

    def __init__(self, window: SampleWindow | None = None, clock: Clock = time.monotonic) -> None:
        self._samples = _Samples(window or SampleWindow(), clock)

    def add(self, value: float) -> None:
        """Take a value."""
        sample = self._samples.current()
        sample.count += 1
        sample.sum += value
        sample.max = max(sample.max, value)
        sample.min = min(sample.min, value)

    def add_many(self, count: int, *, least: float, most: float, mean: float) -> None:
        """Take so many values at once, by what is known of them."""
        sample = self._samples.current()
        sample.count += count
        sample.sum += count * mean
        sample.max = max(sample.max, most)
        sample.min = min(sample.min, least)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(each.count for each in self._samples.last())

    @property
    def mean(self) -> float:
        """The mean, 0 without values."""
        kept = self._samples.last()
        count = sum(each.count for each in kept)
        return sum(each.sum for each in kept) / count if count else 0.0

    @property
    def max(self) -> float:
        """The largest, 0 without values."""
        return max((each.max for each in self._samples.last() if each.count), default=0.0)

    @property
    def min(self) -> float:
        """The smallest, 0 without values."""
        return min((each.min for each in self._samples.last() if each.count), default=0.0)


class Lags:
    """How far a sink is behind the ends of its partitions: the consumer-fetch-manager-metrics of that.

    What is said of one partition is named `topic-partition.records-lag`.
    """

    def __init__(self, window: SampleWindow | None = None, clock: Clock = time.monotonic) -> None:
        self._window, self._clock = window or SampleWindow(), clock
        self._of: dict[TopicPartition, Average] = {}
        self._whole = Average(self._window, clock)

    def values(self, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[str, float]:
        """Return the metrics; `positions` are those of the next records, `ends` those behind the last that may be read."""
        found: dict[str, float] = {}
        lags = {each: max(ends[each] - offset, 0) for each, offset in positions.items() if each in ends}
        self._of = {each: self._of.get(each) or Average(self._window, self._clock) for each in lags}
        for each, lag in lags.items():
            of_one = self._of[each]
            of_one.add(lag)
            self._whole.add(lag)
            name = f"{each.topic}-{each.partition}.records-lag"
            found |= {name: lag, f"{name}-avg": of_one.mean, f"{name}-max": of_one.max}
        return {**found, "records-lag-max": self._whole.max} if lags else found


def flat(measures: Iterable[Measure]) -> dict[str, float]:
    """Return a task's own metrics by one name each."""
    found: dict[str, float] = {}
    for each in measures:
        mbean = json.dumps([each.domain, each.type, dict(each.labels), each.prefix], separators=(",", ":"))
        found |= {f"{PLUGIN}{mbean} {name}": value for name, value in each.values.items()}
    return found


class TaskMetrics:
    """What both loops count: connector-task-metrics and task-error-metrics. Each loop adds its own by `more`."""

    def __init__(self, report: Callable[[dict[str, float]], None], window: SampleWindow | None = None) -> None:
        self._report = report
        self.window = window or SampleWindow()
        self._next = time.monotonic() + REPORT_SECONDS
        self._since = self._changed = time.monotonic()
        self._paused = False
        self._paused_s = 0.0
        self.more: Callable[[], dict[str, float]] = dict
        self.beside: Callable[[], None] = _nothing
        """Called behind each report."""
        self.batch_size, self.commit_ms = Average(self.window), Average(self.window)
        self._commits_failed = Average(self.window)
        self.failures, self.errors, self.skipped, self.retries, self.logged = (Total() for _ in range(5))
        self.dead_letters, self.dead_letters_failed = Total(), Total()
        self.last_error_ms = 0

    def paused(self, is_paused: bool) -> None:
        """Called when the task is paused or resumed."""
        now = time.monotonic()
        if self._paused:
            self._paused_s += now - self._changed
        self._paused, self._changed = is_paused, now

    def committed(self, took_ms: float, *, failed: bool = False) -> None:
        """Called when an offset commit has succeeded or failed; Kafka times those that succeeded."""
        if not failed:
            self.commit_ms.add(took_ms)
        self._commits_failed.add(failed)

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
        failed = self._commits_failed
        self._report(
            {
                "running-ratio": 1.0 - ratio,
                "pause-ratio": ratio,
                "batch-size-max": self.batch_size.max,
                "batch-size-avg": self.batch_size.mean,
                "offset-commit-max-time-ms": self.commit_ms.max,
                "offset-commit-avg-time-ms": self.commit_ms.mean,
                "offset-commit-failure-percentage": failed.mean,
                "offset-commit-success-percentage": 1.0 - failed.mean if failed.count else 0.0,
                "total-record-failures": self.failures.value,
                "total-record-errors": self.errors.value,
                "total-records-skipped": self.skipped.value,
                "total-retries": self.retries.value,
                "total-errors-logged": self.logged.value,
                "deadletterqueue-produce-requests": self.dead_letters.value,
                "deadletterqueue-produce-failures": self.dead_letters_failed.value,
                "last-error-timestamp": self.last_error_ms,
                **self.more(),
            }
        )
        self.beside()


def _nothing() -> None:
    """Tell nothing beside the metrics."""
