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
from ottla.broker.meters import Traffic
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
from tests.broker.follower import add_replica, create_followed, leader_and_follower
from tests.broker.hooked_disk import HookedDisk, broken, full
from tests.broker.node_client import NOW_MS, NodeClient, batch, delete_topic, parts, run, running_node
from tests.waiting import until_async

ANYTHING: dict[str, Any] = {
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1),
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
}
"""A filter that finds every entry."""
ROUNDS = 40
CHANGED_SHARE = 0.15
"""Of the bursts, behind which a topic is changed."""
JOINED_AT_LEAST = 5
SEVERAL_SHARES = (0.0, 0.02, 0.6)
"""Of the requests, with batches of several partitions; such a connection has all its requests read whole."""
ALTER_SET = 0
TOPIC = 2


class Still:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return NOW_MS


class Side:
    """Clients of their own node, quick or not: the first changes topics, the others write."""

    def __init__(self, client: NodeClient, *, quick: bool, writers: list[NodeClient], disk: HookedDisk) -> None:
        self.client, self.quick = client, quick
        self.writers = writers
        self.sent = self.writes = 0
        self.known: dict[bytes, bytes] = {}
        """Ids that topics have or had, and what stands for them where nodes are compared."""
        disk.hook = self._noted

    def _noted(self, call: str, path: str) -> None:
        if call == "pwrite" and path.endswith(".log") and "/__" not in path:
            self.writes += 1

    async def create(self, name: str, partitions: int, **configs: str) -> None:
        """Create a topic."""
        await self.client.create(name, partitions, **configs)
        self.known[self.client.topic_ids[name]] = b"topic %-10d" % len(self.known)

    async def answers(self, requests: list[tuple[Message, int]], by: int = 0) -> list[bytes]:
        """Send requests in one write, and return their answers, without what differs between nodes."""
        frames = []
        for request, version in requests:
            self.sent += 1
            frames.append(encode_request(request, version, self.sent, "q" if self.quick else f"s{self.sent}"))
        self.writers[by].writer.write(b"".join(frames))
        found = [await self.writers[by].frame() for _ in requests]
        for topic_id, stands in self.known.items():
            found = [each.replace(topic_id, stands) for each in found]
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


def logs_of(client: NodeClient) -> dict[tuple[str, int], bytes]:
    """Return the bytes of every partition."""
    found = {}
    for partition in parts(client.node).partitions:
        slices = [each.file.pread(0, each.size) for each in partition.log.segments]
        found[partition.key.topic, partition.key.partition] = b"".join(slices)
    return found


@asynccontextmanager
async def sides(folder: Path, *settings: str) -> AsyncIterator[tuple[Side, Side]]:
    """Start two nodes that are alike."""
    disks = HookedDisk(), HookedDisk()
    async with (
        running_node(folder / "quick", *settings, disk=disks[0], clock=Still()) as quick,
        running_node(folder / "slow", *settings, disk=disks[1], clock=Still()) as slow,
    ):
        found = []
        for client, disk in ((quick, disks[0]), (slow, disks[1])):
            writers = [await NodeClient.connect(client.node) for _ in range(WRITERS)]
            found.append(Side(client, quick=client is quick, writers=writers, disk=disk))
        yield found[0], found[1]
        for side in found:
            for each in side.writers:
                each.close()


TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "small": {"max_message_bytes": "300", "internal_segment_bytes": "4000"},
    "clock": {"message_timestamp_type": "LogAppendTime"},
    "zstd": {"compression_type": "zstd"},
    "keys": {"cleanup_policy": "compact"},
    "flush": {"flush_messages": "1"},
}
PARTITIONS = 3
WRITERS = 2
PRODUCER = 5
CHANGES: dict[str, tuple[str, ...]] = {
    "max_message_bytes": ("150", "300", "1000000"),
    "message_timestamp_type": ("CreateTime", "CreateTime", "LogAppendTime"),
    "message_timestamp_before_max_ms": ("500", "9223372036854775807"),
    "compression_type": ("producer", "producer", "zstd"),
    "cleanup_policy": ("delete", "delete", "compact"),
    "flush_messages": ("1", "9223372036854775807"),
    "segment_bytes": ("1048576", "1073741824"),
    "min_insync_replicas": ("1", "1", "2"),
}
"""What an administrator may set while clients write."""


