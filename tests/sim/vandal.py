"""A client that sends damaged requests: it may lose its connections, and nobody else may lose anything."""

from __future__ import annotations

import asyncio

from ottla.base import Millis
from ottla.wire import APIS, Record, build_batch, encode_request
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.hostile.mutation import mutate
from tests.sim.client import Connection, NoAnswer
from tests.sim.workload import Clients

__all__ = ["vandalise"]

HARMLESS = (2, 3, 18, 23, 32, 35, 60, 75)
"""APIs that change nothing, whatever a damaged request of theirs asks for."""


async def vandalise(clients: Clients, stop: asyncio.Event) -> None:
    """Send damaged frames over connection after connection."""
    rng = clients.rng
    while not stop.is_set():
        try:
            connection = await clients.connect("vandal")
            connection.is_vandal = True
            for _ in range(1 + rng.randrange(6)):
                frame = _frame(clients, connection)
                if connection.is_open:
                    connection.transport.write(frame if rng.random() < 0.2 else mutate(rng, frame))
                await asyncio.sleep(0.2 * rng.random())
            connection.close()
        except NoAnswer:
            await asyncio.sleep(0.3)
        await asyncio.sleep(0.3 * rng.random())


def _frame(clients: Clients, connection: Connection) -> bytes:
    rng = clients.rng
    topics = list(clients.ledger.topics.values())
    topic = topics[rng.randrange(len(topics))]
    kind = rng.randrange(4)
    if kind == 0:
        now = clients.now_ms()
        records = build_batch([Record(timestamp=Millis(now), value=b"vandal:1.1 ")] * (1 + rng.randrange(3)))
        data = PartitionProduceData(index=rng.randrange(topic.partitions), records=bytes(records))
        asked = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
        request = ProduceRequest(acks=rng.choice((0, 1, -1, 2)), timeout_ms=100, topic_data=[asked])
        return encode_request(request, connection.version_of(0), 1, "vandal")
    if kind == 1:
        partition = FetchPartition(partition=0, fetch_offset=rng.randrange(-2, 50), partition_max_bytes=1000)
        wanted = FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])
        fetch = FetchRequest(replica_id=-1, max_wait_ms=50, min_bytes=1, max_bytes=1000, topics=[wanted])
        return encode_request(fetch, connection.version_of(1), 1, "vandal")
    if kind == 2:
        named = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False)
        return encode_request(named, max(4, connection.version_of(3)), 1, "vandal")
    spec = APIS[rng.choice(HARMLESS)]
    return encode_request(spec.request(), connection.version_of(spec.key), 1, "vandal")
