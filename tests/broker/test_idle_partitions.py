"""Followers' sessions: partitions of which a follower has everything are not looked at until something happens there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.base import ErrorCode
from ottla.metadata import decide
from ottla.wire import iter_records
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tests.broker.followers import FakeFollower, create_replicated
from tests.broker.node_client import NodeClient, batch, parts, run, running_node


class SessionFollower:
    """A follower with a fetch session of partition 0 of some topics."""

    def __init__(self, follower: FakeFollower) -> None:
        self.follower = follower
        self.client: NodeClient = follower.client
        self.id, self.epoch = 0, 0

    async def send(
        self, offsets: dict[str, int], *, max_wait_ms: int = 0, forget: tuple[str, ...] = (), epoch: int | None = None
    ) -> FetchRequest:
        topics = []
        for name, offset in offsets.items():
            wanted = FetchPartition(
                partition=0,
                fetch_offset=offset,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
                current_leader_epoch=0,
            )
            topics.append(FetchTopic(topic_id=await self.client.topic_id(name), partitions=[wanted]))
        forgotten = [ForgottenTopic(topic_id=await self.client.topic_id(name), partitions=[0]) for name in forget]
        broker_epoch = self.follower.epoch if epoch is None else epoch
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.follower.id, replica_epoch=broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        self.client.send(request, 18)
        return request

    async def receive(self, request: FetchRequest) -> dict[str, Any]:
        answer: FetchResponse = await self.client.receive(request, 18)
        assert answer.error_code == 0
        self.id, self.epoch = answer.session_id, self.epoch + 1
        names = {bytes(topic_id): name for name, topic_id in self.client.topic_ids.items()}
        return {names[bytes(topic.topic_id)]: topic.partitions[0] for topic in answer.responses}

    async def fetch(self, offsets: dict[str, int] | None = None, **how: Any) -> dict[str, Any]:
        return await self.receive(await self.send(offsets or {}, **how))


async def idle_follower(client: NodeClient, *topics: str) -> SessionFollower:
    """Return a follower in whose session these topics, one record each, rest."""
    follower = SessionFollower(await FakeFollower.register(client.node, 2))
    for name in topics:
        await create_replicated(client, name, 1, 2)
        await client.produce(name, batch(b"a"), acks=1)
    assert set(await follower.fetch(dict.fromkeys(topics, 0))) == set(topics)
    told = await follower.fetch(dict.fromkeys(topics, 1))
    assert {name: each.high_watermark for name, each in told.items()} == dict.fromkeys(topics, 1)
    assert await follower.fetch() == {}
    assert session_of(client, follower).awake == {}
    return follower


def session_of(client: NodeClient, follower: SessionFollower) -> Any:
    return parts(client.node).sessions._sessions[follower.id]


def test_what_has_nothing_new_rests_and_an_append_wakes_it_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await idle_follower(client, "s", "t")
            waiting = await follower.send({}, max_wait_ms=20_000)
            await client.produce("t", batch(b"b"), acks=1)
            answer = await follower.receive(waiting)
            assert set(answer) == {"t"} and [each.value for each in iter_records(answer["t"].records)] == [b"b"]
            assert {key.topic for key in session_of(client, follower).awake} == {client.topic_ids["t"]}
            await follower.fetch({"t": 2})
            assert await follower.fetch() == {}
            assert session_of(client, follower).awake == {}

    run(test, seconds=15)


def test_while_it_rests_a_follower_counts_as_fetching(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await idle_follower(client, "t")
            replica = parts(client.node).partitions.get("t", 0).replica
            before = replica.confirmed_s()
            await follower.fetch()
            after = replica.confirmed_s()
            assert after > before
            held = parts(client.node).partitions.get("t", 0)
            held.wake_followers()
            assert replica.confirmed_s() == after and replica.in_sync_followers()[0].caught_up_s >= after
            await client.produce("t", batch(b"b"), acks=1)
            assert replica.high_watermark == 1 and replica.lagging(after + 1) == ()
            assert replica.lagging(after + 31) == (2,)

    run(test)


def test_what_a_follower_forgets_counts_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await idle_follower(client, "s", "t")
            replica = parts(client.node).partitions.get("t", 0).replica
            await follower.fetch(forget=("t",))
            after = replica.confirmed_s()
            await follower.fetch()
            assert replica.confirmed_s() == after
            await client.produce("t", batch(b"b"), acks=1)
            assert await follower.fetch() == {}, "it is not in the session any more"

    run(test)


def test_a_change_of_leader_wakes_what_rests(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await idle_follower(client, "s", "t")
            waiting = await follower.send({}, max_wait_ms=20_000)
            await client.node.quorum.submit(lambda image: decide.fence_broker(image, 1))
            answer = await follower.receive(waiting)
            assert {each.error_code for each in answer.values()} == {ErrorCode.FENCED_LEADER_EPOCH}

    run(test, seconds=15)


def test_a_new_broker_epoch_wakes_what_rests(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await idle_follower(client, "t")
            copy = parts(client.node).partitions.get("t", 0).replica._followers[2]
            await follower.fetch(epoch=follower.follower.epoch + 7)
            assert copy.broker_epoch == follower.follower.epoch + 7

    run(test)


def test_closing_a_session_lets_nothing_rest(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await idle_follower(client, "t")
            parts(client.node).sessions.close(follower.id)
            held = parts(client.node).partitions.get("t", 0)
            assert held._parked == [] and held.replica._followers[2].last_fetch is None

    run(test)
