"""DeleteRecords where there are other copies: answered when they have deleted too."""

from __future__ import annotations

from pathlib import Path

from ottla.base import ErrorCode
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.broker.followers import FakeFollower, create_replicated
from tests.broker.node_client import NodeClient, batch, run, running_node


def deletion(before: int, timeout_ms: int = 20_000) -> DeleteRecordsRequest:
    return deletions(before, timeout_ms=timeout_ms)


def deletions(*before: int, timeout_ms: int = 20_000) -> DeleteRecordsRequest:
    """Name the partition once for each offset."""
    partitions = [DeleteRecordsPartition(partition_index=0, offset=each) for each in before]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=timeout_ms)


async def replicated(client: NodeClient) -> FakeFollower:
    """Create `t` with three records on this broker and on another that has them all."""
    follower = await FakeFollower.register(client.node, 2)
    await create_replicated(client, "t", 1, 2)
    assert (await client.produce("t", batch(b"0", b"1", b"2"), acks=1)).error_code == 0
    await follower.fetch("t", 3)
    return follower


def test_a_deletion_is_answered_when_every_living_copy_has_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await replicated(client)
            client.send(deletion(2), 2)
            fetched = await follower.fetch("t", 3)
            while fetched.log_start_offset < 2:
                fetched = await follower.fetch("t", 3)
            await follower.fetch("t", 3, log_start_offset=2)
            result = (await client.receive(deletion(2), 2)).topics[0].partitions[0]
            assert (result.error_code, result.low_watermark) == (0, 2)
            follower.client.close()

    run(test)


def test_a_partition_that_is_named_twice_is_answered_twice_and_its_follower_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await replicated(client)
            client.send(deletions(1, 2), 2)
            fetched = await follower.fetch("t", 3)
            while fetched.log_start_offset < 2:
                fetched = await follower.fetch("t", 3)
            await follower.fetch("t", 3, log_start_offset=2)
            results = (await client.receive(deletions(1, 2), 2)).topics[0].partitions
            assert [(each.error_code, each.low_watermark) for each in results] == [(0, 2), (0, 2)]
            assert (await follower.fetch("t", 3, log_start_offset=2)).error_code == 0
            follower.client.close()

    run(test)


def test_a_deletion_that_a_copy_does_not_follow_is_told_to_have_taken_too_long(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await replicated(client)
            result = (await client.ask(deletion(2, timeout_ms=10), 2)).topics[0].partitions[0]
            assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
            await follower.beat(fence=True)
            result = (await client.ask(deletion(3), 2)).topics[0].partitions[0]
            assert (result.error_code, result.low_watermark) == (0, 3)
            follower.client.close()

    run(test)
