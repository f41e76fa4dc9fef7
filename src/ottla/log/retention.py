"""Which segments are too old, too many, or behind the log's start."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.log.config import LogConfig
from ottla.log.segment import Segment

__all__ = ["expired_count"]


def expired_count(
    segments: Sequence[Segment],
    config: LogConfig,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """Return how many of the oldest segments go; all of them means that the active one is to be rolled first.

    A segment goes where all of it is replicated, and it lies below the log's start or, with `cleanup.policy=delete`, its
    largest timestamp is older than `retention.ms` or the log keeps `retention.bytes` without it. An empty active one stays.
    """
    surplus = sum(each.size for each in segments) - config.retention_bytes if config.retention_bytes >= 0 else -1
    count = 0
    for at, segment in enumerate(segments):
        is_active = at + 1 == len(segments)
        following = log_end_offset if is_active else segments[at + 1].base_offset
        if high_watermark < following or (is_active and not segment.size):
            break
        below_start = following <= log_start_offset and not is_active
        too_many = config.deletes and surplus >= segment.size > 0
        too_old = config.deletes and config.retention_ms >= 0 and _age(segment, now_ms) > config.retention_ms
        if not (below_start or too_many or too_old):
            break
        surplus -= segment.size
        count += 1
    return count


def _age(segment: Segment, now_ms: int) -> int:
    return now_ms - segment.largest_timestamp()
