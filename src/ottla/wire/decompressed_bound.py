"""How large a compressed batch may become, told from its frames without decompressing anything.

It decides where a batch is looked into: two kilobytes of zstd may be 64 MiB, which take a third of a second. Frames are
those of `ottla.wire.compression`: zstd by RFC 8878, LZ4's frame format, raw Snappy blocks, gzip by RFC 1952.
"""

from __future__ import annotations

import cramjam

from ottla.wire.compression import XERIAL_HEADER, XERIAL_MAGIC, Codec

__all__ = ["UNKNOWN", "decompressed_bound"]

UNKNOWN = 1 << 62
"""Of what is no frame that is known here: it may be anything."""
ZSTD_BLOCK = 128 << 10
"""The most that a compressed block of zstd becomes; the window may make it less."""
LZ4_RATIO_MAX = 255
ZSTD_MAGIC, LZ4_MAGIC = b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)
GZIP_RATIO_MAX, GZIP_FREE = 1032, 256 << 10
"""What its algorithm makes of a byte at most, and how much there may be of members before the last, which tells its own."""


def decompressed_bound(codec: Codec, data: memoryview) -> int:
    """Return how many bytes a batch's records have at most once decompressed.

    Of gzip that is what it says itself, which may be a lie: whoever decompresses it on the event loop holds it to that.
    """
    try:
        match codec:
            case Codec.NONE:
                return len(data)
            case Codec.GZIP:
                return max(int.from_bytes(data[-4:], "little"), min(GZIP_FREE, GZIP_RATIO_MAX * len(data)))
            case Codec.SNAPPY:
                return _snappy(data)
            case Codec.LZ4:
                return _lz4(data)
            case Codec.ZSTD:
                return _zstd(data)
    except (IndexError, cramjam.DecompressionError):
        return UNKNOWN
    return UNKNOWN


def _snappy(data: memoryview) -> int:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return int(cramjam.snappy.decompress_raw_len(data))
    total, at = 0, len(XERIAL_HEADER)
    while at < len(data):
        if data[at : at + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            at += len(XERIAL_HEADER)
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        total += int(cramjam.snappy.decompress_raw_len(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return total


def _lz4(data: memoryview) -> int:
    total = at = 0
    while at < len(data):
        if data[at : at + 4] != LZ4_MAGIC:
            return UNKNOWN
        flags, most = data[at + 4], 1 << (8 + 2 * (data[at + 5] >> 4 & 7))
        at += 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
        check = 4 if flags & 0x10 else 0
        while size := int.from_bytes(data[at : at + 4], "little"):
            is_raw, size = size >> 31, size & 0x7FFFFFFF
            total += size if is_raw else min(most, LZ4_RATIO_MAX * size)
            at += 4 + size + check
        at += 4 + (4 if flags & 0x04 else 0)
    return total


def _zstd(data: memoryview) -> int:
    total = at = 0
    while at < len(data):
        if data[at : at + 4] != ZSTD_MAGIC:
            return UNKNOWN
        flags = data[at + 4]
        is_single = flags >> 5 & 1
        size_bytes = (is_single, 2, 4, 8)[flags >> 6]
        at += 5 + (1 - is_single) + ZSTD_DICTIONARY_BYTES[flags & 3] + size_bytes
        is_last = 0
        while not is_last:
            head = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
            total += ZSTD_BLOCK if kind == 2 else size
            at += 3 + (1 if kind == 1 else size)
        at += 4 if flags & 4 else 0
    return total
