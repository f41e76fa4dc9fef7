"""The same connector on Apache Kafka Connect and on our loop: what stands in the topics is the same."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import BlockingClient
from tests.peer.connect.worker import running_worker
from tests.ports import free_port
from tests.server import running_server
from tests.spark.conftest import create_topic
from tests.spark.running import Port, await_true, records_of, running, spec_of
from tests.spark.test_task_sink import Keeping, KeepingTask, committed, produce

pytestmark = [pytest.mark.peer, pytest.mark.slow]
PREFIX = "__connect.errors."


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """A broker of ours, and a worker of Apache Kafka's at it: bootstrap and REST port."""
    folder = tmp_path_factory.mktemp("peer")
    with running_server(folder, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        port = free_port()
        with running_worker("standalone", folder / "worker", server.bootstrap, port):
            yield server.bootstrap, port


def create(port: int, name: str, config: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"name": name, "config": config})
    connection.request("POST", "/connectors", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()


def status(port: int, name: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/connectors/{name}/status")
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    return found


def settings(topic: str, queue: str) -> dict[str, str]:
    return {
        "tasks.max": "1",
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": queue,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


@pytest.mark.parametrize("trouble", ["value", "transformation"])
def test_dead_letters_are_the_same(theirs: tuple[str, int], tmp_path: Path, trouble: str) -> None:
    broker, port = theirs
    topic = f"letters-{trouble}"
    with BlockingClient(broker) as client:
        create_topic(client, topic, 1)
    produce(broker, topic, [b'{"a":1}', b"{", b'"text"'], key="k", headers=[("h", b"1")])
    more = {}
    if trouble == "transformation":
        more = {
            "transforms": "field",
            "transforms.field.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
            "transforms.field.exclude": "b",
        }
    ours = {**settings(topic, f"{topic}-ours"), **more, "name": f"ours-{trouble}", "connector.class": "Keeping"}
    with running(spec_of(broker, ours), Keeping):
        await_true(lambda: committed(broker, f"connect-ours-{trouble}", topic) == [3])
    create(
        port,
        f"theirs-{trouble}",
        {
            **settings(topic, f"{topic}-theirs"),
            **more,
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(tmp_path / "out"),
        },
    )
    await_true(lambda: committed(broker, f"connect-theirs-{trouble}", topic) == [3], seconds=90)
    found, expected = (records_of(broker, f"{topic}-{side}") for side in ("ours", "theirs"))
    assert [(each.key, each.value) for each in found] == [(each.key, each.value) for each in expected]
    for mine, java in zip(found, expected, strict=True):
        assert [name for name, _ in mine.headers] == [name for name, _ in java.headers]
        differs = {f"{PREFIX}{name}" for name in ("connector.name", "exception.stacktrace", "exception.message")}
        assert [each for each in mine.headers if each[0] not in differs] == [
            each for each in java.headers if each[0] not in differs
        ]


def test_a_task_that_fails_has_the_same_letters_and_offsets(theirs: tuple[str, int], tmp_path: Path) -> None:
    broker, port = theirs
    topic = "fails"
    with BlockingClient(broker) as client:
        create_topic(client, topic, 1)
    produce(broker, topic, [b'{"a":1}', b"{", b'"text"'], key="k")
    own = {**settings(topic, f"{topic}-ours"), "errors.tolerance": "none"}
    mine = Port()
    with running(
        spec_of(broker, {**own, "name": "fails-ours", "connector.class": "Keeping"}), Keeping, port=mine
    ) as task:
        task.ended()
    create(
        port,
        "fails-theirs",
        {
            **own,
            "errors.deadletterqueue.topic.name": f"{topic}-theirs",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(tmp_path / "out"),
        },
    )
    await_true(lambda: [each["state"] for each in status(port, "fails-theirs")["tasks"]] == ["FAILED"], seconds=90)
    trace = status(port, "fails-theirs")["tasks"][0]["trace"]
    assert "Tolerance exceeded in error handler" in trace
    assert "Tolerance exceeded in error handler" in mine.trace
    found, expected = (records_of(broker, f"{topic}-{side}") for side in ("ours", "theirs"))
    assert [each.value for each in found] == [each.value for each in expected] == [b"{"]
    assert not KeepingTask.kept.get("fails-ours")
    assert committed(broker, "connect-fails-ours", topic) == committed(broker, "connect-fails-theirs", topic)
