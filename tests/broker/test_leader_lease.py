"""A leader that no controller has heard for long: it stops answering before another can have begun to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottla.base import ErrorCode, NodeId
from ottla.broker.replicas.leader_lease import LeaderLease
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest
from tests.broker.followers import FakeFollower, create_replicated, image_of
from tests.broker.node_client import NodeClient, batch, parts, run, running_node
from tests.broker.test_idle_partitions import SessionFollower, idle_follower, session_of


def unheard(node: Any) -> None:
    """Let it be long ago that a controller answered a heartbeat, and none answer any more."""
    parts(node).lease.renew = lambda sent_s: None
    parts(node).lease._until_s = parts(node).loop.time() - 3600


async def latest(client: NodeClient, topic: str) -> Any:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])], timeout_ms=1000
    )
    return (await client.ask(request, 10)).topics[0].partitions[0]


def test_a_leader_that_may_have_been_replaced_answers_nobody_but_its_followers(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("alone")
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            assert (await client.produce("t", batch(b"x"), acks=1)).error_code == 0
            await follower.fetch("t", 1)
            assert (await latest(client, "t")).offset == 1
            node: Any = client.node
            unheard(node)
            assert (await latest(client, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await client.fetch("t", 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await client.fetch("t", 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await client.produce("t", batch(b"y"), acks=1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await latest(client, "alone")).error_code == 0
            assert (await follower.fetch("t", 1)).error_code == 0
            assert (await latest(client, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "it was sent before"
            follower.client.close()

    run(test)


@asynccontextmanager
async def following(client: NodeClient) -> AsyncIterator[SessionFollower]:
    """Create the topic t with one record, and let its follower fetch on and on."""
    follower = await idle_follower(client, "t")

    async def fetch_on() -> None:
        while True:
            await follower.fetch(max_wait_ms=500)

    fetching = asyncio.create_task(fetch_on())
    try:
        yield follower
    finally:
        fetching.cancel()
        follower.client.close()


def test_while_no_controller_is_heard_the_copies_are_asked_before_each_answer(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client, following(client):
            node: Any = client.node
            unheard(node)
            confirmation = parts(node).confirmation
            for rounds in (1, 2):
                assert (await latest(client, "t")).offset == 1
                assert confirmation.rounds == rounds
            assert (await client.fetch("t", 0)).error_code == 0
            waited = await client.fetch("t", 1, max_wait_ms=50)
            assert waited.error_code == 0, "a fetch that waited asks again before it answers"
            replica = parts(node).partitions.get("t", 0).replica
            assert not parts(node).lease.covers(replica), "what was confirmed holds for that request alone"

    run(test)


def test_a_fetch_that_was_on_its_way_confirms_nothing(tmp_path: Path) -> None:
    """A leader that was paused finds its followers' old fetches in its sockets, though they follow another by now."""

    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await idle_follower(client, "t")
            node: Any = client.node
            unheard(node)
            await follower.send({}, max_wait_ms=20_000)
            while session_of(client, follower).waiting is None:
                await client.ask(MetadataRequest(topics=[]), 12)
            assert (await latest(client, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            follower.client.close()

    run(test)


def test_requests_that_come_while_the_copies_are_asked_share_the_next_question(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client, following(client):
            node: Any = client.node
            unheard(node)
            clients = [await NodeClient.connect(node) for _ in range(20)]
            answers = await asyncio.gather(*(latest(each, "t") for each in clients))
            assert [each.offset for each in answers] == [1] * 20
            assert parts(node).confirmation.rounds <= 3
            for each in clients:
                each.close()

    run(test)


def test_a_broker_that_asks_to_leave_trusts_no_lease(tmp_path: Path) -> None:
    """Others may lead as soon as the controller has read that heartbeat."""

    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            node: Any = client.node
            assert (await latest(client, "t")).error_code == 0
            parts(node).lease.end()
            parts(node).lease.renew(parts(node).loop.time())
            assert (await latest(client, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            follower.client.close()

    run(test)


def test_a_leader_whose_copy_is_being_moved_away_asks_the_others(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            await create_replicated(client, "u", 1, 2)
            node: Any = client.node
            topic = image_of(node).topics["t"]
            parts(node).partitions._follow(topic, 0, replace(topic.partitions[0], removing_replicas=(NodeId(1),)))
            assert (await latest(client, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await latest(client, "u")).error_code == 0
            parts(node).partitions._follow(topic, 0, topic.partitions[0])
            assert (await latest(client, "t")).error_code == 0 and parts(node).lease.is_sure
            follower.client.close()

    run(test)


def test_reads_may_be_as_kafkas(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "ottla.strict.reads=false") as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            unheard(client.node)
            assert (await latest(client, "t")).error_code == 0
            assert (await client.produce("t", batch(b"y"), acks=1)).error_code == 0
            follower.client.close()

    run(test)


def test_a_heartbeat_that_is_answered_lets_the_leader_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            node: Any = client.node
            renew = parts(node).lease.renew
            unheard(node)
            assert (await latest(client, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            renew(parts(node).loop.time())
            renew(parts(node).loop.time() - 1800)
            assert (await latest(client, "t")).error_code == 0
            follower.client.close()

    run(test)


def test_after_a_pause_a_heartbeat_is_not_enough_where_the_metadata_may_be_old() -> None:
    class Loop:
        now = 100.0

        def time(self) -> float:
            return self.now

    loop, informed = Loop(), [100.0]
    lease = LeaderLease(loop, lambda: 9.0, lambda: informed[0])  # type: ignore[arg-type]
    lease.renew(100.0)
    assert lease.lasts
    loop.now = 120.0
    assert not lease.lasts
    lease.renew(120.0)
    assert not lease.lasts
    informed[0] = 120.0
    assert lease.lasts
