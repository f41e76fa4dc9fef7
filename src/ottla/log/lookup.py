"""Finding offsets by timestamps, as ListOffsets asks for them.

The indexes narrow the search to one stretch of one segment; there batches are stepped over by their headers, and only the
one batch that holds the answer is decoded. Reads the disk, so the shell runs it on a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base import CorruptionError, KafkaError, LeaderEpoch, Millis, Offset
from ottla.log.segment import Segment, headers_between
from ottla.log.types import TimestampOffset
from ottla.wire import BatchHeader, Record, iter_batch_records

__all__ = ["offset_of_max_timestamp", "offset_of_time"]


def offset_of_time(segments: Sequence[Segment], timestamp: int, start: int, end: int) -> TimestampOffset | None:
    """Return the first record from `start` to `end` with this timestamp or a later one; None where there is none."""
    for at, segment in enumerate(segments):
        following = segments[at + 1].base_offset if at + 1 < len(segments) else end
        if following <= start or segment.largest_timestamp() < timestamp or not segment.size:
            continue
        for header, position in headers_between(segment.file, segment.position_of_time(timestamp), segment.size):
            if header.base_offset >= end:
                return None
            if header.max_timestamp < timestamp or header.last_offset < start:
                continue
            for record in _records(segment, header, position):
                if record.timestamp >= timestamp and record.offset >= start:
                    return _found(record, header)
    return None


def offset_of_max_timestamp(segments: Sequence[Segment], start: int) -> TimestampOffset | None:
    """Return the first record from `start` on with the largest timestamp of all; None in a log without timestamps."""
    largest, found_in, at = -1, None, -1
    for segment in segments:
        timestamp, last_offset = _largest(segment, start)
        if timestamp > largest:
            largest, found_in, at = timestamp, segment, last_offset
    if found_in is None:
        return None
    for header, position in found_in.headers_from(at):
        for record in _records(found_in, header, position):
            if record.timestamp >= largest and record.offset >= start:
                return _found(record, header)
        break
    return None


def _largest(segment: Segment, start: int) -> tuple[int, int]:
    """Return a segment's largest timestamp from `start` on and the last offset of the first batch with it, or -1 twice."""
    if start <= segment.base_offset:
        segment.largest_timestamp()
        return segment.max_timestamp, segment.max_timestamp_offset
    largest, last_offset = -1, -1
    for header, position in segment.headers_from(start):  # what lies before was deleted, its timestamps do not count
        timestamp = header.max_timestamp
        if header.base_offset < start:
            kept = (each.timestamp for each in _records(segment, header, position) if each.offset >= start)
            timestamp = max(kept, default=Millis(-1))
        if timestamp > largest and header.record_count:
            largest, last_offset = timestamp, header.last_offset
    return largest, last_offset


def _records(segment: Segment, header: BatchHeader, position: int) -> list[Record]:
    """Return the records of a batch."""
    batch = segment.file.pread(position, header.size)
    try:
        return list(iter_batch_records(batch, 0, header))
    except KafkaError as error:
        raise CorruptionError(f"{segment.file.path}: batch at position {position}: {error}") from error


def _found(record: Record, header: BatchHeader) -> TimestampOffset:
    return TimestampOffset(Millis(record.timestamp), Offset(record.offset), LeaderEpoch(header.partition_leader_epoch))
