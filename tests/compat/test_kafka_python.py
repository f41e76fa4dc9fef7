"""kafka-python (pure Python, blocking) uses the broker as it is."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

pytestmark = pytest.mark.compat


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives_as_it_was_sent(bootstrap: str, topic: str, codec: str | None) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    assert topic in admin.list_topics()
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=10)
    for i in range(100):
        producer.send(topic, b"value %d" % i, key=b"k%d" % i, headers=[("h", b"%d" % i)], partition=i % 2)
    producer.flush(30)
    producer.close(30)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=10_000, auto_offset_reset="earliest")
    partitions = [TopicPartition(topic, p) for p in range(2)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    assert consumer.end_offsets(partitions) == dict.fromkeys(partitions, 50)
    found = []
    for record in consumer:
        found.append((record.key, record.value, record.headers[0][1]))
        if len(found) == 100:
            break
    assert sorted(found) == sorted((b"k%d" % i, b"value %d" % i, b"%d" % i) for i in range(100))
    consumer.close()
    admin.delete_topics([topic])
    admin.close()
