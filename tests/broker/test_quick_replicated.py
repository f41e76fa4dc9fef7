"""Quick Produce where copies have to have the records: the same answers, one write, and none before the copies have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.wire import encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.follower import Follower, add_replica, create_followed, everything, lead, leader_and_follower
from tests.broker.hooked_disk import HookedDisk
from tests.broker.node_client import NOW_MS, NodeClient, batch, parts, run
from tests.waiting import until_async

ROUNDS = 25
PARTITIONS = 3
ALONE = 2
"""The partition that has no other copy."""


@asynccontextmanager
async def followed(folder: Path, disk: HookedDisk | None = None) -> AsyncIterator[tuple[NodeClient, Follower]]:
    """Start a leader and a follower that have the topic `t`."""
    async with leader_and_follower(folder, disk=disk) as (client, follower):
        await create_followed(client.node, "t", *[(1, 2)] * PARTITIONS)
        await add_replica(client.node, "t", 1, index=ALONE)
        await client.topic_id("t")
        yield client, follower


async def exchange(client: NodeClient, requests: list[tuple[Any, int]], *, quick: bool, first: int = 0) -> list[bytes]:
    """Send requests in one write and return their answers; with client ids of their own none is taken quickly."""
    frames = [
        encode_request(request, version, first + at, "q" if quick else f"s{first + at}")
        for at, (request, version) in enumerate(requests)
    ]
    client.writer.write(b"".join(frames))
    return [await client.frame() for _ in requests]


def counted(client: NodeClient) -> dict[str, Any]:
    services = parts(client.node)
    times = services.metrics.request("Produce")
    return {
        "topic": [
            getattr(services.traffic.of("t"), each)
            for each in ("bytes_in", "messages_in", "produces", "failed_produces")
        ],
        "errors": dict(times.errors),
        "immediate": sum(times.immediate.buckets),
        "waited": sum(times.waited.buckets),
        "waited, here": sum(times.waited_local.buckets),
        "waited, elsewhere": sum(times.remote.buckets),
        "requests": services.metrics.counter("RequestMetrics.RequestsPerSec,request=Produce").value,
    }


class Drawn:
    """Draws bursts of requests, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.version = self.rng.randrange(5, 14)
        self.several = (0.0, 0.0, 0.3)[seed % 3]

    def burst(self, client: NodeClient) -> list[tuple[Any, int]]:
        rng = self.rng
        index, acks = rng.choice((0, 0, 1, 2)), rng.choice((-1, -1, -1, 1))
        found: list[tuple[Any, int]] = []
        for _ in range(rng.randrange(1, 14)):
            if rng.random() < 0.1:
                index = rng.randrange(PARTITIONS + 1)
            if rng.random() < 0.1:
                acks = rng.choice((-1, 1))
            if rng.random() < 0.03:
                found.append((ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3))
                continue
            places = [index]
            if rng.random() < self.several:
                places = rng.sample(range(PARTITIONS), rng.choice((2, 3)))
            data = [PartitionProduceData(index=each, records=self.records()) for each in places]
            topic = TopicProduceData(name="t", topic_id=client.topic_ids["t"], partition_data=data)
            found.append((ProduceRequest(acks=acks, timeout_ms=20_000, topic_data=[topic]), self.version))
        return found

    def records(self) -> bytes:
        rng = self.rng
        values = [b"v" * rng.randrange(60) for _ in range(rng.randrange(1, 4))]
        made = bytearray(batch(*values, timestamp=NOW_MS - rng.randrange(1000)))
        if rng.random() < 0.02:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        return bytes(made)


@pytest.mark.parametrize("seed", range(6))
def test_mixed_requests_that_wait_for_copies_are_answered_as_one_by_one(tmp_path: Path, seed: int) -> None:
    async def test() -> None:
        async with followed(tmp_path / "quick") as (quick, follower), followed(tmp_path / "slow") as (slow, _):
            drawn = {True: Drawn(seed), False: Drawn(seed)}
            for at in range(ROUNDS):
                first = at * 100
                found = await exchange(quick, drawn[True].burst(quick), quick=True, first=first)
                expected = await exchange(slow, drawn[False].burst(slow), quick=False, first=first)
                ids = quick.topic_ids["t"], slow.topic_ids["t"]
                assert [each.replace(ids[0], ids[1]) for each in found] == expected, f"seed {seed}, burst {at}"
            left, right = counted(quick), counted(slow)
            for each in (
                left,
                right,
            ):  # with acks=all a copy may have what one has just written, with others joined, or not
                assert each["waited"] == each["waited, here"] == each["waited, elsewhere"]
                each["timed"] = each.pop("immediate") + each.pop("waited")
                del each["waited, here"], each["waited, elsewhere"]
            assert left == right
            for index in range(PARTITIONS):
                logs = [parts(each.node).partitions.get("t", index) for each in (quick, slow)]
                assert logs[0] is not None and logs[1] is not None
                assert everything(logs[0].log) == everything(logs[1].log)
            for index in (0, 1):
                mine = parts(quick.node).partitions.get("t", index)
                assert mine is not None
                held, end = follower.held("t", index).log, mine.log.log_end_offset
                await until_async(lambda held=held, end=end: held.log_end_offset == end)  # type: ignore[misc]
                assert everything(held) == everything(mine.log)

    run(test)


