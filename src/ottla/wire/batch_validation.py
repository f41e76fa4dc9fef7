"""What a broker checks before it appends (architecture decision 3; Kafka's LogValidator is the reference).

Always: sizes, magic, CRC-32C, the header's counts and ranges. Record by record: lengths, offset deltas, keys,
timestamps; in compiled builds always, in pure ones where the topic's rules depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

from ottla.base import ErrorCode, KafkaError
from ottla.wire.batch import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Attributes,
    BatchHeader,
    Buffer,
    WritableBuffer,
    corrupt,
    crc_is_valid,
    iter_batches,
    make_header,
    read_batch_header,
    read_header_fields,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from ottla.wire.checksum import crc32c
from ottla.wire.compression import Codec
from ottla.wire.decompressed_bound import decompressed_bound
from ottla.wire.record_reader import iter_batch_records, records_payload
from ottla.wire.record_walk import invalid, walk_records

__all__ = [
    "AT_ONCE_MAX",
    "DECOMPRESSED_AT_ONCE_MAX",
    "BatchRules",
    "RecordsRefused",
    "admit_batch",
    "batch_bound",
    "batch_too_large",
    "has_many_records",
    "validate_batches",
]

CLIENT_ATTRIBUTES: Final = Attributes.CODEC | Attributes.TRANSACTIONAL
ZSTD: Final = int(Codec.ZSTD)
UNBOUNDED_MS: Final = 0x7FFFFFFFFFFFFFFF
ADMITTED_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a client's compressed batch may become where its records are walked: bounds the time on the event loop."""

AT_ONCE_MAX: Final = 32_768
"""Records of a batch that are walked on the event loop: a megabyte of empty ones, compressed, may be nine million."""
DECOMPRESSED_AT_ONCE_MAX: Final = 16 << 20
"""Bytes that the batches of a request, or of a read, may become on the event loop, which takes a tenth of a second."""
NAMED_MAX: Final = 1000
"""Records that a refusal names one by one."""
BYTES_MAX: Final = 0x7FFFFFFF
CODEC_AT: Final = 22
"""Where the lower byte of its attributes is, in which its codec stands."""
COUNT_AT: Final = BATCH_OVERHEAD - 4
"""Where a batch says how many records it has."""
RECORD_BYTES_MIN: Final = 7
"""The smallest record: length, attributes, two deltas, key, value and header count of one byte each."""


