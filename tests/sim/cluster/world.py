"""One cluster from one seed: nodes, clients, faults; promises are checked at every moment, after faults and at the end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.raft import VoterSet
from tests.schedules import Schedule
from tests.sim.client import Connection, NoAnswer
from tests.sim.cluster.administrators import Registry, administer, create_core_topic, look_at_topics, reassign
from tests.sim.cluster.client import Application, Clients
from tests.sim.cluster.faults import Faults
from tests.sim.cluster.host import CONTROLLER_PORT, DATA, METADATA, PORT, Host
from tests.sim.cluster.inspection import Inspection
from tests.sim.cluster.ledger import ClusterLedger
from tests.sim.cluster.producers import produce_idempotently, produce_plainly
from tests.sim.cluster.readers import read_all, read_on
from tests.sim.cluster.transactions import TOPIC as TXN_TOPIC
from tests.sim.cluster.transactions import Book, look_at_the_end, read_committed, transact
from tests.sim.consumers import SETTINGS as CONSUMER_SETTINGS
from tests.sim.consumers import Holdings, consume_in_group
from tests.sim.course import Outcome, run_to_its_end
from tests.sim.groups import Membership, commit_alone, take_part
from tests.sim.ledger import Tally, Violation
from tests.sim.loop import SimLoop
from tests.sim.network import Fabric, Weather
from tests.sim.process import Process
from tests.sim.trace import Trace

__all__ = ["ClusterWorld", "LonelyWorld", "Shape", "run_cluster"]

DEFAULTS = {
    "controller.listener.names": "CONTROLLER",
    "log.dirs": DATA,
    "metadata.log.dir": METADATA,
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "offsets.load.buffer.size": "2000",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "2",
    "log.message.timestamp.after.max.ms": "9223372036854775807",  # clocks jump here
    "log.retention.check.interval.ms": "5000",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "1500",
    "log.segment.delete.delay.ms": "1000",
    "log.index.interval.bytes": "300",
    "log.cleaner.enable": "false",
    "metadata.log.max.record.bytes.between.snapshots": "6000",
    "ottla.metadata.reserve.bytes": "65536",  # a piece: each sector of it is drawn at a power loss
    "group.initial.rebalance.delay.ms": "500",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.request.timeout.ms": "1000",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "request.timeout.ms": "3000",
    **dict(each.split("=", 1) for each in CONSUMER_SETTINGS),
}
UP_SECONDS_MAX = 60.0
WHOLE_SECONDS_MAX = 90.0
FINISH_SECONDS_MAX = 120.0
CORE_TOPICS: tuple[tuple[str, int, dict[str, str]], ...] = (
    ("flushed", 2, {"internal.segment.bytes": "6000", "segment.index.bytes": "1024"}),
    ("moved", 1, {"internal.segment.bytes": "6000", "segment.index.bytes": "1024"}),
    (TXN_TOPIC, 2, {}),
)


@dataclass(frozen=True)
class Shape:
    """What the nodes of a cluster are."""

    controllers: tuple[int, ...]
    brokers: tuple[int, ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """Every node once."""
        return tuple(sorted({*self.controllers, *self.brokers}))

    def roles(self, node: int) -> str:
        """A node's `process.roles`."""
        roles = [name for name, ids in (("broker", self.brokers), ("controller", self.controllers)) if node in ids]
        return ",".join(roles)


SHAPES = (
    *(Shape((1, 2, 3), (1, 2, 3)),) * 6,
    Shape((1, 2, 3), (1, 2, 3, 4)),
    Shape((1, 2, 3, 4, 5), (1, 2, 3)),
    *(Shape((101, 102, 103), (1, 2, 3)),) * 2,
)


