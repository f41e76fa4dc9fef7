"""Codecs: Kafka's framings, bounds against bombs, and damaged input."""

from __future__ import annotations

import gzip
import random

import cramjam
import pytest

from ottla.base import ErrorCode, KafkaError, Millis
from ottla.wire import AT_ONCE_MAX, BatchRules, Codec, Record, admit_batch, build_batch, compress, decompress
from ottla.wire.checksum import crc32c
from ottla.wire.decompressed_bound import UNKNOWN, decompressed_bound

CODECS = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"the quick brown fox jumps over the lazy dog. " * 5000


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 100, 32768, 32769, 225_000])
def test_data_comes_back(codec: Codec, size: int) -> None:
    for data in (TEXT[:size], random.Random(size).randbytes(size)):
        assert decompress(codec, memoryview(compress(codec, memoryview(data))), size + 1) == data


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 12)), (Codec.ZSTD, (-5, 3, 19))]
)
def test_levels_are_kafkas(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_at_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(32 << 20))
    with pytest.raises(KafkaError) as refused:
        decompress(codec, bomb, 1 << 20)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_itself_is_allowed(codec: Codec) -> None:
    assert len(decompress(codec, compress(codec, TEXT), len(TEXT))) == len(TEXT)


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_data_is_an_invalid_record(codec: Codec) -> None:
    rng = random.Random(7)
    sound = compress(codec, TEXT)
    for size in (0, 1, 7, len(sound) // 2, len(sound) - 1):
        with pytest.raises(KafkaError) as refused:
            decompress(codec, sound[:size], 1 << 20)
        assert refused.value.code is ErrorCode.INVALID_RECORD
    for _ in range(200):
        damaged = bytearray(sound)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        try:
            decompress(codec, damaged, 1 << 20)
        except KafkaError as error:
            assert error.code in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


def test_several_gzip_members_are_one_block() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"abc") + gzip.compress(b"def"), 100) == b"abcdef"


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    frame = compress(Codec.LZ4, TEXT)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0xE0 == 0x60  # version 1, blocks independent
    assert frame[5] >> 4 == 4  # blocks of 64 KiB


def test_snappy_is_written_as_xerial_and_read_raw_too() -> None:
    assert compress(Codec.SNAPPY, TEXT).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT
    assert decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"a") + compress(Codec.SNAPPY, b"b"), 9) == b"ab"


def test_a_declared_snappy_size_is_not_believed() -> None:
    lie = b"\xff\xff\xff\x7f" + b"\x00" * 20
    with pytest.raises(KafkaError) as refused:
        decompress(Codec.SNAPPY, lie, 1 << 30)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 100, 32768, 225_000, 3_000_000])
def test_what_a_batch_becomes_is_bounded_without_decompressing_it(codec: Codec, size: int) -> None:
    for data in (TEXT[:size], bytes(size), random.Random(size).randbytes(size)):
        small = compress(codec, data)
        bound = decompressed_bound(codec, memoryview(small))
        assert len(data) <= bound <= max(2 * len(data), 256 << 10), (len(data), len(small))


def test_frames_behind_each_other_are_all_counted_and_what_is_no_frame_may_be_anything() -> None:
    for codec in (Codec.ZSTD, Codec.LZ4, Codec.SNAPPY):
        one = bytes(compress(codec, bytes(1 << 20)))
        assert decompressed_bound(codec, memoryview(one * 3)) == 3 * decompressed_bound(codec, memoryview(one))
    for codec in (Codec.ZSTD, Codec.LZ4):
        whole = bytes(compress(codec, TEXT))
        assert decompressed_bound(codec, memoryview(b"\x00" + whole)) == UNKNOWN
        for end in range(1, len(whole), 97):
            assert decompressed_bound(codec, memoryview(whole[:end])) >= 0


def test_a_gzip_that_says_less_than_it_holds_is_refused_where_the_loop_would_decompress_it() -> None:
    lying = bytearray(build_batch([Record(value=bytes(4 << 20), timestamp=Millis(1))], codec=Codec.GZIP))
    lying[-4:] = bytes(4)
    lying[17:21] = crc32c(memoryview(lying)[21:]).to_bytes(4, "big")
    with pytest.raises(KafkaError, match="hold more than 262144 bytes"):
        admit_batch(lying, BatchRules(records_max=AT_ONCE_MAX), 1)
