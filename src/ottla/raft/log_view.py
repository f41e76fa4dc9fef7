"""The shape of the replicated log, without its bytes: where it starts and ends, and where each epoch begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ottla.base import LeaderEpoch, Offset

__all__ = ["EpochEnd", "EpochStart", "LogView", "SnapshotId"]


class EpochStart(NamedTuple):
    """The first offset that an epoch's leader wrote."""

    epoch: LeaderEpoch
    offset: Offset


class EpochEnd(NamedTuple):
    """The offset after the last record of an epoch."""

    epoch: LeaderEpoch
    end_offset: Offset


_START, _NO_EPOCH = Offset(0), LeaderEpoch(0)


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """A snapshot: the offset after the last record that it holds, and that record's epoch."""

    end_offset: Offset = _START
    epoch: LeaderEpoch = _NO_EPOCH


_BEFORE_ALL = SnapshotId()


@dataclass(frozen=True, slots=True)
class LogView:
    """Start, end and epochs of one replica's log; `epochs` ascends in both of its columns.

    What is before `start` is only in snapshots; `start` itself names the last record there. `snapshot` is the newest one.
    """

    start: SnapshotId = _BEFORE_ALL
    end_offset: Offset = _START
    epochs: tuple[EpochStart, ...] = ()
    snapshot: SnapshotId = _BEFORE_ALL

    @property
    def start_offset(self) -> Offset:
        """The first offset that the log can hold."""
        return self.start.end_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last record, in the log or before its start."""
        return self.epochs[-1].epoch if self.epochs else self.start.epoch

    def end_of(self, epoch: int) -> EpochEnd:
        """Return the newest epoch here that is not newer than this one, and where it ends.

        With epochs 1 at 0 and 4 at 10 in a log that ends at 15: `end_of(4)` and `end_of(9)` are (4, 15), `end_of(1)`
        and `end_of(3)` are (1, 10).
        """
        end = self.end_offset
        for entry in reversed(self.epochs):
            if entry.epoch <= epoch:
                return EpochEnd(entry.epoch, end)
            end = entry.offset
        return EpochEnd(self.start.epoch, end)

    def holds(self, offset: int, epoch: int) -> bool:
        """True where the record before `offset` is here and of this epoch: a follower there shares our history."""
        found = self.end_of(epoch)
        return found.epoch == epoch and self.start_offset <= offset <= found.end_offset

    def is_before(self, offset: int, epoch: int) -> bool:
        """True where the log cannot say how a history that ends at this offset and epoch goes on; a snapshot can."""
        start = self.start
        return (
            offset < start.end_offset
            or epoch < start.epoch
            or (offset == start.end_offset and epoch != start.epoch and start != _BEFORE_ALL)
        )

    def appended(self, base_offset: int, count: int, epoch: int) -> LogView:
        """Return the view after a batch at the end; batches leave no gap and epochs never go back."""
        assert base_offset == self.end_offset, f"batch at {base_offset}, log ends at {self.end_offset}"
        assert epoch >= self.last_epoch, f"batch of epoch {epoch} after epoch {self.last_epoch}"
        epochs = self.epochs
        if not epochs or epochs[-1].epoch != epoch:
            epochs = (*epochs, EpochStart(LeaderEpoch(epoch), Offset(base_offset)))
        return replace(self, end_offset=Offset(base_offset + count), epochs=epochs)

    def truncated(self, offset: int) -> LogView:
        """Return the view with the records from `offset` on removed."""
        if offset >= self.end_offset:
            return self
        assert offset >= self.start_offset
        epochs = tuple(each for each in self.epochs if each.offset < offset)
        return replace(self, end_offset=Offset(offset), epochs=epochs)

    def with_snapshot(self, snapshot: SnapshotId) -> LogView:
        """Return the view with a newer snapshot of what the log holds."""
        return replace(self, snapshot=max(self.snapshot, snapshot))

    def trimmed(self, start_offset: int) -> LogView:
        """Return the view with the records before `start_offset`, which a snapshot covers, removed."""
        if start_offset <= self.start_offset:
            return self
        assert start_offset <= min(self.snapshot.end_offset, self.end_offset)
        before = [each for each in self.epochs if each.offset < start_offset]
        epoch = before[-1].epoch if before else self.start.epoch
        kept = tuple(each for each in self.epochs if each.offset >= start_offset)
        if before and start_offset < (kept[0].offset if kept else self.end_offset):
            kept = (EpochStart(epoch, Offset(start_offset)), *kept)
        return replace(self, start=SnapshotId(Offset(start_offset), epoch), epochs=kept)

    @classmethod
    def after(cls, snapshot: SnapshotId) -> LogView:
        """Return the view of an empty log that begins where a snapshot ends."""
        return cls(start=snapshot, end_offset=snapshot.end_offset, snapshot=snapshot)
