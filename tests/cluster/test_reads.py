"""Who may be read from when nodes are gone, cut off, or go: clusters in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.broker.node_client import parts
from tests.cluster.nodes import SimCluster
from tests.cluster.test_lives import create, followers, partition

STRICT, AS_KAFKA = "true", "false"


async def survivor_of(cluster: SimCluster, *, is_controller: bool = False) -> tuple[int, list[int]]:
    """Let a node lead a partition with copies everywhere, one that does not lead the quorum unless that is wanted.

    Returns it and the others.
    """
    cluster.static(3)
    await cluster.start()
    controller = await cluster.led()
    survivor = controller if is_controller else followers(cluster, controller)[0]
    others = followers(cluster, survivor)
    await create(cluster, survivor, "t", [survivor, *others])
    await cluster.until(lambda: parts(cluster.node(survivor)).partitions.get("t", 0))
    return survivor, others


def answers(cluster: SimCluster, node_id: int) -> bool:
    """Return whether a node answers who reads from its partition, as far as its lease goes."""
    node: Any = cluster.node(node_id)
    return bool(parts(node).lease.covers(parts(node).partitions.get("t", 0).replica))


def test_a_survivor_goes_on_while_no_controller_can_be_in_office() -> None:
    async def test(cluster: SimCluster) -> None:
        survivor, others = await survivor_of(cluster)
        for each in others:
            cluster.kill(each)
        for _ in range(60):
            await asyncio.sleep(1.0)
            assert answers(cluster, survivor)
        await cluster.start(*others)
        await cluster.until(lambda: partition(cluster, survivor).leader == survivor)

    SimCluster(21).run(test)


@pytest.mark.parametrize("since_heartbeat_s", [0.1, 1.0, 1.9])
def test_the_controller_goes_on_when_the_others_are_killed(since_heartbeat_s: float) -> None:
    """It cannot commit that they are gone, and so answers no heartbeats from then on, not even its own."""

    async def test(cluster: SimCluster) -> None:
        survivor, others = await survivor_of(cluster, is_controller=True)
        lease: Any = parts(cluster.node(survivor)).lease
        before = lease._until_s
        await cluster.until(lambda: lease._until_s > before)
        await asyncio.sleep(since_heartbeat_s)
        for each in others:
            cluster.kill(each)
        for _ in range(200):
            await asyncio.sleep(0.1)
            assert answers(cluster, survivor)

    SimCluster(30).run(test)


@pytest.mark.parametrize("strict", [STRICT, AS_KAFKA])
def test_a_survivor_of_machines_that_are_gone_answers_only_where_that_was_chosen(strict: str) -> None:
    """It cannot know that it is not itself cut off; Kafka's goes on."""

    async def test(cluster: SimCluster) -> None:
        survivor, others = await survivor_of(cluster)
        for each in others:
            cluster.lose_power(each)
        await asyncio.sleep(4.0)
        assert answers(cluster, survivor)
        await asyncio.sleep(3.0)
        assert answers(cluster, survivor) is (strict == AS_KAFKA)

    SimCluster(22, [f"ottla.strict.reads={strict}"]).run(test)


def test_one_voter_that_cannot_be_reached_may_be_in_office() -> None:
    async def test(cluster: SimCluster) -> None:
        survivor, others = await survivor_of(cluster)
        cluster.kill(others[0])
        cluster.lose_power(others[1])
        await asyncio.sleep(7.0)
        assert not answers(cluster, survivor)
        cluster.kill(others[1])
        cluster.give_power(others[1])
        await asyncio.sleep(7.0)
        assert not answers(cluster, survivor), "what was not seen all the time may have come and gone"

    SimCluster(23).run(test)


def test_a_broker_that_leaves_is_no_leader_from_its_first_word_on() -> None:
    async def test(cluster: SimCluster) -> None:
        survivor, _ = await survivor_of(cluster)
        node: Any = cluster.node(survivor)
        assert parts(node).lease.lasts
        leaving = asyncio.ensure_future(cluster.on(survivor, node._life.leave()))
        await cluster.until(lambda: node._life._leaving)
        assert not parts(node).lease.lasts
        assert await leaving

    SimCluster(24).run(test)


def subset_of(others: list[int]) -> AlterPartitionReassignmentsRequest:
    target = ReassignablePartition(partition_index=0, replicas=others)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, topics=[ReassignableTopic(name="t", partitions=[target])]
    )


