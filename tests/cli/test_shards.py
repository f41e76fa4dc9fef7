"""`ottla server start --shards N`: what each shard is told, and how their parent looks after them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.cli.local import server_process
from ottla.cli.local.node_process import state_of
from ottla.cli.local.server_process import RunningServer, stop_servers
from ottla.cli.local.shard_layout import shards_of
from ottla.client import BlockingClient
from ottla.config import BrokerConfig
from tests.ports import free_port

SECONDS_MAX = 100.0


def layout(text: str, count: int) -> list[BrokerConfig]:
    """Return the shards' configurations, as the shards themselves will read them."""
    return [BrokerConfig.load(text, overrides=shard.overrides) for shard in shards_of(BrokerConfig.load(text), count)]


def test_a_machine_by_itself_is_a_quorum_of_its_first_shard(tmp_path: Path) -> None:
    text = f"node.id=10\nlisteners=PLAINTEXT://127.0.0.1:9500\nlog.dirs={tmp_path}/a,{tmp_path}/b\n"
    first, second, third = layout(text, 3)
    assert [each.node_id for each in (first, second, third)] == [10, 11, 12]
    assert [each.client_listeners[0].port for each in (first, second, third)] == [9500, 9501, 9502]
    assert (first.roles, second.roles) == ({"broker", "controller"}, {"broker"})
    assert [voter.node_id for voter in first.voters] == [10] and first.voters == second.voters == third.voters
    assert second.log_dirs == (f"{tmp_path}/a/shard.11", f"{tmp_path}/b/shard.11")
    assert {each.settings.broker_rack for each in (first, second, third)} == {socket.gethostname()}


def test_the_next_start_finds_the_same_controller(tmp_path: Path) -> None:
    text = f"listeners=PLAINTEXT://127.0.0.1:9500\nlog.dirs={tmp_path}\n"
    config = BrokerConfig.load(text)
    assert shards_of(config, 2) == shards_of(config, 2)
    assert shards_of(config, 4)[:2] == shards_of(config, 2)


def test_shards_that_the_voters_name_are_controllers(tmp_path: Path) -> None:
    text = (
        f"node.id=3\nlog.dirs={tmp_path}\nbroker.rack=cellar\n"
        "listeners=PLAINTEXT://127.0.0.1:9500,CTL://127.0.0.1:9600\ncontroller.listener.names=CTL\n"
        "controller.quorum.voters=1@one:9600,3@two:9600,5@three:9600\n"
    )
    third, fourth = layout(text, 2)
    assert (third.roles, fourth.roles) == ({"broker", "controller"}, {"broker"})
    assert str(third.listeners[1]) == "CTL://127.0.0.1:9600"
    assert [voter.host for voter in fourth.voters] == ["one", "two", "three"]
    assert third.settings.broker_rack == "cellar"
    assert shards_of(BrokerConfig.load(text), 1)[0].cluster_id is None, "whoever made the quorum chose it"


def test_what_clients_are_told_and_where_metrics_are_read_goes_up_too(tmp_path: Path) -> None:
    text = (
        f"log.dirs={tmp_path}\nlisteners=PLAINTEXT://:9500\nadvertised.listeners=PLAINTEXT://outside:19500\n"
        "ottla.http.listeners=http://127.0.0.1:9404\n"
    )
    _, second = layout(text, 2)
    assert str(second.advertised_listeners[0]) == "PLAINTEXT://outside:19501"
    assert second.http_listeners[0].port == 9405


def test_a_controllers_port_among_the_shards_own_is_refused(tmp_path: Path) -> None:
    text = (
        f"log.dirs={tmp_path}\nlisteners=PLAINTEXT://127.0.0.1:9500,CONTROLLER://127.0.0.1:9501\n"
        "controller.listener.names=CONTROLLER\n"
    )
    with pytest.raises(ConfigError, match="lies among those of the 2 shards"):
        shards_of(BrokerConfig.load(text), 2)


