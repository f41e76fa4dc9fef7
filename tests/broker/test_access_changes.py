"""Rights that go while requests are on their way: what is looked at with the records, not with the request's first byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.base import ErrorCode
from ottla.broker import Node
from ottla.security import Operation, Resource
from ottla.wire import Codec
from ottla.wire.messages.create_acls import AclCreation
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.node_client import NodeClient, batch, parts, run, running_node
from tests.waiting import until_async

ME = "User:ANONYMOUS"
READ = allowed(ME, Operation.READ, Resource.TOPIC, "t")
WRITE = allowed(ME, Operation.WRITE, Resource.TOPIC, "t")
PRODUCE, FETCH = 13, 18


async def take_away(node: Node, entry: AclCreation) -> None:
    same = DeleteAclsFilter(
        resource_type_filter=entry.resource_type,
        resource_name_filter=entry.resource_name,
        pattern_type_filter=entry.resource_pattern_type,
        principal_filter=entry.principal,
        host_filter=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )
    [result] = (await Asker(node, ADMIN).ask(DeleteAclsRequest(filters=[same]))).filter_results
    assert len(result.matching_acls) == 1


async def topic(client: NodeClient, *entries: AclCreation, **configs: str) -> None:
    """Make the topic as its owner does, and give rights on it."""
    owner = allowed(ME, Operation.CREATE, Resource.TOPIC, "t")
    await grant(client.node, owner, allowed(ME, Operation.DESCRIBE, Resource.TOPIC, "t"), *entries)
    await client.create("t", **configs)


async def write(node: Node, value: bytes) -> None:
    """Have the administrator write."""
    admin = Asker(node, ADMIN)
    shaped = await NodeClient.connect(node)
    await shaped.topic_id("t")
    [answer] = (await admin.ask(shaped.produce_request("t", batch(value)), PRODUCE)).responses[0].partition_responses
    assert answer.error_code == 0
    shaped.close()


def test_a_fetch_that_waits_shows_no_record_once_reading_is_forbidden(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await topic(client, READ)
            request = client.fetch_request("t", 0, max_wait_ms=60_000)
            client.send(request, FETCH)
            await until_async(lambda: len(parts(client.node).purgatory) > 0)
            await take_away(client.node, READ)
            await write(client.node, b"not for everybody")
            [answer] = (await client.receive(request, FETCH)).responses[0].partitions
            assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert not answer.records

    run(test)


def test_of_produces_in_flight_none_is_written_behind_the_removal_of_the_right(tmp_path: Path) -> None:
    count = 400

    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await topic(client, WRITE, READ)
            request = client.produce_request("t", batch(b"x"))
            codes: list[int] = []
            removed_at = -1

            async def answers() -> None:
                while len(codes) < count:
                    [answer] = (await client.receive(request, PRODUCE)).responses[0].partition_responses
                    codes.append(answer.error_code)

            receiving = asyncio.ensure_future(answers())
            removal: asyncio.Future[None] | None = None
            for sent in range(count):
                client.send(request, PRODUCE)
                await asyncio.sleep(0)
                if sent == count // 4:
                    removal = asyncio.ensure_future(take_away(client.node, WRITE))
                if removal is not None and removal.done() and removed_at < 0:
                    removed_at = sent + 1
                if sent == count // 2 and removal is not None:
                    await removal  # what is sent from here on comes behind the answer
            await receiving
            accepted = codes.count(0)
            assert 0 < accepted <= (removed_at if removed_at >= 0 else count // 2 + 1)
            assert codes == [0] * accepted + [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * (count - accepted)
            [found] = (await client.ask(client.fetch_request("t", 0), FETCH)).responses[0].partitions
            assert found.high_watermark == accepted

    run(test)


def test_a_batch_that_is_recompressed_meanwhile_is_not_written_without_the_right(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await topic(client, WRITE, READ, compression_type="zstd")
            request = client.produce_request("t", batch(*[b"x" * 10_000] * 50, codec=Codec.GZIP))
            offload = parts(client.node).offload
            process, begun, may_go_on = offload.process, asyncio.Event(), asyncio.Event()

            async def later(*args: object) -> object:
                begun.set()
                await may_go_on.wait()
                return await process(*args)  # type: ignore[arg-type]

            offload.process = later  # type: ignore[method-assign, assignment]
            client.send(request, PRODUCE)
            await begun.wait()
            await take_away(client.node, WRITE)
            may_go_on.set()
            [answer] = (await client.receive(request, PRODUCE)).responses[0].partition_responses
            assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            [found] = (await client.ask(client.fetch_request("t", 0), FETCH)).responses[0].partitions
            assert found.high_watermark == 0

    run(test)


def test_nobody_has_records_recompressed_that_he_may_not_write(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await topic(client, compression_type="zstd")
            offload = parts(client.node).offload

            async def never(*args: object) -> object:
                raise AssertionError("recompressed for nothing")

            offload.process = never  # type: ignore[method-assign, assignment]
            answer = await client.produce("t", batch(b"x", codec=Codec.GZIP))
            assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(test)
