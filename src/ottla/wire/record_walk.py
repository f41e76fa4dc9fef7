"""The walk over a batch's uncompressed records that checks each one; compiled by mypyc where a C compiler was found.

::

    record := length varint, attributes int8, timestamp delta varlong, offset delta varint,
              key length varint (-1 = null), key, value length varint (-1 = null), value,
              header count varint, { header key length varint, key, value length varint (-1 = null), value }

Varints are zigzag. Nothing is allocated per record, and declared lengths are only compared with what is there.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_le

from ottla.base import ErrorCode, KafkaError
from ottla.wire.machine_int import i64

__all__ = ["read_varlong", "walk_records"]

WINDOW_BYTES: Final = 64 * 1024
"""How much of an uncompressed batch is copied and walked at a time: it stays in the processor's second cache."""
VARLONG_BYTES_MAX: Final = 10


def invalid(message: str) -> KafkaError:
    """Return the error for records that are not what their batch declares."""
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def read_varlong(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return (zigzag value of up to 64 bits, position after it); IndexError at the end of the data."""
    byte: i64 = data[pos]
    pos += 1
    raw: i64 = byte & 0x7F
    shift: i64 = 7
    while byte >= 0x80:
        if shift > 63:
            raise invalid("Varlong is too long, the most significant bit in the 10th byte is set")
        byte = data[pos]
        pos += 1
        if shift == 63 and byte > 1:
            raise invalid("Varlong is too long, it exceeds 64 bits")
        if shift == 63:
            # the 64th bit of the zigzag form, without leaving machine integers: it is the magnitude's top bit
            return ((raw >> 1) | (byte << 62)) ^ -(raw & 1), pos
        raw |= (byte & 0x7F) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), pos


def skip_headers(data: bytes, pos: i64, count: i64, end: i64) -> i64:
    """Return the position after `count` record headers; each takes two bytes at least."""
    if count < 0:
        raise invalid(f"Found invalid number of record headers {count}")
    if count > end - pos:
        raise invalid(f"Found invalid number of record headers. {count} is larger than the remaining size")
    size: i64
    while count > 0:
        size, pos = read_varlong(data, pos)
        if size < 0:
            raise invalid(f"Invalid negative header key size {size}")
        if size > end - pos:
            raise invalid("Found invalid record structure: a header passes the record's end")
        size, pos = read_varlong(data, pos + size)
        if size > end - pos:
            raise invalid("Found invalid record structure: a header passes the record's end")
        if size > 0:
            pos += size
        count -= 1
    return pos


class Walk:
    """What a batch's records have shown so far."""

    __slots__ = ("index", "keyless", "timestamp_max", "timestamp_min")

    def __init__(self) -> None:
        self.index: i64 = 0
        self.keyless: i64 = -1
        self.timestamp_min: i64 = 0
        self.timestamp_max: i64 = 0


def walk_records(data: bytes | memoryview, pos: i64, count: i64) -> tuple[i64, i64, i64]:
    """Check `count` records from `pos` to the end of `data`: lengths, offset deltas 0, 1, 2…, nothing left over.

    Returns (smallest timestamp delta, largest timestamp delta, index of the first record without a key or -1).
    INVALID_RECORD says what is wrong. What is no `bytes` is copied by windows: machine code wants bytes, and a copy of a
    whole large batch would cost fresh pages each time.
    """
    walk = Walk()
    total: i64 = len(data)
    try:
        pos = _walk(walk, data, pos, count, True) if isinstance(data, bytes) else _walk_windows(walk, data, pos, count)
    except IndexError:
        raise invalid(f"Found invalid record structure: a record of {count} passes the batch's end") from None
    if pos != total:
        raise invalid("Incorrect declared batch size, records still remaining in file")
    return walk.timestamp_min, walk.timestamp_max, walk.keyless


def _walk_windows(walk: Walk, data: memoryview, pos: i64, count: i64) -> i64:
    """Walk a window at a time, each from where the last whole record of the one before it ended."""
    total: i64 = len(data)
    size: i64 = WINDOW_BYTES
    while walk.index < count:
        is_last = pos + size >= total
        end = _walk(walk, bytes(data[pos : pos + size]), 0, count, is_last)
        pos += end
        size = WINDOW_BYTES if end > 0 else 2 * size  # a record that is longer than its window
    return pos


def _walk(walk: Walk, data: bytes, pos: i64, count: i64, is_last: bool) -> i64:
    """Walk the whole records from `pos`; return the position after them. Only the last window must end with a record.

    A record of the usual shape takes two loads of eight bytes, any other goes byte by byte. Usual are lengths, deltas
    and sizes of at most two bytes (of the key's, one) and no headers: what stands before the key fits into one load.
    """
    total: i64 = len(data)
    index: i64 = walk.index
    keyless: i64 = walk.keyless
    least: i64 = walk.timestamp_min
    most: i64 = walk.timestamp_max
    while index < count:
        start: i64 = pos
        delta: i64 = 0
        key: i64 = 0
        usual = False
        if total - pos >= 8:
            word: i64 = read_i64_le(data, pos)
            size: i64 = word & 0x7F
            more: i64 = 0  # the continuation bits that only a longer number has
            if word & 0x80:
                more = word & 0x8000
                size |= (word >> 1) & 0x3F80
                word >>= 8
                pos += 1
            end: i64 = pos + 1 + ((size >> 1) ^ -(size & 1))
            delta = (word >> 16) & 0x7F
            if word & 0x80_0000:
                more |= word & 0x8000_0000
                delta |= (word >> 17) & 0x3F80
                word >>= 8
                pos += 1
            offset: i64 = (word >> 24) & 0x7F
            if word & 0x8000_0000:
                more |= word & 0x80_0000_0000
                offset |= (word >> 25) & 0x3F80
                word >>= 8
                pos += 1
            key = (word >> 32) & 0xFF
            pos += 5
            if key & 1 == 0:
                pos += key >> 1
            if more == 0 and key < 0x80 and offset == index << 1 and pos <= total - 8:
                word = read_i64_le(data, pos)
                size = word & 0x7F
                if word & 0x80:
                    more = word & 0x8000
                    size |= (word >> 1) & 0x3F80
                    pos += 1
                if size & 1 == 0:
                    pos += size >> 1
                pos += 2
                usual = more == 0 and pos == end and pos <= total and data[pos - 1] == 0
        if usual:
            delta = (delta >> 1) ^ -(delta & 1)
        elif not is_last and not _is_whole(data, start):
            pos = start
            break
        else:
            delta, key, pos = _walk_any(data, start, index, count)
        if key & 1 and keyless < 0:
            keyless = index
        if delta < least or index == 0:
            least = delta
        if delta > most or index == 0:
            most = delta
        index += 1
    walk.index, walk.keyless, walk.timestamp_min, walk.timestamp_max = index, keyless, least, most
    return pos


def _is_whole(data: bytes, pos: i64) -> bool:
    """Return whether the record at `pos` ends within `data`, as far as it says; a longer one is for a longer window."""
    total: i64 = len(data)
    if total - pos < VARLONG_BYTES_MAX:
        return False
    size: i64
    size, pos = read_varlong(data, pos)
    return size <= total - pos


def _walk_any(data: bytes, pos: i64, index: i64, count: i64) -> tuple[i64, i64, i64]:
    """Return (timestamp delta, 1 without a key and 0 with one, position after it) of a record of any shape."""
    total: i64 = len(data)
    size: i64
    delta: i64
    offset: i64
    size, pos = read_varlong(data, pos)
    if size < 0 or size > total - pos:
        raise invalid(f"Incorrect declared batch size, premature EOF reached: record {index} of {count}")
    end: i64 = pos + size
    delta, pos = read_varlong(data, pos + 1)  # behind the attributes, which v2 does not use
    offset, pos = read_varlong(data, pos)
    if offset != index:
        raise invalid(f"Record {index} of the batch has the offset delta {offset}")
    size, pos = read_varlong(data, pos)
    if size > end - pos:
        raise invalid(f"Found invalid record structure: the key of record {index} passes its end")
    without: i64 = 1
    if size >= 0:
        without = 0
        pos += size
    size, pos = read_varlong(data, pos)
    if size > end - pos:
        raise invalid("Found invalid record structure: a value passes its record's end")
    if size > 0:
        pos += size
    size, pos = read_varlong(data, pos)
    pos = skip_headers(data, pos, size, end)
    if pos != end:
        raise invalid(f"Invalid record size: a record ends {pos - end} bytes after its declared end")
    return delta, without, pos
