"""Where each record of a batch lies and what compaction asks of it, without an object per field; mypyc can compile it.

The format is that of `record_walk`. Nothing is copied: keys are cut out by whoever needs them, and records that stay are
written again as the bytes that they are.
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.wire.machine_int import i64
from ottla.wire.record_walk import read_varlong

__all__ = ["RecordSpan", "record_spans"]

RecordSpan = tuple[int, int, int, int, int, int, bool]
"""Start and end of a record, where its timestamp delta begins, its offset delta, start and end of its key (end -1: null),
and whether it has a value."""


def record_spans(data: bytes, count: i64) -> list[RecordSpan]:
    """Return the spans of the `count` uncompressed records that `data` is; INVALID_RECORD where they are not that."""
    try:
        return _spans(data, count)
    except IndexError:
        raise _invalid("a record passes the batch's end") from None


def _spans(data: bytes, count: i64) -> list[RecordSpan]:
    """Walk as said; varints of one and two bytes, nearly all there are, are read inline, and what nobody asks for is not.

    Of a value's length only the lowest bit matters, which is the sign of a zigzag number.
    """
    spans: list[RecordSpan] = []
    total: i64 = len(data)
    pos: i64 = 0
    index: i64 = 0
    while index < count:
        start: i64 = pos
        byte: i64 = data[pos + 1]
        size: i64 = data[pos]
        if size < 0x80:
            size = (size >> 1) ^ -(size & 1)
            pos += 1
        elif byte < 0x80:
            size = (size & 0x7F) | (byte << 7)
            size = (size >> 1) ^ -(size & 1)
            pos += 2
        else:
            size, pos = read_varlong(data, pos)
        end: i64 = pos + size
        if size < 0 or end > total:
            raise _invalid(f"record {index} of {count} passes the batch's end")
        pos += 1  # attributes: unused in v2
        timestamp: i64 = pos
        while data[pos] >= 0x80:
            pos += 1
        byte = data[pos + 2]
        offset: i64 = data[pos + 1]
        if offset < 0x80:
            offset = (offset >> 1) ^ -(offset & 1)
            pos += 2
        elif byte < 0x80:
            offset = (offset & 0x7F) | (byte << 7)
            offset = (offset >> 1) ^ -(offset & 1)
            pos += 3
        else:
            offset, pos = read_varlong(data, pos + 1)
        size = data[pos]
        if size < 0x80:
            size = (size >> 1) ^ -(size & 1)
            pos += 1
        else:
            size, pos = read_varlong(data, pos)
        key: i64 = pos
        key_end: i64 = -1
        if size >= 0:
            pos += size
            key_end = pos
        if pos >= end:
            raise _invalid(f"the key of record {index} passes the record's end")
        spans.append((start, end, timestamp, offset, key, key_end, data[pos] & 1 == 0))
        pos = end
        index += 1
    if pos != total:
        raise _invalid("bytes remain behind the last record")
    return spans


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"Found invalid record structure: {message}")
