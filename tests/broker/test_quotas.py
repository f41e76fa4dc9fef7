"""Client quotas over a socket: what is answered, for how long nothing is read, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.wire import iter_records
from ottla.wire.messages import alter_client_quotas as aq
from ottla.wire.messages import describe_client_quotas as dq
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from tests.broker.node_client import NodeClient, batch, run, running_node, start_node

KILOBYTE = b"x" * 1000
ASKED_MAX = 2000
"""Requests that a test sends until one is charged: a fast machine needs more of them."""
ANN: dict[str, str | None] = {"user": "ANONYMOUS"}
APP: dict[str, str | None] = {"client-id": "test"}
STRICT, PERMISSIVE = 7, 5


async def set_quota(client: NodeClient, entity: dict[str, str | None], **values: float | None) -> None:
    entry = aq.RequestEntryData(
        entity=[aq.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[aq.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    answer = await client.ask(aq.AlterClientQuotasRequest(entries=[entry]))
    assert answer.entries[0].error_code == 0, answer.entries[0].error_message


async def ask_to_produce(client: NodeClient, records: bytes, *, version: int = 13, acks: int = -1) -> Any:
    await client.topic_id("t")
    return await client.ask(client.produce_request("t", records, acks=acks), version)


async def seconds(test: Callable[[], Coroutine[Any, Any, None]]) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await test()
    return loop.time() - began


def test_quotas_are_kept_over_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await set_quota(client, ANN | APP, producer_byte_rate=1000.0, request_percentage=50.5)
        async with running_node(tmp_path) as client:
            component = dq.ComponentData(entity_type="user", match_type=2, match=None)
            answer = await client.ask(dq.DescribeClientQuotasRequest(components=[component], strict=False))
            assert len(answer.entries) == 1
            assert {(each.entity_type, each.entity_name) for each in answer.entries[0].entity} == {
                ("user", "ANONYMOUS"),
                ("client-id", "test"),
            }
            values = {each.key: each.value for each in answer.entries[0].values}
            assert values == {"producer_byte_rate": 1000.0, "request_percentage": 50.5}

    run(test)


def test_a_producer_over_its_quota_is_answered_at_once_and_then_not_read_from(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await set_quota(client, APP, producer_byte_rate=100.0)
            answer = await ask_to_produce(client, batch(KILOBYTE * 102))
            assert answer.throttle_time_ms > 900_000, "and yet the answer is here"
            assert answer.responses[0].partition_responses[0].error_code == 0
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.ask(ApiVersionsRequest(), 0), 0.3)
            other = await NodeClient.connect(client.node)
            await set_quota(other, APP, producer_byte_rate=None)
            assert (await ask_to_produce(other, batch(KILOBYTE * 102))).throttle_time_ms == 0
            other.close()

    run(test)


@pytest.mark.parametrize("wider", [None, 1_000_000.0])
def test_a_quota_that_is_removed_or_raised_keeps_nobody_waiting_any_longer(tmp_path: Path, wider: float | None) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await set_quota(client, APP, producer_byte_rate=100.0)
            assert (await ask_to_produce(client, batch(KILOBYTE * 102))).throttle_time_ms > 900_000
            other = await NodeClient.connect(client.node)
            held = asyncio.ensure_future(client.ask(ApiVersionsRequest(), 0))
            await set_quota(other, {"client-id": "another"}, producer_byte_rate=1.0)
            await set_quota(other, APP, producer_byte_rate=50.0)
            await set_quota(other, APP, consumer_byte_rate=50.0)
            assert not held.done(), "what others may, or less of the same, lets nobody go on"
            await set_quota(other, APP, producer_byte_rate=wider)
            assert (await asyncio.wait_for(held, 30)).error_code == 0
            other.close()

    run(test)


def test_a_producer_that_wants_no_answer_is_kept_waiting_as_well(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await set_quota(client, ANN, producer_byte_rate=10_000.0)
            await client.topic_id("t")
            client.send(client.produce_request("t", batch(KILOBYTE * 102), acks=0), 12)

            async def ask() -> None:
                await client.ask(ApiVersionsRequest(), 0)

            assert await seconds(ask) >= 0.15

    run(test)


def test_an_idle_quota_costs_nobody_else_anything(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await set_quota(client, {"client-id": "another"}, producer_byte_rate=1.0)
            assert (await ask_to_produce(client, batch(KILOBYTE * 100))).throttle_time_ms == 0

    run(test)


@pytest.mark.parametrize("in_session", [False, True])
def test_a_consumer_over_its_quota_gets_nothing_then_and_everything_later(tmp_path: Path, in_session: bool) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "quota.window.num=2") as client:
            await client.create("t")
            for _ in range(12):
                await client.produce("t", batch(KILOBYTE * 10))
            await set_quota(client, APP, consumer_byte_rate=60_000.0)
            session_id, epoch = (0, 0) if in_session else (0, -1)
            offset, throttled, read = 0, 0, 0
            while read < 12:
                request = client.fetch_request(
                    "t", offset, max_bytes=60_000, session_id=session_id, session_epoch=epoch
                )
                answer = await client.ask(request, 18)
                assert answer.error_code == 0
                if answer.throttle_time_ms:
                    throttled += 1
                    assert not answer.responses
                    assert answer.session_id == session_id
                for topic in answer.responses:
                    found = list(iter_records(topic.partitions[0].records))
                    read += len(found)
                    offset = found[-1].offset + 1
                if in_session and answer.session_id:
                    session_id, epoch = answer.session_id, epoch + 1
            assert throttled >= 1

    run(test)


def test_no_answer_is_larger_than_a_quota_can_ever_grant(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            for _ in range(10):
                await client.produce("t", batch(KILOBYTE))
            await set_quota(client, APP, consumer_byte_rate=250.0)
            answer = await client.ask(client.fetch_request("t", 0), 18)
            assert answer.throttle_time_ms == 0
            assert len(answer.responses[0].partitions[0].records) <= 2500

    run(test)


def test_request_time_is_charged_and_nobody_waits_longer_than_a_window(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await set_quota(client, ANN, request_percentage=0.001)
            for _ in range(ASKED_MAX):
                told = (await client.ask(ListOffsetsRequest(), 7)).throttle_time_ms
                assert told <= 1000
                if told:
                    return
            raise AssertionError("nothing was ever charged")

    run(test)


def topics(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    wanted = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=wanted, timeout_ms=10_000)


def test_a_strict_mutation_quota_refuses_topics_partitions_and_deletions(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await set_quota(client, ANN, controller_mutation_rate=5.0)
            first = await client.ask(topics("a", "b", "c", partitions=50), STRICT)
            assert [each.error_code for each in first.topics] == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
            assert first.throttle_time_ms == 9000, "of 55 partitions at once 45 more were created, at five a second"
            other = await NodeClient.connect(client.node)
            grown = CreatePartitionsTopic(name="t", count=2, assignments=None)
            refused = await other.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=10_000))
            assert refused.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert refused.throttle_time_ms > 0
            third = await NodeClient.connect(client.node)
            deleted = await third.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000))
            assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            other.close()
            third.close()

    run(test)


def test_an_older_client_is_served_and_then_kept_waiting(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await set_quota(client, ANN, controller_mutation_rate=5.0)
            answer = await client.ask(topics("a", "b", partitions=30), PERMISSIVE)
            assert [each.error_code for each in answer.topics] == [0, 0]
            assert 0 < answer.throttle_time_ms <= 1000

    run(test)


def test_connections_over_an_addresss_quota_are_closed_after_a_while(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "quota.window.num=2") as client:
            await set_quota(client, {"ip": None}, connection_creation_rate=3.0)
            others = [await NodeClient.connect(client.node) for _ in range(3)]
            for each in others:
                await each.ask(ApiVersionsRequest(), 0)
            late = await NodeClient.connect(client.node)

            async def ends() -> None:
                late.send(ApiVersionsRequest(), 0)
                with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                    await late.frame()

            assert await seconds(ends) > 0.1
            for each in others:
                each.close()

    run(test)


def test_connections_faster_than_the_brokers_rate_are_served_later(tmp_path: Path) -> None:
    async def test() -> None:
        settings = ("quota.window.num=2", "max.connection.creation.rate=3")
        async with running_node(tmp_path, *settings) as client:
            others = [await NodeClient.connect(client.node) for _ in range(2)]

            async def answered() -> None:
                late = await NodeClient.connect(client.node)
                await late.ask(ApiVersionsRequest(), 0)
                late.close()

            assert await seconds(answered) > 0.1
            for each in others:
                await each.ask(ApiVersionsRequest(), 0)
                each.close()

    run(test)


def test_a_node_with_clients_that_wait_stops_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        node = await start_node(tmp_path)
        client = await NodeClient.connect(node)
        await client.create("t")
        await set_quota(client, APP, producer_byte_rate=1.0)
        answer = await ask_to_produce(client, batch(KILOBYTE))
        assert answer.throttle_time_ms > 100_000
        assert await seconds(node.stop) < 20
        client.close()

    run(test)
