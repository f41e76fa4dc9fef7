"""Windows over event time, in milliseconds, with Kafka's bounds: a time window [start, end), a session [start, end]."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["JoinWindows", "SessionWindows", "SlidingWindows", "TimeWindows", "UnlimitedWindows", "Windowed"]


@dataclass(frozen=True, slots=True)
class Windowed:
    """A key within a window: what a windowed table is keyed by. For a time window `end_ms` is exclusive."""

    key: object
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling (advance = size) and hopping windows."""

    size_ms: int
    advance_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """One window for each distinct set of records that lie within `difference_ms` of one another (KIP-450)."""

    difference_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Records that follow one another within `gap_ms`."""

    gap_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window from `start_ms` on."""

    start_ms: int = 0


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """How far the other side's record may lie before and after this side's."""

    before_ms: int
    after_ms: int
    grace_ms: int
