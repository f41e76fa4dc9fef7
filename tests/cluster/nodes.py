"""Several nodes in one process: `SimCluster` in virtual time on simulated hosts, `LoopbackCluster` on real sockets.

Both are made of hosts that outlive their nodes: kill a node and start it again, and it finds its disk as it was. A test
says what it waits for (`until`) and never how long that takes.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, TypeVar

from ottla.base import NodeId, Rng, Uuid, uuid_text
from ottla.broker import Node, SystemClock, ThreadsAndProcess
from ottla.broker.formatting import format_directory
from ottla.broker.quorum.driver import Quorum
from ottla.config import BrokerConfig
from ottla.log import Disk, LogDir, OsDisk
from ottla.net import TcpNetwork
from ottla.raft import VoterSet
from tests.ports import free_ports
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.network import Fabric, HostNetwork
from tests.sim.process import Process
from tests.sim.seams import SimClock, SimOffload
from tests.sim.storage import Storage
from tests.sim.trace import Trace

__all__ = ["CLUSTER_ID", "Cluster", "LoopbackCluster", "SimCluster"]

T = TypeVar("T")
CLUSTER_ID = uuid_text(Uuid(b"ottla cluster 16"))
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
WAIT_SECONDS_MAX = 100.0
LOOK_SECONDS = 0.02
BOTH = "broker,controller"


@dataclass
class Host:
    """What belongs to one node over all its lives."""

    node_id: int
    overrides: tuple[str, ...]
    voters: VoterSet | None = None
    cluster_id: str = CLUSTER_ID
    node: Node | None = None
    lives: int = 0
    starting: asyncio.Task[None] | None = None

    @property
    def config(self) -> BrokerConfig:
        """What the node is started with."""
        return BrokerConfig.load(overrides=self.overrides, environment={})


@dataclass
class Cluster:
    """What both kinds of cluster do; `settings` hold for every node."""

    settings: tuple[str, ...] = ()
    hosts: dict[int, Host] = field(default_factory=dict)

    # Hosts

    def add(
        self,
        node_id: int,
        *,
        roles: str = BOTH,
        quorum: str = "",
        settings: Iterable[str] = (),
        voters: VoterSet | None = None,
    ) -> Host:
        """Set up a host; `quorum` is the `controller.quorum.…` setting that tells it of the others."""
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://{self.client_address(node_id)}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://{self.controller_address(node_id)}")
        overrides = (
            f"process.roles={roles}",
            f"node.id={node_id}",
            f"listeners={','.join(listeners)}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            f"log.dirs={self.folder(node_id)}",
            *([quorum] if quorum else []),
            *self.settings,
            *settings,
        )
        self.hosts[node_id] = host = Host(node_id, overrides, voters)
        self.made(host)
        return host

    def static(self, count: int, *, roles: str = BOTH, settings: Iterable[str] = ()) -> None:
        """Set up nodes 1 to count, all of them voters by configuration."""
        for node_id in range(1, count + 1):
            self.add(node_id, roles=roles, quorum=self.static_voters(range(1, count + 1)), settings=settings)

    def static_voters(self, node_ids: Iterable[int]) -> str:
        """Return the setting that makes these nodes the voters."""
        return "controller.quorum.voters=" + ",".join(f"{each}@{self.controller_address(each)}" for each in node_ids)

    def bootstrap(self, *node_ids: int) -> str:
        """Return the setting by which a node finds the quorum."""
        return "controller.quorum.bootstrap.servers=" + ",".join(self.controller_address(each) for each in node_ids)

    def client_address(self, node_id: int) -> str:
        """Return host and port of a node's listener for clients."""
        raise NotImplementedError

    def controller_address(self, node_id: int) -> str:
        """Return host and port of a node's listener for other nodes of the quorum."""
        raise NotImplementedError

    def folder(self, node_id: int) -> str:
        """Return where a node keeps its data."""
        raise NotImplementedError

    def made(self, host: Host) -> None:
        """Hear of a new host."""

    # Lives

    async def start(self, *node_ids: int, wait: bool = True) -> None:
        """Start nodes, all at once; a node that needs others to start waits for them."""
        tasks = []
        for node_id in node_ids or tuple(self.hosts):
            host = self.hosts[node_id]
            host.lives += 1
            host.starting = asyncio.ensure_future(self.run_node(host))
            tasks.append(host.starting)
        if wait:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await asyncio.gather(*tasks)

    async def run_node(self, host: Host) -> None:
        """Format where that is needed, and start the host's node."""
        raise NotImplementedError

    async def stop(self, *node_ids: int) -> None:
        """Stop nodes cleanly, all that run where none is named."""
        running = [each for each in node_ids or tuple(self.hosts) if self.hosts[each].node is not None]
        await asyncio.gather(*(self.stop_node(self.hosts[each]) for each in running))

    async def stop_node(self, host: Host) -> None:
        """Stop one node cleanly."""
        raise NotImplementedError

    def node(self, node_id: int) -> Node:
        """Return a running node."""
        node = self.hosts[node_id].node
        assert node is not None, f"node {node_id} does not run"
        return node

    def quorum(self, node_id: int) -> Quorum:
        """Return a running node's view of the quorum."""
        return self.node(node_id).quorum

    @property
    def running(self) -> tuple[int, ...]:
        """The nodes that run."""
        return tuple(each for each, host in self.hosts.items() if host.node is not None)

    # Waiting

    async def until(self, condition: Callable[[], Any], seconds: float = WAIT_SECONDS_MAX) -> Any:
        """Wait for a condition, and return what it gives; AssertionError where it does not come in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not (found := condition()):
            assert loop.time() < deadline, "the condition did not come:\n" + "\n".join(self.describe())
            await asyncio.sleep(LOOK_SECONDS)
        return found

    def describe(self) -> list[str]:
        """Say how every node sees the quorum."""
        lines = []
        for node_id, host in self.hosts.items():
            if host.node is None:
                lines.append(f"  node {node_id} does not run")
                continue
            status = host.node.quorum.status
            lines.append(
                f"  node {node_id}: leader {status.leader_id} of epoch {status.leader_epoch}, committed "
                f"{status.high_watermark} of {status.log_end_offset}, voters {status.voters.ids}"
            )
        return lines

    def leader(self, *, among: Iterable[int] | None = None) -> int | None:
        """Return the node that leads the quorum, where every running node knows it."""
        nodes = list(self.running if among is None else among)
        found = {self.quorum(each).leader for each in nodes if self.hosts[each].node is not None}
        if len(found) != 1:
            return None
        leader_id, _ = next(iter(found))
        leads = leader_id in self.running and self.quorum(leader_id).is_leader
        return int(leader_id) if leader_id is not None and leads else None

    async def led(self, *, among: Iterable[int] | None = None) -> int:
        """Wait until every running node knows one leader, and return it."""
        nodes = None if among is None else tuple(among)
        found: int = await self.until(lambda: self.leader(among=nodes))
        return found

    def agreed(self, offset: int | None = None) -> bool:
        """True where all running nodes have committed up to the same offset, and at least this one."""
        marks = {self.quorum(each).status.high_watermark for each in self.running}
        ends = {self.quorum(each).status.log_end_offset for each in self.running}
        return len(marks | ends) == 1 and (offset is None or min(marks) >= offset)


class SimCluster(Cluster):
    """Nodes on simulated hosts, in virtual time: what happens follows from the seed alone."""

    def __init__(self, seed: int = 0, settings: Iterable[str] = ()) -> None:
        super().__init__(tuple(settings))
        self.seed = seed
        self.loop = SimLoop()
        self.trace = Trace()
        self.fabric = Fabric(self.loop, Random(f"{seed} network"), self.trace)
        self.clock = SimClock(self.loop)
        self.storages: dict[int, Storage] = {}
        self.networks: dict[int, HostNetwork] = {}
        self.processes: dict[int, Process] = {}

    def client_address(self, node_id: int) -> str:
        return f"n{node_id}:{CLIENT_PORT}"

    def controller_address(self, node_id: int) -> str:
        return f"n{node_id}:{CONTROLLER_PORT}"

    def folder(self, node_id: int) -> str:
        return "/data"

    def made(self, host: Host) -> None:
        self.storages[host.node_id] = Storage(Random(f"{self.seed} storage {host.node_id}"))
        self.networks[host.node_id] = self.fabric.host(f"n{host.node_id}")

    async def run_node(self, host: Host) -> None:
        name = f"n{host.node_id}#{host.lives}"
        process = self.processes[host.node_id] = Process(self.loop, name)
        rng = Random(f"{self.seed} {name}")
        disk = SimDisk(self.storages[host.node_id], process, rng, self.trace, now_ms=self.clock.now_ms)

        async def live() -> Node:
            _format(disk, host, rng, self.clock.now_ms())
            node = Node(host.config, disk, self.networks[host.node_id], self.clock, rng, SimOffload(rng))
            host.node = node
            await node.start()
            return node

        await process.run(live())

    def disk(self, node_id: int) -> SimDisk:
        """Return a host's disk, for a test to change what lies there while no node runs."""
        rng = Random(f"{self.seed} disk {node_id}")
        return SimDisk(self.storages[node_id], Process(self.loop, f"test of n{node_id}"), rng, self.trace)

    async def stop_node(self, host: Host) -> None:
        assert host.node is not None
        await self.processes[host.node_id].run(host.node.stop())
        self._end(host)

    def kill(self, node_id: int) -> None:
        """End a node as `kill -9` does: its connections close, its disk keeps what was written."""
        self._end(self.hosts[node_id])

    def lose_power(self, node_id: int) -> None:
        """Take a host's power: its connections fall silent, its disk keeps what was made durable."""
        self.fabric.power_off(f"n{node_id}")
        self._end(self.hosts[node_id])
        self.storages[node_id].lose_power()

    def give_power(self, node_id: int) -> None:
        """Let a host be reached again."""
        self.fabric.power_on(f"n{node_id}")

    def _end(self, host: Host) -> None:
        self.processes[host.node_id].kill()
        host.node = None
        if host.starting is not None:
            host.starting.cancel()

    def isolate(self, node_id: int) -> None:
        """Cut a host off from all others, both ways."""
        for other in self.hosts:
            if other != node_id:
                self.fabric.block(f"n{node_id}", f"n{other}")
                self.fabric.block(f"n{other}", f"n{node_id}")

    def heal(self, node_id: int) -> None:
        """Join a host to all others again."""
        for other in self.hosts:
            if other != node_id:
                self.fabric.heal(f"n{node_id}", f"n{other}")
                self.fabric.heal(f"n{other}", f"n{node_id}")

    async def on(self, node_id: int, work: Awaitable[T]) -> T:
        """Do something as a node's process does it."""

        async def done() -> T:
            return await work

        return await self.processes[node_id].run(done())

    def run(self, test: Callable[[SimCluster], Coroutine[Any, Any, None]]) -> None:
        """Run a test, then end every node; an error that no task has handled fails it."""
        try:
            self.loop.run_until_complete(test(self))
        finally:
            for host in self.hosts.values():
                if host.node is not None:
                    self._end(host)
            gc.collect()  # what killed processes left, while the loop can still be told
            self.loop.close()
        assert not self.loop.errors, "\n".join(self.loop.errors)