class Requests:
    """Draws what clients send: mostly what one has sent before with other records, and all that can be wrong with it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.sequences: dict[tuple[str, int], int] = {}
        self.producer_share, self.several_share = 0.0, SEVERAL_SHARES[seed % len(SEVERAL_SHARES)]
        self.version = self.rng.randrange(5, 14)
        self.retired: dict[str, bytes] = {}
        """Ids of topics that were deleted, by their names."""

    async def change(self, side: Side) -> None:
        """Change a topic, delete it, or make it anew."""
        rng, client = self.rng, side.client
        gone = [name for name in TOPICS if name not in client.topic_ids]
        name = rng.choice(gone or ("plain", "plain", *TOPICS))
        if name not in client.topic_ids:
            await side.create(name, PARTITIONS, **TOPICS[name])
        elif rng.random() < 0.25:
            self.retired[name] = client.topic_ids[name]
            await delete_topic(client, name)
        else:
            key = rng.choice(list(CHANGES))
            await configure(client, name, **{key: rng.choice(CHANGES[key])})

    def burst(self, side: Side) -> list[tuple[Message, int]]:
        """Return some requests that are sent together: most of them begin alike."""
        rng = self.rng
        if rng.random() < 0.1:
            self.version = rng.choice((3, 4, *range(5, 14), *range(5, 14)))
        name = rng.choice((*("plain",) * 6, *TOPICS, "missing"))
        index, acks = rng.choice((0, 0, 0, 1, 2)), rng.choice((-1, -1, -1, 1))
        self.producer_share = rng.choice((0.0, 0.4, 1.0))
        self.sequences = {
            tuple(each.key): each.log.producers.entries[PRODUCER].last_sequence + 1
            for each in parts(side.client.node).partitions
            if PRODUCER in each.log.producers.entries
        }
        found = []
        for _ in range(rng.randrange(1, 16)):
            if rng.random() < 0.08:
                name = rng.choice(list(TOPICS))
            if rng.random() < 0.08:
                index = rng.choice((0, 1, 2, 3))
            found.append(self.one(side, name, index, acks if rng.random() > 0.05 else rng.choice((-1, 1, 2))))
        return found

    def one(self, side: Side, name: str, index: int, acks: int) -> tuple[Message, int]:
        rng = self.rng
        if rng.random() < 0.03:
            return ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
        topics = [self.topic(side, name, index)]
        if rng.random() < self.several_share / 4:
            topics.append(self.topic(side, rng.choice(("plain", *TOPICS)), rng.randrange(PARTITIONS)))
        transactional_id = "x" if rng.random() < 0.01 else None
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics)
        return request, self.version

    def topic(self, side: Side, name: str, index: int) -> TopicProduceData:
        rng = self.rng
        count = rng.choice((2, 3)) if rng.random() < self.several_share else 1
        places = [(index + at) % PARTITIONS if at and rng.random() < 0.95 else index for at in range(count)]
        data = [PartitionProduceData(index=each, records=self.records(name, each)) for each in places]
        topic_id = side.client.topic_ids.get(name, b"?" * 16)
        if name in self.retired and rng.random() < 0.1:
            topic_id = self.retired[name]
        return TopicProduceData(name=name, topic_id=topic_id, partition_data=data)

    def records(self, name: str, index: int) -> bytes | None:
        rng = self.rng
        if rng.random() < 0.02:
            return None
        values = [b"v" * rng.randrange(0, 60) for _ in range(rng.randrange(1, 4))]
        fields: dict[str, Any] = {}
        if rng.random() < self.producer_share:
            sequence = self.sequences.get((name, index), 0)
            if rng.random() < 0.05:
                sequence = max(0, sequence - rng.randrange(1, 4))
            self.sequences[name, index] = sequence + len(values)
            fields = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": sequence}
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


@pytest.mark.parametrize("seed", range(9))
def test_mixed_requests_are_answered_as_one_by_one(tmp_path: Path, seed: int) -> None:
    async def test() -> None:
        async with sides(tmp_path) as (quick, slow):
            for side in (quick, slow):
                for name, configs in TOPICS.items():
                    await side.create(name, PARTITIONS, **configs)
            drawn = {side: Requests(seed) for side in (quick, slow)}
            for at in range(ROUNDS):
                found, expected = [
                    await side.answers(drawn[side].burst(side), drawn[side].rng.randrange(WRITERS))
                    for side in (quick, slow)
                ]
                assert found == expected, f"seed {seed}, burst {at}"
                for side in (quick, slow):
                    if drawn[side].rng.random() < CHANGED_SHARE:
                        await drawn[side].change(side)
            assert quick.counted() == slow.counted()
            assert logs_of(quick.client) == logs_of(slow.client)
            assert slow.writes - quick.writes > JOINED_AT_LEAST, "some were appended together"

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


async def several(client: NodeClient, count: int, *indexes: int, version: int = 13) -> list[dict[int, tuple[int, int]]]:
    """Produce requests with a batch of each partition in one write; return their codes and offsets by partition."""
    await client.topic_id("t")
    data = [PartitionProduceData(index=each, records=batch(b"p%d" % each)) for each in indexes]
    topic = TopicProduceData(name="t", topic_id=client.topic_ids["t"], partition_data=data)
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    client.writer.write(b"".join(encode_request(request, version, at, "test") for at in range(count)))
    answers = [await client.receive(request, version) for _ in range(count)]
    return [
        {each.index: (each.error_code, each.base_offset) for each in answer.responses[0].partition_responses}
        for answer in answers
    ]


@asynccontextmanager
async def client_of_several(folder: Path, disk: HookedDisk) -> AsyncIterator[NodeClient]:
    """Connect to a node with a topic of four partitions, on two disks, that a request of several was written to."""
    places = (f"log.dirs={folder / 'b'},{folder / 'c'}", f"metadata.log.dir={folder / 'a'}")
    async with running_node(folder / "a", *places, disk=disk) as client:
        await client.create("t", 4)
        await several(client, 1, 0, 1, 2)
        yield client


def test_what_one_read_brings_of_several_partitions_is_one_write_each(tmp_path: Path) -> None:
    async def test() -> None:
        disk, calls = HookedDisk(), list[str]()
        async with client_of_several(tmp_path, disk) as client:
            disk.hook = lambda call, path: (
                calls.append(path.split("/")[-2]) if call == "pwrite" and "/t-" in path else None
            )
            answers = await several(client, 10, 2, 0, 1)
            assert answers == [dict.fromkeys((2, 0, 1), (0, 1 + at)) for at in range(10)]
            assert calls == ["t-2", "t-0", "t-1"]

    run(test)


@pytest.mark.parametrize("kind", [broken, full])
def test_a_write_that_fails_is_answered_for_its_partition_alone(tmp_path: Path, kind: Any) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with client_of_several(tmp_path, disk) as client:

            def refuse(call: str, path: str) -> None:
                if call == "pwrite" and "/t-0/" in path and path.endswith(".log"):
                    raise kind(path)

            disk.hook = refuse
            held = parts(client.node).partitions
            beside = [each for each in (1, 2) if held.get("t", each).log_dir is not held.get("t", 0).log_dir]
            failed = parts(client.node).traffic.by_topic["t"].failed_produces
            answers = await several(client, 3, *beside, 0)
            for at, answer in enumerate(answers):
                assert answer == {0: (ErrorCode.KAFKA_STORAGE_ERROR, -1), **dict.fromkeys(beside, (0, 1 + at))}
            assert parts(client.node).traffic.by_topic["t"].failed_produces == failed + 3
            assert parts(client.node).metrics.request("Produce").errors == {ErrorCode.KAFKA_STORAGE_ERROR: 3}
            disk.hook = lambda call, path: None
            [answer] = await several(client, 1, 0, *beside)
            again = (0, 1) if kind is full else (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            assert answer == {0: again, **dict.fromkeys(beside, (0, 4))}

    run(test)


def test_where_one_partition_cannot_join_no_batch_of_the_read_is_appended_twice(tmp_path: Path) -> None:
    async def test() -> None:
        async with client_of_several(tmp_path, HookedDisk()) as client:
            answers = await several(client, 4, 0, 3, 1)  # a log's first batch is not joined with others
            assert answers == [{0: (0, 1 + at), 3: (0, at), 1: (0, 1 + at)} for at in range(4)]

    run(test)


async def configure(client: NodeClient, topic: str, **configs: str) -> None:
    changes = [
        AlterableConfig(name=name.replace("_", "."), config_operation=ALTER_SET, value=value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=changes)
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
            await client.produce("t", batch(b"first of the new one"))  # an empty log is written to by the handler alone
            client.topic_ids["t"] = old
            found = [each.error_code for each in await burst(client, 3, version)]
            assert set(found) == ({ErrorCode.UNKNOWN_TOPIC_ID} if version == 13 else {0})
            client.topic_ids["t"] = new
            start = 1 if version == 13 else 4
            assert [each.base_offset for each in await burst(client, 2, version)] == [start, start + 1]

    run(test)


def test_a_changed_configuration_holds_from_the_next_request_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path, HookedDisk()) as client:
            await burst(client, 3)
            await configure(client, "t", max_message_bytes="10")
            assert {each.error_code for each in await burst(client, 3)} == {ErrorCode.MESSAGE_TOO_LARGE}
            await configure(client, "t", max_message_bytes="10000", message_timestamp_type="LogAppendTime")
            assert all(each.log_append_time_ms > 0 for each in await burst(client, 3))
            await configure(client, "t", message_timestamp_type="CreateTime", compression_type="gzip")
            await burst(client, 3)
            await configure(client, "t", compression_type="producer")
            await burst(client, 2)
            await burst(client, 2)
            stored = logs_of(client)["t", 0]  # in several segments, since the clock goes on
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


def test_a_batch_that_says_it_is_in_nobodys_transaction_is_refused_behind_others_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path, HookedDisk()) as client:
            producer = {"producer_id": PRODUCER, "producer_epoch": 0}
            for sequence in range(3):
                sent = batch(b"x", **producer, base_sequence=sequence)
                assert (await client.produce("t", sent)).error_code == 0
            sent = batch(b"x", **producer, base_sequence=3, transactional=True)
            answer = await client.ask(client.produce_request("t", sent))
            assert answer.responses[0].partition_responses[0].error_code != 0
            assert [each.base_offset for each in await burst(client, 1)] == [5]

    run(test)


def test_requests_of_one_read_keep_their_order_whatever_acks_they_ask_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path, HookedDisk()) as client:
            for acks in (1, -1, 1, -1):
                await burst(client, 2, acks=acks)
            requests = [client.produce_request("t", batch(b"x"), acks=acks) for acks in (1, -1, 1, -1, 1)]
            client.writer.write(b"".join(encode_request(each, 13, at, "test") for at, each in enumerate(requests)))
            answers = [await client.receive(each, 13) for each in requests]
            offsets = [each.responses[0].partition_responses[0].base_offset for each in answers]
            assert offsets == [10, 11, 12, 13, 14]

    run(test)


def test_requests_that_want_no_answer_get_none(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path, HookedDisk()) as client:
            request = client.produce_request("t", batch(b"x"))
            silent = client.produce_request("t", batch(b"x"), acks=0)
            for _ in range(2):
                frames = [encode_request(silent, 13, at, "test") for at in range(3)]
                client.writer.write(b"".join([*frames, encode_request(request, 13, 9, "test")]))
                assert int.from_bytes((await client.frame())[:4], "big") == 9
            assert [each.base_offset for each in await burst(client, 1)] == [10]

    run(test)


def test_a_partition_that_gets_a_follower_answers_no_sooner_than_that_has_the_records(tmp_path: Path) -> None:
    async def test() -> None:
        async with leader_and_follower(tmp_path) as (client, follower):
            await create_followed(client.node, "t", (1,))
            for _ in range(3):
                assert {each.error_code for each in await burst(client, 3)} == {0}
            await add_replica(client.node, "t", 1, 2)
            await until_async(lambda: follower.held("t").log.log_end_offset == 9)
            await until_async(lambda: 2 in parts(client.node).partitions.get("t", 0).replica.isr)  # type: ignore[union-attr]
            await burst(client, 3)
            assert follower.held("t").log.log_end_offset == 12
            await follower.replication.close()
            answers = await burst(client, 3, timeout_ms=100)
            assert {each.error_code for each in answers} == {ErrorCode.REQUEST_TIMED_OUT}

    run(test)