def preferred() -> ElectLeadersRequest:
    return ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)


async def ask(cluster: SimCluster, through: int, request: Any) -> Any:
    """Ask the controller through one node, and return its answer."""
    services = parts(cluster.node(through))
    return await cluster.on(through, services.controller.ask(request))


@pytest.mark.parametrize("taken_by", ["reassignment", "unregistration", "election and reassignment"])
def test_no_copy_is_taken_from_a_leader_that_is_cut_off_and_still_answers(taken_by: str) -> None:
    async def test(cluster: SimCluster) -> None:
        survivor, others = await survivor_of(cluster)
        controller = await cluster.led()
        if taken_by.startswith("election"):  # another is preferred, and leads while this one does not hear of it
            await ask(cluster, controller, subset_of([*others, survivor]))
            await cluster.until(lambda: partition(cluster, survivor).replicas[0] == others[0])
            assert partition(cluster, controller).leader == survivor
        cluster.isolate(survivor)
        if taken_by.startswith("election"):
            await ask(cluster, controller, preferred())
            assert partition(cluster, controller).leader == others[0]
        gone = UnregisterBrokerRequest(broker_id=survivor) if taken_by == "unregistration" else subset_of(others)
        asking = asyncio.ensure_future(ask(cluster, controller, gone))
        looks = 0
        while survivor in partition(cluster, controller).isr:
            looks += answers(cluster, survivor)
            await asyncio.sleep(0.05)
        assert looks > 20, "it did not answer any more, so nothing was shown"
        assert not answers(cluster, survivor)
        answer = await asking
        assert not getattr(answer, "error_code", 0)
        assert partition(cluster, controller).leader in others

    SimCluster(26).run(test)


def test_taking_the_copy_of_a_leader_that_is_heard_takes_a_moment() -> None:
    async def test(cluster: SimCluster) -> None:
        survivor, others = await survivor_of(cluster)
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await ask(cluster, survivor, subset_of(others))
        assert answer.responses[0].partitions[0].error_code == 0
        assert partition(cluster, await cluster.led()).replicas == tuple(others)
        assert loop.time() - began < 0.5

    SimCluster(27).run(test)


def test_a_request_about_many_partitions_waits_for_those_only_whose_broker_is_cut_off() -> None:
    async def test(cluster: SimCluster) -> None:
        survivor, others = await survivor_of(cluster)
        controller = await cluster.led()
        await create(cluster, controller, "u", others)
        cluster.isolate(survivor)
        both = [
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
            for name, replicas in (("t", others), ("u", others[::-1]))
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=both)
        asking = asyncio.ensure_future(ask(cluster, controller, request))
        await cluster.until(lambda: partition(cluster, controller, "u").replicas == tuple(others[::-1]), 2.0)
        assert survivor in partition(cluster, controller).isr and answers(cluster, survivor)
        answer = await asking
        assert [(each.name, each.partitions[0].error_code) for each in answer.responses] == [("t", 0), ("u", 0)]
        assert partition(cluster, controller).replicas == tuple(others)

    SimCluster(28).run(test)


def test_a_leader_whose_reassignment_waits_goes_on_with_its_other_partitions() -> None:
    """It asks the controller about all of them in one request at a time."""

    async def test(cluster: SimCluster) -> None:
        cluster.static(5)
        await cluster.start()
        controller = await cluster.led()
        leader, away, joining, _ = followers(cluster, controller)
        await create(cluster, controller, "t", [leader, away])
        await create(cluster, controller, "u", [leader])
        await cluster.until(lambda: len(partition(cluster, leader).isr) == 2)
        cluster.isolate(away)
        await ask(cluster, controller, moved("t", [leader, joining]))
        for _ in range(20):
            await asyncio.sleep(0.1)  # the new copy is in sync by then, but for the controller's word
        assert partition(cluster, controller).replicas == (leader, joining, away)
        await ask(cluster, controller, moved("u", [leader, joining]))
        await cluster.until(lambda: partition(cluster, controller, "u").isr == (leader, joining), 2.0)
        assert away in partition(cluster, controller).isr
        await cluster.until(lambda: partition(cluster, controller).replicas == (leader, joining))

    SimCluster(29).run(test)


def moved(topic: str, replicas: list[int]) -> AlterPartitionReassignmentsRequest:
    target = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, topics=[ReassignableTopic(name=topic, partitions=[target])]
    )
