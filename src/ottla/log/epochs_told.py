"""The leader epochs as a log's batches tell them, where `leader-epoch-checkpoint` is not what was written to it.

Epochs never go down in a log, so a segment's first batch and that of the next one tell whether another epoch begins in it:
one short read for each segment, and a walk through the few in which one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ottla.base import CorruptionError, LeaderEpoch, Offset
from ottla.log.batch_headers import headers_between
from ottla.log.derived_sums import FileSum, sum_of
from ottla.log.disk import Disk, join
from ottla.log.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs, parse_epochs
from ottla.log.segment import Segment
from ottla.log.types import EpochStart

__all__ = ["epochs_of", "epochs_told"]


def epochs_of(disk: Disk, folder: str, segments: Sequence[Segment], known: FileSum | None) -> tuple[LeaderEpochs, bool]:
    """Return a log's epochs, and whether they are the file's: it has this sum, or fits the batches where none is known.

    Raises StorageError, and CorruptionError where a segment's batches cannot be read.
    """
    path = join(folder, LEADER_EPOCH_FILE)
    data = disk.read(path) or b""
    found = LeaderEpochs()
    try:
        if data:
            found = parse_epochs(data, path)
        if known is not None and sum_of(data) == known:
            return found, bool(data)
        if known is None and _fit(found, segments):
            return found, bool(data)
    except CorruptionError:
        pass
    return LeaderEpochs(epochs_told(segments)), False


def epochs_told(segments: Sequence[Segment]) -> list[EpochStart]:
    """Return where each epoch begins in these segments; batches of before there were epochs (-1) say nothing."""
    starts: list[EpochStart] = []
    full = [each for each in segments if each.size]
    firsts = [_first(each) for each in full]
    for at, segment in enumerate(full):
        epoch, offset = firsts[at]
        is_one = at + 1 < len(full) and firsts[at + 1][0] == epoch
        batches = [(epoch, offset)] if is_one else _epochs_in(segment)
        for begun, base_offset in batches:
            if begun > (starts[-1].epoch if starts else -1):
                starts.append(EpochStart(LeaderEpoch(begun), Offset(base_offset)))
    return starts


def _fit(found: LeaderEpochs, segments: Sequence[Segment]) -> bool:
    """Return whether each segment's first batch is of the epoch that is said to be there."""
    starts = found.starts
    if any(one.epoch >= two.epoch or one.offset > two.offset for one, two in pairwise(starts)):
        return False
    firsts = [_first(each) for each in segments if each.size]
    return all(found.epoch_of(offset) == max(epoch, -1) for epoch, offset in firsts)


def _first(segment: Segment) -> tuple[int, int]:
    header, _ = next(headers_between(segment.file, 0, segment.size))
    return header.partition_leader_epoch, header.base_offset


def _epochs_in(segment: Segment) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for header, _ in headers_between(segment.file, 0, segment.size):
        if not found or header.partition_leader_epoch != found[-1][0]:
            found.append((header.partition_leader_epoch, header.base_offset))
    return found
