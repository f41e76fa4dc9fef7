"""What an append is checked for and stamped with before its bytes are written; nothing of the log changes here."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.log.producer_state import add_marker
from ottla.log.producers import BatchMark, ProducerAppend, Producers
from ottla.log.types import AppendOrigin
from ottla.wire import (
    BatchHeader,
    WritableBuffer,
    read_batch_header,
    stamp_batch,
    stamp_log_append_time,
)

__all__ = ["Batch", "admit", "check_producers"]

Batch = tuple[BatchHeader, int, int]
"""A batch of an append: its header as sent, where it lies in the buffer, and the offset of its last record in the log."""


def admit(
    records: WritableBuffer,
    name: str,
    next_offset: int,
    leader_epoch: int,
    origin: AppendOrigin,
    max_message_bytes: int,
    log_append_time_ms: int,
) -> tuple[list[Batch], int, int]:
    """Read the batches' headers, check their sizes and offsets, and stamp offset, epoch and time where they are ours to set.

    Returns the batches, the first one's offset and the largest timestamp. Checksums were verified by whoever took the bytes
    in. `log_append_time_ms` is -1 with create time.
    """
    batches: list[Batch] = []
    at, end = 0, len(records)
    assigns = origin is AppendOrigin.CLIENT or origin is AppendOrigin.COORDINATOR
    first_offset, max_timestamp = next_offset if assigns else -1, -1
    while at < end:
        header = read_batch_header(records, at)
        size = header.batch_length + 12
        if at + size > end:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"A batch of {size} bytes in {name} is cut off after {end - at}"
            )
        if assigns:
            if size > max_message_bytes:
                raise _too_large(name, size, max_message_bytes)
            stamp_batch(records, at, next_offset, leader_epoch)
            if log_append_time_ms >= 0 and not header.is_log_append_time:
                stamp_log_append_time(records, at, log_append_time_ms)
                header = read_batch_header(records, at)
            last_offset = next_offset + header.last_offset_delta
        else:
            base_offset = header.base_offset
            if base_offset < next_offset or (origin is AppendOrigin.RAFT and base_offset != next_offset):
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Batch at offset {base_offset} in {name}, where {next_offset} is next",
                )
            if first_offset < 0:
                first_offset = base_offset
            last_offset = base_offset + header.last_offset_delta
        batches.append((header, at, last_offset))
        next_offset = last_offset + 1
        if header.max_timestamp > max_timestamp:
            max_timestamp = header.max_timestamp
        at += size
    return batches, first_offset, max_timestamp


def check_producers(
    records: WritableBuffer, batches: list[Batch], producers: Producers, origin: AppendOrigin
) -> list[ProducerAppend] | BatchMark:
    """Check every producer's epoch and sequences; return what to update, or the batch that this append is a duplicate of."""
    appends: dict[int, ProducerAppend] = {}
    checks = origin is AppendOrigin.CLIENT or origin is AppendOrigin.COORDINATOR
    for header, at, last_offset in batches:
        producer_id = header.producer_id
        if producer_id < 0:
            continue
        append = appends.get(producer_id)
        if append is None:
            entry = producers.entries.get(producer_id)
            if entry is not None and origin is AppendOrigin.CLIENT:
                duplicate = entry.duplicate_of(header)
                if duplicate is not None:
                    return duplicate
            append = appends[producer_id] = producers.prepare(producer_id)
        first_offset = last_offset - header.last_offset_delta
        if header.is_control:
            placed = header._replace(base_offset=first_offset)  # type: ignore[arg-type]
            add_marker(append, placed, memoryview(records)[at : at + header.size], check=checks)
        else:
            append.add(header, first_offset, check_epoch=checks, check_sequence=origin is AppendOrigin.CLIENT)
    return list(appends.values())


def _too_large(name: str, size: int, limit: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {name} is {size} bytes which exceeds the maximum configured value "
        f"of {limit}.",
    )