@pytest.mark.parametrize("count", [0, 1000])
def test_a_number_that_no_machine_has_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(ConfigError, match="must be between"):
        shards_of(BrokerConfig.load(f"log.dirs={tmp_path}\n"), count)


class Parent:
    """`ottla server start --shards N` as a process."""

    def __init__(self, folder: Path, count: int) -> None:
        self.output = folder / "output"
        self.port = free_port()
        settings = (f"listeners=PLAINTEXT://127.0.0.1:{self.port}", f"log.dirs={folder / 'data'}")
        command = [sys.executable, "-m", "ottla.cli.main", "server", "start", "--shards", str(count)]
        for each in settings:
            command += ["--override", each]
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def await_lines(self, wanted: Callable[[list[str]], bool]) -> list[str]:
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            lines = self.output.read_text().splitlines()
            if wanted(lines):
                return lines
            assert not ended, lines
            time.sleep(0.05)
        raise AssertionError(self.output.read_text())

    def ready(self, count: int) -> None:
        self.await_lines(lambda lines: sum(line.startswith("ready ") for line in lines) == count)

    def shards(self) -> list[int]:
        """Return the processes of the shards."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in path.read_text().split()]


def test_a_parent_stops_its_shard_cleanly(tmp_path: Path) -> None:
    parent = Parent(tmp_path, 1)
    try:
        parent.ready(1)
        (shard,) = parent.shards()
        parent.process.send_signal(signal.SIGTERM)
        assert parent.process.wait(SECONDS_MAX) == 0
        assert state_of(shard) == "ended"
        assert (tmp_path / "data" / "shard.1" / ".kafka_cleanshutdown").exists()
    finally:
        parent.process.kill()


def test_a_shard_that_dies_is_named_and_started_again(tmp_path: Path) -> None:
    parent = Parent(tmp_path, 1)
    try:
        parent.ready(1)
        (shard,) = parent.shards()
        os.kill(shard, signal.SIGKILL)
        said = f"ottla server: node 1 (process {shard}) was ended by SIGKILL; it starts again"
        parent.await_lines(lambda lines: said in lines)
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", parent.port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        assert parent.shards() != [shard]
    finally:
        parent.process.terminate()
        parent.process.wait(SECONDS_MAX)


def test_shards_stop_where_their_parent_is_killed(tmp_path: Path) -> None:
    parent = Parent(tmp_path, 1)
    parent.ready(1)
    (shard,) = parent.shards()
    parent.process.kill()
    parent.process.wait()
    deadline = time.monotonic() + SECONDS_MAX
    while state_of(shard) != "ended" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert state_of(shard) == "ended"


def test_a_shard_is_not_stopped_by_itself_and_it_is_said_which_server_has_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed: list[int] = []
    servers = [RunningServer(1, BrokerConfig.load("node.id=71"), 3), RunningServer(2, None)]
    monkeypatch.setattr(server_process, "running_servers", lambda: servers)
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    assert [stop_servers(["--node-id", str(node_id)]) for node_id in (72, 74, 70)] == [1, 1, 1]
    assert capsys.readouterr().err.splitlines() == [
        "No kafka server to stop",
        "Node 72 is a shard of node 71's server: --node-id 71 stops all of its shards",
        *["No kafka server to stop"] * 2,
    ]
    assert killed == []


def test_two_shards_are_a_cluster_of_two_brokers_in_one_rack(tmp_path: Path) -> None:
    parent = Parent(tmp_path, 2)
    try:
        parent.ready(2)
        with BlockingClient(f"127.0.0.1:{parent.port}") as client:
            nodes = client.metadata(()).nodes
        assert {int(node.node_id): node.address.port for node in nodes.values()} == {1: parent.port, 2: parent.port + 1}
        assert {node.rack for node in nodes.values()} == {socket.gethostname()}
        parent.process.send_signal(signal.SIGTERM)
        assert parent.process.wait(SECONDS_MAX) == 0, parent.output.read_text()
    finally:
        parent.process.kill()
