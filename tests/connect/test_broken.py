"""What a worker does when its cluster is away: at its start, for good, and while connectors run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ottla.connect import ConnectError
from ottla.spark.connect import worker as worker_module
from tests.connect.whole import running_connect
from tests.ports import free_port
from tests.server import Server, running_server, start_server
from tests.waiting import until


def test_a_worker_waits_for_its_cluster_when_it_starts(tmp_path: Path) -> None:
    port, started = free_port(), list[Server]()

    def start_late() -> None:
        started.append(start_server(tmp_path, port=port))

    thread = threading.Timer(1.0, start_late)
    thread.start()
    try:
        with running_connect(tmp_path, f"127.0.0.1:{port}") as worker:
            assert worker.ask("GET", "/")[1]["kafka_cluster_id"]
    finally:
        thread.join()
        started[0].stop()


def test_a_worker_without_a_cluster_ends_with_what_to_look_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "CLUSTER_SECONDS_MAX", 0.1)
    words = "Failed to connect to and describe Kafka cluster.*bootstrap.servers=127.0.0.1:1:"
    with pytest.raises(ConnectError, match=words), running_connect(tmp_path, "127.0.0.1:1"):
        raise AssertionError("there is no cluster")


def test_connectors_outlive_a_broker_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    given, taken = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("one\n")
    with running_server(tmp_path) as first:
        port = first.port
        settings = {"consumer.session.timeout.ms": "6000", "task.restart.backoff.ms": "200"}
        with running_connect(tmp_path, first.bootstrap, **settings) as worker:
            worker.create("in", {"connector.class": "FileStreamSource", "file": str(given), "topic": "t"})
            worker.create("out", {"connector.class": "FileStreamSink", "file": str(taken), "topics": "t"})
            until(lambda: taken.exists() and taken.read_text() == "one\n")
            first.kill()
            with given.open("a") as file:
                file.write("two\n")
            with running_server(tmp_path, port=port):
                until(lambda: taken.read_text().endswith("two\n"), taken.read_text)
                for name in ("in", "out"):
                    worker.until(name, "RUNNING", "RUNNING")
                assert worker.ask("DELETE", "/connectors/in")[0] == 204
                assert worker.ask("DELETE", "/connectors/out")[0] == 204
