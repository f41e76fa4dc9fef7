"""One cluster of Kafka's brokers and ours, under a controller of either: they copy from each other and take over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.base import NodeId, TopicPartition
from ottla.client import Client, FetchPosition
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests import peer
from tests.broker.node_client import batch
from tests.cluster.kafka_controllers import KafkaNode
from tests.cluster.nodes import LoopbackCluster

pytestmark = pytest.mark.peer
CONTROLLER, KAFKA, OURS = 1, 4, 5
LED_BY_KAFKA, LED_BY_US = TopicPartition("shared", 0), TopicPartition("shared", 1)
QUICK = ("broker.session.timeout.ms=4000", "broker.heartbeat.interval.ms=500")


def settings(cluster: LoopbackCluster, node_id: int, role: str, folder: Path) -> list[str]:
    """Return a Kafka node's settings."""
    address = {"broker": cluster.client_address, "controller": cluster.controller_address}[role](node_id)
    return [
        f"process.roles={role}",
        f"node.id={node_id}",
        cluster.static_voters([CONTROLLER]),
        f"listeners={'PLAINTEXT' if role == 'broker' else 'CONTROLLER'}://{address}",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        f"log.dirs={folder / 'data'}",
        *QUICK,
    ]


@pytest.mark.parametrize("controller", ["ours", pytest.param("kafka", marks=pytest.mark.slow)])
def test_brokers_of_both_kinds_copy_from_each_other_and_take_over(controller: str, tmp_path: Path) -> None:
    if reason := peer.missing():
        pytest.skip(reason)
    cluster = LoopbackCluster(tmp_path, QUICK)
    kafkas: list[KafkaNode] = []

    def kafka(node_id: int, role: str) -> KafkaNode:
        home = tmp_path / f"kafka-{node_id}"
        node = KafkaNode.format(node_id, home, settings(cluster, node_id, role, home))
        kafkas.append(node)
        node.start()
        return node

    async def test(_: LoopbackCluster) -> None:
        voters = cluster.static_voters([CONTROLLER])
        cluster.add(OURS, roles="broker", quorum=voters)
        if controller == "ours":
            cluster.add(CONTROLLER, roles="controller", quorum=voters)
        else:
            kafka(CONTROLLER, "controller")
        other = kafka(KAFKA, "broker")
        await cluster.start()
        await cluster.until(lambda: alive(cluster) == {KAFKA, OURS})
        async with Client(cluster.client_address(OURS)) as client:
            await create(client)
            for partition in (LED_BY_KAFKA, LED_BY_US):
                await client.produce({partition: batch(b"a", b"b")})
            await cluster.until(lambda: in_sync(cluster) == {(4, 5)})
            other.kill()
            await cluster.until(lambda: alive(cluster) == {OURS})
            for partition in (LED_BY_KAFKA, LED_BY_US):
                await client.produce({partition: batch(b"c")})
                assert await values(client, partition) == 3
            other.start()
            await cluster.until(lambda: alive(cluster) == {KAFKA, OURS})
            await cluster.until(lambda: {tuple(sorted(each)) for each in in_sync(cluster)} == {(4, 5)})

    try:
        cluster.run(test, 150)
    finally:
        for each in kafkas:
            each.kill()


def alive(cluster: LoopbackCluster) -> set[int]:
    return {int(each.id) for each in cluster.quorum(OURS).image.brokers.values() if not each.fenced}


def in_sync(cluster: LoopbackCluster) -> set[tuple[int, ...]]:
    image = cluster.quorum(OURS).image
    found = (image.partition(each.topic, each.partition) for each in (LED_BY_KAFKA, LED_BY_US))
    return {tuple(sorted(each.isr)) for each in found if each is not None}


async def create(client: Client) -> None:
    """Make the topic, one partition led by each."""
    assignments = [
        CreatableReplicaAssignment(partition_index=0, broker_ids=[KAFKA, OURS]),
        CreatableReplicaAssignment(partition_index=1, broker_ids=[OURS, KAFKA]),
    ]
    topic = CreatableTopic(name="shared", num_partitions=-1, replication_factor=-1, assignments=assignments)
    answer = await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), node=NodeId(OURS))
    assert answer.topics[0].error_code == 0, answer


async def values(client: Client, partition: TopicPartition) -> int:
    """Return how far a partition can be read."""
    for _ in range(200):
        [found] = await client.fetch([FetchPosition(partition, 0)], max_wait_ms=100)  # type: ignore[arg-type]
        found.check()
        if found.high_watermark >= 3:
            break
        await asyncio.sleep(0.05)
    return int(found.high_watermark)
