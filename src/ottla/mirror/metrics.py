"""What a mirror's tasks measure, under the names of Kafka's: ages, latencies, records and bytes (KIP-382, KIP-690).

A batch that travels whole is not looked into: its records count each, and their times are taken to lie evenly between its
first and its last, so that smallest and largest values are exact and means are those of the middle. Its bytes are those of
the batch; of single records they are those of their values, as in Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from ottla.base import TopicPartition
from ottla.connect import Measure, SourceBatch, SourceRecord
from ottla.connect.tasks import Average, Total

__all__ = ["CheckpointMetrics", "SourceMetrics"]

MBEANS = "kafka.connect.mirror"


class _Times:
    """Milliseconds: the last value, and the smallest, largest and mean ones of late."""

    def __init__(self) -> None:
        self._last = 0.0
        self._values = Average()

    def add(self, least: float, most: float, count: int = 1) -> None:
        """Take so many values that lie evenly between two."""
        self._last = least
        self._values.add_evenly(least, most, count)

    def values(self, name: str) -> dict[str, float]:
        """Return them under Kafka's names."""
        found = self._values
        return {name: self._last, f"{name}-min": found.min, f"{name}-max": found.max, f"{name}-avg": found.mean}


class _OfPartition:
    def __init__(self) -> None:
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
                place.age.add(now_ms - each.max_timestamp_ms, now_ms - each.timestamp_ms, each.count)
                place.bytes.add(len(each.data))
            else:
                if each.timestamp is not None and each.timestamp >= 0:
                    age_ms = now_ms - each.timestamp
                    place.age.add(age_ms, age_ms)
                place.bytes.add(len(each.value or b""))

    def arrived(self, each: SourceRecord | SourceBatch, count: int = 1) -> None:
        """Count records that are on the target now, those of a batch so many at a time."""
        place, now_ms = self._place(each), self._now_ms()
        place.records.add(count)
        if isinstance(each, SourceBatch):
            place.latency.add(now_ms - each.max_timestamp_ms, now_ms - each.timestamp_ms, count)
        elif each.timestamp is not None and each.timestamp >= 0:
            place.latency.add(now_ms - each.timestamp, now_ms - each.timestamp)

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
        self._of.setdefault((str(partition["group"]), place), _Times()).add(took_ms, took_ms)

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
