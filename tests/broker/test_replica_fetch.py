"""The leader's half of replication: what a follower gets, what its requests say of it, and whom that wakes."""

from __future__ import annotations

from pathlib import Path

from ottla.base import ErrorCode
from ottla.wire import iter_records
from tests.broker.followers import FakeFollower, create_replicated
from tests.broker.node_client import NodeClient, batch, parts, run, running_node


def values(answer: object) -> list[bytes]:
    return [each.value for each in iter_records(answer.records)]  # type: ignore[attr-defined]


def test_a_write_with_acks_all_waits_for_the_follower_and_consumers_see_it_only_then(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            request = client.produce_request("t", batch(b"a"))
            client.send(request, 13)
            answer = await follower.fetch("t", 0, max_wait_ms=10_000)
            assert values(answer) == [b"a"] and answer.high_watermark == 0
            other = await NodeClient.connect(client.node)
            other.topic_ids = client.topic_ids
            seen = await other.fetch("t", 0)
            assert seen.records_size == 0 if hasattr(seen, "records_size") else not seen.records
            assert (await follower.fetch("t", 1)).high_watermark == 1
            produced = (await client.receive(request, 13)).responses[0].partition_responses[0]
            assert (produced.error_code, produced.base_offset) == (0, 0)
            assert values(await other.fetch("t", 0)) == [b"a"]

    run(test)


def test_a_consumer_that_waits_is_woken_by_the_high_watermark(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            consumer = await NodeClient.connect(client.node)
            consumer.topic_ids = client.topic_ids
            sent = batch(b"x" * 500)
            waiting = consumer.fetch_request("t", 0, max_wait_ms=20_000, min_bytes=len(sent))
            consumer.send(waiting, 18)
            assert (await client.produce("t", sent, acks=1)).error_code == 0
            await follower.fetch("t", 0)
            await follower.fetch("t", 1)
            answer = (await consumer.receive(waiting, 18)).responses[0].partitions[0]
            assert values(answer) == [b"x" * 500]

    run(test, seconds=10)


def test_a_waiting_follower_is_woken_by_an_append_and_told_of_the_high_watermark(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            one = await FakeFollower.register(client.node, 2)
            two = await FakeFollower.register(client.node, 3)
            await create_replicated(client, "t", 1, 2, 3)
            await client.produce("t", batch(b"a"), acks=1)
            assert values(await one.fetch("t", 0)) == [b"a"]
            waiting = await one.send_fetch("t", 1, max_wait_ms=20_000, high_watermark=0)
            await two.fetch("t", 0)
            await two.fetch("t", 1)  # now both have it
            told = (await one.client.receive(waiting, 18)).responses[0].partitions[0]
            assert told.high_watermark == 1 and not told.records
            waiting = await one.send_fetch("t", 1, max_wait_ms=20_000, high_watermark=1)
            await client.produce("t", batch(b"b"), acks=1)
            assert values((await one.client.receive(waiting, 18)).responses[0].partitions[0]) == [b"b"]

    run(test, seconds=10)


def test_a_follower_is_fenced_by_epochs_and_by_not_being_a_replica(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            stranger = await FakeFollower.register(client.node, 3)
            await create_replicated(client, "t", 1, 2)
            await client.produce("t", batch(b"a"), acks=1)
            assert (await follower.fetch("t", 0, leader_epoch=7)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert (await stranger.fetch("t", 0)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert (await stranger.fetch("t", 0, leader_epoch=-1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            ghost = await follower.fetch("t", 1, epoch=follower.epoch - 1)
            assert ghost.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            held = parts(client.node).partitions.get("t", 0)
            assert held.replica.high_watermark == 0, "a ghost's words count for nothing"
            assert (await follower.fetch("t", 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert held.replica.high_watermark == 0

    run(test)


def test_a_follower_that_has_parted_is_told_where_and_counts_for_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            for value in (b"a", b"b"):
                await client.produce("t", batch(value), acks=1)
            answer = await follower.fetch("t", 5, last_fetched_epoch=0)
            assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 2)
            assert parts(client.node).partitions.get("t", 0).replica.high_watermark == 0
            assert values(await follower.fetch("t", 1, last_fetched_epoch=0)) == [b"b"]

    run(test)


def test_a_fetch_that_waits_when_its_follower_is_fenced_takes_it_back_into_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            await follower.send_fetch("t", 0, max_wait_ms=30_000)
            await client.topic_id("t")
            await follower.beat(fence=True)
            other = await NodeClient.connect(client.node)
            assert (await client.produce("t", batch(b"x"))).error_code == 0  # it wakes the fetch
            assert (
                await client.produce("t", batch(b"y"))
            ).error_code == 0  # which the high watermark must not wait for
            other.close()
            follower.client.close()

    run(test)
