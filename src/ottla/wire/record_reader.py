"""Records out of batches, one object each: for tools, consumers of few records, and the log's own topics."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import NamedTuple

from ottla.base import ErrorCode, KafkaError, Millis, Offset
from ottla.wire.batch import BATCH_OVERHEAD, MAGIC, MAGIC_AT, BatchHeader, Buffer, batch_size_at, read_batch_header
from ottla.wire.compression import DECOMPRESSED_BYTES_MAX, decompress
from ottla.wire.legacy_records import read_legacy_entry
from ottla.wire.record_walk import read_varlong

__all__ = ["Header", "Record", "batch_times", "iter_batch_records", "iter_records", "records_payload", "text_of"]

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record: what a producer gives (builders assign the offset) and what a consumer gets."""

    offset: Offset = Offset(0)
    timestamp: Millis = Millis(-1)
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


def iter_records(buf: Buffer, *, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of every whole batch in `buf`, control records included, and of message sets before v2."""
    pos = 0
    while len(buf) - pos > MAGIC_AT and (size := batch_size_at(buf, pos)) <= len(buf) - pos:
        if buf[pos + MAGIC_AT] < MAGIC:
            for message in read_legacy_entry(buf, pos, limit=limit):
                yield Record(message.offset, message.timestamp, message.key, message.value)
        else:
            yield from iter_batch_records(buf, pos, read_batch_header(buf, pos), limit=limit)
        pos += size


def records_payload(buf: Buffer, pos: int, header: BatchHeader, *, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return the uncompressed records of the whole batch at `pos`; `limit` bounds what a compressed one may become."""
    with memoryview(buf)[pos + BATCH_OVERHEAD : pos + header.size] as block:
        if header.is_compressed:
            return decompress(header.codec, block, limit)
        return bytes(block)


def iter_batch_records(
    buf: Buffer, pos: int, header: BatchHeader, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Yield the records of the whole v2 batch at `pos`; INVALID_RECORD where they are not what it declares."""
    data = records_payload(buf, pos, header, limit=limit)
    append_time = header.max_timestamp if header.is_log_append_time else None
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = read_varlong(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise invalid("Incorrect declared batch size, premature EOF reached")
            record, at = _read_record(data, at + 1, header)
            if at != end:
                raise invalid(f"Invalid record size: expected to read {size} bytes, but instead read {at - end + size}")
            yield record if append_time is None else record._replace(timestamp=append_time)
    except IndexError as error:
        raise invalid("Found invalid record structure") from error
    if at != len(data):
        raise invalid("Incorrect declared batch size, records still remaining in file")


def batch_times(
    buf: Buffer, pos: int, header: BatchHeader, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[tuple[Offset, Millis]]:
    """Yield (offset, timestamp) of each record of the whole v2 batch at `pos`, and look at nothing else of it.

    INVALID_RECORD where records are not where their lengths say.
    """
    data = records_payload(buf, pos, header, limit=limit)
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = read_varlong(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise invalid("Incorrect declared batch size, premature EOF reached")
            timestamp, at = read_varlong(data, at + 1)
            offset, at = read_varlong(data, at)
            time = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp
            yield Offset(header.base_offset + offset), Millis(time)
            at = end
    except IndexError as error:
        raise invalid("Found invalid record structure") from error


def text_of(data: bytes) -> str:
    """Return UTF-8 as text, what is none replaced by U+FFFD as Java does: one for each part that cannot be read on."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(errors=REPLACE_AS_JAVA)


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    bad = error.object[error.start : error.start + 3]
    is_surrogate = len(bad) == 3 and bad[0] == 0xED and 0xA0 <= bad[1] <= 0xBF and 0x80 <= bad[2] <= 0xBF
    return "\ufffd", error.start + 3 if is_surrogate else error.end  # Java replaces an encoded surrogate once


REPLACE_AS_JAVA = "ottla-replace-as-java"
codecs.register_error(REPLACE_AS_JAVA, _replace_as_java)


def invalid(message: str) -> KafkaError:
    """Return the error for records that are not what their batch declares."""
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def _read_record(data: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    """Return (record, position after it) for the record whose timestamp delta is at `at`."""
    timestamp, at = read_varlong(data, at)
    offset, at = read_varlong(data, at)
    key, at = _read_bytes(data, at)
    value, at = _read_bytes(data, at)
    count, at = read_varlong(data, at)
    if not count:
        headers: tuple[Header, ...] = ()
    else:
        headers, at = _read_headers(data, at, count)
    record = Record(Offset(header.base_offset + offset), Millis(header.base_timestamp + timestamp), key, value, headers)
    return record, at


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varlong(data, at)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise invalid("Found invalid record structure: a field passes the batch's end")
    return data[at : at + size], at + size


def _read_headers(data: bytes, at: int, count: int) -> tuple[tuple[Header, ...], int]:
    if not 0 <= count <= len(data) - at:
        raise invalid(f"Found invalid number of record headers {count}")
    headers: list[Header] = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise invalid("Invalid negative header key size -1")
        value, at = _read_bytes(data, at)
        headers.append((text_of(name), value))
    return tuple(headers), at
