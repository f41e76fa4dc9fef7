"""Building record batches: from records, of control records, and again with another codec."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct

from ottla.base import ErrorCode, KafkaError, Millis, Offset, ProducerEpoch, ProducerId
from ottla.wire.batch import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    CRC_AT,
    HEADER,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Attributes,
    BatchHeader,
    Buffer,
    crc_is_valid,
    read_batch_header,
)
from ottla.wire.checksum import crc32c
from ottla.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, compress
from ottla.wire.record_reader import Header, Record, records_payload

__all__ = [
    "ControlType",
    "build_batch",
    "control_record",
    "control_type",
    "encode_batch",
    "end_transaction_marker",
    "recompress_batch",
    "varint",
]

_write_crc = Struct(">I").pack_into
_control_key = Struct(">hh")
_marker_value = Struct(">hi")


class ControlType(IntEnum):
    """Kinds of control record, as numbered in their keys."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def varint(value: int) -> bytes:
    """Return the zigzag varint of an integer of up to 64 bits."""
    if -64 <= value < 64:
        return _ONE_BYTE[value]
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


_ONE_BYTE = {value: bytes(((value << 1) ^ (value >> 63),)) for value in range(-64, 64)}


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
    keep_offsets: bool = False,
) -> bytearray:
    """Return one batch of `records` (at least one), writable so that it can be stamped.

    Records get the offset deltas 0, 1, 2…; with `keep_offsets` their own offsets, which must rise from `base_offset`.
    With `log_append_time` that is every record's timestamp.
    """
    chunks: list[bytes] = []
    base_timestamp, max_timestamp, count, last_delta = _encode_records(
        records, chunks, base_offset if keep_offsets else None
    )
    if count == 0:
        raise ValueError("a batch has at least one record")
    payload = b"".join(chunks)
    if codec is not Codec.NONE:
        payload = compress(codec, payload, level)
    attributes = codec | (Attributes.TRANSACTIONAL if transactional else 0) | (Attributes.CONTROL if control else 0)
    if log_append_time is not None:
        attributes |= Attributes.LOG_APPEND_TIME
        max_timestamp = log_append_time
    return _assemble(
        payload,
        *(base_offset, leader_epoch, attributes, last_delta, base_timestamp, max_timestamp),
        *(producer_id, producer_epoch, base_sequence, count),
    )


def encode_batch(header: BatchHeader, payload: bytes) -> bytearray:
    """Return the batch of a header and the records behind it, in the header's codec; length and checksum are renewed."""
    return _assemble(
        payload,
        *(header.base_offset, header.partition_leader_epoch, header.attributes, header.last_offset_delta),
        *(header.base_timestamp, header.max_timestamp),
        *(header.producer_id, header.producer_epoch, header.base_sequence, header.record_count),
    )


def _assemble(
    payload: bytes,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytearray:
    """Return header and payload as one batch with its checksum."""
    batch = bytearray(BATCH_OVERHEAD + len(payload))
    HEADER.pack_into(
        *(batch, 0, base_offset, len(batch) - LENGTH_END, leader_epoch, MAGIC, 0, attributes, last_delta),
        *(base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count),
    )
    batch[BATCH_OVERHEAD:] = payload
    with memoryview(batch) as view:
        _write_crc(batch, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))
    return batch


def _encode_records(
    records: Iterable[Record], chunks: list[bytes], first_offset: int | None
) -> tuple[int, int, int, int]:
    """Append each record's bytes to `chunks`; return (base timestamp, max timestamp, count, last offset delta)."""
    base_timestamp = max_timestamp = int(NO_TIMESTAMP)
    count, delta = 0, -1
    for offset, timestamp, key, value, headers in records:
        delta = count if first_offset is None else offset - first_offset
        if count == 0:
            base_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        count += 1
        key_part = NULL if key is None else varint(len(key)) + key
        value_part = NULL if value is None else varint(len(value)) + value
        header_part = b"\0" if not headers else _encode_headers(headers)
        body = b"".join((b"\0", varint(timestamp - base_timestamp), varint(delta), key_part, value_part, header_part))
        chunks.append(varint(len(body)))
        chunks.append(body)
    return base_timestamp, max_timestamp, count, delta


NULL = varint(-1)


def _encode_headers(headers: tuple[Header, ...]) -> bytes:
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        parts += (NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def control_record(kind: int, value: bytes, *, timestamp: int, version: int = 0) -> Record:
    """Return a control record: its key says version and kind, its value is the kind's own message."""
    return Record(Offset(0), Millis(timestamp), _control_key.pack(version, kind), value)


def control_type(key: bytes | None) -> int:
    """Return the kind that a control record's key names (a `ControlType`, or a number from a later Kafka)."""
    if key is None or len(key) < _control_key.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Invalid value size found for control record key")
    kind: int = _control_key.unpack_from(key)[1]
    return kind


def end_transaction_marker(
    *,
    commit: bool,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    coordinator_epoch: int,
    timestamp: Millis,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Return the batch that ends a transaction in a partition (KIP-98)."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    record = control_record(kind, _marker_value.pack(0, coordinator_epoch), timestamp=timestamp)
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def recompress_batch(
    buf: Buffer, codec: Codec, level: int | None = None, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> bytearray:
    """Return the one batch in `buf` with its records compressed by `codec`, all else kept; verifies it first."""
    header = read_batch_header(buf)
    if header.size > len(buf) or not crc_is_valid(buf, 0, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "Record is corrupt")
    payload = records_payload(buf, 0, header, limit=limit)
    if codec is not Codec.NONE:
        payload = compress(codec, payload, level)
    attributes = header.attributes & ~Attributes.CODEC | codec
    return _assemble(
        payload,
        *(header.base_offset, header.partition_leader_epoch, attributes, header.last_offset_delta),
        *(header.base_timestamp, header.max_timestamp),
        *(header.producer_id, header.producer_epoch, header.base_sequence, header.record_count),
    )
