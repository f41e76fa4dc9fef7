"""Where stories of a follower are played: a controller and a leader on disks that are well, a follower on the faulty one.

Every topic has two replicas, and the leader's comes first. What a failure may cost the follower is what it may cost any
broker (`Scope`), and the leader goes on without it. What was acknowledged while the follower was in sync is in its copy:
behind each story the leader is gone for good, and the follower leads what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

from ottla.base import ErrorCode
from ottla.broker import Node, format_directory
from ottla.config import BrokerConfig
from ottla.log import LogDir
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.faults.broker_stage import HOST, PORT, SETTLE_S, BrokerStage, Ended, InlineOffload, TopicSaid
from tests.faults.said import Broken
from tests.sim.client import NoAnswer
from tests.sim.disk import SimDisk
from tests.sim.process import Process
from tests.sim.storage import Storage
from tests.sim.trace import Trace

__all__ = ["FollowerStage"]

CONTROLLER, LEADER, FOLLOWER = 1, 2, 3
HOSTS = {CONTROLLER: "controller", LEADER: "leader", FOLLOWER: HOST}
CLUSTER_ID = "Zm9sbG93ZXJzIGZhaWwuLg"
QUORUM = (
    f"controller.quorum.voters={CONTROLLER}@{HOSTS[CONTROLLER]}:9093",
    "controller.listener.names=CONTROLLER",
    "broker.heartbeat.interval.ms=500",
    "broker.session.timeout.ms=2000",
    "replica.lag.time.max.ms=2000",
    "replica.fetch.wait.max.ms=300",
    "replica.fetch.backoff.ms=200",
    "replica.socket.timeout.ms=2000",
    "request.timeout.ms=2000",
)
UP_S, IN_SYNC_S, LEADS_S = 30.0, 30.0, 15.0
"""Seconds for a cluster to come up, for a copy to be in sync again, and for the one that is left to lead."""


class FollowerStage(BrokerStage):
    """Three nodes and one client; `node` is the follower."""

    def __init__(
        self,
        *,
        at: int = 0,
        kind: str = "",
        power: Callable[[], Random] | None = None,
        settings: tuple[str, ...] = (),
    ) -> None:
        super().__init__(at=at, kind=kind, power=power, settings=settings)
        common = (*self.settings, *QUORUM)
        self.settings = (*common, f"node.id={FOLLOWER}", "process.roles=broker")
        self._settings = {
            CONTROLLER: (
                *common,
                f"node.id={CONTROLLER}",
                "process.roles=controller",
                f"listeners=CONTROLLER://{HOSTS[CONTROLLER]}:9093",
            ),
            LEADER: (
                *common,
                f"node.id={LEADER}",
                "process.roles=broker",
                f"listeners=PLAINTEXT://{HOSTS[LEADER]}:{PORT}",
            ),
        }
        self._storages = {node: Storage(Random(f"disk {node}")) for node in self._settings}
        self._others: dict[int, tuple[Process, Node]] = {}
        self.asked = HOSTS[LEADER]
        self._is_away = False
        self.promised: dict[str, TopicSaid] = {}
        """What was acknowledged when the follower ended, of the topics where it was in sync."""

    # -- the nodes

    async def begin(self) -> None:
        """Start the three nodes."""
        for node, settings in (*self._settings.items(), (FOLLOWER, self.settings)):
            self._format(node, settings)
        for node in self._settings:
            await self.boot_other(node)
        await self.boot()

    def _format(self, node: int, settings: tuple[str, ...]) -> None:
        process = Process(self.loop, "format")
        disk = SimDisk(self._storages.get(node, self.storage), process, Random(5), Trace(), now_ms=self.clock.now_ms)
        config = BrokerConfig.load(overrides=settings, environment={})
        rng, now_ms = Random(f"ids of {node}"), self.clock.now_ms()
        for path in ("/a", "/b", "/m"):
            disk.mkdir(path)
            log_dir = LogDir.open(disk, path)
            format_directory(config, log_dir, cluster_id=CLUSTER_ID, rng=rng, now_ms=now_ms)
            log_dir.release()
            disk.fsync_dir(path)
        disk.fsync_dir("/")
        process.kill()

    async def boot_other(self, node: int) -> None:
        """Start the controller or the leader."""
        process = Process(self.loop, HOSTS[node])
        self.processes.insert(0, process)  # the last one is the follower's
        disk = SimDisk(self._storages[node], process, Random(6), Trace(), now_ms=self.clock.now_ms)
        made = Node(
            BrokerConfig.load(overrides=self._settings[node], environment={}),
            disk=disk,
            network=self.fabric.host(HOSTS[node]),
            clock=self.clock,
            rng=Random(f"{HOSTS[node]} {len(self.processes)}"),
            offload=InlineOffload(),  # type: ignore[arg-type]
        )
        self.fabric.power_on(HOSTS[node])
        await asyncio.wait_for(process.run(made.start()), UP_S)
        self._others[node] = process, made

    async def boot(self, *, faulty: bool = True) -> None:
        """Start the follower; raises Ended where it does not start."""
        self.promised.clear()
        await super().boot(faulty=faulty)
        self.processes[-1].at_death.append(self._note_what_was_promised)

    def _forgive_a_tear(self) -> None:
        """What a recovery takes for a torn tail, and cuts, the leader has."""

    async def lose_power_of_leader(self) -> None:
        """Have the leader start again with what its device has."""
        self._others[LEADER][0].kill()
        self.connection = None
        self.fabric.power_off(HOSTS[LEADER])
        self._storages[LEADER].lose_power()
        await asyncio.sleep(1.0)
        await self.boot_other(LEADER)

    def _note_what_was_promised(self) -> None:
        self.promised = {
            name: replace(said, acknowledged=dict(said.acknowledged), committed=set(said.committed))
            for name, said in self.said.items()
            if said.certain and FOLLOWER in self._in_sync(name)
        }

    def _in_sync(self, name: str) -> set[int]:
        """Return the replicas in sync, as the leader takes it."""
        process, leader = self._others[LEADER]
        partition = leader._partitions.get(name, 0) if process.alive else None
        return set() if partition is None else set(partition.replica.isr)

    # -- asking

    def wanted(self, name: str, configs: dict[str, str]) -> CreatableTopic:
        """Return what is asked of a topic that the follower follows."""
        configs = {"unclean_leader_election_enable": "true"} | configs
        return CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[LEADER, FOLLOWER])],
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )

    async def in_sync(self, name: str, seconds: float = IN_SYNC_S) -> bool:
        """Wait until the follower is in sync; False where it does not come to be."""
        for _ in range(int(seconds / 0.5)):
            if FOLLOWER in self._in_sync(name):
                return True
            if self.has_ended:
                raise Ended("the follower serves no more")
            await asyncio.sleep(0.5)
        return False

    async def all_in_sync(self) -> None:
        """Wait until the follower has everything."""
        for name, said in self.said.items():
            if said.certain and not await self.in_sync(name) and self.faults.failed is None:
                raise Broken(f"{name} does not come to be in sync")

    @contextmanager
    def without_follower(self) -> Iterator[None]:
        """Have the client go on while no follower runs."""
        self._is_away = True
        try:
            yield
        finally:
            self._is_away = False

    @property
    def has_ended(self) -> bool:
        """True where the follower serves no more, and is expected to."""
        return not self._is_away and super().has_ended

    async def take_what_is_left(self) -> None:
        """Take what the leader has for what was acknowledged: it has lost what was not on its device."""
        for name, said in self.said.items():
            rows = await self.read(name)
            assert rows is not None
            if said.durable:
                self.check_rows(name, rows)
            said.acknowledged = rows

    # -- judging

    async def judge(self) -> None:
        """The follower goes on: look at what the failure has cost, and compare its copies with the leader's."""
        await asyncio.sleep(SETTLE_S)
        self.faults.mend()
        offline = self.offline()
        for name in [each for each, said in self.said.items() if said.certain]:
            rows = await self.read(name) if await self.produce(name) else None
            if rows is None:
                raise Broken(f"{name} is served no more by its leader")
            self.check_rows(name, rows)
            await self._check_committed(name)
            if not await self.in_sync(name):
                if not self._may_be_lost(name, self.scope(), offline):
                    raise Broken(f"{name} is followed no more, for a failure that may cost {self.scope()}")
                if not self._is_shown(name, offline):
                    raise Broken(f"{name} is followed no more, and nothing shows it")
                continue
            await self._compare(name)
        if self.loop.errors:
            raise Broken("an error that nobody handled: " + self.loop.errors[0])

    async def _compare(self, name: str) -> None:
        """The follower's copy holds the same, once it has heard how far all of them are."""
        for isolation in (0, 1):
            wanted = await self.read(name, isolation=isolation)
            found = None
            for _ in range(20):
                with self.asking(HOST):
                    found = await self.read(name, isolation=isolation)
                if found == wanted:
                    break
                await asyncio.sleep(0.5)
            if found != wanted:
                raise Broken(f"{name}: the leader has {wanted}, and the follower {found}")

    async def look_again(self) -> None:
        """The leader is gone, and the follower starts on a disk that is well: it has what it had acknowledged."""
        if not await self.end_process():
            return
        for said in self.promised.values():
            if self.power is not None and not said.durable:
                said.acknowledged.clear()
                said.committed.clear()
        await asyncio.sleep(1.0)
        if self.promised.keys() != {name for name, said in self.said.items() if said.certain}:
            await self._catch_up()
        promised = dict(self.promised)
        self._others[LEADER][0].kill()
        self.fabric.power_off(HOSTS[LEADER])
        await self.boot_well()
        self.asked = HOST
        for name, said in promised.items():
            await self._check_copy(name, said)
        if self.loop.errors:
            raise Broken("an error that nobody handled: " + self.loop.errors[0])
        await self.stop()

    async def _catch_up(self) -> None:
        """Where the follower was not in sync with everything, it comes to be so while its leader is there."""
        await self.boot_well()
        for name in [each for each, said in self.said.items() if said.certain]:
            if not await self.in_sync(name):
                raise Broken(f"{name} is not followed after a restart on a good disk")
            await self._compare(name)
        self.kill()
        await asyncio.sleep(1.0)

    async def _check_copy(self, name: str, said: TopicSaid) -> None:
        """Have the follower lead a topic, and look for what was acknowledged."""
        self.said[name] = said
        if not await self._leads(name):
            raise Broken(f"{name}: the follower does not come to lead it")
        if not await self.produce(name):
            raise Broken(f"{name} is not served by the replica that is left")
        rows = await self.read(name)
        if rows is None:
            raise Broken(f"{name} cannot be read from the replica that is left")
        self.check_rows(name, rows)
        await self._check_committed(name)

    async def _leads(self, name: str) -> bool:
        for _ in range(int(LEADS_S / 0.5)):
            with suppress(NoAnswer):
                request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                answer = await self.ask(request, MetadataResponse)
                for topic in answer.topics:
                    if topic.name == name and topic.partitions[0].leader_id == FOLLOWER:
                        return topic.partitions[0].error_code == ErrorCode.NONE
            await asyncio.sleep(0.5)
        return False

    def _left(self) -> bytes:
        promised: list[Any] = [(name, [*vars(each).items()]) for name, each in self.promised.items()]
        return super()._left() + repr(promised).encode()
