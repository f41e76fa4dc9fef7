"""Clusters that follow each other: records, topics, configurations, entries of access and groups, by real brokers."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.admin import (
    ConfigChange,
    ConfigEntity,
    add_partitions,
    alter_config,
    create_acls,
    describe_acls,
    describe_config,
)
from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, FetchPosition, NewTopic, create_topics
from ottla.mirror.checkpoints import due_checkpoints, due_offsets
from ottla.mirror.clusters import CompactedTopic
from ottla.mirror.records import Checkpoint, Heartbeat
from ottla.security import Acl, AclFilter, Operation, PatternType, PermissionType, Resource
from ottla.spark import MirrorMaker, ThreadJobs
from ottla.wire import Codec, ColumnDecoder, Record, build_batch, iter_batch_records, iter_batches
from tests.connect.whole import WholeWorker, running_connect
from tests.server import Server, running_server
from tests.waiting import until

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONVERTERS = {f"{kind}.converter": BYTES for kind in ("key", "value", "header")}
MEASURED = {"ottla.http.listeners": "http://127.0.0.1:0"}
WITH_ACLS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "super.users=User:ANONYMOUS",
)
WRITTEN_MS = time.time_ns() // 1_000_000
"""When records are written: today, since brokers delete older ones half a minute after they have started."""
QUICK = {
    **{f"{what}.replication.factor": "1" for what in ("offset-syncs.topic", "checkpoints.topic", "heartbeats.topic")},
    "replication.factor": "1",
    **{f"{what}.interval.seconds": "1" for what in ("refresh.topics", "sync.topic.configs", "sync.topic.acls")},
    **{f"{what}.interval.seconds": "1" for what in ("refresh.groups", "emit.checkpoints", "sync.group.offsets")},
    "sync.group.offsets.enabled": "true",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    folders = [tmp_path_factory.mktemp(each) for each in ("east", "west")]
    with (
        running_server(folders[0], overrides=WITH_ACLS) as east,
        running_server(folders[1], overrides=WITH_ACLS) as west,
    ):
        yield east, west


@pytest.fixture
def clients(servers: tuple[Server, Server]) -> Iterator[tuple[BlockingClient, BlockingClient]]:
    with BlockingClient(servers[0].bootstrap) as east, BlockingClient(servers[1].bootstrap) as west:
        yield east, west


def make(client: BlockingClient, topic: str, partitions: int = 2, **configs: str) -> None:
    wanted = NewTopic(topic, partitions, 1, {key.replace("_", "."): value for key, value in configs.items()})
    assert not client.run(create_topics(client.client, [wanted]))


def write(client: BlockingClient, topic: str, *values: str, partition: int = 0) -> None:
    records = [
        Record(Offset(0), WRITTEN_MS + row, f"k{row}".encode(), each.encode(), (("h", b"1"), ("n", None)))  # type: ignore[arg-type]
        for row, each in enumerate(values)
    ]
    client.produce({TopicPartition(topic, partition): bytes(build_batch(records))})


def read(client: BlockingClient, topic: str) -> list[Record]:
    places = client.metadata([topic]).partitions_of(topic)
    begin = client.list_offsets(dict.fromkeys(places, EARLIEST)) if places else {}
    found: list[Record] = []
    for place in places:
        end, at = client.list_offsets({place: LATEST})[place].offset, begin[place].offset
        while at < end:
            [answer] = client.fetch([FetchPosition(place, at)])
            data = answer.check().records
            batches = [(header, start) for header, start in iter_batches(data) if header.next_offset > at]
            for header, start in batches:
                found += () if header.is_control else iter_batch_records(data, start, header)
            at = batches[-1][0].next_offset if batches else end
    return found


def values(client: BlockingClient, topic: str) -> Counter[str]:
    return Counter((each.value or b"").decode() for each in read(client, topic))


def flow(servers: tuple[Server, Server], **more: str) -> dict[str, str]:
    east, west = servers
    return {
        **QUICK,
        "tasks.max": "2",
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
        "source.cluster.bootstrap.servers": east.bootstrap,
        "target.cluster.bootstrap.servers": west.bootstrap,
        **more,
    }


def metrics(worker: WholeWorker) -> list[str]:
    with urllib.request.urlopen(f"{worker.worker.metrics_urls[0]}/metrics", timeout=20) as answer:
        return [line for line in answer.read().decode().splitlines() if "mirror" in line]


def measured(worker: WholeWorker, name: str, topic: str) -> float:
    found = [each for each in metrics(worker) if f"_{name}{{" in each and f'"east.{topic}"' in each]
    return sum(float(each.rpartition(" ")[2]) for each in found)


def create(worker: WholeWorker, kind: str, config: dict[str, str]) -> None:
    worker.create(f"{kind}", {**config, "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector"})


def test_what_large_batches_hold_is_measured_as_they_travel_whole(
    servers: tuple[Server, Server], clients: tuple[BlockingClient, BlockingClient], tmp_path: Path
) -> None:
    """Compressed, so that batches are smaller than what they hold; keys and headers are none of the values' bytes."""
    east, west = clients
    make(east, "large", 1)
    begun = WRITTEN_MS
    for number in range(3):
        records = [
            Record(Offset(row), Millis(begun + number), b"k" * 100, b"%04d" % row * 500, (("h", b"1" * 50),))
            for row in range(400)
        ]
        noise = Record(Offset(400), Millis(begun - 5), b"k", os.urandom(100_000), ())
        east.produce({TopicPartition("large", 0): bytes(build_batch([*records, noise], codec=Codec.LZ4))})
    [answer] = east.fetch([FetchPosition(TopicPartition("large", 0), Offset(0))])
    assert all(header.batch_length > 100_000 for header, _ in iter_batches(answer.check().records))
    with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS, **MEASURED) as worker:
        create(worker, "Source", flow(servers, topics="large"))
        until(lambda: measured(worker, "record_count", "large") == 3 * 401, lambda: metrics(worker))
        assert measured(worker, "byte_count", "large") == 3 * (400 * 2000 + 100_000)
        oldest, newest = (measured(worker, f"record_age_ms_{end}", "large") for end in ("max", "min"))
        assert oldest - newest >= 5  # the batches that were looked into have one before their first
    assert len(read(west, "east.large")) == 3 * 401


