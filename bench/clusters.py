"""The clusters that are measured: three nodes each, of Ottla or of Apache Kafka, with what their processes cost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ottla.base import OttlaError
from ottla.cli.local.cluster import LocalCluster
from ottla.cli.local.node_process import begin
from ottla.cli.local.nodes import prepare, stop_all
from ottla.client import BlockingClient, Limits
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from tests.peer import nodes as kafka_nodes
from tests.ports import free_port

__all__ = ["NODES", "Cluster", "KafkaCluster", "OttlaCluster", "awaited", "shards"]

NODES = 3
READY_SECONDS_MAX = 120.0
IN_SYNC_SECONDS_MAX = 120.0
IMPATIENT = Limits(connect_s=0.5, request_s=0.5, call_s=1.0, unreachable_s=0.0)
SETTLE_SECONDS = 5.0
KAFKA_HEAP = "1g"
"""As Kafka's own scripts give it."""


def awaited(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Return how long it took until a condition came true; raises RuntimeError where it does not."""
    started = time.perf_counter()
    while not condition():
        if time.perf_counter() - started > seconds:
            raise RuntimeError(f"{what} took more than {seconds:.0f} s")
        time.sleep(0.02)
    return time.perf_counter() - started


@dataclass
class Cluster:
    """Three nodes on 127.0.0.1, numbered from 1; `start` returns when they serve."""

    name: str
    folder: Path
    ports: dict[int, int] = field(default_factory=dict)
    _admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        """Every node's address."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    # -- what each kind does in its own way

    def start(self) -> None:
        """Start with empty folders; returns when every node serves."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop, and remove the data."""
        raise NotImplementedError

    def pids(self) -> dict[int, int]:
        """Return the processes of the nodes that run."""
        raise NotImplementedError

    def begin(self, node: int) -> None:
        """Start one node again; does not wait."""
        raise NotImplementedError

    def kill(self, node: int) -> None:
        """End a node as `kill -9` does."""
        raise NotImplementedError

    def halt(self, node: int) -> None:
        """Stop a node cleanly."""
        raise NotImplementedError

    # -- what holds for both

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have no process of it run for the length of a block; returns when its nodes have found each other again."""
        pids = list(self.pids().values())
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            time.sleep(SETTLE_SECONDS)  # first they notice that they heard nothing of each other
            self.await_brokers()

    def cpu_seconds(self) -> float:
        """Return the processor time of all nodes that run, their worker processes included."""
        times = (process.cpu_times() for process in self._processes())
        return float(sum(each.user + each.system for each in times))

    def memory_mib(self) -> float:
        """Return the resident memory of all nodes."""
        return float(sum(process.memory_info().rss for process in self._processes()) / (1 << 20))

    def _processes(self) -> Iterator[psutil.Process]:
        for pid in self.pids().values():
            parent = psutil.Process(pid)
            yield from (parent, *parent.children(recursive=True))

    def admin(self) -> AdminClient:
        """Return an administrator's client."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create(self, topic: str, partitions: int, copies: int = NODES) -> float:
        """Create a topic; returns how long it took until every copy was in sync."""
        started = time.perf_counter()
        config = {"min.insync.replicas": str(min(2, copies))}
        wanted = NewTopic(topic, partitions, copies, config=config)
        self.admin().create_topics([wanted], operation_timeout=120, request_timeout=120)[topic].result()
        self.await_in_sync(topic, copies)
        return time.perf_counter() - started

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.admin().delete_topics([topic])[topic].result()

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition, -1 for none."""
        found = self.admin().list_topics(topic, timeout=30).topics[topic].partitions
        return {number: partition.leader for number, partition in sorted(found.items())}

    def leader_ports(self, topic: str) -> tuple[int, ...]:
        """Return where each partition's leader listens."""
        return tuple(self.ports[leader] for leader in self.leaders(topic).values())

    def await_in_sync(self, topic: str, copies: int = NODES, seconds: float = IN_SYNC_SECONDS_MAX) -> float:
        """Return how long it took until every partition has so many copies in sync."""
        admin = self.admin()

        def in_sync() -> bool:
            try:
                found = admin.list_topics(topic, timeout=10).topics[topic].partitions
            except KafkaException:
                return False
            return bool(found) and all(len(each.isrs) >= copies and each.leader > 0 for each in found.values())

        return awaited(in_sync, seconds, f"all copies of {topic} in sync")

    def await_brokers(self) -> None:
        """Return when every node is among the brokers that each node names."""

        def whole() -> bool:
            return all(self._known_to(port) >= set(self.ports) for port in self.ports.values())

        awaited(whole, READY_SECONDS_MAX, f"the start of {self.name}")

    def _known_to(self, port: int) -> set[int]:
        try:
            with BlockingClient(f"127.0.0.1:{port}", limits=IMPATIENT) as client:
                return {int(found) for found in client.metadata(()).nodes}
        except OttlaError:
            return set()

    def controller(self) -> int:
        """Return the node that leads the metadata quorum."""
        topic = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
        with BlockingClient(self.bootstrap) as client:
            answer = client.request(DescribeQuorumRequest(topics=[topic]))
        leader: int = answer.topics[0].partitions[0].leader_id
        return leader


class OttlaCluster(Cluster):
    """What `ottla cluster start` runs; `pure` runs it without compiled modules."""

    _cluster: LocalCluster
    _children: dict[int, subprocess.Popen[bytes]]

    def start(self) -> None:
        """Format and start."""
        first = free_port()
        self._cluster = prepare(self.folder / "cluster", brokers=NODES, port=first)
        self._children = {}
        self.ports = {node.id: first + node.id - 1 for node in self._cluster.nodes}
        for node in self.ports:
            self.begin(node)
        self.await_brokers()

    def stop(self) -> None:
        """Stop all nodes at once."""
        stop_all(self._cluster.nodes)
        shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self) -> dict[int, int]:
        """Return the processes of the nodes that run."""
        return {node: child.pid for node, child in self._children.items() if child.poll() is None}

    def begin(self, node: int) -> None:
        """Start one node again."""
        environment = {**os.environ, **({"OTTLA_PURE": "1"} if self.name == "pure" else {})}
        if self.name != "pure":
            environment.pop("OTTLA_PURE", None)
        self._children[node] = begin(self._cluster.node(node), environment=environment)

    def kill(self, node: int) -> None:
        """End a node as `kill -9` does."""
        self._children[node].kill()
        self._children[node].wait()

    def halt(self, node: int) -> None:
        """Stop a node cleanly."""
        stop_all([self._cluster.node(node)])
        self._children[node].wait()


