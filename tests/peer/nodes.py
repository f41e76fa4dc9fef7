"""Several nodes of the real Kafka as one cluster: each broker and controller, with voters that stand in its settings.

One run of Kafka's `storage format` serves all nodes: its folder is copied, and each copy gets its own identity.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests import peer
from tests.peer import CONTROLLER_PORT_AFTER, QUICK_START, new_id

__all__ = [
    "QUICK_SESSIONS",
    "Nodes",
    "PeerNode",
    "end_nodes",
    "node_properties",
    "running_nodes",
]

QUICK_SESSIONS = ("broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=300")
"""Overrides with which a killed broker is fenced, and may come back, after two seconds instead of nine."""
STOP_SECONDS_MAX = 100.0


@dataclass
class PeerNode:
    """One node: its settings, and its process where it runs."""

    node_id: int
    port: int
    folder: Path
    command: list[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def controller_port(self) -> int:
        """Where its controller listens."""
        return self.port + CONTROLLER_PORT_AFTER

    @property
    def pid(self) -> int:
        """Its process's id; raises AssertionError where it does not run."""
        assert self.process is not None, f"node {self.node_id} does not run"
        return self.process.pid

    def start(self) -> None:
        """Start the process, and return at once."""
        assert self.process is None, f"node {self.node_id} runs already"
        with (self.folder / "broker.out").open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        os.kill(self.pid, signal.SIGKILL)
        self._ended()

    def stop(self) -> None:
        """End it under control; by force where that takes too long."""
        os.kill(self.pid, signal.SIGTERM)
        self._ended()

    def pause(self) -> None:
        """Hold the process where it is."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a held process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def _ended(self) -> None:
        assert self.process is not None
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@dataclass
class Nodes:
    """The cluster; nodes are numbered from 1."""

    cluster_id: str
    nodes: dict[int, PeerNode] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """All brokers' addresses."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    @property
    def controllers(self) -> str:
        """All controllers' addresses."""
        return ",".join(f"127.0.0.1:{node.controller_port}" for node in self.nodes.values())

    def start(self, node_id: int, timeout: float = 120) -> None:
        """Start a node again; returns when all nodes that run see all others of them."""
        self.nodes[node_id].start()
        self.await_alive(timeout)

    def await_alive(self, timeout: float = 120) -> None:
        """Return when every running broker counts all running ones as alive; raises RuntimeError where that fails."""
        running = [node for node in self.nodes.values() if node.process is not None]
        wanted = {node.node_id for node in running}
        deadline = time.monotonic() + timeout
        for node in running:
            while (seen := _brokers_seen_by(node)) != wanted:
                assert node.process is not None
                if node.process.poll() is not None:
                    raise RuntimeError(f"node {node.node_id} ended with {node.process.returncode}:\n{_said(node)}")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"node {node.node_id} sees {sorted(seen)} after {timeout} s:\n{_said(node)}")
                time.sleep(0.1)


@contextmanager
def running_nodes(
    folder: Path,
    ports: Sequence[int],
    *,
    overrides: Sequence[str] = (),
    dynamic: bool = False,
    log_dirs: int = 1,
    heap: str = "256m",
    flags: Sequence[str] = QUICK_START,
    timeout: float = 120,
) -> Iterator[Nodes]:
    """Run one node per port (its controller listens CONTROLLER_PORT_AFTER later), all at once, until the block ends.

    Voters stand in the settings; with `dynamic` they stand in the metadata (KIP-853). A node's data lies in folders
    `data1`, `data2`, … of its own. What `overrides` says holds for every node.
    Raises RuntimeError where a port is taken or the nodes do not find together.
    """
    taken = [port for port in ports if peer.answers(port)]
    if taken:
        raise RuntimeError(f"another broker answers on 127.0.0.1:{taken[0]} already")
    cluster = _formatted(
        folder, ports, overrides=overrides, dynamic=dynamic, log_dirs=log_dirs, flags=[f"-Xmx{heap}", *flags]
    )
    with started(cluster, timeout):
        yield cluster


@contextmanager
def started(cluster: Nodes, timeout: float) -> Iterator[None]:
    """Start every node and wait for all of them, so many seconds at most; kill what runs when the block ends."""
    try:
        for node in cluster.nodes.values():
            node.start()
        cluster.await_alive(timeout)
        yield
    finally:
        end_nodes([node for node in cluster.nodes.values() if node.process is not None])


