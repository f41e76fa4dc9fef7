"""Quick Fetch: whatever a client sends, it is answered byte for byte as if the handler had answered each request.

A client whose id is another in each request begins each request differently, so that none is taken quickly: it is what the
quick one is compared with, over the same requests, on a node of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from ottla.base import ErrorCode, Millis, NodeId, ProducerEpoch, ProducerId
from ottla.broker.meters import Traffic
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.metadata import decide
from ottla.security import Operation, Resource
from ottla.wire import Message, encode_request, end_transaction_marker, iter_batches
from ottla.wire.messages import alter_client_quotas as quotas
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.follower import lead
from tests.broker.followers import FakeFollower, create_replicated
from tests.broker.hooked_disk import HookedDisk, broken
from tests.broker.node_client import NOW_MS, NodeClient, batch, delete_topic, parts, run, running_node, start_node
from tests.broker.sasl_client import handshake, is_closed
from tests.broker.test_follower_reads import RACK_AWARE
from tests.broker.test_quick_logins import LIFETIME_MS, USERS, Hand, somebody
from tests.net.certificates import client_context
from tests.security.authority import authority, signed
from tests.security.tls_files import listener_overrides
from tests.waiting import until_async

ANYTHING: dict[str, Any] = {
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1),
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
}
"""A filter that finds every entry."""
ROUNDS = 40
CHANGED_SHARE = 0.3
"""Of the bursts, behind which something is written or a topic is changed."""
QUICK_AT_LEAST = 5
SESSION_AT, SESSION_END = 6, 10
"""Where an answer has its session's id, counted from the throttle time."""


class Still:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return NOW_MS


class Side:
    """Clients of their own node, quick or not: the first changes topics, the others read."""

    def __init__(self, client: NodeClient, *, quick: bool, readers: list[NodeClient], disk: HookedDisk) -> None:
        self.client, self.quick, self.readers, self.disk = client, quick, readers, disk
        self.sent = 0
        self.known: dict[bytes, bytes] = {}
        """Ids that topics have or had, and what stands for them where nodes are compared."""
        self.sessions: dict[int, int] = {}
        """The id of the session that each reader was given last."""

    async def create(self, name: str, partitions: int, **configs: str) -> None:
        """Create a topic."""
        await self.client.create(name, partitions, **configs)
        self.known[self.client.topic_ids[name]] = b"topic %-10d" % len(self.known)

    def partition(self, name: str, index: int) -> LocalPartition | None:
        """Return a partition."""
        return parts(self.client.node).partitions.get(name, index)

    async def answers(self, requests: list[tuple[Message, int]], by: int = 0) -> list[bytes]:
        """Send requests in one write, and return their answers, without what differs between nodes."""
        frames = []
        for request, version in requests:
            self.sent += 1
            frames.append(encode_request(request, version, self.sent, "q-000" if self.quick else f"s{self.sent:04}"))
        self.readers[by].writer.write(b"".join(frames))
        found = []
        for request, version in requests:
            answer = await self.readers[by].frame()
            if isinstance(request, FetchRequest) and version >= 7:
                start = 4 + (version >= 12) + SESSION_AT
                session = int.from_bytes(answer[start : start + 4], "big")
                if session:
                    self.sessions[by] = session
                    answer = answer[:start] + b"####" + answer[start + 4 :]
            for topic_id, stands in self.known.items():
                answer = answer.replace(topic_id, stands)
            found.append(answer)
        return found

    def counted(self) -> dict[str, Any]:
        """Return what the node has counted of the client's requests."""
        services = parts(self.client.node)
        traffic: Traffic = services.traffic
        times = services.metrics.request("FetchConsumer")
        names = ("bytes_out", "fetches", "failed_fetches")
        return {
            "topics": {
                topic: [
                    *(getattr(each, name) for name in names),
                    sum(client.bytes_out for client in each.clients.values()),
                ]
                for topic, each in sorted(traffic.by_topic.items())
            },
            "errors": times.errors,
            "timed": sum(times.immediate.buckets) + sum(times.waited.buckets),
            "requests": services.metrics.counter("RequestMetrics.RequestsPerSec,request=Fetch").value,
        }


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
            readers = [await NodeClient.connect(client.node) for _ in range(READERS)]
            found.append(Side(client, quick=client is quick, readers=readers, disk=disk))
        yield found[0], found[1]
        for side in found:
            for each in side.readers:
                each.close()


TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "parts": {"internal_segment_bytes": "300000"},
    "longer-name-than-others": {"index_interval_bytes": "100"},
}
PARTITIONS = 2
READERS = 2
PRODUCER = 5


class Requests:
    """Draws what clients send: mostly what one has sent before with another offset, and all that can be wrong with it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.version = self.rng.randrange(5, 19)
        self.retired: dict[str, bytes] = {}
        """Ids of topics that were deleted, by their names."""
        self.sequences: dict[tuple[str, int], int] = {}
        self.wanted: dict[str, int] = {}
        self.open: set[tuple[str, int]] = set()
        """Partitions with a transaction that goes on."""

    async def change(self, side: Side) -> None:
        """Write to a topic, take records from it, delete it, or make it anew."""
        rng, client = self.rng, side.client
        gone = [name for name in TOPICS if name not in client.topic_ids]
        name = rng.choice(gone or ("plain", "plain", *TOPICS))
        index = rng.randrange(PARTITIONS)
        drawn = rng.random()
        if name not in client.topic_ids:
            await side.create(name, PARTITIONS, **TOPICS[name])
        elif drawn < 0.08:
            self.retired[name] = client.topic_ids[name]
            self.open = {each for each in self.open if each[0] != name}
            self.sequences = {each: at for each, at in self.sequences.items() if each[0] != name}
            await delete_topic(client, name)
        elif drawn < 0.2:
            partition = side.partition(name, index)
            assert partition is not None
            up_to = rng.randrange(partition.log.log_start_offset, partition.replica.high_watermark + 1)
            places = [DeleteRecordsPartition(partition_index=index, offset=up_to)]
            topics = [DeleteRecordsTopic(name=name, partitions=places)]
            await client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000))
        elif drawn < 0.5:
            self.transact(side, name, index)
        else:
            await self.write(side, name, index)

    async def write(self, side: Side, name: str, index: int) -> None:
        """Write batches of all sizes."""
        for _ in range(self.rng.randrange(1, 6)):
            size = self.rng.choice((10, 100, 1000, 3000, 30_000, 70_000))
            values = [self.rng.randbytes(self.rng.randrange(size)) for _ in range(self.rng.randrange(1, 4))]
            assert (await side.client.produce(name, batch(*values), index=index)).error_code == 0

    def transact(self, side: Side, name: str, index: int) -> None:
        """Write in a transaction, or end it."""
        partition = side.partition(name, index)
        assert partition is not None
        key, now_ms = (name, index), Millis(NOW_MS)
        if key in self.open and self.rng.random() < 0.5:
            marker = end_transaction_marker(
                commit=self.rng.random() < 0.5,
                producer_id=ProducerId(PRODUCER),
                producer_epoch=ProducerEpoch(0),
                coordinator_epoch=0,
                timestamp=now_ms,
            )
            partition.append_marker(marker, now_ms=now_ms, is_bumped=False)
            self.open.discard(key)
            return
        sequence = self.sequences.get(key, 0)
        made = batch(
            self.rng.randbytes(self.rng.randrange(900)),
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        partition.append_from_coordinator(bytearray(made), now_ms=now_ms)
        self.sequences[key] = sequence + 1
        self.open.add(key)

    def burst(self, side: Side, by: int) -> list[tuple[Message, int]]:
        """Return some requests that are sent together: most of them are as one before."""
        rng = self.rng
        if rng.random() < 0.06:
            self.version = rng.choice((4, *range(5, 19)))
        name = rng.choice((*("plain",) * 4, *TOPICS, "missing"))
        drawn = {
            "index": rng.choice((0, 0, 0, 1)),
            "isolation_level": rng.choice((0, 0, 1)),
            "min_bytes": rng.choice((0, 1, 1, 1, 5000)),
            "max_wait_ms": rng.choice((0, 0, 1)),
            "max_bytes": rng.choice((1 << 20, 1 << 20, 65_536, 100, 0, -1)),
            "partition_max_bytes": rng.choice((1 << 20, 65_536, 65_536, 1000, 0, -1)),
            "leader_epoch": rng.choice((-1, -1, -1, 0, 0, 1)),
            "last_fetched_epoch": rng.choice((-1, -1, -1, 0, 0, 1)),
        }
        for key in drawn if not self.wanted else rng.sample(list(drawn), rng.randrange(1, 5)):
            self.wanted[key] = drawn[key]
        wanted = dict(self.wanted)
        for key, known_from in (("leader_epoch", 9), ("last_fetched_epoch", 12)):
            if self.version < known_from:
                wanted[key] = -1
        found = []
        for _ in range(rng.randrange(1, 10)):
            if rng.random() < 0.05:
                name = rng.choice(list(TOPICS))
            if rng.random() < 0.05:
                wanted["index"] = rng.choice((0, 1, 2))
            found.append(self.one(side, name, wanted, by))
        return found

    def one(self, side: Side, name: str, wanted: dict[str, int], by: int) -> tuple[Message, int]:
        rng = self.rng
        if rng.random() < 0.03:
            return ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
        if rng.random() < 0.03:
            request = side.client.produce_request("plain", batch(b"written by a reader"))
            return request, min(13, max(9, self.version))
        partition = side.partition(name, wanted["index"])
        start, end = (0, 3) if partition is None else (partition.log.log_start_offset, partition.log.log_end_offset)
        offset = rng.choice((start, rng.randrange(start, end + 1), rng.randrange(start, end + 1), end))
        if rng.random() < 0.05:
            offset = rng.choice((-1, start - 1, end + 1, 1 << 60))
        request = side.client.fetch_request(name, offset, **wanted)
        topic = request.topics[0]
        if name in self.retired and rng.random() < 0.1:
            topic.topic_id = self.retired[name]
        if rng.random() < 0.03:
            request.topics.append(FetchTopic(topic=name, topic_id=topic.topic_id, partitions=[*topic.partitions] * 2))
        if rng.random() < 0.02:
            topic.partitions.append(FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1000))
        if rng.random() < 0.03 and self.version >= 11:
            request.rack_id = "somewhere"
        if rng.random() < 0.04 and self.version >= 7:
            request.session_id, request.session_epoch = rng.choice(((0, 0), (side.sessions.get(by, 7), 1), (7, -1)))
        return request, self.version


@pytest.mark.parametrize("seed", range(12))
def test_mixed_requests_are_answered_as_by_the_handler(tmp_path: Path, seed: int) -> None:
    async def test() -> None:
        async with sides(tmp_path) as (quick, slow):
            drawn = {side: Requests(seed) for side in (quick, slow)}
            for side in (quick, slow):
                for name, configs in TOPICS.items():
                    await side.create(name, PARTITIONS, **configs)
                    for index in range(PARTITIONS):
                        await drawn[side].write(side, name, index)
            for at in range(ROUNDS):
                by = at % READERS
                found, expected = [await side.answers(drawn[side].burst(side, by), by) for side in (quick, slow)]
                assert found == expected, f"seed {seed}, burst {at}"
                for side in (quick, slow):
                    while drawn[side].rng.random() < CHANGED_SHARE:
                        await drawn[side].change(side)
            assert quick.counted() == slow.counted()
            assert not slow.disk.reads_into, "what it is compared with is never quick"
            assert quick.disk.reads_into >= QUICK_AT_LEAST
            assert quick.disk.sends >= slow.disk.sends

    run(test)


@asynccontextmanager
async def quick_client(folder: Path, *settings: str, values: int = 4) -> AsyncIterator[tuple[NodeClient, HookedDisk]]:
    """Connect to a node with some records in a topic, as somebody whose Fetch requests are known, and taken quickly."""
    disk = HookedDisk()
    async with running_node(folder, *settings, disk=disk) as client:
        await client.create("t")
        for at in range(values):
            assert (await client.produce("t", batch(b"v%d" % at))).error_code == 0
        for version in (12, 18):
            await known(client, disk, version)
        yield client, disk


async def write(client: NodeClient, *values: bytes) -> None:
    """Produce by another connection: the client's remembers what came last, and that are Fetch requests."""
    other = await NodeClient.connect(client.node)
    other.topic_ids = client.topic_ids
    for value in values:
        assert (await other.produce("t", batch(value), acks=1)).error_code == 0
    other.close()


