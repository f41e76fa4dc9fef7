"""Finding offsets by timestamps, as ListOffsets asks for them.

The indexes narrow the search to one stretch of one segment; there batches are stepped over by their headers, and of the one
batch that holds the answer only offsets and timestamps are read. A batch whose records are not where their lengths say is
what its producer sent, as long as its checksum is right: that fails the look-up (KafkaError), and is no damage
(CorruptionError). Reads the disk, so the shell runs it on a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base import CorruptionError, KafkaError, LeaderEpoch, Millis, Offset
from ottla.log.batch_headers import headers_between
from ottla.log.segment import Segment
from ottla.log.types import TimestampOffset
from ottla.wire import BatchHeader, batch_times, crc_is_valid

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
            for offset, time in _times(segment, header, position):
                if time >= timestamp and offset >= start:
                    return TimestampOffset(time, offset, LeaderEpoch(header.partition_leader_epoch))
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
        for offset, time in _times(found_in, header, position):
            if time >= largest and offset >= start:
                return TimestampOffset(time, offset, LeaderEpoch(header.partition_leader_epoch))
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
            kept = (time for offset, time in _times(segment, header, position) if offset >= start)
            timestamp = max(kept, default=Millis(-1))
        if timestamp > largest and header.record_count:
            largest, last_offset = timestamp, header.last_offset
    return largest, last_offset


def _times(segment: Segment, header: BatchHeader, position: int) -> list[tuple[Offset, Millis]]:
    """Return the offset and the timestamp of each record of a batch."""
    batch = segment.file.pread(position, header.size)
    try:
        return list(batch_times(batch, 0, header))
    except KafkaError as error:
        if len(batch) == header.size and crc_is_valid(batch, 0, header):
            raise
        path = segment.file.path
        raise CorruptionError(f"{path}: batch at position {position}: {error}", path) from error
