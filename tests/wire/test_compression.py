"""Codecs: Kafka's framings, bounds against bombs, and damaged input."""

from __future__ import annotations

import gzip
import random

import cramjam
import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.wire import Codec, compress, decompress

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