class RecordsRefused(KafkaError):
    """Records that a topic's rules refuse: `record_errors` has (index in the batch, reason), as Produce answers."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors

    def __reduce__(self) -> tuple[type[RecordsRefused], tuple[object, ...]]:
        return type(self), (self.code, self.message, self.record_errors)


@dataclass(frozen=True, slots=True)
class BatchRules:
    """What a topic's configuration asks of a client's batch."""

    log_append_time: bool = False
    timestamp_before_max_ms: int = UNBOUNDED_MS
    timestamp_after_max_ms: int = UNBOUNDED_MS
    require_keys: bool = False
    walk: bool = False
    """Check every record, also where no rule above depends on it."""
    decompressed_bytes_max: int = ADMITTED_BYTES_MAX
    batch_bytes_max: int = BYTES_MAX
    """`max.message.bytes`: what is larger is refused before anything else is done with it, as in Kafka."""
    records_max: int = BYTES_MAX
    """A batch with more records is to be looked into elsewhere: here it is refused, to be sent again."""
    needs_walk: bool = field(init=False)
    """True where records have to be looked at one by one."""

    def __post_init__(self) -> None:
        bounded_below = not self.log_append_time and self.timestamp_before_max_ms != UNBOUNDED_MS
        object.__setattr__(self, "needs_walk", self.walk or self.require_keys or bounded_below)

    def __reduce__(self) -> tuple[type[BatchRules], tuple[object, ...]]:
        """Go to the worker process as what it was made of: compiled, a frozen value cannot be filled in afterwards."""
        given = (getattr(self, each.name) for each in fields(self) if each.init)
        return type(self), tuple(given)


def validate_batches(buf: Buffer, *, walk: bool = False) -> list[tuple[BatchHeader, int]]:
    """Return (header, position) of every batch of a replicated or stored run of whole v2 batches.

    CORRUPT_MESSAGE for a wrong checksum, magic or size, or for bytes left over.
    """
    found: list[tuple[BatchHeader, int]] = []
    end = 0
    for header, pos in iter_batches(buf):
        _check_crc(buf, pos, header)
        if walk:
            walk_records(records_payload(buf, pos, header), 0, header.record_count)
        found.append((header, pos))
        end = pos + header.size
    if end != len(buf):
        raise corrupt(f"Record batch is corrupted ({len(buf) - end} bytes after the last whole batch)")
    return found


def admit_batch(buf: WritableBuffer, rules: BatchRules, now_ms: int, log_name: str = "the partition") -> BatchHeader:
    """Check the one batch that a client may send per partition and give it the topic's kind of timestamps, in place.

    Returns its header as it then is. The codes are Kafka's: CORRUPT_MESSAGE (size, checksum), INVALID_RECORD (what no
    sound client sends), INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE.
    """
    if len(buf) > rules.batch_bytes_max:
        raise batch_too_large(log_name, len(buf), rules.batch_bytes_max)
    header = _sound_header(buf if isinstance(buf, memoryview) else memoryview(buf))
    if header.record_count > rules.records_max:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if rules.needs_walk:
        max_timestamp = _check_records(buf, header, rules, now_ms)
        if max_timestamp != header.max_timestamp and not rules.log_append_time:
            stamp_max_timestamp(buf, 0, max_timestamp)
            return read_batch_header(buf)
    else:
        if header.attributes & Attributes.CODEC or header.record_count * RECORD_BYTES_MIN > len(buf) - BATCH_OVERHEAD:
            _check_count(buf, header, rules)
        if not rules.log_append_time and header.max_timestamp - now_ms > rules.timestamp_after_max_ms:
            _refuse_records(buf, header, rules, now_ms)
    if rules.log_append_time:
        stamp_log_append_time(buf, 0, now_ms)
        return read_batch_header(buf)
    return header


def batch_too_large(name: str, size: int, limit: int) -> KafkaError:
    """Return the error for a batch above the partition's `max.message.bytes`, in Kafka's words."""
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {name} is {size} bytes which exceeds the maximum configured value "
        f"of {limit}.",
    )


def has_many_records(records: Buffer) -> bool:
    """Return whether a batch says that it has so many records that they should not be walked on the event loop."""
    return len(records) >= BATCH_OVERHEAD and int.from_bytes(records[COUNT_AT:BATCH_OVERHEAD], "big") > AT_ONCE_MAX


def batch_bound(records: Buffer) -> int:
    """Return how many bytes a compressed batch may become at most, 0 for one that is not compressed."""
    if len(records) < BATCH_OVERHEAD or not records[CODEC_AT] & Attributes.CODEC:
        return 0
    try:
        codec = Codec(records[CODEC_AT] & Attributes.CODEC)
    except ValueError:  # there is none such, which is refused
        return 0
    with memoryview(records)[BATCH_OVERHEAD:] as payload:
        return decompressed_bound(codec, payload)


def _limit_of(buf: Buffer, header: BatchHeader, rules: BatchRules) -> int:
    """Return what a batch may become: on the event loop no more than gzip has said, which nothing else tells."""
    if header.codec != Codec.GZIP or rules.records_max == BYTES_MAX:
        return rules.decompressed_bytes_max
    return min(rules.decompressed_bytes_max, batch_bound(buf))


def _check_count(buf: Buffer, header: BatchHeader, rules: BatchRules) -> None:
    """Refuse a batch that does not decompress, or that counts more records than its bytes can be."""
    payload = records_payload(buf, 0, header, limit=_limit_of(buf, header, rules))
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        raise invalid(f"Invalid reported count for record batch: {header.record_count} in {len(payload)} bytes")


def _sound_header(view: memoryview) -> BatchHeader:
    """Return the header of the only batch in `view`, checked with its checksum; few steps where all is well."""
    if len(view) < BATCH_OVERHEAD:
        _read_only_batch(view)
    fields = read_header_fields(view, 0)
    base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer_id, _, base_sequence, count = fields
    header = make_header(fields)
    if magic != MAGIC or length + LENGTH_END != len(view):
        _read_only_batch(view)
    if crc32c(view[ATTRIBUTES_AT:]) != crc:
        raise corrupt(f"Record is corrupt (stored crc = {crc} is not that of its bytes)")
    if (
        base_offset != 0
        or last_delta < 0
        or count != last_delta + 1
        or attributes & ~CLIENT_ATTRIBUTES
        or attributes & Attributes.CODEC > ZSTD
        or (producer_id > NO_PRODUCER_ID and base_sequence < 0)
    ):
        _check_client_header(header)
    return header


def _read_only_batch(buf: Buffer) -> None:
    """Say why the buffer is not exactly one batch."""
    available = len(buf)
    if available <= MAGIC_AT:
        raise invalid("Produce requests must have exactly one record batch")
    magic = buf[MAGIC_AT]
    if magic < MAGIC:
        raise invalid(f"Produce requests may only contain record batches with magic version {MAGIC}: {magic}")
    header = read_batch_header(buf)
    if header.size > available:
        raise invalid(f"Produce requests must have exactly one record batch: of {header.size} bytes {available} came")
    if header.size < available:
        raise invalid("Produce requests must have exactly one record batch: bytes follow the first")


def _check_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    if not crc_is_valid(buf, pos, header):
        raise corrupt(f"Record is corrupt (stored crc = {header.crc} is not that of its bytes)")


def _check_client_header(header: BatchHeader) -> None:
    """Refuse what a header alone shows to be unsound in a client's batch."""
    count = header.record_count
    if header.base_offset != 0:
        raise invalid(f"The baseOffset of the record batch in the append should be 0, but it is {header.base_offset}")
    if header.last_offset_delta < 0:
        raise invalid(f"Batch has an invalid offset range: [0, {header.last_offset_delta}]")
    if count <= 0:
        raise invalid(f"Invalid reported count for record batch: {count}")
    if count != header.last_offset_delta + 1:
        raise invalid(f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count}")
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        raise invalid(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
        )
    if header.attributes & ~CLIENT_ATTRIBUTES:
        _refuse_attributes(header)
    if header.attributes & Attributes.CODEC > Codec.ZSTD:
        _ = header.codec  # raises, with the text that every reader of the codec gives


