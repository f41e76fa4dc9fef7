"""Replicas of a cluster of three nodes: writes while copies are missing, ISRs, reassignments under load, elections."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from ottla.base import ErrorCode, KafkaError, NodeId, Offset, TopicPartition
from ottla.client import Client, FetchPosition, Limits
from ottla.wire import iter_batches, iter_records
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.node_client import batch, parts
from tests.cluster.nodes import SimCluster
from tests.cluster.test_lives import active, create, partition
from tests.sim.client import Connection

T0 = TopicPartition("t", 0)
QUICK_LAG = ("replica.lag.time.max.ms=3000",)
PATIENT = Limits(request_s=30.0, call_s=60.0, backoff_s=0.05, backoff_max_s=0.2)


def client_of(cluster: SimCluster, limits: Limits = PATIENT) -> Client:
    bootstrap = ",".join(cluster.client_address(each) for each in cluster.hosts)
    return Client(bootstrap, limits=limits, network=cluster.fabric.host("client"))


async def started(cluster: SimCluster, *replicas: int) -> Client:
    """Start three nodes with a topic of one partition on these, and return a client."""
    cluster.static(3)
    await cluster.start()
    await cluster.until(lambda: all(active(cluster, each) == {1, 2, 3} for each in cluster.running))
    await create(cluster, 1, "t", list(replicas))
    return client_of(cluster)


async def put(client: Client, *values: bytes, timeout_ms: int = 30_000, **producer: int) -> int:
    (answer,) = await client.produce({T0: batch(*values, **producer)}, timeout_ms=timeout_ms)
    return answer.base_offset


async def read(client: Client) -> list[bytes]:
    """Return every record below the high watermark."""
    found: list[bytes] = []
    while True:
        (fetched,) = await client.fetch([FetchPosition(T0, Offset(len(found)))], max_wait_ms=0)
        assert fetched.error is ErrorCode.NONE, fetched.error
        new = [each.value for each in iter_records(bytes(fetched.records)) if each.offset >= len(found)]
        if not new:
            return found
        found += [each or b"" for each in new]


async def reassign(client: Client, replicas: list[int] | None) -> int:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        topics=[ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])],
    )
    answer = await client.request(request)
    assert answer.error_code == 0
    return int(answer.responses[0].partitions[0].error_code)


def isr(cluster: SimCluster, by: int) -> set[int]:
    return set(partition(cluster, by).isr)


def test_writes_with_acks_all_go_on_while_a_follower_is_gone_and_it_comes_back_with_everything() -> None:
    async def test(cluster: SimCluster) -> None:
        client = await started(cluster, 1, 2, 3)
        assert await put(client, b"a") == 0
        cluster.kill(3)
        assert await put(client, b"b") == 1
        await cluster.until(lambda: isr(cluster, 1) == {1, 2})
        await cluster.start(3)
        await cluster.until(lambda: isr(cluster, 1) == {1, 2, 3})
        assert await put(client, b"c") == 2
        held: Any = parts(cluster.node(3)).partitions.get("t", 0)
        await cluster.until(lambda: held.replica.high_watermark == 3)
        assert await read(client) == [b"a", b"b", b"c"]
        await client.close()

    SimCluster(11).run(test)


def test_a_follower_that_cannot_reach_its_leader_leaves_the_isr_and_returns() -> None:
    async def test(cluster: SimCluster) -> None:
        client = await started(cluster, 1, 2, 3)
        controller = await cluster.led()
        leader, cut = (each for each in (1, 2, 3) if each != controller)
        await reassign(client, [leader, controller, cut])
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
        assert (await client.request(request)).error_code == 0
        await cluster.until(lambda: partition(cluster, leader).leader == leader)
        cluster.fabric.block(f"n{leader}", f"n{cut}")
        cluster.fabric.block(f"n{cut}", f"n{leader}")
        assert await put(client, b"a") == 0
        await cluster.until(lambda: isr(cluster, leader) == {leader, controller})
        assert active(cluster, leader) == {1, 2, 3}, "the controller hears it all the time"
        services: Any = parts(cluster.node(leader))
        shrinks = services.metrics.counter("ReplicaManager.IsrShrinksPerSec")
        await cluster.until(lambda: shrinks.value == 1)
        cluster.fabric.heal(f"n{leader}", f"n{cut}")
        cluster.fabric.heal(f"n{cut}", f"n{leader}")
        await cluster.until(lambda: isr(cluster, leader) == {1, 2, 3})
        await client.close()

    SimCluster(12, QUICK_LAG).run(test)


def test_replicas_move_under_load_without_a_record_lost_doubled_or_reordered() -> None:
    async def test(cluster: SimCluster) -> None:
        client = await started(cluster, 1, 2)
        written: list[bytes] = []
        done = False

        async def load() -> None:
            while not done:
                value = b"%d" % len(written)
                number = len(written)
                assert await put(client, value, producer_id=7, producer_epoch=0, base_sequence=number) == number
                written.append(value)

        loading = asyncio.ensure_future(load())
        await cluster.until(lambda: len(written) > 20)
        admin = client_of(cluster)
        assert await reassign(admin, [2, 3]) == 0
        await cluster.until(lambda: partition(cluster, 2).replicas == (2, 3))
        before = len(written)
        await cluster.until(lambda: len(written) > before + 20)
        done = True
        await loading
        state = partition(cluster, 2)
        assert (set(state.isr), state.leader, state.adding_replicas, state.removing_replicas) == ({2, 3}, 2, (), ())
        await cluster.until(lambda: parts(cluster.node(1)).partitions.get("t", 0) is None)
        assert (await admin.request(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None))).topics == []
        assert await read(client) == written
        await client.close()
        await admin.close()

    SimCluster(13).run(test)


def test_a_reassignment_that_cannot_end_is_listed_and_cancelled() -> None:
    async def test(cluster: SimCluster) -> None:
        client = await started(cluster, 1, 2)
        assert await put(client, b"a") == 0
        cluster.kill(3)
        await cluster.until(lambda: active(cluster, 1) == {1, 2})
        assert await reassign(client, [1, 3]) == 0
        asked = ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None)
        (topic,) = (await client.request(asked)).topics
        (moving,) = topic.partitions
        assert (list(moving.adding_replicas), list(moving.removing_replicas)) == ([3], [2])
        assert await put(client, b"b") == 1
        assert await reassign(client, None) == 0
        await cluster.until(lambda: partition(cluster, 1).replicas == (1, 2))
        assert await reassign(client, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert await put(client, b"c") == 2
        assert await read(client) == [b"a", b"b", b"c"]
        await client.close()

    SimCluster(14).run(test)


def test_the_preferred_replica_leads_again_when_it_is_asked_for() -> None:
    async def test(cluster: SimCluster) -> None:
        client = await started(cluster, 1, 2, 3)
        assert await put(client, b"a") == 0
        cluster.kill(1)
        await cluster.until(lambda: partition(cluster, 2).leader not in (1, -1))
        asked = ElectLeadersRequest(
            election_type=0, topic_partitions=[TopicPartitions(topic="t", partitions=[0])], timeout_ms=10_000
        )
        answer = await client.request(asked)
        (result,) = answer.replica_election_results[0].partition_result
        assert result.error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert await put(client, b"b") == 1
        await cluster.start(1)
        await cluster.until(lambda: isr(cluster, 2) == {1, 2, 3})
        answer = await client.request(asked)
        (result,) = answer.replica_election_results[0].partition_result
        assert result.error_code == 0
        await cluster.until(lambda: partition(cluster, 2).leader == 1)
        assert await put(client, b"c") == 2
        assert await read(client) == [b"a", b"b", b"c"]
        await client.close()

    SimCluster(15).run(test)


def test_a_leader_cut_off_acknowledges_nothing_and_drops_what_it_took_alone() -> None:
    async def test(cluster: SimCluster) -> None:
        client = await started(cluster, 1, 2, 3)
        assert await put(client, b"a") == 0
        leader = partition(cluster, 1).leader
        cluster.isolate(leader)
        alone = Client(
            cluster.client_address(leader),
            limits=Limits(request_s=5.0, call_s=5.0),
            network=cluster.fabric.host("stray"),
        )
        try:
            await put(alone, b"lost", timeout_ms=3000)
            raise AssertionError("a leader without followers has acknowledged acks=all")
        except KafkaError:
            pass
        other = next(each for each in (1, 2, 3) if each != leader)
        await cluster.until(lambda: partition(cluster, other).leader not in (leader, -1))
        assert await put(client, b"b") == 1
        cluster.heal(leader)
        await cluster.until(lambda: isr(cluster, other) == {1, 2, 3})
        assert await put(client, b"c") == 2
        assert await read(client) == [b"a", b"b", b"c"]
        held: Any = parts(cluster.node(leader)).partitions.get("t", 0)
        await cluster.until(lambda: held.log.log_end_offset == 3)
        await client.close()
        await alone.close()

    SimCluster(16).run(test)


def test_a_dead_copy_is_replaced_by_another() -> None:
    async def test(cluster: SimCluster) -> None:
        client = await started(cluster, 1, 2)
        assert await put(client, b"a") == 0
        cluster.kill(2)
        await cluster.until(lambda: isr(cluster, 3) == {1})
        assert await put(client, b"b") == 1
        await reassign(client, [1])  # what 2 has is of no use any more, and 3 never had any
        await reassign(client, [1, 3])
        await cluster.until(lambda: isr(cluster, 3) == {1, 3})
        assert NodeId(2) not in partition(cluster, 3).replicas
        await client.close()

    SimCluster(17).run(test)


async def burst(connection: Connection, topic_id: bytes, count: int) -> list[Any]:
    """Produce several batches by one write, and return the partition's answers."""
    data = PartitionProduceData(index=0, records=batch(b"x"))
    topic = TopicProduceData(name="t", topic_id=topic_id, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
    connection.cork()
    sent = [connection.send(request, 13) for _ in range(count)]
    connection.uncork()
    answers = [await connection.receive(ProduceResponse, each, 0, 13) for each in sent]
    return [each.responses[0].partition_responses[0] for each in answers]


def test_requests_that_begin_alike_are_refused_once_their_partition_has_moved_and_come_back_in_a_new_epoch() -> None:
    async def test(cluster: SimCluster) -> None:
        admin = await started(cluster, 1)
        host, _, port = cluster.client_address(1).partition(":")
        first: Any = parts(cluster.node(1)).partitions.get("t", 0)
        topic_id = bytes(first.topic_id)
        connection = await Connection.open(cluster.fabric.host("client"), host, int(port), Random(1))
        end = 0
        for expected in (3, 8):
            assert [each.base_offset for each in await burst(connection, topic_id, expected)] == list(
                range(end, end + expected)
            )
            end += expected
        assert await reassign(admin, [2]) == 0
        await cluster.until(lambda: partition(cluster, 1).replicas == (2,))
        moved = await burst(connection, topic_id, 4)
        assert {each.error_code for each in moved} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert await reassign(admin, [1]) == 0
        await cluster.until(lambda: partition(cluster, 1).replicas == (1,))
        held: Any = await cluster.until(lambda: parts(cluster.node(1)).partitions.get("t", 0))
        await cluster.until(lambda: held.replica.is_leader)
        for count in (2, 6):
            assert [each.base_offset for each in await burst(connection, topic_id, count)] == list(
                range(end, end + count)
            )
            end += count
        stored = b"".join(each.file.pread(0, each.size) for each in held.log.segments)
        epochs = [header.partition_leader_epoch for header, _ in iter_batches(stored)]
        assert epochs == [epochs[0]] * 11 + [held.replica.leader_epoch] * 8 and epochs[0] < epochs[-1]
        connection.close()
        await admin.close()

    SimCluster(15).run(test)
