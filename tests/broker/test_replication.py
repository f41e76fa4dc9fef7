"""A follower's fetchers against a leader in this process: what it gets, where it cuts, what it does about errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import Millis, Offset, StorageError
from ottla.metadata import ResourceType
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.follower import (
    Follower,
    add_replica,
    configure,
    create_followed,
    everything,
    lead,
    leader_and_follower,
)
from tests.broker.node_client import NOW_MS, NodeClient, batch, parts, run
from tests.waiting import until_async


def alike(client: NodeClient, follower: Follower, topic: str, index: int = 0) -> bool:
    """True where both logs have the same bytes."""
    held = parts(client.node).partitions.get(topic, index)
    assert held is not None
    return everything(held.log) == everything(follower.held(topic, index).log)


def test_what_the_leader_appends_is_committed_once_the_follower_has_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, "t", (1, 2))
            for at in range(20):
                answer = await client.produce(
                    "t", batch(b"v%d" % at, producer_id=9, producer_epoch=0, base_sequence=at)
                )
                assert answer.error_code == 0
                assert follower.held("t").log.log_end_offset == at + 1
            assert alike(client, follower, "t")
            await until_async(lambda: follower.held("t").replica.high_watermark == 20)
            assert follower.held("t").log.producers.entries[9].last_sequence == 19
            assert follower.replication.meters.bytes_in == follower.held("t").log.size

    run(test)


def test_many_partitions_are_followed_over_few_connections(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path, "num.replica.fetchers=2") as (client, follower):
            await create_followed(client.node, "t", *[(1, 2)] * 60)
            for index in range(0, 60, 7):
                assert (await client.produce("t", batch(b"v"), index=index)).error_code == 0
            assert all(alike(client, follower, "t", index) for index in range(60))
            assert len(follower.replication.fetchers) == 2

    run(test)


def test_a_follower_cuts_what_its_leader_does_not_have(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, "t", (1, 2))
            await client.produce("t", batch(b"both"))
            await lead(client.node, "t", 2)
            held = follower.held("t")
            await until_async(lambda: held.replica.is_leader)
            for at in range(5):
                held.append_from_client(bytearray(batch(b"only here %d" % at)), acks=1, now_ms=Millis(NOW_MS))  # type: ignore[arg-type]
            await lead(client.node, "t", 1)
            assert (await client.produce("t", batch(b"the other"), acks=1)).error_code == 0
            await until_async(lambda: alike(client, follower, "t"))
            assert [each.epoch for each in held.log.leader_epochs.starts] == [0, 2]
            assert not held.stores_truncation
            assert (await client.produce("t", batch(b"and on"))).error_code == 0

    run(test)


def test_a_follower_that_was_away_too_long_begins_where_the_leaders_log_does(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, "t", (1,))
            for at in range(10):
                await client.produce("t", batch(b"v%d" % at, b"w"))
            leader = parts(client.node).partitions.get("t", 0)
            assert leader is not None
            leader.log.delete_records_before(Offset(13))
            await add_replica(client.node, "t", 1, 2)
            held = follower.held("t")
            await until_async(lambda: held.log.log_end_offset == 20)
            assert held.log.log_start_offset == 13
            assert held.replica.high_watermark == 20

    run(test)


def test_a_follower_follows_its_leaders_log_start(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, "t", (1, 2))
            await client.produce("t", batch(b"a", b"b", b"c"))
            leader = parts(client.node).partitions.get("t", 0)
            assert leader is not None
            leader.log.delete_records_before(Offset(2))
            await until_async(lambda: follower.held("t").log.log_start_offset == 2)

    run(test)


def test_a_topic_made_again_is_followed_from_its_beginning(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, "t", (1, 2))
            await client.produce("t", batch(b"old"))
            answer = await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000))
            assert answer.responses[0].error_code == 0
            assert len(follower.replication) == 0
            await create_followed(client.node, "t", (1, 2))
            client.topic_ids.clear()
            assert (await client.produce("t", batch(b"new", b"newer"))).error_code == 0
            assert alike(client, follower, "t")

    run(test)


def test_a_topic_that_asks_for_flushes_is_flushed_before_the_leader_counts_on_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, "t", (1, 2), flush_messages="1")
            for at in range(3):
                assert (await client.produce("t", batch(b"%d" % at))).error_code == 0
                assert follower.held("t").log.recovery_point == at + 1

    run(test)


@pytest.mark.parametrize("side", ["follower", "leader"])
def test_a_throttled_replica_is_held_back_until_the_limit_is_raised(tmp_path: Path, side: str) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            node, rate = client.node, f"{side}.replication.throttled.rate"
            broker = "2" if side == "follower" else "1"
            await configure(node, ResourceType.BROKER, broker, rate, "1")
            await create_followed(node, "t", (1,), **{f"{side}_replication_throttled_replicas": f"0:{broker}"})
            for _ in range(5):
                await client.produce("t", batch(b"x" * 500_000))
            await add_replica(node, "t", 1, 2)
            held = follower.held("t")
            throttles = parts(node).throttles.leader if side == "leader" else follower.throttle
            await until_async(lambda: held.log.log_end_offset > 0 and throttles.wait_s() > 0)
            assert held.log.log_end_offset < 5
            await configure(node, ResourceType.BROKER, broker, rate, str((1 << 63) - 1))
            await until_async(lambda: held.log.log_end_offset == 5)

    run(test)


def test_a_replica_without_a_limit_is_not_held_back_beside_one_that_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await configure(client.node, ResourceType.BROKER, "2", "follower.replication.throttled.rate", "1")
            await create_followed(client.node, "slow", (1,), follower_replication_throttled_replicas="*")
            await create_followed(client.node, "quick", (1, 2))
            for _ in range(5):
                await client.produce("slow", batch(b"x" * 500_000))
            await add_replica(client.node, "slow", 1, 2)
            await until_async(lambda: follower.throttle.wait_s() > 0)
            for _ in range(5):
                assert (await client.produce("quick", batch(b"v"))).error_code == 0
            assert follower.held("slow").log.log_end_offset < 5

    run(test)


def test_what_lies_in_a_failed_directory_is_followed_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, "t", (1, 2), (1, 2))
            assert (await client.produce("t", batch(b"v"))).error_code == 0
            follower.partitions.dir_failed(follower.held("t").log_dir, StorageError("the disk is gone"))
            assert len(follower.replication) == 0 and not follower.replication.fetchers

    run(test)
