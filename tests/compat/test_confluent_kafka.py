"""confluent-kafka (librdkafka) uses the broker as it is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from tests.server import Server

pytestmark = pytest.mark.compat
SECONDS_MAX = 20


def create(bootstrap: str, topic: str, *, partitions: int = 1, config: dict[str, str] | None = None) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    request = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})
    admin.create_topics([request])[topic].result(SECONDS_MAX)
    return admin


def read(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), timeout=1):
            assert message.error() is None, message.error()
            found.append(message)
    return found


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "assigned", "enable.auto.commit": False})
    yield client
    client.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives_as_it_was_sent(bootstrap: str, topic: str, consumer: Consumer, codec: str) -> None:
    create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
    sent = [(f"key-{i}".encode(), b"value %d " % i * 20) for i in range(500)]
    for key, value in sent:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(SECONDS_MAX) == 0
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = read(consumer, len(sent))
    assert [(message.key(), message.value()) for message in found] == sent
    assert [message.offset() for message in found] == list(range(len(sent)))


def test_headers_null_values_and_timestamps_survive(bootstrap: str, topic: str, consumer: Consumer) -> None:
    create(bootstrap, topic)
    now = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, key=b"k", value=None, headers=[("a", b"1"), ("a", b"2"), ("n", None)], timestamp=now)
    assert producer.flush(SECONDS_MAX) == 0
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    (message,) = read(consumer, 1)
    assert message.value() is None and message.key() == b"k"
    assert message.headers() == [("a", b"1"), ("a", b"2"), ("n", None)]
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, now)


def test_an_idempotent_producer_writes_each_record_once(bootstrap: str, topic: str, consumer: Consumer) -> None:
    create(bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 10})
    for i in range(300):
        producer.produce(topic, value=b"%d" % i, partition=i % 2)
    assert producer.flush(SECONDS_MAX) == 0
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(2)])
    assert sorted(int(message.value()) for message in read(consumer, 300)) == list(range(300))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement(bootstrap: str, topic: str, consumer: Consumer, acks: str) -> None:
    create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks})
    for i in range(50):
        producer.produce(topic, value=b"%d" % i)
    assert producer.flush(SECONDS_MAX) == 0
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert len(read(consumer, 50)) == 50


def test_offsets_are_found_by_timestamp(bootstrap: str, topic: str, consumer: Consumer) -> None:
    create(bootstrap, topic)
    base = int(time.time() * 1000) - 100_000
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 7})
    for i in range(100):
        producer.produce(topic, value=b"x", timestamp=base + i * 100)
    assert producer.flush(SECONDS_MAX) == 0
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, base + 4_950)], timeout=SECONDS_MAX)
    assert found.offset == 50
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX) == (0, 100)


def test_topics_are_described_changed_and_deleted(bootstrap: str, topic: str) -> None:
    admin = create(bootstrap, topic, partitions=3, config={"retention.ms": "1000000"})
    described = admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic]
    assert sorted(described.partitions) == [0, 1, 2] and described.error is None
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(SECONDS_MAX)
    assert len(admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions) == 5
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(SECONDS_MAX)
    assert entries["retention.ms"].value == "1000000" and not entries["retention.ms"].is_default
    assert entries["segment.bytes"].value == str(1 << 30) and entries["segment.bytes"].is_default
    admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    assert topic not in admin.list_topics(timeout=SECONDS_MAX).topics


def test_the_cluster_is_described(bootstrap: str, server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    cluster = admin.describe_cluster().result(SECONDS_MAX)
    assert [node.port for node in cluster.nodes] == [server.port]
    assert cluster.controller.id == cluster.nodes[0].id and len(cluster.cluster_id) == 22


def test_mistakes_are_answered_with_kafkas_codes(bootstrap: str, topic: str) -> None:
    admin = create(bootstrap, topic)
    cases = [
        (NewTopic(topic, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("no/slash", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-many-copies", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("no-partitions", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("bad-config", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
    ]
    for request, code in cases:
        with pytest.raises(KafkaException) as caught:
            admin.create_topics([request])[request.topic].result(SECONDS_MAX)
        assert caught.value.args[0].code() == code, request.topic


def test_records_are_deleted_up_to_an_offset(bootstrap: str, topic: str, consumer: Consumer) -> None:
    admin = create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(20):
        producer.produce(topic, value=b"%d" % i)
    assert producer.flush(SECONDS_MAX) == 0
    ((_, future),) = admin.delete_records([TopicPartition(topic, 0, 12)]).items()
    assert future.result(SECONDS_MAX).low_watermark == 12
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX) == (12, 20)


def test_a_topic_is_created_for_a_producer_that_names_it(bootstrap: str, topic: str, consumer: Consumer) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value=b"first")
    assert producer.flush(SECONDS_MAX) == 0
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert [message.value() for message in read(consumer, 1)] == [b"first"]