class KafkaCluster(Cluster):
    """Three nodes of Apache Kafka, each broker and controller, with the heap of its own scripts."""

    _nodes: kafka_nodes.Nodes
    _stack: ExitStack

    def start(self) -> None:
        """Format and start."""
        first = free_port()
        ports = [first + index for index in range(NODES)]
        self.ports = dict(enumerate(ports, 1))
        self._stack = ExitStack()
        running = kafka_nodes.running_nodes(self.folder, ports, heap=KAFKA_HEAP, flags=("-XX:+UseG1GC",))
        self._nodes = self._stack.enter_context(running)
        self.await_brokers()

    def stop(self) -> None:
        """End all nodes at once."""
        self._stack.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self) -> dict[int, int]:
        """Return the processes of the nodes that run."""
        return {number: node.pid for number, node in self._nodes.nodes.items() if node.process is not None}

    def begin(self, node: int) -> None:
        """Start one node again."""
        self._nodes.nodes[node].start()

    def kill(self, node: int) -> None:
        """End a node as `kill -9` does."""
        self._nodes.nodes[node].kill()

    def halt(self, node: int) -> None:
        """Stop a node cleanly."""
        self._nodes.nodes[node].stop()


@contextmanager
def shards(folder: Path, count: int, mode: str) -> Iterator[tuple[int, int]]:
    """Run `ottla server start --shards`; yields the first port and the parent's process id."""
    first = free_port()
    settings = (f"listeners=PLAINTEXT://127.0.0.1:{first}", f"log.dirs={folder / 'data'}")
    command = [sys.executable, "-m", "ottla.cli.main", "server", "start", "--shards", str(count)]
    for each in settings:
        command += ["--override", each]
    environment = {**os.environ, **({"OTTLA_PURE": "1"} if mode == "pure" else {})}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert process.stdout is not None
        served = 0
        for line in process.stdout:
            served += line.startswith("ready ")
            if served == count:
                break
        else:
            raise RuntimeError(f"{count} shards did not start: exit code {process.wait()}")
        yield first, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(READY_SECONDS_MAX)
        shutil.rmtree(folder, ignore_errors=True)
