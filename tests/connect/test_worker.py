"""A standalone worker with real connectors, from REST to topic and file."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.base import ConfigError
from ottla.connect import ConnectError, WorkerConfig, WorkerMode
from tests.connect.whole import WholeWorker, running_connect
from tests.server import running_server
from tests.waiting import until

SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1"}
SINK = {"connector.class": "FileStreamSink", "tasks.max": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("broker")) as server:
        yield server.bootstrap


@pytest.fixture
def worker(broker: str, tmp_path: Path) -> Iterator[WholeWorker]:
    with running_connect(tmp_path, broker) as running:
        yield running


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_lines_go_from_file_to_topic_to_file_and_both_ends_say_how_far(worker: WholeWorker, tmp_path: Path) -> None:
    given, taken = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("".join(f"line {number}\n" for number in range(1000)))
    worker.create("in", {**SOURCE, "file": str(given), "topic": "through"})
    worker.create("out", {**SINK, "file": str(taken), "topics": "through"})
    until(lambda: len(lines_of(taken)) == 1000)
    assert taken.read_text() == given.read_text()
    assert worker.states("in") == worker.states("out") == ("RUNNING", "RUNNING")
    length = given.stat().st_size
    wanted = {"offsets": [{"partition": {"filename": str(given)}, "offset": {"position": length}}]}
    until(lambda: worker.ask("GET", "/connectors/in/offsets") == (200, wanted))
    assert worker.ask("GET", "/connectors/in/topics") == (200, {"in": {"topics": ["through"]}})
    assert worker.ask("PUT", "/connectors/out/stop")[0] == 204
    worker.until("out", "STOPPED")
    _, body = worker.ask("GET", "/connectors/out/offsets")
    assert body["offsets"][0]["offset"] == {"kafka_offset": 1000}
    worker.ask("DELETE", "/connectors/in")


def test_a_paused_source_reads_on_where_it_was(worker: WholeWorker, tmp_path: Path, broker: str) -> None:
    given = tmp_path / "more.txt"
    given.write_text("one\n")
    worker.create("more", {**SOURCE, "file": str(given), "topic": "pausing"})
    until(lambda: values(broker, "pausing") == ["one"])
    worker.ask("PUT", "/connectors/more/pause")
    worker.until("more", "PAUSED", "PAUSED")
    with given.open("a") as file:
        file.write("two\n")
    worker.ask("PUT", "/connectors/more/resume")
    worker.until("more", "RUNNING", "RUNNING")
    until(lambda: values(broker, "pausing") == ["one", "two"])


def values(bootstrap: str, topic: str) -> list[Any]:
    """Return the payloads in a topic's only partition, as far as they go now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    try:
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(json.loads(message.value() or b"")["payload"])
    finally:
        consumer.close()
    return found


def properties(**more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": "JsonConverter",
        "value.converter": "JsonConverter",
        "offset.storage.file.filename": "offsets",
        **more,
    }


def test_what_a_file_says_in_vain_is_told_and_old_names_are_understood() -> None:
    given = properties(**{"rest.port": "8084", "group.id": "g", "nonsense": "1", "plugin.path": "/not/there"})
    config = WorkerConfig.load(given, WorkerMode.STANDALONE)
    told = "\n".join(config.warnings)
    assert all(word in told for word in ("rest.port", "group.id has no effect", "nonsense is not", "/not/there"))
    assert config["offset.flush.interval.ms"] == 60_000


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol.*one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "GSSAPI"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/k"}, "ssl.truststore.location"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth"),
        ({"rest.advertised.listener": "ftp"}, "rest.advertised.listener.*http or https"),
        ({"rest.extension.classes": "com.Example"}, "rest.extension.classes"),
        ({"connector.client.config.override.policy": "Some"}, "one of All, None"),
        ({"offset.flush.interval.ms": "soon"}, "Not a number of type LONG"),
        ({"config.providers": "x"}, "config.providers.x.class"),
        ({"task.restart.max": "-1"}, "at least 0"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_by_name(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        WorkerConfig.load(properties(**settings), WorkerMode.STANDALONE)


def test_a_secret_that_is_refused_is_not_told() -> None:
    with pytest.raises(ConfigError) as refused:
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "hush"}
        WorkerConfig.load(properties(**given), WorkerMode.STANDALONE)
    assert "hush" not in str(refused.value)


def test_settings_that_change_nothing_are_told_unless_they_are_the_defaults() -> None:
    given = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    given |= {"group.id": "g", "ssl.endpoint.identification.algorithm": "", "sasl.mechanism": "PLAIN"}
    given |= {"retry.backoff.ms": "5", "request.timeout.ms": "40000"}
    common = {key: value for key, value in properties(**given).items() if not key.startswith("offset.storage.file")}
    told = WorkerConfig.load(common, WorkerMode.DISTRIBUTED).warnings
    assert [each.split()[0] for each in told] == [
        "ssl.endpoint.identification.algorithm",
        "sasl.mechanism",
        "retry.backoff.ms",
    ]


def test_placeholders_in_a_workers_own_file_are_resolved(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("where=127.0.0.1:9999\n")
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    given = properties(**{"config.providers": "file", "config.providers.file.class": provider})
    given["bootstrap.servers"] = f"${{file:{secrets}:where}}"
    config = WorkerConfig.load(given, WorkerMode.STANDALONE)
    assert config["bootstrap.servers"] == ["127.0.0.1:9999"] and "9999" not in str(config.given)


def test_a_taken_port_is_told_with_what_to_set(broker: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for setting, value in (("listeners", f"http://127.0.0.1:{port}"), ("rest.port", str(port))):
            given = {"listeners": "", "rest.host.name": "127.0.0.1", setting: value}
            words = rf"{port}.*change {setting}.*listeners=.*rest\.port={port + 1}"
            with pytest.raises(ConnectError, match=words), running_connect(tmp_path, broker, **given):
                raise AssertionError("it listens")


def test_metrics_have_the_names_that_kafkas_have_on_a_prometheus_page(broker: str, tmp_path: Path) -> None:
    given = tmp_path / "in.txt"
    given.write_text("one\ntwo\n")
    with running_connect(tmp_path, broker, **{"ottla.http.listeners": "http://127.0.0.1:0"}) as worker:
        worker.create("counted", {**SOURCE, "file": str(given), "topic": "counted"})
        worker.until("counted", "RUNNING", "RUNNING")
        (url,) = worker.worker.metrics_urls

        def page() -> str:
            with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
                return str(answer.read().decode())

        labels = '{connector="counted",task="0"}'
        until(lambda: f"kafka_connect_source_task_source_record_write_total{labels} 2" in page(), page)
        text = page()
        for line in (
            'kafka_connect_connector_status{connector="counted",connector_status="running"} 1',
            'kafka_connect_connector_task_status{connector="counted",task="0",status="running"} 1',
            'kafka_connect_worker_connector_running_task_count{connector="counted"} 1',
            f"kafka_connect_connector_task_automatic_restart_total{labels} 0.0",
            f"kafka_connect_task_error_total_record_errors{labels} 0",
            "kafka_connect_worker_task_startup_success_total 1",
            "kafka_connect_worker_connector_count 1",
            "kafka_connect_worker_task_slots 64",
        ):
            assert line in text, text
        assert urllib.request.urlopen(f"{url}/readyz", timeout=20).status == 200