class LoopbackCluster(Cluster):
    """Nodes of this process on real sockets and files."""

    def __init__(self, folder: Path, settings: Iterable[str] = (), *, nodes: int = 6) -> None:
        super().__init__(tuple(settings))
        self._folder = folder
        self._ports = free_ports(2 * nodes)
        self._of: dict[tuple[str, int], int] = {}

    def _port(self, kind: str, node_id: int) -> int:
        if (kind, node_id) not in self._of:
            self._of[kind, node_id] = self._ports.pop()
        return self._of[kind, node_id]

    def client_address(self, node_id: int) -> str:
        return f"127.0.0.1:{self._port('client', node_id)}"

    def controller_address(self, node_id: int) -> str:
        return f"127.0.0.1:{self._port('controller', node_id)}"

    def folder(self, node_id: int) -> str:
        return str(self._folder / str(node_id))

    async def run_node(self, host: Host) -> None:
        disk, clock, rng = OsDisk(), SystemClock(), SystemRandom()
        _format(disk, host, rng, clock.now_ms())
        host.node = Node(host.config, disk, TcpNetwork(), clock, rng, ThreadsAndProcess())
        await host.node.start()

    async def stop_node(self, host: Host) -> None:
        assert host.node is not None
        if host.starting is not None and not host.starting.done():
            host.starting.cancel()
            await asyncio.wait({host.starting})
        else:
            await host.node.stop()
        host.node = None

    def run(self, test: Callable[[LoopbackCluster], Coroutine[Any, Any, None]], seconds: float = 90) -> None:
        """Run a test, at most so long, and stop every node."""

        async def whole() -> None:
            try:
                await test(self)
            finally:
                await self.stop()

        asyncio.run(asyncio.wait_for(whole(), seconds))


def _format(disk: Disk, host: Host, rng: Rng, now_ms: Any) -> None:
    """Give a new host's folder its identity, as `ottla storage format` does."""
    config = host.config
    log_dir = LogDir.open(disk, config.metadata_log_dir)
    if log_dir.meta is None:
        format_directory(config, log_dir, cluster_id=host.cluster_id, rng=rng, now_ms=now_ms, voters=host.voters)
    log_dir.release()


def node_ids(*ids: int) -> tuple[NodeId, ...]:
    """Return ids as the quorum has them."""
    return tuple(NodeId(each) for each in ids)