def test_topics_and_records_follow_with_all_that_belongs_to_them(
    servers: tuple[Server, Server], clients: tuple[BlockingClient, BlockingClient], tmp_path: Path
) -> None:
    east, west = clients
    make(east, "orders", retention_ms="123456789", min_insync_replicas="1")
    write(east, "orders", "one", "two")
    reading = Acl(Resource.TOPIC, "orders", PatternType.LITERAL, "User:ann", "*", Operation.ALL, PermissionType.ALLOW)
    create_acls(east, [reading])
    entity = ConfigEntity("topics", "east.orders")

    def own() -> dict[str, str | None]:
        return {each.name: each.value for each in describe_config(west, entity) if each.is_set_for(entity)}

    with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS, **MEASURED) as worker:
        create(worker, "Source", flow(servers, topics="orders|later"))
        until(lambda: values(west, "east.orders") == Counter(("one", "two")), "what was there before")
        counted = (
            'kafka_connect_mirror_mirrorsourceconnector_record_count{source="east",target="west",'
            'topic="east.orders",partition="0",connector="Source",task="0"} 2'
        )
        until(lambda: counted in metrics(worker), lambda: metrics(worker))
        [first, second] = read(west, "east.orders")
        assert (first.key, first.timestamp, first.headers) == (b"k0", WRITTEN_MS, (("h", b"1"), ("n", None)))
        assert first.offset == 0 and second.timestamp == WRITTEN_MS + 1
        assert own() == {"retention.ms": "123456789"}  # what is not to be copied is not
        make(east, "later", 1)
        make(east, "other", 1)
        add_partitions(east, ["orders"], count=3)
        alter_config(
            east, ConfigChange(ConfigEntity("topics", "orders"), {"max.message.bytes": "4000"}, ("retention.ms",))
        )
        write(east, "later", "three")
        until(lambda: values(west, "east.later") == Counter(["three"]), "a topic that came later")
        until(lambda: len(west.metadata().partitions_of("east.orders")) == 3, "a partition that came later")
        write(east, "orders", "four", partition=2)
        until(lambda: values(west, "east.orders")["four"] == 1, "a record of it")
        until(lambda: own() == {"max.message.bytes": "4000"}, own)
        wanted = AclFilter(resource_type=Resource.TOPIC, resource_name="east.orders", pattern_type=PatternType.LITERAL)
        until(lambda: describe_acls(west, wanted), "an entry of access")
        assert [each.operation for each in describe_acls(west, wanted)] == [Operation.READ]
        assert "east.other" not in west.metadata().topics
    write(east, "orders", "five")
    with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS) as worker:
        create(worker, "Source", flow(servers, topics="orders|later"))
        until(lambda: values(west, "east.orders")["five"] == 1, "a record of meanwhile")
    assert set(values(west, "east.orders").values()) == {1}, "each is there once"


