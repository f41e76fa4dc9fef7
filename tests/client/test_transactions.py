"""`TransactionalProducer` in both forms of the protocol, on Ottla and on Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import BlockingClient, FetchPosition, Isolation, TransactionalProducer
from ottla.wire import ColumnDecoder, Record, build_batch
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests import peer
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until

UPGRADE, UNSAFE_DOWNGRADE = 1, 3
NOW_MS = Millis(time.time_ns() // 1_000_000)


def brokers(kind: str, folder: Path) -> Iterator[str]:
    if kind == "kafka":
        port = free_port()
        with peer.running_broker(folder, port, heap="512m"):
            yield f"127.0.0.1:{port}"
    else:
        with running_server(folder) as server:
            yield server.bootstrap


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.peer)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from brokers(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(params=[2, 1], ids=["second-form", "first-form"])
def client(bootstrap: str, request: pytest.FixtureRequest) -> Iterator[BlockingClient]:
    """A client of a cluster whose transactions have one form or the other."""
    with BlockingClient(bootstrap) as asking:
        before = asking.run(asking.client.features())["transaction.version"]
        kind = UPGRADE if before < request.param else UNSAFE_DOWNGRADE
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=request.param, upgrade_type=kind)
        if before != request.param:
            answer = asking.request(UpdateFeaturesRequest(feature_updates=[update]), controller=True)
            assert answer.error_code == 0, answer.error_message
    with BlockingClient(bootstrap) as opened:
        until(lambda: opened.run(opened.client.features())["transaction.version"] == request.param, "the other form")
        yield opened


def topic(client: BlockingClient, request: pytest.FixtureRequest) -> str:
    name = "t-" + "".join(each if each.isalnum() else "-" for each in request.node.name)[-60:]
    made = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    answer = client.request(CreateTopicsRequest(topics=[made], timeout_ms=10_000), controller=True)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    return name


def producer(client: BlockingClient, name: str) -> TransactionalProducer:
    return TransactionalProducer(client.client, f"id-{name}", timeout_ms=60_000)


def write(client: BlockingClient, by: TransactionalProducer, name: str, value: bytes, sequence: int = 0) -> None:
    batch = build_batch(
        [Record(timestamp=NOW_MS, value=value)],
        producer_id=by.producer_id,
        producer_epoch=by.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    client.run(by.produce({TopicPartition(name, partition): batch for partition in range(2)}))


def committed(client: BlockingClient, name: str, partition: int = 0) -> list[bytes]:
    position = FetchPosition(TopicPartition(name, partition), Offset(0))
    [found] = client.fetch([position], max_wait_ms=0, isolation=Isolation.READ_COMMITTED)
    values: list[bytes] = []
    for columns in ColumnDecoder().decode(found.check().records, start=Offset(0), aborted=found.aborted).columns:
        bounds = columns.value_bounds.tolist()
        values += [bytes(columns.data[a:b]) for a, b in zip(bounds[::2], bounds[1::2], strict=True)]
    return values


def test_what_commits_is_seen_and_what_aborts_is_not(client: BlockingClient, request: pytest.FixtureRequest) -> None:
    name = topic(client, request)
    by = producer(client, name)
    client.run(by.begin())
    sequence = 0
    for turn, commit in enumerate((True, False, True)):
        before = by.epoch
        write(client, by, name, b"%d" % turn, sequence)
        assert by.is_open
        client.run(by.end(commit=commit))
        sequence = 0 if by.epoch != before else sequence + 1  # a new epoch numbers its records anew
    client.run(by.begin())  # returns when every marker is written
    assert [committed(client, name, partition) for partition in range(2)] == [[b"0", b"2"]] * 2


def test_who_takes_the_id_over_ends_what_the_former_left(
    client: BlockingClient, request: pytest.FixtureRequest
) -> None:
    name = topic(client, request)
    former, latter = producer(client, name), producer(client, name)
    client.run(former.begin())
    write(client, former, name, b"left open")
    client.run(latter.begin())
    with pytest.raises(KafkaError) as refused:
        client.run(former.end(commit=True))
    assert refused.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    with pytest.raises(KafkaError) as refused:
        write(client, former, name, b"too late", 1)
    assert refused.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    write(client, latter, name, b"kept")
    client.run(latter.end(commit=True))
    client.run(latter.begin())
    assert committed(client, name) == [b"kept"]


def test_an_end_may_be_asked_for_twice(client: BlockingClient, request: pytest.FixtureRequest) -> None:
    name = topic(client, request)
    by = producer(client, name)
    client.run(by.begin())
    write(client, by, name, b"once")
    again = producer(client, name)
    again.producer_id, again.epoch, again._is_second = by.producer_id, by.epoch, by._is_second
    client.run(by.end(commit=True))
    client.run(again.end(commit=True))
    assert again.epoch == by.epoch
    client.run(by.begin())
    assert committed(client, name) == [b"once"]