class ClusterWorld:
    """Hosts, clients and what befalls them."""

    defaults: Mapping[str, str] = DEFAULTS
    data_dirs: tuple[str, ...] = (DATA,)
    core_topics = CORE_TOPICS
    compacted: tuple[str, ...] = ()
    """Topics whose copies may differ, because each broker compacts its own."""

    def __init__(self, seed: int, *, shape: Shape | None = None, faults: bool = True) -> None:
        self.seed = seed
        self.loop = SimLoop(self.schedule(seed))
        self.trace = Trace(shows_disks=False)
        self.rng = Random(f"{seed} cluster")
        self.fabric = Fabric(self.loop, Random(f"{seed} network"), self.trace, _weather(self.rng))
        self.shape = shape or self._draw_shape()
        self.lag_ms = self.rng.choice(("1200", "4000"))
        self.hosts = {node: self._host(node) for node in self.shape.nodes}
        self.inspection = Inspection(list(self.hosts.values()), self.loop.time, self.trace.note)
        self.loop.at_step.append(self.inspection.step)
        self.ledger = ClusterLedger()
        self.registry = Registry()
        self.book = Book()
        self.faults = self._faults()
        self.has_faults = faults
        self._client_hosts: dict[str, Any] = {}
        self.clients = Clients(
            self._dial,
            tuple((self.hosts[node].name, PORT) for node in self.shape.brokers),
            lambda: next(iter(self.hosts.values())).clock.now_ms(),
            self.ledger,
            self.trace,
            Random(f"{seed} clients"),
            self.inspection.newest,
            self.inspection.leads,
            self.inspection.cannot_place,
        )

    def schedule(self, seed: int) -> Schedule | None:
        """Draw when what is ready runs; None for the order in which it became so."""
        return None

    @property
    def befallen(self) -> list[str]:
        """The faults that there were."""
        return self.faults.log

    @property
    def tally(self) -> Tally:
        """What was promised."""
        return self.ledger.tally

    def all_processes(self) -> Iterator[Process]:
        """Yield every process that there ever was, on any host."""
        for host in self.hosts.values():
            yield from host.processes

    def _quorum_settings(self) -> dict[str, str]:
        """Who votes, or where to ask."""
        voters = ",".join(f"{each}@n{each}:{CONTROLLER_PORT}" for each in self.shape.controllers)
        return {"controller.quorum.voters": voters}

    def _faults(self) -> Faults:
        return Faults(self)

    def _voters(self) -> VoterSet | None:
        """The first voters, where they are records."""
        return None

    def _draw_offload_s(self) -> float:
        """How long a host's disk may take for an fsync or a cold read."""
        return self.rng.choice((0.004, 0.004, 0.03))

    def _draw_shape(self) -> Shape:
        return self.rng.choice(SHAPES)

    def _host(self, node: int) -> Host:
        roles = self.shape.roles(node)
        name = f"n{node}"
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://{name}:{PORT}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://{name}:{CONTROLLER_PORT}")
        settings = dict(self.defaults) | {
            "node.id": str(node),
            "process.roles": roles,
            "listeners": ",".join(listeners),
            "log.dirs": ",".join(self.data_dirs),
            **self._quorum_settings(),
            "replica.lag.time.max.ms": self.lag_ms,
        }
        return Host(
            node,
            roles,
            tuple(f"{key}={value}" for key, value in settings.items()),
            seed=self.seed,
            loop=self.loop,
            fabric=self.fabric,
            trace=self.trace,
            watch=lambda host, node: self.inspection.watch(host, node),
            died=lambda host: self.inspection.died(host),
            offload_s=self._draw_offload_s(),
            data_dirs=self.data_dirs,
        )

    async def _dial(self, name: str, host: str, port: int) -> Connection:
        network = self._client_hosts.get(name)
        if network is None:
            network = self._client_hosts[name] = self.fabric.host(name)
        return await Connection.open(network, host, port, self.clients.rng)

    # ---------------------------------------------------------------- a life

    async def live(self) -> None:
        """The whole of it."""
        await self.begin()
        stop = asyncio.Event()
        tasks = [self.loop.create_task(each) for each in self.work(stop)]
        try:
            await self.watch(tasks, 1.0)
            if self.has_faults:
                await self.faults.befall(tasks)
            await self.watch(tasks, 1.0)
            stop.set()
            await self.calm(tasks)
            await self._finish(tasks)
            await self.whole(WHOLE_SECONDS_MAX)
            await self.last_look()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self.end()

    async def begin(self) -> None:
        """Format and start every node; create what is written to."""
        self.format_and_start()
        await self.until(self.is_up, UP_SECONDS_MAX, "the cluster does not come up")
        for name, partitions, configs in self.core_topics:
            await asyncio.wait_for(create_core_topic(self.clients, name, partitions, configs), UP_SECONDS_MAX)

    def format_and_start(self) -> None:
        """Format every node's folders and start every node."""
        for host in self.hosts.values():
            host.format(Random(f"{self.seed} format {host.node_id}"), self._voters())
            host.start()

    def work(self, stop: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what the clients do until they are told to stop."""
        clients = self.clients
        data = [("flushed", 0), ("flushed", 1), ("moved", 0)]
        yield produce_idempotently(clients, "idempotent-1", "flushed", 0, stop)
        yield produce_idempotently(clients, "idempotent-2", "moved", 0, stop)
        yield produce_plainly(clients, "plain-1", 1, data, stop)
        yield produce_plainly(clients, "plain-2", -1, data, stop)
        yield read_on(clients, "reader-1", data, stop)
        yield read_on(clients, "reader-2", data, stop)
        yield administer(clients, self.registry, stop)
        yield reassign(clients, "mover", "moved", 0, self.shape.brokers, stop)
        yield commit_alone(clients, "committer", stop)
        group = Membership("members")
        for number in range(2):
            yield take_part(clients, f"member-{number}", group, stop)
        holdings = Holdings("consumers")
        for number in range(2):
            yield consume_in_group(clients, f"consumer-{number}", holdings, stop)
        for number in range(2):
            yield transact(clients, f"transactional-{number}", "shared", self.book, stop)
        yield read_committed(clients, self.book, stop)

    async def watch(self, tasks: list[asyncio.Task[None]], seconds: float) -> None:
        """Let time pass; a client that found a promise broken ends the world."""
        deadline = self.loop.time() + seconds
        while True:
            left = deadline - self.loop.time()
            self.check()
            if left <= 0:
                return
            pending = [each for each in tasks if not each.done()]
            if pending:
                await asyncio.wait(pending, timeout=min(left, 0.25), return_when=asyncio.FIRST_EXCEPTION)
            else:
                await asyncio.sleep(min(left, 0.25))
            for task in tasks:
                if task.done():
                    task.result()

    def check(self) -> None:
        """Raise what was found to be broken, here or in a node."""
        self.inspection.check()
        if self.loop.errors:
            raise Violation("an error that nobody handled:\n" + "\n".join(self.loop.errors))
        for host in self.hosts.values():
            host.check()

    async def until(self, holds: Any, seconds: float, otherwise: str) -> None:
        """Wait for a condition that must come true."""
        deadline = self.loop.time() + seconds
        while not holds():
            self.check()
            if self.loop.time() > deadline:
                raise Violation(f"{otherwise}: {self.why_not()}")
            await asyncio.sleep(0.1)

    def is_up(self) -> bool:
        """True where every node runs and every broker is unfenced in the leader's image."""
        if not all(host.is_running for host in self.hosts.values()):
            return False
        leader = self.active_controller()
        if leader is None:
            return False
        image = leader.node.quorum.image  # type: ignore[union-attr]
        return all(each in image.brokers and image.brokers[each].active for each in self.shape.brokers)

    def active_controller(self) -> Host | None:
        """Return the host whose node leads the quorum in the newest epoch."""
        leading = [
            host
            for host in self.hosts.values()
            if host.is_alive and host.node is not None and hasattr(host.node, "_quorum") and _leads(host)
        ]
        return max(leading, key=lambda each: each.node.quorum._raft.epoch, default=None)  # type: ignore[union-attr]

    def is_whole(self) -> bool:
        """True where everyone is up and every replica is in sync."""
        if not self.is_up():
            return False
        leader = self.active_controller()
        assert leader is not None and leader.node is not None
        image = leader.node.quorum.image
        for host in self.hosts.values():
            if host.node is None or host.node.quorum.image.offset < image.offset:
                return False
        return all(
            set(partition.isr) == set(partition.replicas)
            and partition.leader in partition.isr
            and not partition.adding_replicas
            and not partition.removing_replicas
            for topic in image.topics.values()
            for partition in topic.partitions.values()
        )

    async def whole(self, seconds: float) -> None:
        """Wait until the cluster is whole, which it must become once nothing disturbs it."""
        await self.until(self.is_whole, seconds, "the cluster does not become whole again")

    def why_not(self) -> str:
        """Say who is not up and what is not in sync."""
        lines = [
            f"{host.name}: alive {host.is_alive}, running {host.is_running}, paused "
            f"{host.process is not None and host.process.is_paused}"
            for host in self.hosts.values()
        ]
        leader = self.active_controller()
        if leader is None or leader.node is None:
            return "\n    ".join(["", *lines, "nobody leads the quorum"])
        image = leader.node.quorum.image
        fenced = [each for each, broker in sorted(image.brokers.items()) if not broker.active]
        lines.append(f"{leader.name} leads the quorum, image {image.offset}, not active: {fenced}")
        for name, topic in sorted(image.topics.items()):
            for index, each in topic.in_order():
                if set(each.isr) != set(each.replicas) or each.adding_replicas or each.removing_replicas:
                    state = f"isr {each.isr} elr {each.eligible_leader_replicas} last {each.last_known_elr}"
                    change = f"+{each.adding_replicas} -{each.removing_replicas} recovery {each.leader_recovery_state}"
                    epochs = f"leader {each.leader} in {each.leader_epoch}, partition epoch {each.partition_epoch}"
                    where = self._ends(name, index)
                    lines.append(f"{name}-{index}: replicas {each.replicas} {state} {change} {epochs}{where}")
        return "\n    ".join(["", *lines])

    def _ends(self, name: str, index: int) -> str:
        """Say where each broker's copy of a partition stands."""
        words = []
        for host in self.hosts.values():
            held = None if host.node is None or not host.is_running else host.node._partitions.get(name, index)
            if held is not None:
                replica = held.replica
                place = f"hw {replica.high_watermark} end {replica.log_end_offset}"
                words.append(f"{host.name} {replica.role.name} epoch {replica.leader_epoch} {place}")
        return "; " + ", ".join(words)

    async def calm(self, tasks: list[asyncio.Task[None]]) -> None:
        """End every fault; every node runs again."""
        await self.faults.end()
        deadline = self.loop.time() + UP_SECONDS_MAX
        while not self.is_up():
            self.faults.tend()
            await self.watch(tasks, 0.5)
            if self.loop.time() > deadline:
                raise Violation(f"the cluster does not come back: {self.why_not()}")

    async def _finish(self, tasks: list[asyncio.Task[None]]) -> None:
        """Every client comes to its end once the faults are over: nothing hangs."""
        deadline = self.loop.time() + FINISH_SECONDS_MAX
        while any(not task.done() for task in tasks):
            if self.loop.time() > deadline:
                names = [str(task.get_coro()) for task in tasks if not task.done()]
                raise Violation(f"clients hang although nothing disturbs them: {names}; {self.why_not()}")
            await self.watch([task for task in tasks if not task.done()], 1.0)
        await self.watch(tasks, 0.1)

    async def last_look(self) -> None:
        """Everything that was promised is there, on every replica."""
        application = Application(self.clients, "last reader")
        for key, promises in self.ledger.partitions.items():
            if key[0] == TXN_TOPIC or key[0] in self.compacted:
                continue
            for attempt in range(40):
                try:
                    start, end, rows = await read_all(application, key)
                    break
                except NoAnswer:
                    application.forget(*key)
                    await asyncio.sleep(0.5)
                    if attempt == 39:
                        raise Violation(f"{promises.name} cannot be read: {self.why_not()}") from None
            promises.last_look(start, end, rows)
        await look_at_the_end(self.clients, "shared", self.book)
        for _ in range(20):
            try:
                await look_at_topics(self.clients, self.registry)
                break
            except NoAnswer:
                await asyncio.sleep(0.5)
        await asyncio.sleep(2.0)  # watermarks reach the followers
        self.inspection.compare_logs(but=self.compacted)
        self.check()

    async def end(self) -> None:
        """Stop every node, now and then cleanly."""
        if self.rng.random() < 0.3:
            for host in self.hosts.values():
                await host.stop()
                self.check()
        gc.collect(0)
        self.check()


class LonelyWorld(ClusterWorld):
    """Controllers apart from brokers; leaders are deserted or left alone, and then lost."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        faults = self.faults
        faults.kinds = (
            faults.left_alone,
            faults.left_alone,
            faults.deserted,
            faults.leader_isolated,
            faults.leader_isolated,
        )
        self.faults.pause_s = 7.0

    def _draw_shape(self) -> Shape:
        return Shape((101, 102, 103), (1, 2, 3))


def _leads(host: Host) -> bool:
    quorum = host.node.quorum  # type: ignore[union-attr]
    return hasattr(quorum, "_raft") and quorum.is_leader


def _weather(rng: Random) -> Weather:
    return Weather(
        latency_ms=rng.choice(((0.05, 0.3), (0.1, 5.0), (1.0, 20.0))),
        spike_chance=rng.choice((0.0, 0.0, 0.01)),
        chunk_bytes_max=rng.choice((1500, 65_536, 65_536)),
        read_bytes_max=rng.choice((4096, 262_144)),
    )


def run_cluster(
    seed: int, *, shape: Shape | None = None, faults: bool = True, kind: type[ClusterWorld] | None = None
) -> Outcome:
    """Run one cluster to its end."""
    return run_to_its_end((kind or ClusterWorld)(seed, shape=shape, faults=faults))
