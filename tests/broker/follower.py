"""A follower without a broker around it: its partitions and fetchers follow the image of a node in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

from ottla.base import NodeId, Uuid
from ottla.broker import Node, SystemClock, ThreadsAndProcess
from ottla.broker.configuration import Configuration
from ottla.broker.replicas.leader_lease import LeaderLease
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.replicas.replication import Replication
from ottla.broker.replicas.storage import Storage
from ottla.broker.replicas.throttles import ReplicationThrottles
from ottla.config import BrokerConfig
from ottla.log import Log, OsDisk
from ottla.metadata import Endpoint, Image, ResourceType, decide
from ottla.metadata.decide import Decision
from ottla.net import TcpNetwork
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.partition_change_record import PartitionChangeRecord
from tests.broker.node_client import NodeClient, start_node

__all__ = ["Follower", "add_replica", "configure", "create_followed", "everything", "lead", "leader_and_follower"]

FOLLOWER = NodeId(2)


class Follower:
    """Broker 2 of a cluster whose controller, and other broker, is `node`; its port is one where nobody listens."""

    def __init__(self, folder: Path, node: Node, *settings: str) -> None:
        self.node = node
        self.config = BrokerConfig.load(
            overrides=["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={folder}", "node.id=2", *settings],
            environment={},
        )
        self.following = True

    async def start(self) -> None:
        """Register, and follow the image."""
        loop = asyncio.get_running_loop()
        clock, offload = SystemClock(), ThreadsAndProcess()
        self.configuration = Configuration(self.config)
        self.storage = Storage(
            self.config,
            disk=OsDisk(),
            clock=clock,
            rng=SystemRandom(),
            offload=offload,
            on_failure=lambda error: None,
        )
        self.storage.open()
        self.partitions = Partitions(
            FOLLOWER,
            storage=self.storage,
            configuration=self.configuration,
            purgatory=Purgatory(loop),
            offload=offload,
            lease=LeaderLease(loop, lambda: 9.0, lambda: 9.0),
        )
        self.throttle = ReplicationThrottles(loop, self.configuration).follower
        quorum = self.node.quorum
        self.replication = Replication(
            FOLLOWER,
            partitions=self.partitions,
            storage=self.storage,
            configuration=self.configuration,
            image=lambda: quorum.image,
            broker_epoch=lambda: self.epoch,
            listener="PLAINTEXT",
            throttle=self.throttle,
            network=TcpNetwork(),
            clock=clock,
            offload=offload,
            loop=loop,
        )
        registration = decide.Registration(
            broker_id=FOLLOWER,
            incarnation_id=Uuid(bytes(15) + b"\x02"),
            endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 1),),
            log_dirs=self.storage.directory_ids,
        )
        self.epoch = await quorum.submit(lambda image: decide.register_broker(image, registration, supersede=True))
        await quorum.submit(
            lambda image: decide.heartbeat(
                image, FOLLOWER, self.epoch, caught_up=True, want_fence=False, want_shut_down=False
            )
        )
        quorum.subscribe(self._image_changed)
        self.storage.loaded(is_known=lambda topic_id: True)

    def _image_changed(self, old: Image, image: Image, delta: Any) -> None:
        if self.following:
            self.partitions.image_changed(old, image, delta)
            self.replication.image_changed(old, image, delta)

    async def stop(self) -> None:
        """End as a process does that is killed."""
        self.following = False
        await self.replication.close()
        self.storage.release()

    def held(self, topic: str, index: int = 0) -> LocalPartition:
        """Return a partition, which must be here."""
        found = self.partitions.get(topic, index)
        assert found is not None
        return found


@asynccontextmanager
async def leader_and_follower(
    tmp_path: Path, *settings: str, disk: Any = None
) -> AsyncIterator[tuple[NodeClient, Follower]]:
    """Start a broker, a client of it and a follower in this process; `disk` is the broker's."""
    settings = ("node.id=1", "broker.session.timeout.ms=600000", *settings)
    node = await start_node(tmp_path / "leader", *settings, disk=disk)
    follower = Follower(tmp_path / "follower", node, *settings[2:])
    try:
        await follower.start()
        client = await NodeClient.connect(node)
        try:
            yield client, follower
        finally:
            client.close()
    finally:
        await follower.stop()
        await node.stop()


async def create_followed(node: Node, topic: str, *replicas: tuple[int, ...], **configs: str) -> None:
    """Create a topic whose partitions have these replicas, the leader first."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
                    for index, each in enumerate(replicas)
                ],
                configs=[
                    CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=10_000,
    )
    answer = await node.quorum.submit(
        lambda image: decide.create_topics(image, request, config=node.config, rng=SystemRandom())
    )
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


async def lead(node: Node, topic: str, leader: int, *, index: int = 0, isr: list[int] | None = None) -> None:
    """Let a replica lead from now on, in the next epoch."""
    quorum = node.quorum

    def decision(image: Image) -> Decision[None]:
        record = PartitionChangeRecord(partition_id=index, topic_id=image.topics[topic].id, leader=leader, isr=isr)
        return Decision((record,), None)

    await quorum.submit(decision)


async def add_replica(node: Node, topic: str, *replicas: int, index: int = 0) -> None:
    """Give a partition these replicas, of which those that are new are not in sync."""

    def decision(image: Image) -> Decision[None]:
        record = PartitionChangeRecord(
            partition_id=index, topic_id=image.topics[topic].id, replicas=list(replicas), isr=[replicas[0]]
        )
        return Decision((record,), None)

    await node.quorum.submit(decision)


async def configure(node: Node, kind: ResourceType, name: str, key: str, value: str) -> None:
    """Set one value of a topic's or broker's configuration."""
    record = ConfigRecord(resource_type=int(kind), resource_name=name, name=key, value=value)
    await node.quorum.submit(lambda image: Decision((record,), None))


def everything(log: Log) -> bytes:
    """Return all bytes of a log's segments."""
    return b"".join(each.file.pread(0, each.size) for each in log.segments)
