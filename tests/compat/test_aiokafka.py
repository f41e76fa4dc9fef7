"""aiokafka (pure Python, asyncio) uses the broker as it is."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

pytestmark = pytest.mark.compat


async def round_trip(bootstrap: str, topic: str, codec: str | None) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    await admin.close()
    sent = [b"value %d" % i for i in range(200)]
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, acks="all") as producer:
        futures = [await producer.send(topic, value, key=b"k", headers=[("h", b"1")]) for value in sent]
        assert [(await future).offset for future in futures] == list(range(200))
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    async with consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found = [await consumer.getone() for _ in sent]
        assert [record.value for record in found] == sent
        assert all(record.headers == (("h", b"1"),) for record in found)
        assert await consumer.end_offsets([partition]) == {partition: 200}
        first = await consumer.offsets_for_times({partition: found[0].timestamp})
        assert first[partition].offset == 0


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives_as_it_was_sent(bootstrap: str, topic: str, codec: str | None) -> None:
    asyncio.run(asyncio.wait_for(round_trip(bootstrap, topic, codec), 60))
