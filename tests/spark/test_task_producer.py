"""A task's producer by itself: order, partitions, batches that a topic does not take, what happens behind a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest
from confluent_kafka import Producer as Librdkafka

from ottla.base import ErrorCode, KafkaError
from ottla.client import BlockingClient
from ottla.connect import ConnectError
from ottla.connect.tasks.producer import RowChunk, TaskProducer
from ottla.connect.tasks.settings import producer_settings
from ottla.connect.tasks.task_client import ClientThread
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.spark.running import records_of


@pytest.fixture
def task_client(broker: str) -> Iterator[ClientThread]:
    with ClientThread(broker, "tests") as opened:
        yield opened


def make(client: BlockingClient, name: str, partitions: int = 1, **configs: str) -> str:
    wanted = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=wanted)
    response = client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert response.topics[0].error_code == 0
    return name


def started(task_client: ClientThread, broker: str, **props: str) -> TaskProducer:
    settings: Mapping[str, str] = {key.replace("_", "."): value for key, value in props.items()}
    made = TaskProducer(task_client, producer_settings(settings, broker, "tests"))
    made.start()
    return made


def chunk(topic: str, values: list[bytes | None], keys: list[bytes | None] | None = None) -> RowChunk:
    made = RowChunk(topic)
    for n, value in enumerate(values):
        made.add(None if keys is None else keys[n], value, (topic, n), timestamp=1_700_000_000_000 + n)
    return made


def outcomes(producer: TaskProducer) -> dict[tuple[str, int], tuple[int, ErrorCode | None]]:
    """Return each token's offset and error."""
    assert producer.flush(30)
    found = {}
    for each in producer.outcomes:
        assert each.tokens is not None
        for index, token in enumerate(each.tokens):
            assert token not in found, "settled once"
            found[token] = (each.base_offset + index, None if each.error is None else each.error.code)
    return found


@pytest.mark.parametrize("props", [{}, {"acks": "1"}, {"compression_type": "lz4"}, {"batch_size": "200"}])
def test_rows_keep_their_order_and_their_tokens_hear_their_offsets(
    task_client: ClientThread, broker: str, client: BlockingClient, props: dict[str, str]
) -> None:
    topic = make(client, f"ordered-{'-'.join(props)}".rstrip("-").replace("_", "."))
    producer = started(task_client, broker, **props)
    for first in range(0, 3000, 100):
        part = chunk(topic, [b"%d" % n for n in range(first, first + 100)])
        part.tokens = [(topic, n) for n in range(first, first + 100)]
        producer.send(part)
    assert outcomes(producer) == {(topic, n): (n, None) for n in range(3000)}
    producer.close()
    assert [each.value for each in records_of(broker, topic)] == [b"%d" % n for n in range(3000)]


def test_keys_choose_partitions_as_with_other_clients(
    task_client: ClientThread, broker: str, client: BlockingClient
) -> None:
    ours, theirs = (make(client, f"placed-{side}", 5) for side in ("ours", "theirs"))
    keys: list[bytes | None] = [b"k%d" % (n * n) for n in range(200)]
    producer = started(task_client, broker)
    producer.send(chunk(ours, [b"v%d" % n for n in range(200)], keys))
    found = outcomes(producer)
    other = Librdkafka({"bootstrap.servers": broker, "partitioner": "murmur2_random"})
    for n, key in enumerate(keys):
        other.produce(theirs, key=key, value=b"v%d" % n)
    assert other.flush(30) == 0
    mine, expected = records_of(broker, ours), records_of(broker, theirs)
    assert [(each.offset, each.key) for each in mine] == [(each.offset, each.key) for each in expected]
    assert {found[ours, int((each.value or b"")[1:])][0] for each in mine if each.offset == 0} == {0}
    producer.close()


def test_a_batch_that_is_too_large_for_its_topic_is_sent_in_pieces(
    task_client: ClientThread, broker: str, client: BlockingClient
) -> None:
    topic = make(client, "small", max_message_bytes="5000")
    producer = started(task_client, broker)
    values: list[bytes | None] = [b"x" * 700 + b"%d" % n for n in range(100)]
    values[40] = b"y" * 6000
    producer.send(chunk(topic, values))
    found = outcomes(producer)
    assert found[topic, 40][1] is ErrorCode.MESSAGE_TOO_LARGE
    [told] = [str(each.error) for each in producer.outcomes if each.error is not None]
    assert re.fullmatch(
        rf"a record for {topic}-0 has 60\d\d bytes, and topic {topic} takes 5000: raise max.message.bytes of the topic",
        told,
    )
    assert [n for n in range(100) if found[topic, n][1] is not None] == [40]
    producer.send_columns(topic, pa.array([b"z" * 1000] * 50), None, timestamp=1)
    assert producer.flush(30)
    producer.close()
    assert [each.value for each in records_of(broker, topic)] == [*values[:40], *values[41:], *[b"z" * 1000] * 50]


def test_rows_behind_those_that_a_topic_refuses_still_arrive(
    task_client: ClientThread, broker: str, client: BlockingClient
) -> None:
    topic = make(client, "compacted", cleanup_policy="compact")
    producer = started(task_client, broker, batch_size="1")
    producer.send(chunk(topic, [b"%d" % n for n in range(50)], [None if n % 10 == 3 else b"k" for n in range(50)]))
    found = outcomes(producer)
    producer.close()
    assert {n for (_, n), (_, error) in found.items() if error} == {3, 13, 23, 33, 43}
    expected = [b"%d" % n for n in range(50) if n % 10 != 3]
    assert [each.value for each in records_of(broker, topic)] == expected


def test_a_producer_that_could_not_start_says_so_to_who_sends_with_it(task_client: ClientThread, broker: str) -> None:
    settings = producer_settings({"transaction.timeout.ms": str(10**9)}, broker, "tests")
    producer = TaskProducer(task_client, settings, transactional_id="too-patient")
    with pytest.raises(KafkaError) as refused:
        producer.start()
    assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    with pytest.raises(ConnectError, match=r"cannot go on.*INVALID_TRANSACTION_TIMEOUT"):
        producer.send(chunk("unsent", [b"row"]))
    producer.close()
