"""What goes to the process that cleans a log, and what comes back; not compiled, because it is pickled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base import OttlaError
from ottla.log.types import AbortedTransaction, CleanedGroup

__all__ = ["CleaningAborted", "CleaningPlan", "CleaningResult", "LastOfProducer", "Source"]


class CleaningAborted(OttlaError):
    """The cleaning is no longer wanted: the log was truncated or deleted, or its broker stops."""


class Source(NamedTuple):
    """A segment that is cleaned, as its log knows it."""

    base_offset: int
    size: int
    offset_index_bytes: int
    time_index_bytes: int


class LastOfProducer(NamedTuple):
    """What must stay of an active producer for its next sequence number to be checked."""

    last_offset: int
    """Offset of its last record; -1 where none is known, and its epoch is in a marker."""
    epoch: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """Which segments are cleaned, up to where, and by which rules; picklable."""

    folder: str
    sources: tuple[Source, ...]
    """Every segment below `end_offset`, oldest first."""
    first_dirty_offset: int
    end_offset: int
    """Where the first segment begins that is left alone."""
    aborted: tuple[AbortedTransaction, ...]
    producers: dict[int, LastOfProducer]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    lease: str
    truncations: int = 0
    """Those of the log when the plan was made."""
    map_bytes: int = 128 << 20
    load_factor: float = 0.9
    buffer_bytes: int = 512 << 10


@dataclass(slots=True)
class CleaningResult:
    """What a cleaning did."""

    cleaned_to: int
    """Below it the log holds each key once."""
    groups: list[CleanedGroup] = field(default_factory=list)
    """In the order of their offsets; segments that stay as they are do not appear."""
    bytes_read: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_mapped: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    tombstones_kept: int = 0
    map_utilization: float = 0.0
