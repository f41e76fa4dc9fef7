"""A mirror's metrics: what Kafka's are called, and what a record and a whole batch count for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ottla.connect import SourceBatch, SourceRecord
from ottla.connect.tasks.metrics import PLUGIN, flat
from ottla.mirror.metrics import LOOKED_INTO_EVERY, CheckpointMetrics, SourceMetrics

NOW_MS = 1_000_000.0


def record(age_ms: int, value: bytes | None = b"four") -> SourceRecord:
    return SourceRecord(topic="east.orders", partition=1, value=value, timestamp=int(NOW_MS) - age_ms)


def batch(count: int, oldest_ms: int, newest_ms: int, ages_ms: Sequence[int] = (), values: int = 0) -> SourceBatch:
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
        timestamps_ms=np.array([NOW_MS - each for each in ages_ms], np.int64) if ages_ms else None,
        value_bytes=values if ages_ms else None,
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
    metrics.arrived(batch(8, 1000, 200), 0, 3)
    metrics.arrived(batch(8, 1000, 200), 3, 5)
    found = values(metrics)
    assert found["record-count"] == 9 and found["record-rate"] > 0
    assert (found["replication-latency-ms-min"], found["replication-latency-ms-max"]) == (80, 1000)
    assert found["replication-latency-ms"] == 200


def test_of_a_batch_that_was_looked_into_every_record_counts_with_its_own_time() -> None:
    metrics = SourceMetrics("east", "west", lambda: NOW_MS)
    ages = [300, 900, 100, 200]
    looked = batch(4, 300, 100, ages, 640)
    metrics.polled([looked])
    found = values(metrics)
    assert (found["record-age-ms-min"], found["record-age-ms-max"], found["record-age-ms"]) == (100, 900, 200)
    assert found["record-age-ms-avg"] == sum(ages) / 4 and found["byte-count"] == 640
    metrics.arrived(looked, 0, 2)
    metrics.arrived(looked, 2, 2)
    found = values(metrics)
    assert (found["replication-latency-ms-min"], found["replication-latency-ms-max"]) == (100, 900)
    assert found["replication-latency-ms-avg"] == sum(ages) / 4 and found["record-count"] == 4


def test_values_of_a_batch_that_was_not_looked_into_are_as_in_the_last_one_that_was() -> None:
    metrics = SourceMetrics("east", "west", lambda: NOW_MS)
    metrics.polled([batch(4, 300, 100, [300, 200, 100, 100], 640), batch(4, 300, 100)])
    assert values(metrics)["byte-count"] == 2 * 640
    looked = [metrics.looks_into("east.orders", 1) for _ in range(2 * LOOKED_INTO_EVERY)]
    assert looked.count(True) == 2 and looked[0]


def test_records_without_times_in_a_batch_do_not_pass_for_old_ones() -> None:
    metrics = SourceMetrics("east", "west", lambda: NOW_MS)
    timeless = int(NOW_MS) + 1
    metrics.polled([batch(3, 300, 100, [timeless, 100, timeless], 10), batch(2, 1, 1, [timeless, timeless], 10)])
    found = values(metrics)
    assert (found["record-age-ms"], found["record-age-ms-max"], found["record-age-ms-avg"]) == (100, 100, 100)


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
