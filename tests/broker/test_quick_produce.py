"""Quick Produce: whatever a client sends, it is answered byte for byte as if each request had been handled by itself.

A client whose id is another in each request begins each request differently, so that none is taken quickly: it is what the
quick one is compared with, over the same requests, on a node of its own.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.broker.metrics import Traffic
from ottla.security import Operation, Resource
from ottla.wire import Codec, Message, encode_request, iter_batches
from ottla.wire.messages import alter_client_quotas as quotas
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.hooked_disk import HookedDisk, broken, full
from tests.broker.node_client import NOW_MS, NodeClient, batch, delete_topic, parts, run, running_node

ANYTHING: dict[str, Any] = {
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1),
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
}
"""A filter that finds every entry."""
ROUNDS = 40
ALTER_SET = 0
TOPIC = 2


class Still:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return NOW_MS


class Side:
    """A client of its own node, quick or not."""

    def __init__(self, client: NodeClient, *, quick: bool) -> None:
        self.client, self.quick = client, quick
        self.sent = 0

    async def answers(self, requests: list[tuple[Message, int]]) -> list[bytes]:
        """Send requests in one write, and return their answers, without what differs between nodes."""
        frames = []
        for request, version in requests:
            self.sent += 1
            frames.append(encode_request(request, version, self.sent, "q" if self.quick else f"s{self.sent}"))
        self.client.writer.write(b"".join(frames))
        found = [await self.client.frame() for _ in requests]
        for name, topic_id in self.client.topic_ids.items():
            found = [each.replace(topic_id, name.encode().ljust(16, b"-")) for each in found]
        return found

    def counted(self) -> dict[str, Any]:
        """Return what the node has counted of the client's requests."""
        services = parts(self.client.node)
        traffic: Traffic = services.traffic
        times = services.metrics.request("Produce")
        names = ("bytes_in", "messages_in", "produces", "failed_produces")
        return {
            "topics": {
                topic: [getattr(each, name) for name in names] for topic, each in sorted(traffic.by_topic.items())
            },
            "errors": times.errors,
            "timed": sum(times.immediate.buckets),
            "requests": services.metrics.counter("RequestMetrics.RequestsPerSec,request=Produce").value,
        }

    async def logs(self) -> dict[tuple[str, int], bytes]:
        """Return the bytes of every partition."""
        found = {}
        for partition in parts(self.client.node).partitions:
            log = partition.log
            slices = [each.file.pread(0, each.size) for each in log.segments]
            found[partition.key.topic, partition.key.partition] = b"".join(slices)
        return found


@asynccontextmanager
async def sides(folder: Path, *settings: str) -> AsyncIterator[tuple[Side, Side]]:
    """Start two nodes that are alike."""
    async with (
        running_node(folder / "quick", *settings, clock=Still()) as quick,
        running_node(folder / "slow", *settings, clock=Still()) as slow,
    ):
        yield Side(quick, quick=True), Side(slow, quick=False)


TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "small": {"max_message_bytes": "300", "internal_segment_bytes": "4000"},
    "clock": {"message_timestamp_type": "LogAppendTime"},
    "zstd": {"compression_type": "zstd"},
    "keys": {"cleanup_policy": "compact"},
    "flush": {"flush_messages": "1"},
}
PARTITIONS = 3


