"""Where each leader epoch begins in a log (KIP-101, KIP-279), and its file `leader-epoch-checkpoint`.

The file lags: epochs of records above the recovery point are found again in the batches' headers, so it is enough that it
is on the device before the recovery point passes an epoch's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.base import CorruptionError, LeaderEpoch, Offset
from ottla.log.checkpoints import encode_checkpoint, parse_checkpoint
from ottla.log.disk import Disk
from ottla.log.types import EpochEnd, EpochStart

__all__ = ["LEADER_EPOCH_FILE", "LeaderEpochs", "parse_epochs", "read_epochs"]

LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
UNKNOWN: Final = EpochEnd(LeaderEpoch(-1), Offset(-1))


class LeaderEpochs:
    """Epochs with the first offset of each, ascending in both; `log_end_offset` is where the last one ends."""

    __slots__ = ("_starts", "changes", "log_end_offset", "saved")

    def __init__(self, starts: Sequence[EpochStart] = ()) -> None:
        self._starts = tuple(starts)
        self.log_end_offset = Offset(0)
        """Set by the log as it grows and shrinks."""
        self.changes = 0
        """Counts changes, so that the log knows whether the file is behind."""
        self.saved = 0

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        """Every epoch that has records here, oldest first."""
        return self._starts

    @property
    def latest(self) -> LeaderEpoch:
        """The newest epoch, or -1."""
        return self._starts[-1].epoch if self._starts else LeaderEpoch(-1)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that an epoch begins here; what an older leader had beyond this point gives way."""
        starts = self._starts
        if starts and starts[-1].epoch == epoch and starts[-1].offset <= start_offset:
            return
        kept = [each for each in starts if each.epoch < epoch and each.offset < start_offset]
        self._set((*kept, EpochStart(LeaderEpoch(epoch), Offset(start_offset))))

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """Return the newest epoch here that is not newer than this one, and where it ends, as OffsetForLeaderEpoch does.

        With epochs 1 at 0 and 4 at 10 in a log that ends at 15: 4 gives (4, 15), 1 and 3 give (1, 10), 5 gives (-1, -1)
        because it is not known here, and 0 gives (0, 0): nothing of it is here.
        """
        starts = self._starts
        if epoch < 0 or not starts or epoch > starts[-1].epoch:
            return UNKNOWN
        end = self.log_end_offset
        for each in reversed(starts):
            if each.epoch <= epoch:
                return EpochEnd(each.epoch, end)
            end = each.offset
        return EpochEnd(LeaderEpoch(epoch), end)

    def parts_from(self, epoch: int, end_offset: int) -> Offset:
        """Return where this log has to be cut so as to agree with one whose `epoch` ends at `end_offset` (KIP-279).

        The other one answered with its newest epoch that is not newer than our last one. Where we do not know it, what we
        have after the epoch below goes, and the other one is asked again. -1 for the end: nothing is in common.
        """
        end = self.log_end_offset
        if end_offset < 0 or epoch < 0 or not self._starts:
            return Offset(min(max(end_offset, 0), end))
        ours = self.end_offset_for(epoch)
        if ours.end_offset < 0:  # newer than all that we have: what the other one has of it is beyond our end
            return Offset(min(end_offset, end))
        if ours.epoch != epoch:
            return Offset(min(ours.end_offset, end))
        return Offset(min(ours.end_offset, end_offset, end))

    def epoch_of(self, offset: int) -> LeaderEpoch:
        """Return the epoch of the record at an offset; -1 where it is not known."""
        for each in reversed(self._starts):
            if each.offset <= offset:
                return each.epoch
        return LeaderEpoch(-1)

    def truncate_from_end(self, offset: int) -> None:
        """Forget the epochs that begin at `offset` or after it."""
        if self._starts and self._starts[-1].offset >= offset:
            self._set(tuple(each for each in self._starts if each.offset < offset))

    def truncate_from_start(self, offset: int) -> None:
        """Forget what lies before `offset`; the epoch that it falls into begins there."""
        older = [each for each in self._starts if each.offset <= offset]
        if (older and older[-1] != EpochStart(older[-1].epoch, Offset(offset))) or len(older) > 1:
            first = EpochStart(older[-1].epoch, Offset(offset))
            self._set((first, *self._starts[len(older) :]))

    def clear(self) -> None:
        """Forget every epoch."""
        if self._starts:
            self._set(())

    def encoded(self) -> bytes:
        """Return the file's content."""
        return encode_checkpoint(f"{epoch} {offset}" for epoch, offset in self._starts)

    def _set(self, starts: tuple[EpochStart, ...]) -> None:
        self._starts = starts
        self.changes += 1


def read_epochs(disk: Disk, path: str) -> LeaderEpochs:
    """Return the epochs in a `leader-epoch-checkpoint`; none where there is no file. Raises CorruptionError."""
    data = disk.read(path)
    return parse_epochs(data, path) if data else LeaderEpochs()


def parse_epochs(data: bytes, path: str) -> LeaderEpochs:
    """Return the epochs in a file with this content; raises CorruptionError."""
    try:
        found = [
            EpochStart(LeaderEpoch(int(epoch)), Offset(int(offset))) for epoch, offset in parse_checkpoint(data, path)
        ]
    except ValueError as error:
        raise CorruptionError(f"{path}: malformed line in checkpoint file") from error
    if any(each.epoch < 0 or each.offset < 0 for each in found):
        raise CorruptionError(f"{path}: an epoch or its offset is negative")
    return LeaderEpochs(found)
