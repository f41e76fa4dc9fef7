"""Message sets of magic 0 and 1 are read as Kafka before 0.11 wrote them."""

from __future__ import annotations

from struct import pack
from zlib import crc32

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.wire import Codec, Record, build_batch, compress, iter_records, read_legacy_message


def message(
    offset: int, key: bytes | None, value: bytes | None, *, magic: int = 1, attributes: int = 0, time: int = 5
) -> bytes:
    def field(data: bytes | None) -> bytes:
        return pack(">i", -1) if data is None else pack(">i", len(data)) + data

    body = pack(">bb", magic, attributes) + (pack(">q", time) if magic else b"") + field(key) + field(value)
    body = pack(">I", crc32(body)) + body
    return pack(">qi", offset, len(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_become_records(magic: int) -> None:
    data = message(7, b"k", b"v", magic=magic) + message(8, None, None, magic=magic)
    time = 5 if magic else -1
    assert list(iter_records(data)) == [Record(7, time, b"k", b"v"), Record(8, time, None, None)]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_compressed_messages_get_the_offsets_that_their_wrapper_ends_with(codec: Codec) -> None:
    inner = message(0, b"a", b"1", time=1) + message(1, b"b", b"2", time=2)
    wrapper = message(41, None, compress(codec, inner), attributes=codec, time=9)
    assert list(iter_records(wrapper)) == [Record(40, 1, b"a", b"1"), Record(41, 2, b"b", b"2")]
    appended = message(41, None, compress(codec, inner), attributes=codec | 0x08, time=9)
    assert [record.timestamp for record in iter_records(appended)] == [9, 9]
    final = message(40, b"a", b"1", magic=0) + message(41, b"b", b"2", magic=0)
    old = message(41, None, compress(codec, final), magic=0, attributes=codec)
    assert [record.offset for record in iter_records(old)] == [40, 41]


def test_old_messages_and_batches_lie_in_one_buffer() -> None:
    data = (
        message(0, b"k", b"v")
        + build_batch([Record(value=b"new", timestamp=6)], base_offset=1)
        + message(2, None, b"x")
    )
    assert [record.offset for record in iter_records(data)] == [0, 1, 2]
    assert [record.offset for record in iter_records(data[:-1])] == [0, 1]


def test_a_damaged_message_is_corrupt_and_shown_as_invalid() -> None:
    data = bytearray(message(0, b"k", b"value"))
    data[-1] ^= 1
    assert not read_legacy_message(data).valid
    with pytest.raises(KafkaError) as refused:
        list(iter_records(data))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
