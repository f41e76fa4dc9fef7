"""Fetch over a socket: every version, limits, waiting, sessions, fencing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.base import ErrorCode
from ottla.wire import iter_records
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.broker.node_client import NodeClient, batch, run, running_node


def values(records: bytes | None) -> list[bytes | None]:
    return [record.value for record in iter_records(records)] if records else []


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_hands_out_what_is_stored(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", batch(b"a", b"b"))
            await client.produce("t", batch(b"c"))
            answer = await client.fetch("t", 0, version=version)
            assert answer.error_code == 0
            assert values(answer.records) == [b"a", b"b", b"c"]
            assert (answer.high_watermark, answer.last_stable_offset) == (3, 3)
            assert not answer.aborted_transactions
            if version >= 11:
                assert answer.preferred_read_replica == -1
            end = await client.fetch("t", 3, version=version)
            assert (end.error_code, values(end.records)) == (0, [])

    run(test)


def test_a_fetch_begins_with_the_batch_that_holds_its_offset(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", batch(b"a", b"b"))
            await client.produce("t", batch(b"c", b"d"))
            answer = await client.fetch("t", 3)
            assert [record.offset for record in iter_records(answer.records)] == [2, 3]

    run(test)


@pytest.mark.parametrize("offset", [-1, 4, 1 << 60])
def test_an_offset_outside_of_the_log_is_out_of_range(tmp_path: Path, offset: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", batch(b"a", b"b", b"c"))
            answer = await client.fetch("t", offset, max_wait_ms=10_000)  # and it does not wait
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(test)


def test_large_records_come_whole_from_the_file(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            sent = [bytes([number]) * 300_000 for number in range(8)]
            for value in sent:
                await client.produce("t", batch(value))
            answer = await client.fetch("t", 0, max_bytes=10 << 20, partition_max_bytes=10 << 20)
            assert values(answer.records) == sent

    run(test)


def test_the_first_batch_is_sent_even_where_it_exceeds_every_limit(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", batch(b"x" * 5000))
            await client.produce("t", batch(b"y" * 5000))
            answer = await client.fetch("t", 0, max_bytes=10, partition_max_bytes=10)
            assert values(answer.records) == [b"x" * 5000]

    run(test)


def several(
    client: NodeClient,
    topic: str,
    offsets: dict[int, int],
    *,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    """Return a request of several partitions of one topic."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic_id=client.topic_ids[topic],
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                    for index, offset in offsets.items()
                ],
            )
        ]
        if offsets
        else [],
    )


