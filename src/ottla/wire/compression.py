"""Kafka's four codecs, in the framings its Java clients write; decompression that a hostile batch cannot inflate.

gzip is RFC 1952 (several members allowed), zstd RFC 8878 frames. LZ4 is its frame format with independent blocks of
64 KiB, the only kind Java reads. Snappy is xerial's stream of raw blocks (`82 "SNAPPY" 00`, two int32 versions, then
int32 size and block); other clients send one raw block, which is read too.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Any

import cramjam

from ottla.base import ErrorCode, KafkaError

__all__ = ["DECOMPRESSED_BYTES_MAX", "Codec", "compress", "decompress"]

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""What one batch may become unless the caller says less: LZ4's utmost ratio, 255, on a batch of Kafka's usual 1 MiB."""
FIRST_GUESS_MIN = 16 * 1024
"""Smallest output buffer tried."""
GROWTH = 4
"""Factor from one output buffer to the next, and of the first over the input: redone work stays below a third."""

XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_MAGIC = XERIAL_HEADER[:8]
XERIAL_BLOCK = 32 * 1024
"""Bytes per block, as Java's stream cuts them."""
SNAPPY_RATIO_MAX = 22
"""No snappy element makes more of its bytes: a 3-byte copy gives 64. A larger declared size is a lie."""
LZ4_DEFAULT_LEVEL = 9
"""In Kafka this level names the fast compressor; every other one the high-compression one (KIP-390)."""
LZ4_FAST = 1

_size = Struct(">I")


class Codec(IntEnum):
    """A batch's codec, as numbered in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Return `data` in the codec's framing; `level` as in `compression.<codec>.level`, None for Kafka's default."""
    match codec:
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=6 if level is None or level < 0 else level))
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            level = LZ4_FAST if level is None or level == LZ4_DEFAULT_LEVEL else level
            frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
            frame.compress(bytes(data))  # takes bytes alone
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
    return bytes(data)


def decompress(codec: Codec, data: bytes | bytearray | memoryview, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return what `data` holds; never writes more than `limit` bytes.

    MESSAGE_TOO_LARGE where it holds more than that; INVALID_RECORD where it is not in the codec's framing.
    """
    match codec:
        case Codec.GZIP:
            return _decompress_bounded(cramjam.gzip, data, limit)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), limit)
        case Codec.LZ4:
            return _decompress_bounded(cramjam.lz4, data, limit)
        case Codec.ZSTD:
            return _decompress_bounded(cramjam.zstd, data, limit)
    return bytes(data)


def _decompress_bounded(algorithm: Any, data: bytes | bytearray | memoryview, limit: int) -> bytes:
    """Decompress into buffers that grow up to `limit`: the size is unknown, and a declared one is not believed."""
    if len(data) == 0:
        raise _broken(algorithm, "it is empty")
    size = min(limit, max(FIRST_GUESS_MIN, GROWTH * len(data)))
    while True:
        out = bytearray(size)  # zeroed pages: what is not written is not resident
        try:
            written = algorithm.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise _broken(algorithm, str(error)) from error
            if size >= limit:
                raise _too_large(limit) from error
            size = min(limit, size * GROWTH)
            continue
        with memoryview(out) as view:
            return bytes(view[:written])


def _compress_xerial(data: memoryview) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK]))
        parts += (_size.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    """Return the content of a xerial stream, or of one raw block where there is no stream header."""
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_raw_snappy(data, limit)
    parts: list[bytes] = []
    pos, left = len(XERIAL_HEADER), limit
    while pos < len(data):
        if data[pos : pos + len(XERIAL_MAGIC)] == XERIAL_MAGIC:  # streams may be concatenated
            pos += len(XERIAL_HEADER)
            continue
        if len(data) - pos < _size.size:
            raise _broken(cramjam.snappy, "a block's size is cut off")
        (size,) = _size.unpack_from(data, pos)
        pos += _size.size
        if size > len(data) - pos:
            raise _broken(cramjam.snappy, "a block is cut off")
        part = _decompress_raw_snappy(data[pos : pos + size], limit)
        left -= len(part)
        if left < 0:
            raise _too_large(limit)
        parts.append(part)
        pos += size
    return b"".join(parts)


def _decompress_raw_snappy(data: memoryview, limit: int) -> bytes:
    try:
        declared = cramjam.snappy.decompress_raw_len(data)
        if declared > limit:
            raise _too_large(limit)
        if declared > SNAPPY_RATIO_MAX * len(data):
            raise _broken(cramjam.snappy, f"{len(data)} bytes cannot become {declared}")
        out = bytearray(declared)
        written = cramjam.snappy.decompress_raw_into(data, out)
    except cramjam.DecompressionError as error:
        raise _broken(cramjam.snappy, str(error)) from error
    if written != declared:
        raise _broken(cramjam.snappy, f"{written} bytes where {declared} are declared")
    return bytes(out)


def _broken(algorithm: Any, reason: str) -> KafkaError:
    name = algorithm.__name__.rpartition(".")[2]
    return KafkaError(ErrorCode.INVALID_RECORD, f"Failed to decompress record stream ({name}): {reason}")


def _too_large(limit: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"Compressed records hold more than {limit} bytes")