class Requests:
    """Draws what clients send: mostly what one has sent before with other records, and all that can be wrong with it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.sequences: dict[tuple[str, int], int] = {}
        self.version = self.rng.randrange(5, 14)

    def burst(self, side: Side) -> list[tuple[Message, int]]:
        """Return some requests that are sent together."""
        rng = self.rng
        if rng.random() < 0.1:
            self.version = rng.randrange(3, 14)
        name = rng.choice((*("plain",) * 6, *TOPICS, "missing"))
        found = []
        for _ in range(rng.randrange(1, 12)):
            if rng.random() < 0.15:
                name = rng.choice(list(TOPICS))
            found.append(self.one(side, name))
        return found

    def one(self, side: Side, name: str) -> tuple[Message, int]:
        rng = self.rng
        if rng.random() < 0.03:
            return ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
        count = 2 if rng.random() < 0.05 else 1
        index = rng.choice((0, 0, 0, 1, 2, 2, 3)) if rng.random() < 0.5 else 0
        data = [PartitionProduceData(index=index + at, records=self.records(name, index + at)) for at in range(count)]
        topic = TopicProduceData(name=name, topic_id=side.client.topic_ids.get(name, b"?" * 16), partition_data=data)
        acks = rng.choice((-1, -1, -1, 1)) if rng.random() > 0.02 else 2
        transactional_id = "x" if rng.random() < 0.01 else None
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=[topic])
        return request, self.version

    def records(self, name: str, index: int) -> bytes | None:
        rng = self.rng
        if rng.random() < 0.02:
            return None
        values = [b"v" * rng.randrange(0, 60) for _ in range(rng.randrange(1, 4))]
        fields: dict[str, Any] = {}
        if rng.random() < 0.4:
            sequence = self.sequences.get((name, index), 0)
            if rng.random() < 0.1:
                sequence = max(0, sequence - rng.randrange(1, 4))
            self.sequences[name, index] = sequence + len(values)
            fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
            if rng.random() < 0.02:
                fields["transactional"] = True
        codec = rng.choice((Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD))
        timestamp = NOW_MS - rng.randrange(1000) + (10**9 if rng.random() < 0.01 else 0)
        made = bytearray(batch(*values, codec=codec, timestamp=timestamp, **fields))
        if rng.random() < 0.04:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.01:
            del made[rng.randrange(len(made)) :]
        return bytes(made)


@pytest.mark.parametrize("seed", range(6))
def test_mixed_requests_are_answered_as_one_by_one(tmp_path: Path, seed: int) -> None:
    async def test() -> None:
        async with sides(tmp_path) as (quick, slow):
            for side in (quick, slow):
                for name, configs in TOPICS.items():
                    await side.client.create(name, PARTITIONS, **configs)
            drawn = {side: Requests(seed) for side in (quick, slow)}
            for at in range(ROUNDS):
                found, expected = [await side.answers(drawn[side].burst(side)) for side in (quick, slow)]
                assert found == expected, f"burst {at}"
            assert quick.counted() == slow.counted()
            assert await quick.logs() == await slow.logs()

    run(test)


@asynccontextmanager
async def quick_client(folder: Path, disk: HookedDisk, *settings: str) -> AsyncIterator[NodeClient]:
    async with running_node(folder, *settings, disk=disk) as client:
        await client.create("t")
        for value in (b"first", b"second"):  # the second one is taken quickly
            assert (await client.produce("t", batch(value))).error_code == 0
        yield client


async def burst(client: NodeClient, count: int, version: int = 13, topic: str = "t", **fields: int) -> list[Any]:
    """Produce several batches in one write, and return the partition's answers."""
    await client.topic_id(topic)
    requests = [client.produce_request(topic, batch(b"b%d" % at), **fields) for at in range(count)]
    client.writer.write(b"".join(encode_request(each, version, at, "test") for at, each in enumerate(requests)))
    found = [await client.receive(each, version) for each in requests]
    return [each.responses[0].partition_responses[0] for each in found]


def test_what_one_read_brings_is_one_write(tmp_path: Path) -> None:
    async def test() -> None:
        disk, calls = HookedDisk(), list[str]()
        async with quick_client(tmp_path, disk) as client:
            disk.hook = lambda call, path: calls.append(call) if path.endswith(".log") and "/t-0/" in path else None
            answers = await burst(client, 20)
            assert [each.base_offset for each in answers] == list(range(2, 22))
            assert calls == ["pwrite"]

    run(test)


def test_clients_with_long_names_are_remembered_by_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        disk, calls = HookedDisk(), list[str]()
        async with quick_client(tmp_path, disk) as client:
            request = client.produce_request("t", batch(b"x"))
            frames = b"".join(encode_request(request, 13, at, "n" * 2000) for at in range(3))
            client.writer.write(frames)
            for _ in range(3):
                await client.frame()
            disk.hook = lambda call, path: calls.append(call) if path.endswith(".log") and "/t-0/" in path else None
            client.writer.write(frames)
            for _ in range(3):
                await client.frame()
            assert calls == ["pwrite"] * 3

    run(test)


@pytest.mark.parametrize("kind", [broken, full])
def test_a_write_that_fails_is_answered_to_each_request(tmp_path: Path, kind: Any) -> None:
    async def test() -> None:
        disk = HookedDisk()
        places = (f"log.dirs={tmp_path / 'b'},{tmp_path / 'c'}", f"metadata.log.dir={tmp_path / 'a'}")
        async with running_node(tmp_path / "a", *places, disk=disk) as client:
            await client.create("t")
            for value in (b"first", b"second"):
                assert (await client.produce("t", batch(value))).error_code == 0

            def refuse(call: str, path: str) -> None:
                if call == "pwrite" and "/t-0/" in path and path.endswith(".log"):
                    raise kind(path)

            disk.hook = refuse
            answers = await burst(client, 5)
            assert {each.error_code for each in answers} == {ErrorCode.KAFKA_STORAGE_ERROR}
            disk.hook = lambda call, path: None
            if kind is full:
                assert [each.base_offset for each in await burst(client, 3)] == [2, 3, 4]
                answer = await client.fetch("t", 0)
                assert [header.base_offset for header, _ in iter_batches(answer.records)] == [0, 1, 2, 3, 4]
            else:
                assert {each.error_code for each in await burst(client, 3)} == {ErrorCode.KAFKA_STORAGE_ERROR}

    run(test)


