"""A mirror's metrics: what Kafka's are called, and what a record and a whole batch count for."""

from __future__ import annotations

from typing import Any

from ottla.connect import SourceBatch, SourceRecord
from ottla.connect.tasks.metrics import PLUGIN, flat
from ottla.mirror.metrics import CheckpointMetrics, SourceMetrics

NOW_MS = 1_000_000.0


def record(age_ms: int, value: bytes | None = b"four") -> SourceRecord:
    return SourceRecord(topic="east.orders", partition=1, value=value, timestamp=int(NOW_MS) - age_ms)


def batch(count: int, oldest_ms: int, newest_ms: int) -> SourceBatch:
    return SourceBatch(
        topic="east.orders",
        partition=1,
        data=memoryview(b"x" * 1000),
        count=count,
        timestamp_ms=int(NOW_MS) - oldest_ms,
        max_timestamp_ms=int(NOW_MS) - newest_ms,
        has_headers=True,
        source_partition={},
        source_offset={"offset": 1},
        make_records=list,
    )


def values(metrics: SourceMetrics | CheckpointMetrics) -> dict[str, float]:
    (measure,) = metrics.measures()
    return dict(measure.values)


def test_records_and_batches_count_as_many_as_they_hold() -> None:
    metrics = SourceMetrics("east", "west", lambda: NOW_MS)
    metrics.polled([record(50), record(150, None), batch(8, 1000, 200)])
    found = values(metrics)
    assert (found["record-age-ms-min"], found["record-age-ms-max"]) == (50, 1000)
    assert found["record-age-ms-avg"] == (50 + 150 + 8 * 600) / 10
    assert found["byte-count"] == 4 + 1000 and found["record-count"] == 0
    metrics.arrived(record(80))
    metrics.arrived(batch(8, 1000, 200), 3)
    metrics.arrived(batch(8, 1000, 200), 5)
    found = values(metrics)
    assert found["record-count"] == 9 and found["record-rate"] > 0
    assert (found["replication-latency-ms-min"], found["replication-latency-ms-max"]) == (80, 1000)
    assert found["replication-latency-ms"] == 200


def test_what_has_no_time_counts_without_one() -> None:
    metrics = SourceMetrics("east", "west", lambda: NOW_MS)
    timeless = SourceRecord(topic="t", partition=0, value=b"v", timestamp=None)
    metrics.polled([timeless])
    metrics.arrived(timeless)
    assert values(metrics)["record-count"] == 1 and values(metrics)["record-age-ms-max"] == 0


def test_they_are_labelled_as_kafkas_mbeans_are() -> None:
    metrics = CheckpointMetrics("east", "west", lambda: NOW_MS)
    metrics.arrived({"group": "billing", "topic": "east.orders", "partition": 1}, NOW_MS - 30)
    (measure,) = metrics.measures()
    assert (measure.domain, measure.type) == ("kafka.connect.mirror", "MirrorCheckpointConnector")
    assert measure.labels == {
        "source": "east",
        "target": "west",
        "group": "billing",
        "topic": "east.orders",
        "partition": "1",
    }
    names: Any = flat(metrics.measures())
    assert all(each.startswith(PLUGIN) for each in names)
    assert {each.rpartition(" ")[2]: value for each, value in names.items()} == {
        f"checkpoint-latency-ms{end}": 30 for end in ("", "-min", "-max", "-avg")
    }
