"""A leader that no controller has heard for long: it stops answering before another can have begun to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.base import ErrorCode
from ottla.broker.tenure import Tenure
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.followers import FakeFollower, create_replicated
from tests.broker.node_client import NodeClient, batch, run, running_node


def unheard(node: Any) -> None:
    """Let it be long ago that a controller answered a heartbeat, and none answer any more."""
    node._tenure.renew = lambda sent_s: None
    node._tenure._until_s = node._loop.time() - 3600


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
            for held in node._partitions:
                for copy in held.replica._copies.values():
                    copy.fetched_s -= 3600
            assert (await latest(client, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await client.fetch("t", 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await client.fetch("t", 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await client.produce("t", batch(b"y"), acks=1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await latest(client, "alone")).error_code == 0
            assert (await follower.fetch("t", 1)).error_code == 0  # who follows here has heard of no other leader
            assert (await latest(client, "t")).offset == 1
            follower.client.close()

    run(test)


def test_a_heartbeat_that_is_answered_lets_the_leader_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            node: Any = client.node
            renew = node._tenure.renew
            unheard(node)
            assert (await latest(client, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            renew(node._loop.time())
            renew(node._loop.time() - 1800)
            assert (await latest(client, "t")).error_code == 0
            follower.client.close()

    run(test)


def test_after_a_pause_a_heartbeat_is_not_enough_where_the_metadata_may_be_old() -> None:
    class Loop:
        now = 100.0

        def time(self) -> float:
            return self.now

    loop, informed = Loop(), [100.0]
    tenure = Tenure(loop, lambda: 9.0, lambda: informed[0])  # type: ignore[arg-type]
    tenure.renew(100.0)
    assert tenure.lasts
    loop.now = 120.0
    assert not tenure.lasts
    tenure.renew(120.0)
    assert not tenure.lasts
    informed[0] = 120.0
    assert tenure.lasts
