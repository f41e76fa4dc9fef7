"""The topics that `bench.streams` reads and writes: filled from prepared batches, whose times are set as they are sent."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from struct import Struct

from ottla.base import Millis, TopicPartition
from ottla.client import BlockingClient
from ottla.wire import Record, build_batch, crc32c
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

__all__ = ["CUSTOMERS", "EVENTS", "KEYS", "LINES", "ORDERS", "PARTITIONS", "WORDS_PER_LINE", "fill", "make_topics"]

PARTITIONS = 4
LINES, EVENTS = "bench-lines", "bench-events"
"""Lines of words without keys; events of 100 bytes by key."""
ORDERS, CUSTOMERS = "bench-orders", "bench-customers"
"""JSON of some 60 bytes, many by key; and one by key."""
KEYS = {EVENTS: 100_000, "bench-clicks": 1_000, ORDERS: 10_000, CUSTOMERS: 10_000}
WORDS_PER_LINE = 8
VOCABULARY = 10_000
BATCH_RECORDS = 1_000
TEMPLATES = 25
"""Prepared batches of a partition: with batches of 1,000 records, each of a partition's 25,000 keys once."""
SPAN_MS = 30 * 60_000
"""The time that a topic's records span."""
IN_FLIGHT = 20
TIMES = Struct(">qq")
TIMES_AT, CRC_AT, CRC_FROM = 27, 17, 21


def make_topics(client: BlockingClient, names: list[str]) -> None:
    """Make topics of four partitions."""
    topics = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1) for name in names]
    client.request(CreateTopicsRequest(topics=topics, timeout_ms=30_000))


def fill(client: BlockingClient, topic: str, rows: int) -> None:
    """Append so many records to a topic of ours, a key always to the same partition."""
    templates = [[bytearray(each) for each in _templates(topic, partition)] for partition in range(PARTITIONS)]
    times = -(-rows // (PARTITIONS * BATCH_RECORDS))
    start_ms = time.time_ns() // 1_000_000 - SPAN_MS
    pending = []
    for number in range(times):
        at_ms = start_ms + number * SPAN_MS // times
        batches = {
            TopicPartition(topic, partition): _at(each[number % TEMPLATES], at_ms)
            for partition, each in enumerate(templates)
        }
        pending.append(client.begin(client.client.produce(batches)))
        if len(pending) >= IN_FLIGHT:
            pending.pop(0).result()
    for each in pending:
        each.result()


def _at(batch: bytearray, at_ms: int) -> bytes:
    """Return a batch, all of whose records have one time, at another."""
    TIMES.pack_into(batch, TIMES_AT, at_ms, at_ms)
    batch[CRC_AT:CRC_FROM] = crc32c(bytes(batch[CRC_FROM:])).to_bytes(4, "big")
    return bytes(batch)


def _value(topic: str, which: int, place: int) -> bytes:
    if topic == ORDERS:
        item, quantity, price = place % 97, place % 10, place % 400 / 4
        return b'{"ITEM":"item-%02d","QTY":%d,"PRICE":%.2f,"NOTE":"as usual"}' % (item, quantity, price)
    if topic == CUSTOMERS:
        return b'{"NAME":"customer %06d","LEVEL":%d}' % (which, which % 5)
    return (b"an event of user %06d " % which).ljust(100, b".")


def _templates(topic: str, partition: int) -> Iterator[bytes]:
    chance = random.Random(partition)
    words = [f"word{number:05d}" for number in range(VOCABULARY)]
    keys = KEYS.get(topic, 0) // PARTITIONS
    for number in range(TEMPLATES):
        records = []
        for place in range(BATCH_RECORDS):
            if topic == LINES:
                key, value = None, " ".join(chance.choices(words, k=WORDS_PER_LINE)).encode()
            else:
                which = (number * BATCH_RECORDS + place) % keys * PARTITIONS + partition
                key, value = b"user-%06d" % which, _value(topic, which, place)
            records.append(Record(timestamp=Millis(0), key=key, value=value))
        yield bytes(build_batch(records))
