"""Produce with acks=all that waits for a device while a partition gets another leader: what is cut is not acknowledged."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ottla.base import ErrorCode, Millis
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.follower import create_followed, lead, leader_and_follower
from tests.broker.hooked_disk import HookedDisk
from tests.broker.node_client import NOW_MS, batch, parts, run
from tests.waiting import until_async


def request(*topic_ids: bytes) -> ProduceRequest:
    """One batch for each topic."""
    data = [PartitionProduceData(index=0, records=batch(b"mine"))]
    topics = [TopicProduceData(topic_id=each, partition_data=data) for each in topic_ids]
    return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=20_000, topic_data=topics)


@pytest.mark.parametrize("leads_again", (False, True))
def test_records_that_are_cut_while_another_topic_is_flushed_are_not_acknowledged(
    tmp_path: Path, leads_again: bool
) -> None:
    async def test() -> None:
        disk, may_end = HookedDisk(), threading.Event()
        async with leader_and_follower(tmp_path, disk=disk) as (client, follower):
            await create_followed(client.node, "t", (1, 2), flush_messages="1")
            await create_followed(client.node, "slow", (1,), flush_messages="1")
            await follower.replication.close()  # the follower gets nothing of what is appended
            asked = request(await client.topic_id("t"), await client.topic_id("slow"))
            held, other = (parts(client.node).partitions.get(each, 0) for each in ("t", "slow"))
            assert held is not None and other is not None

            def hook(call: str, path: str) -> None:
                if call == "fsync" and "/slow-0/" in path:
                    assert may_end.wait(20)

            disk.hook = hook
            try:
                client.send(asked, 13)
                await until_async(lambda: other.log.log_end_offset == 1 and held.log.recovery_point == 1)
                await lead(client.node, "t", 2)
                held.truncate_to(0)
                held.truncation_stored()
                theirs = bytearray(batch(b"theirs"))
                theirs[12:16] = held.replica.leader_epoch.to_bytes(4, "big")
                held.append_as_follower(
                    memoryview(theirs),
                    leader_epoch=held.replica.leader_epoch,
                    high_watermark=1,
                    log_start_offset=0,
                    now_ms=Millis(NOW_MS),
                )
                assert held.replica.high_watermark == 1
                if leads_again:
                    await lead(client.node, "t", 1)
            finally:
                may_end.set()
            topics = (await client.receive(asked, 13)).responses
            answers = [each for topic in topics for each in topic.partition_responses]
            assert [each.error_code for each in answers] == [int(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0]
            assert [each.base_offset for each in answers] == [-1, 0]

    run(test)


def test_who_waits_for_the_device_does_not_wait_for_records_that_are_cut_meanwhile(tmp_path: Path) -> None:
    async def test() -> None:
        disk, may_end = HookedDisk(), threading.Event()
        async with leader_and_follower(tmp_path, disk=disk) as (client, follower):
            await create_followed(client.node, "t", (1, 2), flush_messages="1")
            await follower.replication.close()
            asked = request(await client.topic_id("t"))
            held = parts(client.node).partitions.get("t", 0)
            assert held is not None
            fsyncs = 0

            def hook(call: str, path: str) -> None:
                nonlocal fsyncs
                if call == "fsync" and "/t-0/" in path:
                    fsyncs += 1
                    assert may_end.wait(20)

            disk.hook = hook
            try:
                client.send(asked, 13)
                await until_async(lambda: fsyncs > 0)
                await lead(client.node, "t", 2)
                held.truncate_to(0)
                held.truncation_stored()
            finally:
                may_end.set()
            (answer,) = (await client.receive(asked, 13)).responses[0].partition_responses
            assert (answer.error_code, answer.base_offset) == (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1)
            assert held.log.log_end_offset == 0

    run(test)
