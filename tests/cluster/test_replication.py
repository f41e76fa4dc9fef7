"""Three copies of a partition, whoever of their brokers dies: nothing that was acknowledged is lost, and they end alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from ottla.base import KafkaError, TopicPartition
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.client import LATEST, Client, FetchPosition, Limits
from ottla.wire import Codec, iter_records
from tests.broker.follower import everything
from tests.broker.node_client import batch, parts
from tests.cluster.nodes import SimCluster
from tests.cluster.test_lives import active, create, partition

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
SETTINGS = ("min.insync.replicas=2", "replica.lag.time.max.ms=5000", "log.segment.bytes=1048576")


def held(cluster: SimCluster, node_id: int, topic: str = "t", index: int = 0) -> LocalPartition:
    found = parts(cluster.node(node_id)).partitions.get(topic, index)
    assert found is not None
    return found


class Writer:
    """Writes batches of one idempotent producer, one after the other, and knows which were acknowledged."""

    def __init__(self, cluster: SimCluster, topic: str = "t") -> None:
        address = ",".join(cluster.client_address(each) for each in cluster.hosts)
        network = cluster.fabric.host("client")
        limits = Limits(connect_s=1.0, request_s=2.0, call_s=30.0, unreachable_s=20.0)
        self.client = Client(address, limits=limits, network=network)
        self.partition = TopicPartition(topic, 0)
        self.sequence = 0
        self.acknowledged: list[bytes] = []
        self.stopping = False

    async def write(self) -> None:
        value = b"%06d" % self.sequence
        data = batch(
            value,
            codec=CODECS[self.sequence % 3],
            producer_id=77,
            producer_epoch=0,
            base_sequence=self.sequence,
        )
        while True:
            try:
                await self.client.produce({self.partition: data}, timeout_ms=2000)
                break
            except KafkaError as error:
                assert error.retriable, error
        self.sequence += 1
        self.acknowledged.append(value)

    async def go_on(self) -> None:
        while not self.stopping:
            await self.write()

    async def read(self) -> list[bytes]:
        """Return every value in the log."""
        ends = await self.client.list_offsets({self.partition: LATEST})
        found: list[bytes] = []
        offset = 0
        while offset < ends[self.partition].offset:
            (answer,) = await self.client.fetch([FetchPosition(self.partition, offset)])
            for record in iter_records(answer.records):
                if record.offset >= offset:
                    found.append(record.value or b"")
                    offset = record.offset + 1
        return found


async def settled(cluster: SimCluster, *nodes: int) -> None:
    """Wait until all are in sync, and have committed and stored the same."""
    await cluster.until(lambda: set(partition(cluster, nodes[0]).isr) == set(nodes))
    await cluster.until(
        lambda: (
            len(
                {(held(cluster, each).log.log_end_offset, held(cluster, each).replica.high_watermark) for each in nodes}
            )
            == 1
        )
    )
    assert len({everything(held(cluster, each).log) for each in nodes}) == 1
    assert len({held(cluster, each).log.leader_epochs.starts for each in nodes}) == 1


def whole(seed: int, disturb: Callable[[SimCluster, Writer, Random], Coroutine[Any, Any, None]]) -> None:
    """Write while something is done to the cluster, then read everything back and compare the copies."""

    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        await cluster.until(lambda: all(active(cluster, each) == {1, 2, 3} for each in cluster.running))
        await create(cluster, 1, "t", [1, 2, 3])
        writer = Writer(cluster)
        writing = asyncio.ensure_future(writer.go_on())
        await cluster.until(lambda: len(writer.acknowledged) > 20)
        await disturb(cluster, writer, Random(seed))
        count = len(writer.acknowledged)
        await cluster.until(lambda: len(writer.acknowledged) > count + 20)
        writer.stopping = True
        await writing
        await settled(cluster, 1, 2, 3)
        assert await writer.read() == writer.acknowledged, f"seed {seed}"
        await writer.client.close()

    SimCluster(seed, SETTINGS).run(test)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_when_leaders_are_killed_and_come_back(seed: int) -> None:
    async def disturb(cluster: SimCluster, writer: Writer, rng: Random) -> None:
        for _ in range(3):
            leader = partition(cluster, cluster.running[0]).leader
            cluster.kill(leader)
            count = len(writer.acknowledged)
            await cluster.until(lambda count=count: len(writer.acknowledged) > count + rng.randrange(30))  # type: ignore[misc]
            await cluster.start(leader)
            await cluster.until(lambda: set(partition(cluster, cluster.running[0]).isr) == {1, 2, 3})

    whole(seed, disturb)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_when_a_host_loses_its_power(seed: int) -> None:
    async def disturb(cluster: SimCluster, writer: Writer, rng: Random) -> None:
        for node_id in rng.sample((1, 2, 3), 3):
            cluster.lose_power(node_id)
            count = len(writer.acknowledged)
            await cluster.until(lambda count=count: len(writer.acknowledged) > count + rng.randrange(30))  # type: ignore[misc]
            cluster.give_power(node_id)
            await cluster.start(node_id)
            await cluster.until(lambda: set(partition(cluster, cluster.running[0]).isr) == {1, 2, 3})

    whole(seed, disturb)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_when_a_leader_is_cut_off_from_the_others(seed: int) -> None:
    async def disturb(cluster: SimCluster, writer: Writer, rng: Random) -> None:
        leader = partition(cluster, 1).leader
        cluster.isolate(leader)
        for one, other in (("client", f"n{leader}"), (f"n{leader}", "client")):
            cluster.fabric.block(one, other)
        others = [each for each in (1, 2, 3) if each != leader]
        await cluster.until(lambda: partition(cluster, others[0]).leader in others)
        count = len(writer.acknowledged)
        await cluster.until(lambda: len(writer.acknowledged) > count + rng.randrange(30))
        cluster.heal(leader)
        for one, other in (("client", f"n{leader}"), (f"n{leader}", "client")):
            cluster.fabric.heal(one, other)
        await cluster.until(lambda: set(partition(cluster, others[0]).isr) == {1, 2, 3})

    whole(seed, disturb)


def test_a_rolling_restart_moves_leaders_and_loses_nothing() -> None:
    async def disturb(cluster: SimCluster, writer: Writer, rng: Random) -> None:
        for node_id in (1, 2, 3):
            await cluster.stop(node_id)
            await cluster.start(node_id)
            await cluster.until(lambda: set(partition(cluster, cluster.running[0]).isr) == {1, 2, 3})

    whole(9, disturb)