async def configure(client: NodeClient, **configs: str) -> None:
    changes = [
        AlterableConfig(name=name.replace("_", "."), config_operation=ALTER_SET, value=value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=changes)
    answer = await client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_that_is_gone_is_refused_at_once(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with quick_client(tmp_path, HookedDisk()) as client:
            old = client.topic_ids["t"]
            await burst(client, 3, version)
            await burst(client, 3, version)
            await delete_topic(client)
            client.topic_ids["t"] = old
            gone = ErrorCode.UNKNOWN_TOPIC_ID if version == 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert {each.error_code for each in await burst(client, 3, version)} == {gone}
            del client.topic_ids["t"]
            await client.create("t")
            new = client.topic_ids["t"]
            client.topic_ids["t"] = old
            found = [each.error_code for each in await burst(client, 3, version)]
            assert set(found) == ({ErrorCode.UNKNOWN_TOPIC_ID} if version == 13 else {0})
            client.topic_ids["t"] = new
            start = 0 if version == 13 else 3
            assert [each.base_offset for each in await burst(client, 2, version)] == [start, start + 1]

    run(test)


def test_a_changed_configuration_holds_from_the_next_request_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path, HookedDisk()) as client:
            await burst(client, 3)
            await configure(client, max_message_bytes="10")
            assert {each.error_code for each in await burst(client, 3)} == {ErrorCode.MESSAGE_TOO_LARGE}
            await configure(client, max_message_bytes="10000", message_timestamp_type="LogAppendTime")
            assert all(each.log_append_time_ms > 0 for each in await burst(client, 3))
            await configure(client, message_timestamp_type="CreateTime", compression_type="gzip")
            await burst(client, 3)
            await configure(client, compression_type="producer")
            await burst(client, 2)
            await burst(client, 2)
            stored = (await Side(client, quick=True).logs())["t", 0]  # in several segments, since the clock goes on
            codecs = [header.codec for header, _ in iter_batches(stored)]
            assert codecs == [*[Codec.NONE] * 8, *[Codec.GZIP] * 3, *[Codec.NONE] * 4]

    run(test)


def test_an_impossible_frame_comes_after_the_answers_to_those_before_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path, HookedDisk()) as client:
            await client.topic_id("t")
            request = client.produce_request("t", batch(b"x"))
            frames = b"".join(encode_request(request, 13, at, "test") for at in range(3))
            client.writer.write(frames + struct.pack(">i", -5))
            answers = [await client.frame() for _ in range(3)]
            assert [int.from_bytes(each[:4], "big") for each in answers] == [0, 1, 2]
            with pytest.raises(asyncio.IncompleteReadError):
                await client.frame()

    run(test)


def test_a_quota_holds_from_the_next_request_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path, HookedDisk()) as client:
            await burst(client, 3)
            entity = [quotas.EntityData(entity_type="client-id", entity_name="test")]
            entry = quotas.RequestEntryData(entity=entity, ops=[quotas.OpData(key="producer_byte_rate", value=1.0)])
            other = await NodeClient.connect(client.node)
            assert (await other.ask(quotas.AlterClientQuotasRequest(entries=[entry]))).entries[0].error_code == 0
            other.close()
            request = client.produce_request("t", batch(b"x"))
            assert (await client.ask(request)).throttle_time_ms > 0

    run(test)


def test_a_right_that_is_taken_away_is_gone_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
        async with running_node(tmp_path, *AUTHORIZER) as client:
            admin = Asker(client.node, ADMIN)
            creation = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            created = await admin.ask(CreateTopicsRequest(topics=[creation], timeout_ms=10_000))
            client.topic_ids["t"] = bytes(created.topics[0].topic_id)
            await grant(client.node, allowed("User:ANONYMOUS", Operation.WRITE, Resource.TOPIC, "t"))
            authorizer = parts(client.node).authorizer
            await burst(client, 2)
            before = authorizer.allowed
            assert {each.error_code for each in await burst(client, 5)} == {0}
            assert authorizer.allowed == before + 5
            filters = [DeleteAclsFilter(**ANYTHING)]
            assert (await admin.ask(DeleteAclsRequest(filters=filters))).filter_results[0].error_code == 0
            denied = authorizer.denied
            refused = await burst(client, 5)
            assert {each.error_code for each in refused} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
            assert authorizer.denied == denied + 5

    run(test)
    lines = [each.getMessage() for each in caplog.records if "request = Produce" in each.getMessage()]
    assert sum("is Allowed" in each for each in lines) == 7
    assert sum("is Denied" in each for each in lines) == 5
