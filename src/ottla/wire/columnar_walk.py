"""The walk that finds keys, values and headers in a batch's records, for columns; used only where mypyc has compiled it.

Uncompiled it is far slower than the numpy design of `columnar`, which is what runs then. Compiled it needs `librt`, mypyc's
own run-time library, whose vectors are plain memory that numpy reads without copying.
"""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i32, i64, u8

__all__ = ["Bounds", "walk_batch"]


class Bounds:
    """Where the parts of up to `capacity` records lie; written by `walk_batch`, read as buffers, and used again."""

    def __init__(self, capacity: i64) -> None:
        self.capacity = capacity
        self.keys = _zeros32(2 * capacity)
        self.values = _zeros32(2 * capacity)
        self.headers = _zeros32(capacity)
        self.header_counts = _zeros32(capacity)
        self.offset_deltas = _zeros32(capacity)
        self.timestamp_deltas = _zeros64(capacity)
        self.key_nulls = _zeros8(capacity)
        self.value_nulls = _zeros8(capacity)


def _zeros32(count: i64) -> vec[i32]:
    zeros = vec[i32](capacity=count)
    while len(zeros) < count:
        zeros = append(zeros, 0)
    return zeros


def _zeros64(count: i64) -> vec[i64]:
    zeros = vec[i64](capacity=count)
    while len(zeros) < count:
        zeros = append(zeros, 0)
    return zeros


def _zeros8(count: i64) -> vec[u8]:
    zeros = vec[u8](capacity=count)
    while len(zeros) < count:
        zeros = append(zeros, 0)
    return zeros


def _long_varint(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return (zigzag value, position after it); IndexError past the end, ValueError past ten bytes."""
    raw: i64 = 0
    shift: i64 = 0
    while True:
        byte: i64 = data[pos]
        pos += 1
        if shift == 63:  # the last bit, without leaving machine integers: it is the magnitude's top bit
            if byte > 1:
                raise ValueError("a varint is too long")
            return ((raw >> 1) | (byte << 62)) ^ -(raw & 1), pos
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos


def walk_batch(bounds: Bounds, at: i64, data: bytes, pos: i64, end: i64, count: i64) -> i64:
    """Write where the `count` records between `pos` and `end` have their parts, from row `at` on; return the row after.

    ValueError or IndexError where they are not what they declare. Every index stays inside `pos` to `end`.
    """
    offset_deltas = bounds.offset_deltas
    timestamp_deltas = bounds.timestamp_deltas
    stop = at + count
    if count < 0 or stop > bounds.capacity or end > len(data):
        raise ValueError("more records than there is room for")
    byte: i64
    size: i64
    delta: i64
    while at < stop:
        byte = data[pos]  # each varint begins with the one-byte case, inline
        pos += 1
        if byte < 0x80:
            size = (byte >> 1) ^ -(byte & 1)
        else:
            size, pos = _long_varint(data, pos - 1)
        if size < 0 or size > end - pos:
            raise ValueError("a record passes its batch's end")
        record_end = pos + size
        pos += 1  # attributes: unused in v2

        byte = data[pos]
        pos += 1
        if byte < 0x80:
            delta = (byte >> 1) ^ -(byte & 1)
        else:
            delta, pos = _long_varint(data, pos - 1)
        timestamp_deltas[at] = delta

        byte = data[pos]
        pos += 1
        if byte < 0x80:
            delta = (byte >> 1) ^ -(byte & 1)
        else:
            delta, pos = _long_varint(data, pos - 1)
        if delta < 0 or delta > 0x7FFFFFFF:
            raise ValueError("an offset delta is out of range")
        offset_deltas[at] = i32(delta)
        _walk_body(bounds, at, data, pos, record_end)
        pos = record_end
        at += 1
    if pos != end:
        raise ValueError("bytes are left after the last record")
    return at


def _walk_body(bounds: Bounds, at: i64, data: bytes, pos: i64, end: i64) -> None:
    """Write where row `at` has its key, its value and its headers; `end` is the record's."""
    keys = bounds.keys
    values = bounds.values
    byte: i64 = data[pos]
    size: i64
    pos += 1
    if byte < 0x80:
        size = (byte >> 1) ^ -(byte & 1)
    else:
        size, pos = _long_varint(data, pos - 1)
    bounds.key_nulls[at] = 1 if size < 0 else 0
    keys[2 * at] = i32(pos)
    if size > 0:
        if size > end - pos:
            raise ValueError("a key passes its record's end")
        pos += size
    keys[2 * at + 1] = i32(pos)

    byte = data[pos]
    pos += 1
    if byte < 0x80:
        size = (byte >> 1) ^ -(byte & 1)
    else:
        size, pos = _long_varint(data, pos - 1)
    bounds.value_nulls[at] = 1 if size < 0 else 0
    values[2 * at] = i32(pos)
    if size > 0:
        if size > end - pos:
            raise ValueError("a value passes its record's end")
        pos += size
    values[2 * at + 1] = i32(pos)

    byte = data[pos]
    pos += 1
    if byte < 0x80:
        size = (byte >> 1) ^ -(byte & 1)
    else:
        size, pos = _long_varint(data, pos - 1)
    if size < 0 or size > end - pos or (size == 0 and pos != end):
        raise ValueError("a record does not end where it declares")
    bounds.header_counts[at] = i32(size)
    bounds.headers[at] = i32(pos)
