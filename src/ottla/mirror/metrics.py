"""What a mirror's tasks measure, under the names of Kafka's: ages, latencies, records and bytes (KIP-382, KIP-690).

Every record counts, with its own time and its value's bytes, as in Kafka, but for those of batches that travel whole:
nobody looks into most of them. Their number is exact, and so is the newest time; the others are taken to lie evenly between
the first record's and the newest one's, and of a batch's bytes so many are taken for values' as they were in the last one of
its partition that was looked into, each `LOOKED_INTO_EVERY`th.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from ottla.base import TopicPartition
from ottla.connect import Measure, SourceBatch, SourceRecord
from ottla.connect.tasks import Average, Total

__all__ = ["CheckpointMetrics", "SourceMetrics"]

MBEANS = "kafka.connect.mirror"
LOOKED_INTO_EVERY = 16
"""Looking into a batch costs 46 ns for each record; a record's whole way costs more than a microsecond on all sides."""


class _Times:
    """Milliseconds: the last value, and the smallest, largest and mean ones of late."""

    def __init__(self) -> None:
        self._last = 0.0
        self._values = Average()

    def add(self, value: float) -> None:
        """Take a value."""
        self._last = value
        self._values.add(value)

    def add_batch(self, now_ms: float, batch: SourceBatch, first: int, count: int) -> None:
        """Take how long ago some records of a batch were; those that have no time are left out."""
        times = batch.timestamps_ms
        if times is None:
            begin, end = (_between(batch, row) for row in (first, first + count - 1))
            self._last = now_ms - end
            self._values.add_many(count, least=now_ms - end, most=now_ms - begin, mean=now_ms - (begin + end) / 2)
            return
        times = times[first : first + count]
        times = times[times >= 0]
        if len(times):
            self._last = now_ms - float(times[-1])
            oldest, newest, mean = float(times.min()), float(times.max()), float(times.mean())
            self._values.add_many(len(times), least=now_ms - newest, most=now_ms - oldest, mean=now_ms - mean)

    def values(self, name: str) -> dict[str, float]:
        """Return them under Kafka's names."""
        found = self._values
        return {name: self._last, f"{name}-min": found.min, f"{name}-max": found.max, f"{name}-avg": found.mean}


def _between(batch: SourceBatch, row: int) -> float:
    """Return a record's time, as if they lay evenly between the first and the newest."""
    share = row / (batch.count - 1) if batch.count > 1 else 1.0
    return batch.timestamp_ms + (batch.max_timestamp_ms - batch.timestamp_ms) * share


class _OfPartition:
    def __init__(self) -> None:
        self.batches = 0
        """Those that travel whole."""
        self.share_of_values = 1.0
        """Of a batch's bytes."""
        self.records, self.bytes = Total(), Total()
        self.age, self.latency = _Times(), _Times()

    def values(self) -> dict[str, float]:
        return {
            "record-count": self.records.value,
            "record-rate": self.records.rate,
            "byte-count": self.bytes.value,
            "byte-rate": self.bytes.rate,
            **self.age.values("record-age-ms"),
            **self.latency.values("replication-latency-ms"),
        }


class SourceMetrics:
    """Of a source task: by the partition on the target."""

    def __init__(self, source: str, target: str, now_ms: Callable[[], float] = lambda: time.time() * 1000) -> None:
        self._labels = {"source": source, "target": target}
        self._now_ms = now_ms
        self._of: dict[TopicPartition, _OfPartition] = {}

    def polled(self, found: Iterable[SourceRecord | SourceBatch]) -> None:
        """Count what was read: how old it is, and how large."""
        now_ms = self._now_ms()
        for each in found:
            place = self._place(each)
            if isinstance(each, SourceBatch):
                place.age.add_batch(now_ms, each, 0, each.count)
                if each.value_bytes is not None:
                    place.share_of_values = each.value_bytes / max(len(each.data), 1)
                place.bytes.add(round(len(each.data) * place.share_of_values))
            else:
                if each.timestamp is not None and each.timestamp >= 0:
                    place.age.add(now_ms - each.timestamp)
                place.bytes.add(len(each.value or b""))

    def arrived(self, each: SourceRecord | SourceBatch, first: int = 0, count: int = 1) -> None:
        """Count records that are on the target now: one, or some of a batch."""
        place, now_ms = self._place(each), self._now_ms()
        place.records.add(count)
        if isinstance(each, SourceBatch):
            place.latency.add_batch(now_ms, each, first, count)
        elif each.timestamp is not None and each.timestamp >= 0:
            place.latency.add(now_ms - each.timestamp)

    def looks_into(self, topic: str, partition: int) -> bool:
        """Whether the next batch that travels whole to a partition of the target is looked into; counts it."""
        place = self._of.setdefault(TopicPartition(topic, partition), _OfPartition())
        place.batches += 1
        return place.batches % LOOKED_INTO_EVERY == 1

    def _place(self, each: SourceRecord | SourceBatch) -> _OfPartition:
        assert each.partition is not None and each.topic is not None
        return self._of.setdefault(TopicPartition(each.topic, each.partition), _OfPartition())

    def measures(self) -> list[Measure]:
        """Return them as the worker shows them."""
        return [
            Measure(
                MBEANS,
                "MirrorSourceConnector",
                {**self._labels, "topic": place.topic, "partition": str(place.partition)},
                found.values(),
            )
            for place, found in sorted(self._of.items())
        ]


class CheckpointMetrics:
    """Of a checkpoint task: by group, and the partition on the target."""

    def __init__(self, source: str, target: str, now_ms: Callable[[], float] = lambda: time.time() * 1000) -> None:
        self._labels = {"source": source, "target": target}
        self._now_ms = now_ms
        self._of: dict[tuple[str, TopicPartition], _Times] = {}

    def arrived(self, partition: Mapping[str, object], timestamp_ms: float) -> None:
        """Count a checkpoint that is told now, by its partition among Connect's offsets."""
        place = TopicPartition(str(partition["topic"]), int(str(partition["partition"])))
        took_ms = self._now_ms() - timestamp_ms
        self._of.setdefault((str(partition["group"]), place), _Times()).add(took_ms)

    def measures(self) -> list[Measure]:
        """Return them as the worker shows them."""
        return [
            Measure(
                MBEANS,
                "MirrorCheckpointConnector",
                {**self._labels, "group": group, "topic": place.topic, "partition": str(place.partition)},
                found.values("checkpoint-latency-ms"),
            )
            for (group, place), found in sorted(self._of.items())
        ]
