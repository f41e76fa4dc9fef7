"""What of a log compaction may touch now, how much of that is dirty, and the plan of a cleaning."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.base import Offset
from ottla.log.cleaning_plan import CleaningPlan, LastOfProducer, Source
from ottla.log.config import INT64_MAX
from ottla.log.log import Log
from ottla.log.segment import Segment

__all__ = ["Cleanable", "CleanerBuffers", "cleanable", "is_as_planned", "plan_cleaning"]


@dataclass(frozen=True, slots=True)
class CleanerBuffers:
    """The memory of one cleaning: `log.cleaner.dedupe.buffer.size`, its load factor, `log.cleaner.io.buffer.size`."""

    map_bytes: int = 128 << 20
    load_factor: float = 0.9
    buffer_bytes: int = 512 << 10


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The clean head and the dirty section of one log; offsets are as in Kafka's LogToClean."""

    first_dirty_offset: Offset
    end_offset: Offset
    """Base offset of the first segment that must be left alone."""
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """How far the oldest dirty record is beyond `max.compaction.lag.ms`; 0 where it is not."""

    @property
    def ratio(self) -> float:
        """The dirty part of what could be cleaned, 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_ratio: float) -> bool:
        """True where `min.cleanable.dirty.ratio` is passed, or `max.compaction.lag.ms` is."""
        return self.cleanable_bytes > 0 and (self.delay_ms > 0 or self.ratio > min_ratio)


def cleanable(log: Log, *, last_stable_offset: int, now_ms: int) -> Cleanable:
    """Return what could be cleaned: whole segments below the active one, the last stable offset, and the recovery point.

    The last is Ottla's own rule: what is cleaned was on the device before. With recovery points stored before `install`,
    recovery begins behind it, and never meets the gaps that compaction leaves where it looks for lost segments, also when
    the topic is not a compacted one any more. Sealed segments get to the device in a second. And nothing is cleaned while
    files are not where the log has them, since a disk failed or was full.
    """
    segments = log.segments
    bases = [each.base_offset for each in segments]
    first_dirty = _first_dirty(log)
    dirty = segments[max(bisect_right(bases, first_dirty) - 1, 0) : -1]
    end = min(last_stable_offset, bases[-1], log.recovery_point, _lag_bound(log, dirty, now_ms))
    if not log.is_settled:
        end = first_dirty
    # all of the segment with the bound in it is left alone; where cleaning left off inside one, it may go on there
    end_at = max(bisect_right(bases, max(end, first_dirty)) - 1, 0)
    return Cleanable(
        Offset(first_dirty),
        Offset(bases[end_at]),
        clean_bytes=sum(each.size for each in segments if each.base_offset < first_dirty),
        cleanable_bytes=sum(each.size for each in segments[max(bisect_right(bases, first_dirty) - 1, 0) : end_at]),
        delay_ms=_delay_ms(log, dirty, now_ms),
    )


def _first_dirty(log: Log) -> int:
    """Return where cleaning goes on; a note that does not fit the log any more counts as none."""
    noted = log.cleaned_to
    return noted if log.log_start_offset <= noted <= log.log_end_offset else log.log_start_offset


def _lag_bound(log: Log, dirty: Sequence[Segment], now_ms: int) -> int:
    lag_ms = log.config.min_compaction_lag_ms
    young = (each.base_offset for each in dirty if each.largest_timestamp() > now_ms - lag_ms)
    return next(young, log.log_end_offset) if lag_ms > 0 else log.log_end_offset


def _delay_ms(log: Log, dirty: Sequence[Segment], now_ms: int) -> int:
    lag_ms = log.config.max_compaction_lag_ms
    times = [time for each in dirty if (time := each.first_timestamp) > 0] if lag_ms < INT64_MAX else []
    return max(0, now_ms - lag_ms - min(times)) if times else 0


def plan_cleaning(log: Log, found: Cleanable, *, now_ms: int, lease: str, buffers: CleanerBuffers) -> CleaningPlan:
    """Return the plan to clean that much of a log; it holds as long as `is_as_planned` says so."""
    config = log.config
    sources = tuple(
        Source(
            each.base_offset,
            each.size,
            len(each.offset_index) * each.offset_index.entry_size,
            len(each.time_index) * each.time_index.entry_size,
        )
        for each in log.segments
        if each.base_offset < found.end_offset
    )
    return CleaningPlan(
        folder=log.folder,
        sources=sources,
        first_dirty_offset=found.first_dirty_offset,
        end_offset=found.end_offset,
        aborted=tuple(log.aborted_transactions(sources[0].base_offset, found.end_offset)) if sources else (),
        producers={producer_id: LastOfProducer(each.last_offset, each.epoch) for producer_id, each in log.producers},
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        lease=lease,
        truncations=log.truncations,
        map_bytes=buffers.map_bytes,
        load_factor=buffers.load_factor,
        buffer_bytes=buffers.buffer_bytes,
    )


def is_as_planned(log: Log, plan: CleaningPlan) -> bool:
    """True where the segments that a plan names are still the log's first ones, with all that was in them."""
    segments = [(each.base_offset, each.size) for each in log.segments[: len(plan.sources)]]
    planned = [(each.base_offset, each.size) for each in plan.sources]
    is_same = log.truncations == plan.truncations and log.folder == plan.folder and segments == planned
    return is_same and log.is_settled