def test_the_limit_of_a_request_is_shared_by_its_partitions(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", partitions=3)
            for index in range(3):
                await client.produce("t", batch(b"x" * 1000), index=index)
            request = several(client, "t", {0: 0, 1: 0, 2: 0}, max_bytes=2500)
            answer = await client.ask(request)
            sizes = [len(each.records or b"") for each in answer.responses[0].partitions]
            assert sizes[0] > 1000 and sizes[1] > 1000
            assert sizes[2] == 0

    run(test)


def test_a_waiting_fetch_is_answered_when_records_come(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as consumer:
            await consumer.create("t")
            await consumer.topic_id("t")
            producer = await NodeClient.connect(consumer.node)
            waiting = asyncio.ensure_future(consumer.fetch("t", 0, max_wait_ms=60_000))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await producer.produce("t", batch(b"news"))
            assert values((await waiting).records) == [b"news"]
            producer.close()

    run(test)


def test_a_fetch_waits_for_as_many_bytes_as_it_asks(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as consumer:
            await consumer.create("t")
            await consumer.topic_id("t")
            producer = await NodeClient.connect(consumer.node)
            waiting = asyncio.ensure_future(consumer.fetch("t", 0, max_wait_ms=60_000, min_bytes=5000))
            for _ in range(4):
                await producer.produce("t", batch(b"x" * 1000))
            assert not waiting.done()
            await producer.produce("t", batch(b"x" * 1000))
            assert len(values((await waiting).records)) == 5
            producer.close()

    run(test)


def test_a_waiting_fetch_ends_after_its_time(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            answer = await client.fetch("t", 0, max_wait_ms=30)
            assert (answer.error_code, values(answer.records)) == (0, [])

    run(test)


def test_a_waiting_fetch_hears_that_its_topic_is_gone(tmp_path: Path) -> None:
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    async def test() -> None:
        async with running_node(tmp_path) as consumer:
            await consumer.create("t")
            await consumer.topic_id("t")
            admin = await NodeClient.connect(consumer.node)
            waiting = asyncio.ensure_future(consumer.fetch("t", 0, max_wait_ms=60_000))
            await asyncio.sleep(0.05)
            await admin.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
            assert (await waiting).error_code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            admin.close()

    run(test)


def test_leader_epochs_fence(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", batch(b"a"))
            assert (await client.fetch("t", 0, leader_epoch=0)).error_code == 0
            assert (await client.fetch("t", 0, leader_epoch=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    run(test)


def test_a_log_that_went_another_way_is_told_where_to_cut(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", batch(b"a", b"b"))
            answer = await client.fetch("t", 2, last_fetched_epoch=0)
            assert (answer.error_code, answer.diverging_epoch.end_offset) == (0, -1)
            answer = await client.fetch("t", 5, last_fetched_epoch=0)
            assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 2)

    run(test)


def test_an_unknown_topic_is_an_answer_of_its_own(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            client.topic_ids["gone"] = b"g" * 16
            assert (await client.fetch("gone", 0)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
            by_name = await client.fetch("gone", 0, version=12)
            assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


def test_a_session_sends_only_what_is_new(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", partitions=3)
            first = await client.ask(several(client, "t", {0: 0, 1: 0, 2: 0}, session_epoch=0))
            assert first.session_id > 0
            assert [each.partition_index for each in first.responses[0].partitions] == [0, 1, 2]
            await client.produce("t", batch(b"news"), index=1)
            more = {"session_id": first.session_id}
            second = await client.ask(several(client, "t", {}, session_epoch=1, **more))
            assert second.session_id == first.session_id
            assert [each.partition_index for each in second.responses[0].partitions] == [1]
            assert values(second.responses[0].partitions[0].records) == [b"news"]
            third = await client.ask(several(client, "t", {1: 1}, session_epoch=2, **more))
            assert third.responses == []
            forgotten = several(client, "t", {}, session_epoch=3, **more).replace(
                forgotten_topics_data=[ForgottenTopic(topic_id=client.topic_ids["t"], partitions=[2])]
            )
            assert (await client.ask(forgotten)).error_code == 0
            await client.produce("t", batch(b"unseen"), index=2)
            assert (await client.ask(several(client, "t", {}, session_epoch=4, **more))).responses == []
            wrong = await client.ask(several(client, "t", {}, session_epoch=9, **more))
            assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            await client.ask(several(client, "t", {0: 0}, session_epoch=-1, **more))
            ended = await client.ask(several(client, "t", {}, session_epoch=5, **more))
            assert ended.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    run(test)


def test_a_waiting_session_is_answered_with_the_partition_that_has_news(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as consumer:
            await consumer.create("t", partitions=2)
            first = await consumer.ask(several(consumer, "t", {0: 0, 1: 0}, session_epoch=0))
            producer = await NodeClient.connect(consumer.node)
            request = several(consumer, "t", {}, session_epoch=1, session_id=first.session_id, max_wait_ms=60_000)
            waiting = asyncio.ensure_future(consumer.ask(request))
            await asyncio.sleep(0.05)
            producer.topic_ids = consumer.topic_ids
            await producer.produce("t", batch(b"x"), index=1)
            answer = await waiting
            assert [each.partition_index for each in answer.responses[0].partitions] == [1]
            producer.close()

    run(test)
