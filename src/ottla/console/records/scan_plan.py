"""Which stretches of a topic a search looks at, in which order, and where it stands. Pure.

Forwards it reads from its positions to the ends that were there when it began. Backwards it takes windows from the ends,
each a few records at first and more with each turn, until it has hits enough or is at the beginning. Progress is counted in
offsets, so that the gaps of a compacted topic count as looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.console.records.reads import Read
from ottla.wire import Record

__all__ = ["Limits", "Progress", "Window", "newest_first", "reason_to_end", "windows_backwards"]

FIRST_WINDOW = 64
WINDOW_MAX = 50_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a search ends by itself: whichever comes first."""

    hits: int = 500
    records: int = 1_000_000
    bytes: int = 256 << 20
    seconds: float = 60.0
    held: int = 64 << 20
    """Bytes of hits that wait to be put in order."""


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets of one partition from `start` to before `end`."""

    start: int
    end: int


@dataclass(slots=True)
class Progress:
    """What a search has looked at so far."""

    hits: int = 0
    records: int = 0
    bytes: int = 0
    held: int = 0
    """Bytes of hits that have not been told yet."""
    looked: dict[int, Window] = field(default_factory=dict)
    """Per partition, the stretch that was looked at."""


def reason_to_end(progress: Progress, limits: Limits, took_s: float) -> str | None:
    """Return which limit is reached, None while none is."""
    if progress.hits >= limits.hits:
        return f"{limits.hits} hits"
    if progress.records >= limits.records:
        return f"{limits.records} records"
    if progress.bytes >= limits.bytes:
        return f"{limits.bytes >> 20} MiB"
    if progress.held >= limits.held:
        return f"{limits.held >> 20} MiB of hits: ask for fewer, or for those after an offset or a time"
    return f"{limits.seconds:g} s" if took_s >= limits.seconds else None


def windows_backwards(
    starts: Mapping[int, int], until: Mapping[int, int], *, wanted: int, turn: int
) -> dict[int, Window]:
    """Return each partition's next window before `until`; none for a partition that has been looked at to its start.

    The first turn takes what is wanted, dealt among the partitions; each further one takes four times as much.
    """
    left = {partition: end for partition, end in until.items() if end > starts[partition]}
    if not left:
        return {}
    each = max(FIRST_WINDOW, -(-wanted // len(left)))
    size = min(each * 4**turn, max(each, WINDOW_MAX))
    return {partition: Window(max(starts[partition], end - size), end) for partition, end in left.items()}


def newest_first(
    rows: Mapping[int, Sequence[Record | Read]], room: int
) -> tuple[list[tuple[int, Record | Read]], dict[int, int]]:
    """Merge partitions' records, each in order of offsets, into the newest `room` of them by time, the newest first.

    Returns with them, per partition, the last offset that found no room. Within a partition offsets decide, not times, so
    that what found none is always a partition's older part.
    """
    heads = [(-each[-1].timestamp, index, len(each) - 1) for index, each in rows.items() if each]
    heapq.heapify(heads)
    shown: list[tuple[int, Record | Read]] = []
    while heads and len(shown) < room:
        _, index, at = heapq.heappop(heads)
        shown.append((index, rows[index][at]))
        if at:
            heapq.heappush(heads, (-rows[index][at - 1].timestamp, index, at - 1))
    return shown, {index: int(rows[index][at].offset) for _, index, at in heads}