def test_a_group_that_changes_clusters_misses_nothing(
    servers: tuple[Server, Server], clients: tuple[BlockingClient, BlockingClient], tmp_path: Path
) -> None:
    east, west = clients
    make(east, "clicks", 1)
    make(west, "taken", 1)
    for begin in range(0, 500, 50):
        write(east, "clicks", *map(str, range(begin, begin + 50)))
    place, remote = TopicPartition("clicks", 0), TopicPartition("east.clicks", 0)
    east.commit_offsets("readers", {place: Offset(420)})
    east.commit_offsets("console-consumer-1", {place: Offset(420)})
    config = flow(servers, topics="clicks", **{"offset.lag.max": "10"})
    with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS) as worker:
        for kind in ("Source", "Checkpoint", "Heartbeat"):
            create(worker, kind, config)
        until(lambda: len(read(west, "east.clicks")) == 500, "the records")

        def synced() -> int:
            found = west.committed_offsets("readers").get(remote)
            return -1 if found is None else int(found.offset)

        until(lambda: synced() > 300, synced)  # the farther from the end, the coarser
        assert synced() <= 420
        assert not west.committed_offsets("console-consumer-1")
        east.commit_offsets("readers", {place: Offset(500)})
        until(lambda: synced() > 480, synced)
        west.commit_offsets("readers", {remote: Offset(500)})
        east.commit_offsets("readers", {place: Offset(450)})
        told = CompactedTopic(west, "east.checkpoints.internal")
        seen: list[Checkpoint] = []

        def told_back() -> bool:
            seen.extend(Checkpoint.of(key, value) for key, value in told.read())
            return seen[-1].upstream == 450

        until(told_back, lambda: seen[-3:])
        assert synced() == 500, "a group is never moved back"
        assert {each.group for each in seen} == {"readers"} and all(each.downstream <= each.upstream for each in seen)
        beats = [Heartbeat.of(each.key, each.value) for each in read(west, "heartbeats")]
        assert {(each.source, each.target) for each in beats} == {("east", "west")}


@contextmanager
def running(maker: MirrorMaker) -> Iterator[MirrorMaker]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(maker.start(), loop).result(100)
        yield maker
    finally:
        asyncio.run_coroutine_threadsafe(maker.close(), loop).result(100)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_mirror_maker_by_itself_has_two_clusters_follow_each_other_and_nothing_go_round(
    servers: tuple[Server, Server], clients: tuple[BlockingClient, BlockingClient]
) -> None:
    east, west = clients
    given = {
        **QUICK,
        "clusters": "east,west",
        "east.bootstrap.servers": servers[0].bootstrap,
        "west.bootstrap.servers": servers[1].bootstrap,
        "east->west.enabled": "true",
        "west->east.enabled": "true",
        "topics": ".*both",
        "emit.checkpoints.enabled": "false",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        **{f"{kind}.{each}": value for kind in ("east", "west") for each, value in MEMBER.items()},
    }
    make(east, "both", 1)
    make(west, "both", 1)
    write(east, "both", "e1")
    write(west, "both", "w1")
    with running(MirrorMaker(given, jobs=ThreadJobs)) as maker:
        assert sorted(str(each) for each, _ in maker.places) == ["east->west", "west->east"]
        until(lambda: values(west, "east.both") == Counter(["e1"]), "east's records")
        until(lambda: values(east, "west.both") == Counter(["w1"]), "west's records")
        write(east, "both", "e2")
        until(lambda: values(west, "east.both") == Counter(["e1", "e2"]), "the next one")
        until(lambda: "east.heartbeats" in west.metadata().topics, "that heartbeats are mirrored, too")
    names = {*east.metadata().topics, *west.metadata().topics}
    assert not [each for each in names if "east.west" in each or "west.east" in each]


MEMBER = {"heartbeat.interval.ms": "100", "session.timeout.ms": "6000", "scheduled.rebalance.max.delay.ms": "200"}


def test_checkpoints_are_told_where_they_say_more_and_where_a_group_was_reset() -> None:
    def at(upstream: int, downstream: int) -> Checkpoint:
        return Checkpoint("g", TopicPartition("t", 0), Offset(upstream), Offset(downstream))

    place = TopicPartition("t", 0)
    for found, last, is_told in (
        (at(5, 4), None, True),
        (at(5, -1), None, False),
        (at(6, 4), at(5, 4), False),
        (at(7, 6), at(5, 4), True),
        (at(3, 2), at(5, 4), True),
    ):
        assert bool(due_checkpoints([found], {} if last is None else {place: last})) is is_told


def test_a_groups_offsets_on_the_target_only_grow() -> None:
    place = TopicPartition("t", 0)
    known: dict[TopicPartition, Any] = {place: Checkpoint("g", place, Offset(9), Offset(7))}
    assert due_offsets(known, None) == due_offsets(known, {}) == due_offsets(known, {place: Offset(6)}) == {place: 7}
    assert due_offsets(known, {place: Offset(7)}) == due_offsets(known, {place: Offset(8)}) == {}


