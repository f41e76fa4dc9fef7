"""Record batches that lie, and compressed ones that explode."""

from __future__ import annotations

import struct

import cramjam
import pytest

from tests.hostile.conftest import Victim
from tests.hostile.wire_by_hand import Client, batch, record, varint

BOMB_BYTES = 256 << 20
"""What each bomb unpacks to: far above any limit, and far above what memory may grow by."""

CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, UNSUPPORTED_FORMAT, INVALID_RECORD = 2, 10, 32, 43, 87
UNSUPPORTED_COMPRESSION = 76
REFUSALS = {
    CORRUPT_MESSAGE,
    MESSAGE_TOO_LARGE,
    INVALID_TIMESTAMP,
    UNSUPPORTED_FORMAT,
    INVALID_RECORD,
    UNSUPPORTED_COMPRESSION,
}

LIES = {
    "bad CRC": batch(crc=12345),
    "magic 3": batch(magic=3),
    "magic 1": batch(magic=1),
    "length beyond the end": batch(length=100_000),
    "length too short": batch(length=10),
    "length of zero": batch(length=0),
    "negative length": batch(length=-1),
    "no records": batch([], count=0),
    "negative count": batch(count=-5),
    "count of 2 G": batch(count=2**31 - 1),
    "unknown codec": batch(codec=7),
    "control batch from a client": batch(codec=0x20),
    "cut header": batch()[:40],
    "cut records": batch([b"x" * 100])[:-10],
    "garbage after a batch": batch() + b"garbage that is no batch",
    "empty": b"",
    "gzip that is not gzip": batch(codec=1, records=b"not gzip", count=1),
    "zstd that is not zstd": batch(codec=4, records=b"not zstd", count=1),
}
WALKED = {
    "more records than counted": batch([b"a", b"b", b"c"], count=2),
    "fewer records than counted": batch([b"a"], count=3),
    "record longer than the batch": batch(records=varint(10_000) + b"\0\0\0\1", count=1),
    "record of negative length": batch(records=varint(-10) + b"\0\0\0\1", count=1),
    "record length that never ends": batch(records=b"\xff" * 20, count=1),
    "offset deltas that repeat": batch(records=record(0, b"a") + record(0, b"b"), count=2),
    "headers of 2 G": batch(
        records=varint(14)
        + b"\0"
        + varint(0)
        + varint(0)
        + varint(-1)
        + varint(1)
        + b"v"
        + varint(2**31 - 1)
        + b"\0" * 4,
        count=1,
    ),
}


def test_a_batch_that_lies_is_refused_and_never_stored(victim: Victim) -> None:
    topic = "lies"
    with Client(victim.port) as client:
        assert client.create_topic(topic) == 0
        assert client.produce(topic, batch([b"before"])).base_offset == 0
        for name, records in LIES.items():
            answer = client.produce(topic, records)
            assert answer.error in REFUSALS, f"{name}: error {answer.error}, offset {answer.base_offset}"
        after = client.produce(topic, batch([b"after"]))
        assert (after.error, after.base_offset) == (0, 1)
        _, stored = client.fetch(topic, 0)
        assert b"before" in stored and b"after" in stored and b"garbage" not in stored


def test_records_that_lie_are_refused_where_the_broker_walks_them(victim: Victim) -> None:
    topic = "walked"
    with Client(victim.port) as client:
        assert client.create_topic(topic, ("compression.type", "zstd")) == 0
        for name, records in WALKED.items():
            answer = client.produce(topic, records)
            assert answer.error in REFUSALS, f"{name}: error {answer.error}, offset {answer.base_offset}"
        assert client.produce(topic, batch([b"honest"])).base_offset == 0


def gzip_bomb() -> bytes:
    """Zeros as one gzip member."""
    return bytes(cramjam.gzip.compress(bytes(BOMB_BYTES), 9))


def snappy_bomb() -> bytes:
    """Zeros in xerial's framing, as Kafka's Java client writes it."""
    block = bytes(cramjam.snappy.compress_raw(bytes(32 << 20)))
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 2


def snappy_liar() -> bytes:
    """A raw block that declares 4 GiB."""
    return b"\xff\xff\xff\xff\x0f" + b"\0" * 20


def lz4_bomb() -> bytes:
    """Zeros as one LZ4 frame."""
    return bytes(cramjam.lz4.compress(bytes(BOMB_BYTES)))


def zstd_bomb() -> bytes:
    """Zeros as one zstd frame."""
    return bytes(cramjam.zstd.compress(bytes(BOMB_BYTES), 3))


BOMBS = {
    "gzip": (1, gzip_bomb),
    "snappy": (2, snappy_bomb),
    "snappy-liar": (2, snappy_liar),
    "lz4": (3, lz4_bomb),
    "zstd": (4, zstd_bomb),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_decompression_bomb_is_refused_within_bounds(victim: Victim, name: str) -> None:
    codec, make = BOMBS[name]
    topic = f"bomb-{name}"
    target = "gzip" if codec != 1 else "lz4"
    before = victim.rss()
    with Client(victim.port) as client, Client(victim.port) as good:
        assert client.create_topic(topic, ("compression.type", target)) == 0
        records = batch(codec=codec, records=make(), count=1)
        answer = client.produce(topic, records)
        assert answer.error in REFUSALS, answer
        assert good.works()
        assert client.produce(topic, batch([b"after"])).base_offset == 0
    assert victim.rss() - before < 128 << 20, f"grew by {(victim.rss() - before) >> 20} MiB"