async def known(client: NodeClient, disk: HookedDisk, version: int = 18, **wanted: Any) -> None:
    """Fetch twice, and see that the second one is taken quickly."""
    await client.fetch("t", 0, version=version, **wanted)
    before = disk.reads_into + disk.sends
    assert (await client.fetch("t", 0, version=version, **wanted)).error_code == 0
    assert disk.reads_into + disk.sends == before + 1


@pytest.mark.parametrize("version", [12, 18])
def test_a_topic_that_is_gone_is_refused_at_once(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, _):
            old = client.topic_ids["t"]
            await delete_topic(client)
            client.topic_ids["t"] = old
            gone = ErrorCode.UNKNOWN_TOPIC_ID if version == 18 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (await client.fetch("t", 0, version=version)).error_code == gone
            await client.create("t")
            new = client.topic_ids["t"]
            await write(client, b"new")
            client.topic_ids["t"] = old
            answer = await client.fetch("t", 0, version=version)
            if version == 18:
                assert answer.error_code == gone
            else:
                assert (answer.error_code, answer.high_watermark) == (0, 1)
            client.topic_ids["t"] = new
            assert (await client.fetch("t", 0, version=version)).high_watermark == 1

    run(test)


def test_records_that_are_deleted_are_out_of_range_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, disk):
            places = [DeleteRecordsPartition(partition_index=0, offset=2)]
            topics = [DeleteRecordsTopic(name="t", partitions=places)]
            await client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000))
            assert (await client.fetch("t", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            before = disk.reads_into
            answer = await client.fetch("t", 2)
            assert (answer.error_code, answer.log_start_offset) == (0, 2)
            assert disk.reads_into == before + 1

    run(test)


def test_a_log_that_was_cut_hands_out_nothing_of_what_it_had(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, _):
            partition = parts(client.node).partitions.get("t", 0)
            assert partition is not None
            partition.truncate_to(2)
            partition.truncation_stored()
            assert (await client.fetch("t", 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            answer = await client.fetch("t", 0)
            assert [header.base_offset for header, _ in iter_batches(answer.records)] == [0, 1]

    run(test)


def test_an_open_transaction_is_hidden_and_an_aborted_one_is_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, disk):
            await known(client, disk, isolation_level=1)
            partition = parts(client.node).partitions.get("t", 0)
            assert partition is not None
            producer: dict[str, Any] = {"producer_id": PRODUCER, "producer_epoch": 0}
            made = batch(b"open", **producer, base_sequence=0, transactional=True)
            partition.append_from_coordinator(bytearray(made), now_ms=Millis(NOW_MS))
            answer = await client.fetch("t", 0, isolation_level=1)
            assert (answer.high_watermark, answer.last_stable_offset) == (5, 4)
            assert [header.base_offset for header, _ in iter_batches(answer.records)] == [0, 1, 2, 3]
            assert not (await client.fetch("t", 4, isolation_level=1)).records
            marker = end_transaction_marker(
                commit=False, **producer, coordinator_epoch=0, timestamp=Millis(NOW_MS), base_offset=5
            )
            partition.append_marker(marker, now_ms=Millis(NOW_MS), is_bumped=False)
            answer = await client.fetch("t", 0, isolation_level=1)
            assert answer.last_stable_offset == 6
            assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [(PRODUCER, 4)]

    run(test)


def test_an_epoch_that_is_not_the_leaders_is_refused_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, disk):
            epoch = parts(client.node).quorum.image.partition("t", 0)
            assert epoch is not None
            await known(client, disk, leader_epoch=epoch.leader_epoch, last_fetched_epoch=epoch.leader_epoch)
            wanted = {"leader_epoch": epoch.leader_epoch, "last_fetched_epoch": epoch.leader_epoch}
            await lead(client.node, "t", 0 if epoch.leader < 0 else epoch.leader)
            fenced = await client.fetch("t", 0, **wanted)
            now = parts(client.node).quorum.image.partition("t", 0)
            assert now is not None and now.leader_epoch > epoch.leader_epoch
            assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
            assert (await client.fetch("t", 0)).error_code == 0

    run(test)


def test_who_follows_now_answers_as_a_follower_does(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            await client.produce("t", batch(b"a"), acks=1)
            await follower.fetch("t", 1)
            for version in (10, 18):
                await known(client, disk, version)
            await client.node.quorum.submit(lambda image: decide.fence_broker(image, NodeId(1)))
            assert (await client.fetch("t", 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(test)


def test_records_above_the_high_watermark_are_not_handed_out(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            await client.produce("t", batch(b"a"), acks=1)
            await follower.fetch("t", 1)
            await known(client, disk)
            await write(client, b"b")
            before = disk.reads_into
            answer = await client.fetch("t", 0)
            assert disk.reads_into == before + 1
            assert answer.high_watermark == 1
            assert [header.base_offset for header, _ in iter_batches(answer.records)] == [0]

    run(test)


def test_a_quota_holds_from_the_next_request_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, _):
            entity = [quotas.EntityData(entity_type="client-id", entity_name="test")]
            entry = quotas.RequestEntryData(entity=entity, ops=[quotas.OpData(key="consumer_byte_rate", value=1.0)])
            other = await NodeClient.connect(client.node)
            assert (await other.ask(quotas.AlterClientQuotasRequest(entries=[entry]))).entries[0].error_code == 0
            other.close()
            assert (await client.ask(client.fetch_request("t", 0))).throttle_time_ms > 0

    run(test)


def test_a_right_that_is_taken_away_is_gone_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
        disk = HookedDisk()
        async with running_node(tmp_path, *AUTHORIZER, disk=disk) as client:
            admin = Asker(client.node, ADMIN)
            creation = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            created = await admin.ask(CreateTopicsRequest(topics=[creation], timeout_ms=10_000))
            client.topic_ids["t"] = bytes(created.topics[0].topic_id)
            for operation in (Operation.WRITE, Operation.READ):
                await grant(client.node, allowed("User:ANONYMOUS", operation, Resource.TOPIC, "t"))
            await client.produce("t", batch(b"secret"))
            await known(client, disk)
            authorizer = parts(client.node).authorizer
            before = authorizer.allowed
            for _ in range(5):
                assert (await client.fetch("t", 0)).records
            assert authorizer.allowed == before + 5
            filters = [DeleteAclsFilter(**ANYTHING)]
            assert (await admin.ask(DeleteAclsRequest(filters=filters))).filter_results[0].error_code == 0
            denied = authorizer.denied
            for _ in range(5):
                refused = await client.fetch("t", 0)
                assert (refused.error_code, refused.records) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")
            assert authorizer.denied == denied + 5

    run(test)
    lines = [each.getMessage() for each in caplog.records if "request = Fetch" in each.getMessage()]
    assert sum("is Allowed" in each for each in lines) == 7
    assert sum("is Denied" in each for each in lines) == 5


def test_what_the_page_cache_lacks_is_read_on_a_thread(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, disk):
            disk.is_cold = True
            answer = await client.fetch("t", 0)
            assert [header.base_offset for header, _ in iter_batches(answer.records)] == [0, 1, 2, 3]
            fetches = parts(client.node).traffic.by_topic["t"].fetches
            disk.is_cold = False
            await client.fetch("t", 0)
            assert parts(client.node).traffic.by_topic["t"].fetches == fetches + 1

    run(test)


def test_a_disk_that_cannot_be_read_costs_what_the_handler_says(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, disk):

            def refuse(call: str, path: str) -> None:
                if call == "pread" and "/t-0/" in path and path.endswith(".log"):
                    raise broken(path)

            disk.hook = refuse
            assert (await client.fetch("t", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert parts(client.node).metrics.request("FetchConsumer").errors == {}  # met after it was counted
            disk.hook = lambda call, path: None
            assert (await client.fetch("t", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run(test)


def test_what_is_too_little_is_waited_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, disk):
            wanted = {"max_wait_ms": 20_000, "min_bytes": 200}
            await known(client, disk, **wanted)
            request = client.fetch_request("t", 3, **wanted)
            client.send(request, 18)
            other = await NodeClient.connect(client.node)
            other.topic_ids = client.topic_ids
            await other.produce("t", batch(b"x" * 200))
            other.close()
            answer = (await client.receive(request, 18)).responses[0].partitions[0]
            assert [header.base_offset for header, _ in iter_batches(answer.records)] == [3, 4]

    run(test)


@pytest.mark.parametrize("size", [30_000, 60_000, 300_000])
def test_answers_that_are_not_taken_yet_are_not_written_over(tmp_path: Path, size: int) -> None:
    """A client sends many requests and reads late: what the socket did not take of an answer was kept."""

    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            await client.create("t")
            count = 60
            stored = [batch(bytes([at]) * size) for at in range(count)]
            for each in stored:
                assert (await client.produce("t", each)).error_code == 0
            wanted = {"partition_max_bytes": 1, "max_wait_ms": 1000}
            await known(client, disk, **wanted)
            transport = cast(asyncio.ReadTransport, client.writer.transport)
            for _ in range(2):
                transport.pause_reading()  # the kernels' buffers hold less than what is asked for
                offsets = [at % count for at in range(400)]
                requests = [client.fetch_request("t", each, **wanted) for each in offsets]
                client.writer.write(b"".join(encode_request(each, 18, 1, "test") for each in requests))
                await until_async(lambda: parts(client.node).answer_memory.held > 0)
                transport.resume_reading()
                for offset, request in zip(offsets, requests, strict=True):
                    answer = (await client.receive(request, 18)).responses[0].partitions[0]
                    assert bytes(answer.records)[16:] == stored[offset][16:], "but for offset and epoch"
            assert disk.reads_into + disk.sends > count

    run(test)


def test_who_writes_and_reads_on_one_connection_is_answered_in_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, _):
            for start in range(4, 40, 6):
                requests: list[tuple[Message, int]] = []
                for at in range(3):
                    requests.append((client.produce_request("t", batch(b"w%d" % (start + 2 * at))), 13))
                    requests.append((client.fetch_request("t", start + 2 * at), 18))
                    requests.append((client.produce_request("t", batch(b"w")), 13))
                client.writer.write(b"".join(encode_request(each, version, 7, "test") for each, version in requests))
                for at in range(3):
                    written = await client.receive(*requests[0])
                    read = await client.receive(*requests[1])
                    again = await client.receive(*requests[0])
                    offset = start + 2 * at
                    assert written.responses[0].partition_responses[0].base_offset == offset
                    assert read.responses[0].partitions[0].high_watermark == offset + 1
                    assert again.responses[0].partition_responses[0].base_offset == offset + 1

    run(test)


def test_a_client_that_leaves_in_the_middle_of_an_answer_harms_nobody(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, _):
            for at in range(30):
                await client.produce("t", batch(bytes([at]) * 50_000))
            for _ in range(5):
                other = await NodeClient.connect(client.node)
                other.topic_ids = client.topic_ids
                requests = [client.fetch_request("t", at, partition_max_bytes=65_536) for at in range(30)]
                frames = b"".join(encode_request(each, 18, 1, "test") for each in requests)
                other.writer.write(frames)
                await other.frame()
                cast(asyncio.Transport, other.writer.transport).abort()
                assert (await client.fetch("t", 0)).error_code == 0
            await until_async(lambda: parts(client.node).answer_memory.held == 0)

    run(test)


@pytest.mark.parametrize("ends", [True, False])
def test_a_login_that_ends_or_is_renewed_between_two_requests_lets_none_pass(tmp_path: Path, ends: bool) -> None:
    async def test() -> None:
        disk, clock = HookedDisk(), Hand()
        async with running_node(tmp_path, *USERS, disk=disk, clock=clock) as first:
            admin = await somebody(first, "admin")
            await admin.create("t")
            for operation in (Operation.WRITE, Operation.READ):
                await grant(admin.node, allowed("User:ann", operation, Resource.TOPIC, "t"))
            reader = await somebody(admin, "ann")
            await reader.produce("t", batch(b"secret"))
            await known(reader, disk)
            before = disk.reads_into
            if ends:
                clock.at_ms += LIFETIME_MS
            else:
                clock.at_ms += 2000
                assert (await handshake(reader)).error_code == 0
            reader.send(reader.fetch_request("t", 0), 18)
            assert await is_closed(reader)
            assert disk.reads_into == before
            for each in (admin, reader):
                each.close()

    run(test)


def test_answers_through_tls_are_as_they_are_stored(tmp_path: Path) -> None:
    ca = authority()
    settings = listener_overrides(tmp_path, signed(ca, "broker"), ca)

    async def test() -> None:
        disk = HookedDisk()
        node = await start_node(tmp_path / "data", *settings, disk=disk)
        try:
            context = client_context(ca, None)
            port = node.listeners[0].port
            client = NodeClient(node, *await asyncio.open_connection("127.0.0.1", port, ssl=context))
            await client.create("t")
            stored = [batch(bytes([at]) * 50_000) for at in range(20)]
            for each in stored:
                assert (await client.produce("t", each)).error_code == 0
            await known(client, disk, partition_max_bytes=1)
            before = disk.reads_into
            requests = [client.fetch_request("t", at, partition_max_bytes=1) for at in range(20)]
            client.writer.write(b"".join(encode_request(each, 18, 1, "test") for each in requests))
            for request, expected in zip(requests, stored, strict=True):
                answer = (await client.receive(request, 18)).responses[0].partitions[0]
                assert bytes(answer.records)[16:] == expected[16:], "but for offset and epoch"
            assert disk.reads_into == before + 20
            client.close()
        finally:
            await node.stop()

    run(test)


def test_each_request_for_a_session_begins_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with quick_client(tmp_path) as (client, _):
            request = client.fetch_request("t", 0, session_epoch=0)
            sessions = [(await client.ask(request, 18)).session_id for _ in range(4)]
            assert len({*sessions, 0}) == 5
            going_on = client.fetch_request("t", 0, session_id=sessions[-1], session_epoch=1)
            assert (await client.ask(going_on, 18)).responses
            assert (await client.ask(going_on, 18)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    run(test)


def test_who_may_read_near_by_is_sent_there_as_soon_as_that_has_come_so_far(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *RACK_AWARE) as client:
            south = await FakeFollower.register(client.node, 2, rack="south")
            await create_replicated(client, "t", 1, 2)
            await write(client, b"a")
            await south.fetch("t", 1)
            await south.beat(fence=True)
            request = client.fetch_request("t", 0).replace(rack_id="south")
            for _ in range(3):
                here = (await client.ask(request, 18)).responses[0].partitions[0]
                assert here.records and here.preferred_read_replica == -1
            await south.beat()
            await south.fetch("t", 1)
            await until_async(lambda: 2 in parts(client.node).partitions.get("t", 0).replica.isr)  # type: ignore[union-attr]
            near = (await client.ask(request, 18)).responses[0].partitions[0]
            assert near.preferred_read_replica == 2 and not near.records

    run(test)


def test_a_leader_that_is_not_sure_asks_its_followers_first(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            await write(client, b"a")
            await follower.fetch("t", 1)
            await known(client, disk)
            parts(client.node).lease.suspend()
            before = disk.reads_into
            client.send(client.fetch_request("t", 0), 18)
            answer = asyncio.ensure_future(client.frame())
            while not answer.done():
                await follower.fetch("t", 1)
            await answer
            assert disk.reads_into == before

    run(test)
