"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch over a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.node_client import NOW_MS, NodeClient, batch, run, running_node


async def offset(client: NodeClient, timestamp: int, *, version: int = 11, topic: str = "t", index: int = 0) -> Any:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)])
        ],
    )
    return (await client.ask(request, version)).topics[0].partitions[0]


async def filled(client: NodeClient) -> None:
    await client.create("t")
    await client.produce("t", batch(b"a", b"b", timestamp=NOW_MS))
    await client.produce("t", batch(b"c", b"d", timestamp=NOW_MS + 1000))
    await client.produce("t", batch(b"late", timestamp=NOW_MS + 500))


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_knows_both_ends_and_times_between(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await filled(client)
            assert (await offset(client, -2, version=version)).offset == 0
            assert (await offset(client, -1, version=version)).offset == 5
            found = await offset(client, NOW_MS + 1, version=version)
            assert (found.offset, found.timestamp) == (1, NOW_MS + 1)
            found = await offset(client, NOW_MS + 2, version=version)
            assert (found.offset, found.timestamp) == (2, NOW_MS + 1000)
            none = await offset(client, NOW_MS + 5000, version=version)
            assert (none.error_code, none.offset, none.timestamp) == (0, -1, -1)

    run(test)


def test_special_times_need_their_versions(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await filled(client)
            latest = await offset(client, -3)
            assert (latest.offset, latest.timestamp) == (3, NOW_MS + 1001)
            assert (await offset(client, -4)).offset == 0
            assert (await offset(client, -5)).offset == -1
            for timestamp, version in ((-3, 6), (-4, 7), (-5, 8)):
                assert (await offset(client, timestamp, version=version)).error_code == ErrorCode.UNSUPPORTED_VERSION
            assert (await offset(client, -7)).error_code == ErrorCode.UNSUPPORTED_VERSION
            assert (await offset(client, -1, index=5)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


async def delete(client: NodeClient, before: int, *, version: int = 2, topic: str = "t") -> Any:
    request = DeleteRecordsRequest(
        timeout_ms=1000,
        topics=[DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=before)])],
    )
    return (await client.ask(request, version)).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(3))
def test_deleted_records_are_gone_and_offsets_stay(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await filled(client)
            answer = await delete(client, 3, version=version)
            assert (answer.error_code, answer.low_watermark) == (0, 3)
            assert (await offset(client, -2)).offset == 3
            assert (await client.fetch("t", 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await client.fetch("t", 3)).log_start_offset == 3
            assert (await delete(client, 99, version=version)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await delete(client, -1, version=version)).low_watermark == 5
            assert (await client.produce("t", batch(b"next"))).base_offset == 5

    run(test)


def test_records_of_a_compacted_topic_are_not_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", cleanup_policy="compact")
            assert (await delete(client, -1)).error_code == ErrorCode.POLICY_VIOLATION

    run(test)


@pytest.mark.parametrize("version", range(2, 5))
def test_an_epoch_ends_where_the_log_does(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await filled(client)
            request = OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[
                    OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
                ],
            )
            answer = (await client.ask(request, version)).topics[0].partitions[0]
            assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 5)

    run(test)
