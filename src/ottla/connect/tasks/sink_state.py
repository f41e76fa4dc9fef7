"""Where a sink task stands, and what is measured of it: the values that its loop changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ottla.base import TopicPartition
from ottla.connect.tasks.metrics import Average, Lags, SampleWindow, Total
from ottla.connect.tasks.sink_rows import Portion

__all__ = ["SinkMeasures", "SinkPositions"]


@dataclass
class SinkPositions:
    """The offsets of the task's partitions; each that has a current one has a committed one, not beyond it."""

    current: dict[TopicPartition, int] = field(default_factory=dict)
    """Behind what the task has been given."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    waiting: Portion | None = None
    """What was put and is to be put again; it lies behind the current offset of its partition."""
    shown: Portion | None = None
    """What was put last: the task may report records of it."""

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        """Go on at these offsets, where nothing is waiting any more."""
        self.current.update(positions)
        self.committed.update(positions)
        self._drop_waiting(positions.keys())

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that are the task's no more."""
        for each in partitions:
            self.current.pop(each, None)
            self.committed.pop(each, None)
        self._drop_waiting(partitions)

    def _drop_waiting(self, partitions: Collection[TopicPartition]) -> None:
        if self.waiting is not None and self.waiting.partition in partitions:
            self.waiting = None


class SinkMeasures:
    """Kafka's sink-task-metrics, and a consumer's lags."""

    def __init__(self, window: SampleWindow) -> None:
        self.commits = 0
        """The number of the last commit."""
        self.read, self.sent, self.commits_done, self.commits_skipped = (Total(window) for _ in range(4))
        self.put_ms, self.active = Average(window), Average(window)
        self._lags = Lags(window)

    def values(
        self, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], *, waiting: int
    ) -> dict[str, float]:
        """Return the metrics; `waiting` records are to be put again."""
        return {
            **self._lags.values(positions, ends),
            "records-consumed-total": self.read.value,
            "records-consumed-rate": self.read.rate,
            "sink-record-read-total": self.read.value,
            "sink-record-read-rate": self.read.rate,
            "sink-record-send-total": self.sent.value,
            "sink-record-send-rate": self.sent.rate,
            "sink-record-active-count": waiting,
            "sink-record-active-count-max": self.active.max,
            "sink-record-active-count-avg": self.active.mean,
            "offset-commit-seq-no": self.commits,
            "offset-commit-completion-total": self.commits_done.value,
            "offset-commit-completion-rate": self.commits_done.rate,
            "offset-commit-skip-total": self.commits_skipped.value,
            "offset-commit-skip-rate": self.commits_skipped.rate,
            "put-batch-max-time-ms": self.put_ms.max,
            "put-batch-avg-time-ms": self.put_ms.mean,
        }
