"""A scan reads what partitions hold between two offsets, and says why where it cannot read on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError, Millis, TopicPartition
from ottla.client import BlockingClient, Isolation, NewTopic, OutOfRange, TopicScan, TransactionalProducer, topic_scan
from ottla.client import create_topics as make_topics
from ottla.wire import Record, build_batch
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.server import running_server


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    with running_server(tmp_path_factory.mktemp("scans")) as server, BlockingClient(server.bootstrap) as found:
        yield found


@pytest.fixture
def topic(client: BlockingClient, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("_", "-")[:60]
    client.run(make_topics(client.client, [NewTopic(name, 2, 1)]))
    return name


def write(client: BlockingClient, place: TopicPartition, *values: str) -> None:
    now = Millis(time.time_ns() // 1_000_000)
    for value in values:
        client.produce({place: build_batch([Record(timestamp=now, value=value.encode())])})


def scanned(
    client: BlockingClient, ranges: dict[TopicPartition, tuple[int, int]], **rest: Any
) -> list[tuple[int, str]]:
    """Return each record's partition and value."""

    async def whole() -> list[tuple[int, str]]:
        found = TopicScan(client.client, ranges, **rest)
        return [(place.partition, (record.value or b"").decode()) async for place, record in found]

    return client.run(whole())


def delete_before(client: BlockingClient, place: TopicPartition, offset: int) -> None:
    wanted = DeleteRecordsTopic(
        name=place.topic, partitions=[DeleteRecordsPartition(partition_index=place.partition, offset=offset)]
    )
    answer = client.request(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), leader_of=place)
    assert answer.topics[0].partitions[0].error_code == 0


def test_partitions_are_read_from_the_first_offset_up_to_the_end(client: BlockingClient, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(client, first, *"abcde")
    write(client, second, *"xyz")
    assert sorted(scanned(client, {first: (1, 4), second: (0, 2)})) == [
        (0, "b"),
        (0, "c"),
        (0, "d"),
        (1, "x"),
        (1, "y"),
    ]
    assert scanned(client, {first: (3, 3)}) == [] and scanned(client, {}) == []


def test_records_that_retention_has_deleted_are_an_error_or_passed_over(client: BlockingClient, topic: str) -> None:
    place = TopicPartition(topic, 0)
    write(client, place, *"abcde")
    delete_before(client, place, 3)
    assert scanned(client, {place: (0, 5)}, out_of_range=OutOfRange.SKIP) == [(0, "d"), (0, "e")]
    assert scanned(client, {place: (0, 2)}, out_of_range=OutOfRange.SKIP) == []
    with pytest.raises(KafkaError) as refused:
        scanned(client, {place: (0, 5)})
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE and f"{topic}-0 at offset 0" in str(refused.value)


def test_a_scan_that_comes_no_further_is_an_error_and_no_silent_end(
    client: BlockingClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_scan, "STALL_S", 0.2)
    place = TopicPartition(topic, 0)
    write(client, place, "before")
    by = TransactionalProducer(client.client, "open", timeout_ms=60_000)
    client.run(by.begin())
    record = Record(timestamp=Millis(time.time_ns() // 1_000_000), value=b"open")
    batch = build_batch(
        [record], producer_id=by.producer_id, producer_epoch=by.epoch, base_sequence=0, transactional=True
    )
    client.run(by.produce({place: batch}))
    with pytest.raises(KafkaError) as refused:
        scanned(client, {place: (0, 2)}, isolation=Isolation.READ_COMMITTED)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert "up to offset 1 of 2" in str(refused.value) and "a transaction is open from offset 1 on" in str(
        refused.value
    )
    client.run(by.end(commit=False))
    client.run(by.begin())
    assert scanned(client, {place: (0, 3)}, isolation=Isolation.READ_COMMITTED) == [(0, "before")]