def _refuse_attributes(header: BatchHeader) -> None:
    """Refuse the bits that are the broker's to set; bits without a meaning pass, as in Kafka."""
    if header.is_control:
        raise invalid("Clients are not allowed to write control records")
    if header.delete_horizon is not None:
        raise invalid("Clients are not allowed to set a delete horizon")
    if header.is_log_append_time:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime.",
        )


def _check_records(buf: Buffer, header: BatchHeader, rules: BatchRules, now_ms: int) -> int:
    """Walk the records and apply the topic's rules; return the largest timestamp."""
    if header.attributes & Attributes.CODEC:
        payload: bytes | memoryview = records_payload(buf, 0, header, limit=_limit_of(buf, header, rules))
    else:
        payload = memoryview(buf)[BATCH_OVERHEAD:]
    least, most, keyless = walk_records(payload, 0, header.record_count)
    base = header.base_timestamp
    bad_time = not rules.log_append_time and (
        now_ms - (base + least) > rules.timestamp_before_max_ms or base + most - now_ms > rules.timestamp_after_max_ms
    )
    if bad_time or (rules.require_keys and keyless >= 0):
        _refuse_records(buf, header, rules, now_ms)
    return base + most


def _refuse_records(buf: Buffer, header: BatchHeader, rules: BatchRules, now_ms: int) -> None:
    """Raise with every record that breaks a rule named; returns where none does (records without a timestamp may)."""
    errors: list[tuple[int, str]] = []
    bad_time, count = False, 0
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    for index, record in enumerate(iter_batch_records(buf, 0, header, limit=_limit_of(buf, header, rules))):
        if rules.require_keys and record.key is None:
            count += 1
            if count <= NAMED_MAX:
                errors.append((index, "Compacted topic cannot accept message without key"))
        elif rules.log_append_time or record.timestamp == NO_TIMESTAMP or earliest <= record.timestamp <= latest:
            continue
        else:
            bad_time, count = True, count + 1
            if count > NAMED_MAX:
                continue
            reason = f"Timestamp {record.timestamp} of message with offset {index} is out of range. "
            errors.append((index, reason + f"The timestamp should be within [{earliest}, {latest}]"))
    if bad_time:
        message = "One or more records have been rejected due to invalid timestamp"
        raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, message, tuple(errors))
    if errors:
        shown = "; ".join(reason for _, reason in errors[:3])
        message = f"One or more records have been rejected due to {count} record errors in total, at most three: "
        raise RecordsRefused(ErrorCode.INVALID_RECORD, message + shown, tuple(errors))
