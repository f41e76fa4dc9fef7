"""Kafka Streams' metrics of a continuous application: windows of reports, and the page that Prometheus reads."""

from __future__ import annotations

import re
from typing import Any

from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.spark.continuous.meters import Meter, TopicMeter
from ottla.spark.continuous.metrics import Windows, prometheus_lines
from ottla.spark.streams.web import metrics_text
from tests.streams.continuous.worlds import WAIT_SECONDS_MAX, World, counting
from tests.waiting import until

LANE: dict[str, Any] = {"applications": ["app"], "restoring": 0, "standbys": [], "meters": {}}


def report(*commit: float, created: int = 0) -> dict[str, Any]:
    return {"lanes": [{**LANE, "meters": {"commit": list(commit), "created": created}}], "works": []}


def test_a_rate_is_of_the_last_thirty_seconds_and_a_total_of_all() -> None:
    windows = Windows()
    for second in range(120):
        windows.note(0, 7, report(min(second, 60) * 2, min(second, 60) * 0.1, 0.2 if second == 10 else 0.05), second)
    at_60 = windows.window(0, ("lane", 0, "commit"), 61.0)
    assert at_60.occasions_total == 120
    assert windows.window(0, ("lane", 0, "commit"), 119.0).rate == 0.0
    busy = Windows()
    for second in range(60):
        busy.note(0, 7, report(second * 2, second * 0.1, 0.05), second)
    found = busy.window(0, ("lane", 0, "commit"), 59.0)
    assert abs(found.rate - 2.0) < 0.1 and abs(found.average - 0.05) < 0.001 and abs(found.ratio - 0.1) < 0.01


def test_a_host_that_starts_again_counts_from_nothing() -> None:
    windows = Windows()
    windows.note(0, 7, report(100, 1.0, 0.5), 1.0)
    windows.note(0, 8, report(3, 0.3, 0.1), 2.0)
    found = windows.window(0, ("lane", 0, "commit"), 2.0)
    assert found.occasions_total == 3 and found.most == 0.1


def test_the_largest_amount_is_told_once() -> None:
    meter = Meter()
    meter.add(4.0, 2)
    meter.add(1.0)
    assert meter.told() == (3, 5.0, 2.0) and meter.told() == (3, 5.0, 0.0)
    topic = TopicMeter()
    topic.add(10, [5, 7])
    assert topic.told() == [2, 10, [2, 12.0, 7], 5] and topic.told() == [2, 10, [2, 12.0, 0.0], None]


def test_kafkas_names_are_served_beside_our_own(world: World) -> None:
    application = world.application(counting(world.name), ThreadHostJobs())
    application.start()
    world.feed("a b", "a")
    world.await_counts(a=2, b=1)

    def page() -> dict[str, float]:
        text = metrics_text([application.status()], application.metrics())
        pattern = r"^(kafka_streams_\w+)\{(.*)\} (\S+)$"
        found = re.findall(pattern, text, re.MULTILINE)
        return {f"{name} {labels}": float(value) for name, labels, value in found}

    def of(name: str, *labels: str) -> float:
        return sum(v for key, v in page().items() if key.startswith(f"{name} ") and all(each in key for each in labels))

    until(
        lambda: of("kafka_streams_stream_state_metrics_estimate_num_keys", 'in_memory_state_id="counts"') == 2,
        seconds=WAIT_SECONDS_MAX,
        what=lambda: str(page()),
    )
    topics = "kafka_streams_stream_topic_metrics"
    assert of(f"{topics}_records_consumed_total", f'topic_name="{world.name}"') == 2
    assert of(f"{topics}_records_produced_total", f'topic_name="{world.out}"') >= 2
    assert of(f"{topics}_bytes_produced_total", f'topic_name="{world.out}"') > 0
    assert of("kafka_streams_stream_thread_metrics_commit_total", 'thread_id="app-') > 0
    assert of("kafka_streams_stream_metrics_client_state") == 2  # Kafka's number of RUNNING
    assert of("kafka_streams_stream_processor_node_metrics_record_e2e_latency_max") > 0
    lines = list(prometheus_lines(application.metrics()))
    assert len(lines) == len(set(lines))
