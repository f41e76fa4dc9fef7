"""`ottla cluster start` and what breaks its nodes: what a person who tries a cluster sees."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.base import OttlaError
from ottla.cli.local.cluster import LocalCluster
from ottla.cli.local.node_process import state_of
from ottla.cli.local.nodes import prepare
from ottla.config import BrokerConfig
from tests.cli.conftest import Run
from tests.ports import free_port

SECONDS_MAX = 100.0


class Started:
    """`ottla cluster start` as a process, with what it has printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output = folder.with_name("output")
        with self.output.open("wb") as out:
            command = [sys.executable, "-m", "ottla.cli.main", "cluster", "start", "--data", str(folder), *arguments]
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def printed(self) -> list[str]:
        return self.output.read_text().splitlines()

    def await_line(self, wanted: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            for line in self.printed():
                if wanted(line):
                    return line
            assert not ended, self.printed()
            time.sleep(0.05)
        raise AssertionError(f"the line did not come: {self.printed()}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS_MAX)


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[Started]:
    cluster = Started(folder, *arguments)
    try:
        cluster.await_line(lambda line: line == "ready")
        yield cluster
    finally:
        if cluster.process.poll() is None:
            cluster.stop()


def test_it_says_ready_when_its_node_serves_and_stops_it_at_a_signal(tmp_path: Path) -> None:
    folder, port = tmp_path / "cluster", free_port()
    with started(folder, "--brokers", "1", "--port", str(port), "--override", "num.partitions=7") as cluster:
        pid = int((folder / "1" / "pid").read_text())
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        assert cluster.stop() == 0
        assert state_of(pid) == "ended"
        assert (folder / "1" / "data" / ".kafka_cleanshutdown").exists()
    assert "ready PLAINTEXT" in (folder / "1" / "log").read_text()


def test_a_node_that_is_killed_is_named_and_can_be_started_again(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "cluster"
    with started(folder, "--brokers", "1", "--port", str(free_port())) as cluster:
        before = int((folder / "1" / "pid").read_text())
        assert run(f"cluster kill 1 --data {folder}").code == 0
        said = cluster.await_line(lambda line: "was ended by SIGKILL" in line)
        assert said == f"ottla cluster: node 1 (process {before}) was ended by SIGKILL"
        assert run(f"cluster kill 1 --data {folder}").err == "ottla cluster: node 1 does not run\n"
        found = run(f"cluster start-node 1 --data {folder}")
        assert found.code == 0 and found.out.startswith("node 1 serves on ")
        after = int((folder / "1" / "pid").read_text())
        assert after != before
        cluster.await_line(lambda line: line == f"node 1 runs again, as process {after}")
        cluster.stop()
        assert state_of(after) == "ended", "nodes that were started again stop with the cluster"


def test_status_tells_running_paused_and_stopped_nodes_apart(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "cluster"

    def row() -> dict[str, object]:
        rows: list[dict[str, object]] = json.loads(run(f"cluster status --data {folder} -o json").out)
        return rows[0]

    with started(folder, "--brokers", "1", "--port", str(free_port())):
        assert (row()["process"], row()["broker"], row()["quorum"]) == ("running", "unfenced", "leader")
        run(f"cluster pause 1 --data {folder}")
        assert (row()["process"], row()["broker"]) == ("paused", "unknown")
        run(f"cluster resume 1 --data {folder}")
        assert row()["process"] == "running"
        assert run(f"cluster stop 1 --data {folder}").code == 0
        assert (row()["process"], row()["pid"]) == ("stopped", None)


def test_a_second_start_goes_on_with_what_the_folder_holds(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    first = prepare(folder, brokers=3, port=free_port(), overrides=["num.partitions=5"])
    identity = [(node.data / "meta.properties").read_text() for node in first.nodes]
    again = prepare(folder)
    assert again == first
    assert [(node.data / "meta.properties").read_text() for node in again.nodes] == identity
    assert len({line for text in identity for line in text.splitlines() if line.startswith("cluster.id")}) == 1


def test_of_five_nodes_three_are_controllers(tmp_path: Path) -> None:
    cluster = prepare(tmp_path, brokers=5, port=free_port())
    configs = [BrokerConfig.load(node.config.read_text()) for node in cluster.nodes]
    assert [sorted(each.roles) for each in configs] == [["broker", "controller"]] * 3 + [["broker"]] * 2
    assert {each.voters for each in configs} == {configs[0].voters} and len(configs[0].voters) == 3
    assert [each.client_listeners[0].port for each in configs] == [cluster.port + index for index in range(5)]
    settings = configs[4].settings
    assert (settings.offsets_topic_replication_factor, settings.transaction_state_log_min_isr) == (3, 2)


def test_a_cluster_can_grow_but_not_shrink(tmp_path: Path) -> None:
    three = prepare(tmp_path, brokers=3, port=free_port())
    five = prepare(tmp_path, brokers=5)
    assert five.controller_ports == three.controller_ports
    with pytest.raises(OttlaError, match="cannot become smaller"):
        prepare(tmp_path, brokers=4)


def test_a_folder_without_a_cluster_is_named(tmp_path: Path, run: Run) -> None:
    found = run(f"cluster kill 1 --data {tmp_path}")
    assert (found.code, found.err.count("\n")) == (1, 1)
    assert "holds no cluster" in found.err
    assert run("cluster status").err.startswith('Missing required argument "[data]"')


def test_a_node_that_does_not_exist_is_refused(tmp_path: Path, run: Run) -> None:
    prepare(tmp_path, brokers=1, port=free_port())
    assert "has nodes 1 to 1, not 2" in run(f"cluster pause 2 --data {tmp_path}").err


def test_what_the_overrides_say_wins_over_what_the_cluster_sets(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, "id", 9092, 3, (9192, 9193, 9194), overrides=("default.replication.factor=1",))
    config = BrokerConfig.load(cluster.properties(2))
    assert config.settings.default_replication_factor == 1
