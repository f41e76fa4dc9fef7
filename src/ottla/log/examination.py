"""What a log itself says of the aborted transactions in its segments, where no `.txnindex` can be believed.

A file that is missing, or shorter, looks like one of a segment in which fewer transactions were aborted; without the sum of
what was written (`derived_sums.py`), as in a log that Apache Kafka wrote, nothing tells them apart. So the segment's headers
and markers are read once, from the producers' newest snapshot on. That is Python work and may be long: whoever has an event
loop sends `examine` to a worker process, which changes no file.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.base import Millis
from ottla.log.batch_headers import headers_between
from ottla.log.derived_sums import FileSum
from ottla.log.disk import Disk
from ottla.log.producer_state import ProducerState, replay
from ottla.log.types import AbortedTransaction

__all__ = ["NOTHING_OPEN", "Doubt", "Examined", "ExaminedSegment", "examine"]

NOTHING_OPEN = (1 << 63) - 1
"""Where the oldest open transaction begins, where there is none."""


class Doubt(NamedTuple):
    """What `examine` has to look into; holds as long as the log is not truncated (`cuts`)."""

    folder: str
    sources: tuple[tuple[int, str, int], ...]
    """Base offset, path and bytes of every segment, in order."""
    wanted: int
    """The base offset of the first one that is asked for."""
    upper_bound: int
    """Transactions that begin from here on do not matter."""
    snapshot_sums: tuple[tuple[int, FileSum], ...]
    cuts: int


class ExaminedSegment(NamedTuple):
    """What one segment says, as far as it had been written."""

    base_offset: int
    end_offset: int
    size: int
    aborted: tuple[AbortedTransaction, ...]
    open_from: int
    """Where the oldest transaction begins that is open at its end, or NOTHING_OPEN."""


class Examined(NamedTuple):
    """What came of a doubt."""

    cuts: int
    segments: tuple[ExaminedSegment, ...]


def examine(disk: Disk, doubt: Doubt) -> Examined:
    """Read what segments say from the wanted one on, until nothing is open that matters.

    Raises CorruptionError, StorageError.
    Where older segments have to be read since there is no snapshot, what they say is returned too, and all later ones are
    read, so that nobody reads them again.
    """
    state = ProducerState(disk, doubt.folder, 0)
    state.sums = dict(doubt.snapshot_sums)
    first = doubt.sources[0][0]
    producers = state.restored(first, doubt.wanted, Millis(0))  # at that time none had expired
    start = producers.end_offset
    found: list[ExaminedSegment] = []
    bases = [base for base, _, _ in doubt.sources]
    for at, (base, path, size) in enumerate(doubt.sources):
        if at + 1 < len(bases) and bases[at + 1] <= start:
            continue
        aborted: list[AbortedTransaction] = []
        end, file = base, disk.open(path)
        try:
            for header, position in headers_between(file, 0, size):
                end = header.next_offset
                if header.producer_id >= 0 and header.base_offset >= start:
                    batch = file.pread(position, header.size) if header.is_control else b""
                    aborted += replay(producers, header, batch)
        finally:
            file.close()
        open_from = producers.first_open_offset
        oldest = NOTHING_OPEN if open_from is None else int(open_from)
        if base >= start:
            found.append(ExaminedSegment(base, end, size, tuple(aborted), oldest))
        if base >= doubt.wanted == start and oldest >= doubt.upper_bound <= end:
            break
    return Examined(doubt.cuts, tuple(found))