def end_nodes(running: list[PeerNode]) -> None:
    """Kill all at once: a controlled shutdown of the last ones would wait for a majority that is gone."""
    for node in running:
        assert node.process is not None
        node.process.kill()
    for node in running:
        node._ended()


def _formatted(
    folder: Path, ports: Sequence[int], *, overrides: Sequence[str], dynamic: bool, log_dirs: int, flags: Sequence[str]
) -> Nodes:
    """Write every node's settings and give its folders an identity."""
    names = [f"data{number}" for number in range(1, log_dirs + 1)]
    cluster = Nodes(new_id())
    for node_id, port in enumerate(ports, start=1):
        home = folder / str(node_id)
        home.mkdir(parents=True, exist_ok=True)
        settings = home / "server.properties"
        dirs = ",".join(str(home / name) for name in names)
        settings.write_text(node_properties(node_id, ports, [f"log.dirs={dirs}", *overrides], dynamic=dynamic))
        command = peer.java(*flags, "kafka.Kafka", str(settings))
        cluster.nodes[node_id] = PeerNode(node_id, port, home, command)
    first, *others = cluster.nodes.values()
    if (first.folder / names[0] / "meta.properties").exists():
        return cluster  # a cluster that ran before goes on
    directories = {(node_id, name): new_id() for node_id in cluster.nodes for name in names}
    arguments = ["-t", cluster.cluster_id, "-c", str(first.folder / "server.properties")]
    if dynamic:
        voters = (
            f"{node.node_id}@127.0.0.1:{node.controller_port}:{directories[node.node_id, names[0]]}"
            for node in cluster.nodes.values()
        )
        arguments += ["--initial-controllers", ",".join(voters)]
    formatted = peer.tool("storage", "format", *arguments)
    if formatted.returncode:
        raise RuntimeError(f"Kafka's storage tool refused: {formatted.stdout}{formatted.stderr}")
    for node in others:
        for name in names:
            shutil.copytree(first.folder / name, node.folder / name)
    for (node_id, name), directory in directories.items():
        lines = ["version=1", f"cluster.id={cluster.cluster_id}", f"node.id={node_id}", f"directory.id={directory}"]
        (cluster.nodes[node_id].folder / name / "meta.properties").write_text("\n".join(lines) + "\n")
    return cluster


def node_properties(node_id: int, ports: Sequence[int], overrides: Sequence[str], *, dynamic: bool) -> str:
    """Return server.properties of one node with both roles; Ottla reads it as well."""
    port = ports[node_id - 1]
    controllers = [f"127.0.0.1:{each + CONTROLLER_PORT_AFTER}" for each in ports]
    voters = ",".join(f"{number}@{address}" for number, address in enumerate(controllers, start=1))
    quorum = f"bootstrap.servers={','.join(controllers)}" if dynamic else f"voters={voters}"
    copies, enough = min(3, len(ports)), min(2, len(ports))
    lines = [
        "process.roles=broker,controller",
        f"node.id={node_id}",
        f"controller.quorum.{quorum}",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controllers[node_id - 1]}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        f"offsets.topic.replication.factor={copies}",
        f"transaction.state.log.replication.factor={copies}",
        f"transaction.state.log.min.isr={enough}",
        f"share.coordinator.state.topic.replication.factor={copies}",
        f"share.coordinator.state.topic.min.isr={enough}",
        "group.initial.rebalance.delay.ms=0",
        *overrides,
    ]
    return "\n".join(lines) + "\n"


def _brokers_seen_by(node: PeerNode) -> set[int]:
    """Return the brokers that a node's own answer to Metadata names; none where it does not answer."""
    from ottla.base import OttlaError
    from ottla.client import BlockingClient, Limits

    if not peer.answers(node.port):
        return set()
    impatient = Limits(connect_s=5, request_s=5, call_s=5, unreachable_s=0)
    try:
        with BlockingClient(f"127.0.0.1:{node.port}", limits=impatient) as client:
            return {int(found) for found in client.metadata(()).nodes}
    except OttlaError:
        return set()


def _said(node: PeerNode) -> str:
    return (node.folder / "broker.out").read_text(errors="replace")[-3000:]
