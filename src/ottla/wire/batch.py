"""Record batch v2 (KIP-98): its header, finding batches in a buffer, and stamping them in place.

::

    offset bytes field
         0     8 base offset               the broker's to write, outside the checksum
         8     4 batch length              bytes that follow it
        12     4 partition leader epoch    the broker's to write, outside the checksum
        16     1 magic                     2
        17     4 CRC-32C                   of everything from the attributes on
        21     2 attributes                0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
        23     4 last offset delta
        27     8 base timestamp            the delete horizon where bit 6 is set (KIP-534)
        35     8 max timestamp
        43     8 producer id
        51     2 producer epoch
        53     4 base sequence
        57     4 record count
        61       records, as one compressed block where a codec is set

Base offset and leader epoch lie outside the checksum, so that a broker places a batch without touching what a client
signed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId
from ottla.wire.checksum import crc32c
from ottla.wire.compression import Codec

__all__ = [
    "BATCH_OVERHEAD",
    "LENGTH_END",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "Attributes",
    "BatchHeader",
    "Buffer",
    "WritableBuffer",
    "batch_size_at",
    "crc_is_valid",
    "iter_batches",
    "place_batch",
    "read_batch_header",
    "stamp_batch",
    "stamp_log_append_time",
    "stamp_max_timestamp",
]

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

MAGIC: Final = 2
"""The only batch format that is written."""
BATCH_OVERHEAD: Final = 61
"""Bytes of a batch's header."""
LENGTH_END: Final = 12
"""Bytes up to and including the batch length, which does not count them."""
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35

NO_TIMESTAMP: Final = Millis(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
NO_SEQUENCE: Final = -1

HEADER: Final = Struct(">qiibIhiqqqhii")
read_header_fields: Final = HEADER.unpack_from
_write_offset: Final = Struct(">q").pack_into
_write_epoch: Final = Struct(">i").pack_into
_write_place: Final = Struct(">qii").pack_into
_read_attributes: Final = Struct(">h").unpack_from
_write_attributes: Final = Struct(">h").pack_into
_write_timestamp: Final = Struct(">q").pack_into
_write_crc: Final = Struct(">I").pack_into
_read_crc: Final = Struct(">I").unpack_from
_read_size: Final = Struct(">qi").unpack_from


class Attributes:
    """Bits of a batch's attributes."""

    CODEC: Final = 0x07
    LOG_APPEND_TIME: Final = 0x08
    TRANSACTIONAL: Final = 0x10
    CONTROL: Final = 0x20
    DELETE_HORIZON: Final = 0x40


class BatchHeader(NamedTuple):
    """One batch's header as read; the fields as on disk, the meaning as properties."""

    base_offset: Offset
    batch_length: int
    partition_leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: Millis
    max_timestamp: Millis
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record (of the last one that ever was, in a compacted batch)."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        """Offset that follows the batch."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, which wraps to 0 after 2^31 - 1; -1 without one."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """How the records are compressed; UNSUPPORTED_COMPRESSION_TYPE for a code that is none."""
        code = self.attributes & Attributes.CODEC
        if code > Codec.ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {code}")
        return Codec(code)

    @property
    def is_compressed(self) -> bool:
        """True where a codec is set."""
        return self.attributes & Attributes.CODEC != 0

    @property
    def is_log_append_time(self) -> bool:
        """True where every record's timestamp is the batch's max timestamp, set by the broker."""
        return self.attributes & Attributes.LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """True where the batch is part of a transaction."""
        return self.attributes & Attributes.TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """True where the records are the log's own (transaction markers, quorum records), not a client's."""
        return self.attributes & Attributes.CONTROL != 0

    @property
    def has_producer_id(self) -> bool:
        """True where an idempotent producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon(self) -> Millis | None:
        """When compaction may drop the batch's tombstones and markers (KIP-534); None where it is not set."""
        return self.base_timestamp if self.attributes & Attributes.DELETE_HORIZON else None


make_header: Callable[[tuple[Any, ...]], BatchHeader] = partial(tuple.__new__, BatchHeader)
"""`BatchHeader._make` without its Python frame: this runs once per batch."""


def corrupt(message: str) -> KafkaError:
    """Return the error for bytes that no sound client or disk would hold."""
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)


def read_batch_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header of the v2 batch at `pos`, its checksum not verified; CORRUPT_MESSAGE where it cannot be one."""
    if len(buf) - pos < BATCH_OVERHEAD:
        raise corrupt(f"Record batch is corrupted ({len(buf) - pos} bytes are less than its header, {BATCH_OVERHEAD})")
    header = make_header(read_header_fields(buf, pos))
    if header.magic != MAGIC:
        raise corrupt(f"Invalid magic found in record: {header.magic}")
    if header.batch_length < BATCH_OVERHEAD - LENGTH_END:
        raise corrupt(f"Record batch is corrupted (its size {header.size} is less than the minimum, {BATCH_OVERHEAD})")
    return header


def batch_size_at(buf: Buffer, pos: int = 0) -> int:
    """Return the declared size of the batch or legacy message at `pos`, header included; 12 bytes must be there."""
    size: int = _read_size(buf, pos)[1]
    return size + LENGTH_END


def iter_batches(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[BatchHeader, int]]:
    """Yield (header, position) of each whole batch; a batch cut off by the end of the buffer ends the walk silently.

    That is how Fetch answers end. Checksums are not verified here.
    """
    end = len(buf) if end is None else end
    while end - pos >= BATCH_OVERHEAD:
        header = read_batch_header(buf, pos)
        if header.size > end - pos:
            return
        yield header, pos
        pos += header.size


def crc_is_valid(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """True where the whole batch at `pos` has the checksum that its header states."""
    with memoryview(buf) as view:
        return bool(crc32c(view[pos + ATTRIBUTES_AT : pos + header.size]) == header.crc)


def stamp_batch(buf: WritableBuffer, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `pos` its place in the log, in place; the checksum does not cover what is written."""
    _write_offset(buf, pos, base_offset)
    _write_epoch(buf, pos + LENGTH_END, leader_epoch)


def place_batch(buf: WritableBuffer, base_offset: int, batch_length: int, leader_epoch: int) -> None:
    """As `stamp_batch` of what begins the buffer, where its length is known: one write."""
    _write_place(buf, 0, base_offset, batch_length, leader_epoch)


def stamp_log_append_time(buf: WritableBuffer, pos: int, now_ms: int) -> None:
    """Make `now_ms` the timestamp of every record of the batch at `pos`, in place, and renew its checksum."""
    _stamp_time(buf, pos, now_ms, _read_attributes(buf, pos + ATTRIBUTES_AT)[0] | Attributes.LOG_APPEND_TIME)


def stamp_max_timestamp(buf: WritableBuffer, pos: int, max_timestamp: int) -> None:
    """Correct the header's max timestamp (create time) of the batch at `pos`, in place, and renew its checksum."""
    _stamp_time(buf, pos, max_timestamp, _read_attributes(buf, pos + ATTRIBUTES_AT)[0] & ~Attributes.LOG_APPEND_TIME)


def _stamp_time(buf: WritableBuffer, pos: int, timestamp: int, attributes: int) -> None:
    _write_attributes(buf, pos + ATTRIBUTES_AT, attributes)
    _write_timestamp(buf, pos + MAX_TIMESTAMP_AT, timestamp)
    with memoryview(buf) as view:
        crc = crc32c(view[pos + ATTRIBUTES_AT : pos + batch_size_at(buf, pos)])
    _write_crc(buf, pos + CRC_AT, crc)
