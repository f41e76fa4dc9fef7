"""What an append is checked for and stamped with before its bytes are written; nothing of the log changes here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.base import ErrorCode, KafkaError, Millis, Offset
from ottla.log.producer_state import add_marker
from ottla.log.producers import BatchMark, ProducerAppend, Producers
from ottla.log.refusals import not_next
from ottla.log.types import AppendInfo, AppendOrigin
from ottla.wire import (
    BATCH_OVERHEAD,
    LENGTH_END,
    BatchHeader,
    WritableBuffer,
    batch_too_large,
    crc_is_valid,
    read_batch_header,
    stamp_batch,
    stamp_log_append_time,
)

__all__ = [
    "Batch",
    "JoinedAppend",
    "admit",
    "admit_joined",
    "admit_replicated",
    "check_producers",
    "duplicate_of",
    "next_run",
]

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
        size = header.batch_length + LENGTH_END
        if at + size > end:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"A batch of {size} bytes in {name} is cut off after {end - at}"
            )
        if assigns:
            if size > max_message_bytes:
                raise batch_too_large(name, size, max_message_bytes)
            stamp_batch(records, at, next_offset, leader_epoch)
            if log_append_time_ms >= 0 and not header.is_log_append_time:
                stamp_log_append_time(records, at, log_append_time_ms)
                header = read_batch_header(records, at)
            last_offset = next_offset + header.last_offset_delta
        else:
            base_offset = header.base_offset
            if base_offset < next_offset or (origin is AppendOrigin.RAFT and base_offset != next_offset):
                raise not_next(name, base_offset, next_offset)
            if first_offset < 0:
                first_offset = base_offset
            last_offset = base_offset + header.last_offset_delta
        batches.append((header, at, last_offset))
        next_offset = last_offset + 1
        if header.max_timestamp > max_timestamp:
            max_timestamp = header.max_timestamp
        at += size
    return batches, first_offset, max_timestamp


class JoinedAppend:
    """Clients' batches that follow in a log, with their places and what their producers become."""

    __slots__ = ("buffers", "first_offset", "max_timestamp", "placed", "producers", "size")

    def __init__(
        self,
        first_offset: int,
        size: int,
        max_timestamp: int,
        buffers: list[WritableBuffer],
        placed: list[Batch],
        producers: list[ProducerAppend],
    ) -> None:
        self.first_offset = first_offset
        self.size = size
        """In bytes."""
        self.max_timestamp = max_timestamp
        self.buffers = buffers
        self.placed = placed
        self.producers = producers


def admit_joined(
    batches: Sequence[tuple[WritableBuffer, BatchHeader]], known: Producers, next_offset: int, max_message_bytes: int
) -> JoinedAppend | None:
    """Place clients' batches, each sound and outside of transactions, one behind the other; nothing is stamped yet.

    None where one is too large or without timestamps, or not what its producer sends next.
    """
    placed: list[Batch] = []
    buffers: list[WritableBuffer] = []
    producers: dict[int, ProducerAppend] = {}
    offset, size = next_offset, 0
    earliest = latest = batches[0][1].max_timestamp
    for records, header in batches:
        last_offset = offset + header.last_offset_delta
        batch_bytes = header.batch_length + LENGTH_END
        if batch_bytes > max_message_bytes:
            return None
        producer_id = header.producer_id
        if producer_id >= 0:
            append = producers.get(producer_id)
            if append is None:
                append = producers[producer_id] = known.prepare(producer_id)
            if not append.is_next(header):
                return None
            append.add(header, offset, check_epoch=True, check_sequence=True)
        if header.max_timestamp > latest:
            latest = header.max_timestamp
        elif header.max_timestamp < earliest:
            earliest = header.max_timestamp
        placed.append((header, size, last_offset))
        buffers.append(records)
        size += batch_bytes
        offset = last_offset + 1
    if earliest < 0:
        return None
    return JoinedAppend(next_offset, size, latest, buffers, placed, list(producers.values()))


def admit_replicated(
    records: WritableBuffer, name: str, next_offset: int, leader_epoch: int
) -> tuple[list[Batch], int, bool]:
    """Read and verify what a leader sent; return its whole batches, their bytes, and whether some have a producer's id.

    A batch that the end of the answer cuts off is left out. So is what was appended in a later epoch than the one that was
    asked for: whoever answered may have been deposed meanwhile, and what it sends then may not stay (KAFKA-18723).
    """
    batches: list[Batch] = []
    at, end = 0, len(records)
    has_producers = False
    while end - at >= BATCH_OVERHEAD:
        header = read_batch_header(records, at)
        size = header.batch_length + LENGTH_END
        if size > end - at or header.partition_leader_epoch > leader_epoch:
            break
        if not crc_is_valid(records, at, header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Record is corrupt (stored crc = {header.crc}) in {name} at offset {header.base_offset}",
            )
        base_offset = header.base_offset
        delta = header.last_offset_delta
        # the first one may begin before the log's start: records of it were deleted on the leader
        if delta < 0 or (base_offset < next_offset and (batches or base_offset + delta < next_offset)):
            raise not_next(name, base_offset, next_offset)
        if header.producer_id >= 0:
            has_producers = True
        last_offset = base_offset + delta
        batches.append((header, at, last_offset))
        next_offset = last_offset + 1
        at += size
    return batches, at, has_producers


def next_run(
    batches: list[Batch], size: int, *, room: int, holds: Callable[[int], bool]
) -> tuple[list[Batch], int, list[Batch]]:
    """Split off the batches that one segment takes, at least one: return them, their bytes, and the rest.

    `size` is that of all; the rest's places count from its own beginning.
    """
    if size <= room and holds(batches[-1][2]):
        return batches, size, []
    count = 1
    while count < len(batches):
        header, at, last_offset = batches[count]
        if at + header.batch_length + LENGTH_END > room or not holds(last_offset):
            break
        count += 1
    if count == len(batches):
        return batches, size, []
    start = batches[count][1]
    return batches[:count], start, [(header, at - start, last) for header, at, last in batches[count:]]


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


def duplicate_of(mark: BatchMark, log_append_time: bool, log_start_offset: Offset, size: int) -> AppendInfo:
    """Return the answer for a batch that is in the log already."""
    time = Millis(mark.timestamp if log_append_time else -1)
    return AppendInfo(
        mark.first_offset, Offset(mark.last_offset), Millis(mark.timestamp), time, log_start_offset, size, True
    )
