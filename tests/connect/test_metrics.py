"""A worker's metrics: the names of Kafka Connect's MBeans, starts, a sink's lag, and windows of samples."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.base import TopicPartition
from ottla.connect import WorkerConfig, WorkerMode
from ottla.connect.tasks.metrics import Average, Lags, SampleWindow, Total
from tests.connect.__main__ import FACTS
from tests.connect.whole import WholeWorker, running_connect
from tests.server import running_server
from tests.waiting import until

TEXT = "org.apache.kafka.connect.storage.StringConverter"
BROKEN = """
from ottla.connect import ConfigDef, SourceConnector, SourceTask

class Broken(SourceConnector):
    version = "1"
    task_class = SourceTask
    config_def = ConfigDef()

    def start(self, config):
        raise ValueError("it has never worked")
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("broker"), overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        yield server.bootstrap


@pytest.fixture(scope="module")
def worker(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeWorker]:
    """A worker with a source, a sink of its topic, and a connector that cannot start."""
    folder = tmp_path_factory.mktemp("worker")
    (folder / "never_worked.py").write_text(BROKEN)
    (folder / "in").write_text("one\ntwo\n")
    settings = {"ottla.http.listeners": "http://127.0.0.1:0", "plugin.path": str(folder / "never_worked.py")}
    with running_connect(folder, broker, distributed=True, **settings) as running:
        source = {"connector.class": "FileStreamSource", "file": str(folder / "in"), "topic": "to.be-counted"}
        running.create("in", {**source, "tasks.max": "1", "value.converter": TEXT})
        running.until("in", "RUNNING", "RUNNING")
        until(lambda: has(running, 'kafka_connect_source_task_source_record_write_total{connector="in",task="0"} 2'))
        sink = {"connector.class": "FileStreamSink", "file": str(folder / "out"), "topics": "to.be-counted"}
        running.create("out", {**sink, "tasks.max": "1", "value.converter": TEXT})
        running.create("broken", {"connector.class": "Broken", "tasks.max": "1"})
        running.until("broken", "FAILED")
        until(lambda: has(running, LAG + " 0"), lambda: page(running))
        yield running


PART = 'clientId="connector-consumer-out-0",connector="out",task="0"'
LAG = f'kafka_consumer_fetch_manager_records_lag{{{PART},topic="to.be-counted",partition="0"}}'