async def burst(client: NodeClient, count: int, **fields: int) -> list[Any]:
    """Produce several batches to partition 0 by one write, and return the partition's answers."""
    requests = [client.produce_request("t", batch(b"b%d" % at), **fields) for at in range(count)]
    client.writer.write(b"".join(encode_request(each, 13, at, "test") for at, each in enumerate(requests)))
    found = [await client.receive(each, 13) for each in requests]
    return [each.responses[0].partition_responses[0] for each in found]


async def burst_of_several(client: NodeClient, count: int, timeout_ms: int) -> list[list[int]]:
    """The same of both followed partitions in each request; return the error codes of each answer's partitions."""
    requests = []
    for at in range(count):
        data = [PartitionProduceData(index=index, records=batch(b"b%d" % at)) for index in (0, ALONE)]
        topic = TopicProduceData(topic_id=client.topic_ids["t"], partition_data=data)
        requests.append(ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic]))
    client.writer.write(b"".join(encode_request(each, 13, at, "test") for at, each in enumerate(requests)))
    found = [await client.receive(each, 13) for each in requests]
    return [[each.error_code for each in answer.responses[0].partition_responses] for answer in found]


def test_what_one_read_brings_for_a_partition_with_copies_is_one_write(tmp_path: Path) -> None:
    async def test() -> None:
        disk, calls = HookedDisk(), list[str]()
        async with followed(tmp_path, disk) as (client, follower):
            await burst(client, 3)
            disk.hook = lambda call, path: calls.append(call) if path.endswith(".log") and "/t-0/" in path else None
            answers = await burst(client, 20)
            assert [each.base_offset for each in answers] == list(range(3, 23))
            assert calls.count("pwrite") == 1
            assert follower.held("t").log.log_end_offset == 23

    run(test)


@pytest.mark.parametrize("several", [False, True])
def test_copies_that_do_not_come_are_said_to_each_request(tmp_path: Path, several: bool) -> None:
    async def test() -> None:
        async with followed(tmp_path) as (client, follower):
            for _ in range(2):
                await (burst_of_several(client, 2, 20_000) if several else burst(client, 2))
            before = dict(parts(client.node).metrics.request("Produce").errors)
            await follower.replication.close()
            late = int(ErrorCode.REQUEST_TIMED_OUT)
            if several:
                assert await burst_of_several(client, 3, 100) == [[late, 0]] * 3
            else:
                answers = await burst(client, 3, timeout_ms=100)
                assert [(each.error_code, each.base_offset) for each in answers] == [(late, -1)] * 3
            after = parts(client.node).metrics.request("Produce").errors
            assert after == {**before, late: 3}

    run(test)


def test_a_leader_that_is_replaced_while_requests_wait_tells_each_of_them_who_leads(tmp_path: Path) -> None:
    async def test() -> None:
        async with followed(tmp_path) as (client, follower):
            await burst(client, 2)
            await follower.replication.close()
            waiting = asyncio.ensure_future(burst(client, 4))
            held = parts(client.node).partitions.get("t", 0)
            assert held is not None
            await until_async(lambda: held.log.log_end_offset == 6)
            await lead(client.node, "t", 2)
            answers = await waiting
            assert [each.error_code for each in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 4
            assert {each.current_leader.leader_id for each in answers} == {2}

    run(test)


def test_more_produces_are_taken_while_some_wait_and_other_requests_wait_their_turn(tmp_path: Path) -> None:
    async def test() -> None:
        async with followed(tmp_path) as (client, follower):
            await burst(client, 2)
            await follower.replication.close()
            held = parts(client.node).partitions.get("t", 0)
            assert held is not None
            frames = [
                encode_request(client.produce_request("t", batch(b"x"), timeout_ms=300), 13, at, "test")
                for at in range(3)
            ]
            client.writer.write(frames[0])
            await until_async(lambda: held.log.log_end_offset == 3)
            client.writer.write(frames[1] + frames[2])
            await until_async(lambda: held.log.log_end_offset == 5)
            asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            client.writer.write(encode_request(asked, 3, 3, "test"))
            order = [int.from_bytes((await client.frame())[:4], "big") for _ in range(4)]
            assert order == [0, 1, 2, 3]

    run(test)


def test_a_client_that_leaves_while_its_requests_wait_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with followed(tmp_path) as (client, follower):
            other = await NodeClient.connect(client.node)
            await other.topic_id("t")
            await burst(other, 2)
            replication, held = follower.replication, parts(client.node).partitions.get("t", 0)
            assert held is not None
            await replication.close()
            waiting = asyncio.ensure_future(burst(other, 3, timeout_ms=200))
            await until_async(lambda: held.log.log_end_offset == 5)
            waiting.cancel()
            other.close()
            answers = await burst(client, 2, timeout_ms=200)
            assert {each.error_code for each in answers} == {ErrorCode.REQUEST_TIMED_OUT}
            assert held.log.log_end_offset == 7
            assert not [each for each in caplog.records if each.exc_info]

    run(test)