def test_batches_travel_whole_and_each_record_is_as_it_was(
    servers: tuple[Server, Server], clients: tuple[BlockingClient, BlockingClient], tmp_path: Path
) -> None:
    """Large batches between small ones, compressed, with nulls, headers and times that go back."""
    east, west = clients
    make(east, "whole", 1)
    place, number = TopicPartition("whole", 0), 0
    for count, codec in ((30, Codec.GZIP), (1, Codec.NONE), (3, Codec.LZ4), (200, Codec.LZ4), (25, Codec.NONE)):
        records = []
        for row in range(count):
            number += 1
            key, value = (None if number % 3 == 0 else b"k%d" % number), (None if number % 7 == 0 else b"v%d" % number)
            headers = (("h", b"%d" % number), ("n", None)) if number % 2 else ()
            records.append(Record(Offset(row), Millis(WRITTEN_MS - 7 * number), key, value, headers))
        east.produce({place: bytes(build_batch(records, codec=codec))})
    with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS, **MEASURED) as worker:
        create(worker, "Source", flow(servers, topics="whole"))
        until(lambda: len(read(west, "east.whole")) == number, "all records")
        counted = sum(len(each.value or b"") for each in read(east, "whole"))
        until(lambda: measured(worker, "record_count", "whole") == number, lambda: metrics(worker))
        assert measured(worker, "byte_count", "whole") == counted
    assert read(west, "east.whole") == read(east, "whole")
    remote = TopicPartition("east.whole", 0)
    [answer] = west.fetch([FetchPosition(remote, Offset(0))])
    assert max(header.record_count for header, _ in iter_batches(answer.check().records)) > 200
    with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS) as worker:
        write(east, "whole", "last")
        create(worker, "Source", flow(servers, topics="whole"))
        until(lambda: len(read(west, "east.whole")) == number + 1, "one record more, and none again")


@pytest.mark.slow  # three workers, one after another; make nightly
def test_exactly_once_each_record_is_there_once_and_aborted_ones_are_not(
    servers: tuple[Server, Server], clients: tuple[BlockingClient, BlockingClient], tmp_path: Path
) -> None:
    east, west = clients
    make(east, "paid", 1)
    write(east, "paid", *(f"plain-{row}" for row in range(30)))
    producer = Producer({"bootstrap.servers": servers[0].bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for turn, commits in enumerate((True, False, True)):
        producer.begin_transaction()
        for row in range(20):
            producer.produce("paid", f"{turn}-{row}")
        if commits:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    expected = Counter(
        [*(f"plain-{row}" for row in range(30)), *(f"{turn}-{row}" for turn in (0, 2) for row in range(20))]
    )
    config = flow(
        servers,
        topics="paid",
        **{"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"},
    )
    for more in ((), ("later",)):
        with running_connect(
            tmp_path,
            servers[1].bootstrap,
            distributed=True,
            **CONVERTERS,
            **{"exactly.once.source.support": "enabled"},
        ) as worker:
            if not more:
                create(worker, "Source", config)
            else:
                write(east, "paid", *more)
                expected.update(more)
            until(lambda: values(west, "east.paid") == expected, lambda: values(west, "east.paid") - expected)
    refused = {**config, "source.consumer.isolation.level": "read_uncommitted"}
    with running_connect(
        tmp_path, servers[1].bootstrap, distributed=True, **CONVERTERS, **{"exactly.once.source.support": "enabled"}
    ) as worker:
        given = {**refused, "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
        status, said = worker.ask("POST", "/connectors", {"name": "refused", "config": given})
        assert status == 400 and "exactly" in said["message"].lower()


def test_a_topic_that_the_target_refuses_costs_itself_alone_and_a_damaged_answer_loses_nothing(
    servers: tuple[Server, Server],
    clients: tuple[BlockingClient, BlockingClient],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name is too long with the alias before it; and the answer of one partition is damaged."""
    east, west = clients
    long, decode, failed = "l" * 248, ColumnDecoder.decode, list[int]()
    make(east, long, 1)
    make(east, "short", 2)
    for partition in (0, 1):
        for begin in range(0, 60, 20):
            write(east, "short", *(f"{partition}-{begin + row}" for row in range(20)), partition=partition)

    def decoded(self: ColumnDecoder, records: Any, **more: Any) -> Any:
        found = decode(self, records, **more)
        if more["start"] == 0 and len(found.columns):
            failed.append(1)
        if len(failed) == 2:  # of the second partition, when the first has been read
            failed.append(1)
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a test's damage")
        return found

    monkeypatch.setattr(ColumnDecoder, "decode", decoded)
    with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS) as worker:
        create(worker, "Source", flow(servers, topics=f"{long},short", **{"tasks.max": "1"}))
        until(lambda: len(values(west, "east.short")) == 120, lambda: len(values(west, "east.short")))
        worker.until("Source", "RUNNING", "RUNNING")
    assert len(failed) > 2 and set(values(west, "east.short").values()) == {1}