def page(worker: WholeWorker) -> str:
    with urllib.request.urlopen(f"{worker.worker.metrics_urls[0]}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


def has(worker: WholeWorker, line: str) -> bool:
    return line in page(worker).splitlines()


def test_starts_of_connectors_and_tasks_are_counted_with_those_that_failed(worker: WholeWorker) -> None:
    text = page(worker)
    for name, value in (
        ("connector_startup_attempts_total", "3"),
        ("connector_startup_success_total", "2"),
        ("connector_startup_failure_total", "1"),
        ("connector_startup_success_percentage", str(2 / 3)),
        ("connector_startup_failure_percentage", str(1 / 3)),
        ("task_startup_attempts_total", "2"),
        ("task_startup_success_total", "2"),
        ("task_startup_failure_total", "0"),
        ("connector_count", "3"),
        ("task_count", "2"),
    ):
        assert f"kafka_connect_worker_{name} {value}" in text.splitlines(), text


def test_a_sink_that_rests_falls_behind_and_its_lag_says_how_far(worker: WholeWorker, broker: str) -> None:
    worker.ask("PUT", "/connectors/out/pause")
    worker.until("out", "PAUSED", "PAUSED")
    producer = Producer({"bootstrap.servers": broker})
    for _ in range(5):
        producer.produce("to.be-counted", b"more")
    producer.flush(20)
    until(lambda: has(worker, LAG + " 5"), lambda: page(worker))
    assert has(worker, f"kafka_consumer_fetch_manager_records_lag_max{{{PART}}} 5")
    assert has(worker, f"kafka_consumer_fetch_manager_records_consumed_total{{{PART}}} 2")
    worker.ask("PUT", "/connectors/out/resume")
    until(lambda: has(worker, LAG + " 0"), lambda: page(worker))
    assert has(worker, f"kafka_consumer_fetch_manager_records_consumed_total{{{PART}}} 7")


LABELS_INSTEAD = {
    *("connector-class", "connector-type", "connector-version", "status"),
    *("connect-protocol", "leader-name", "task-class", "task-version"),
    *(f"{kind}-converter-{what}" for kind in ("header", "key", "value") for what in ("class", "version")),
}
"""Texts, which Prometheus has as labels or not at all."""
NOT_THERE = {
    *("failed-rebalance-rate-per-hour", "failed-rebalance-total", "rebalance-rate-per-hour"),
    *("heartbeat-rate", "heartbeat-response-time-max", "heartbeat-total", "last-heartbeat-seconds-ago"),
    *(f"{step}-{what}" for step in ("join", "sync") for what in ("rate", "time-avg", "time-max", "total")),
    *("fetch-throttle-time-avg", "fetch-throttle-time-max", "records-per-request-avg", "preferred-read-replica"),
    *("records-lead", "records-lead-avg", "records-lead-min"),
}
ROOMS = {
    "connect-coordinator-metrics": "kafka_connect_coordinator_",
    "connect-worker-metrics": "kafka_connect_worker_",
    "connect-worker-rebalance-metrics": "kafka_connect_worker_rebalance_",
    "consumer-fetch-manager-metrics": "kafka_consumer_fetch_manager_",
}


def test_every_number_of_kafkas_mbeans_is_on_the_page_but_those_that_are_said_to_be_missing(
    worker: WholeWorker,
) -> None:
    shown = set(re.findall(r"^(kafka_\w+)", page(worker), re.MULTILINE))
    wanted = set()
    for bean, attributes in json.loads((FACTS / "mbeans.json").read_text()).items():
        group, _, labels = bean.partition(":type=")[2].partition(",")
        if group.startswith("consumer-") and labels == "client-id,topic":
            continue  # there is one topic's sum less: Prometheus adds partitions up
        room = ROOMS.get(group, f"kafka_connect_{group.removesuffix('-metrics').replace('-', '_')}_")
        wanted |= {
            room + each.replace("-", "_") for each in attributes if each not in LABELS_INSTEAD and each not in NOT_THERE
        }
    assert len(wanted) > 70 and not wanted - shown


def test_a_metrics_windows_are_as_long_and_as_many_as_the_worker_says() -> None:
    window = SampleWindow.of({"metrics.sample.window.ms": "10000", "metrics.num.samples": "3"})
    now = [100.0]
    total, times = Total(window, lambda: now[0]), Average(window, lambda: now[0])
    total.add(60)
    times.add(9.0)
    assert total.rate == 60 / 20, "two windows count as past although none is"
    now[0] += 25
    times.add(1.0)
    assert (total.rate, times.max, times.min, times.mean) == (60 / 25, 9.0, 1.0, 5.0)
    now[0] += 5
    assert (total.value, total.rate, times.max, times.mean) == (60, 0.0, 1.0, 1.0), "the first sample is too old"
    now[0] += 100
    assert (times.max, times.min, times.mean, times.count) == (0.0, 0.0, 0.0, 0)


def test_a_partition_that_is_gone_has_no_lag_any_more() -> None:
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    lags = Lags()
    assert lags.values({one: 3, two: 9}, {one: 10, two: 9})["records-lag-max"] == 7
    found = lags.values({two: 9}, {one: 10, two: 9})
    assert "t-1.records-lag" in found and "t-0.records-lag" not in found
    assert lags.values({one: 3}, {}) == {}, "where nobody has said where a partition ends"


@pytest.mark.parametrize(
    ("key", "value"), [("metric.reporters", "com.example.Reporter"), ("metrics.recording.level", "DEBUG")]
)
def test_settings_of_metrics_without_effect_are_told(key: str, value: str) -> None:
    given = {"key.converter": "JsonConverter", "value.converter": "JsonConverter", "offset.storage.file.filename": "o"}
    config = WorkerConfig.load({"bootstrap.servers": "127.0.0.1:1", **given, key: value}, WorkerMode.STANDALONE)
    assert len(config.warnings) == 1 and key in config.warnings[0]
