"""What a log answers with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ottla.base import LeaderEpoch, Millis, Offset, ProducerId
from ottla.log.disk import File

__all__ = [
    "AbortedTransaction",
    "AppendInfo",
    "AppendOrigin",
    "BatchAt",
    "CleanedGroup",
    "Cut",
    "EpochEnd",
    "EpochStart",
    "LogSlice",
    "RecoveryReport",
    "TimestampOffset",
]


class AppendOrigin(Enum):
    """Who appends, and so what the log still does to the batches."""

    CLIENT = "client"
    """A producer: offsets are assigned; sequences, producer epochs and sizes are checked."""
    COORDINATOR = "coordinator"
    """A coordinator of this broker: offsets are assigned; producer epochs are checked, sequences are not."""
    RAFT = "raft"
    """The metadata quorum: the batch carries its offset, which must be the log's end, and its epoch."""
    REPLICATION = "replication"
    """A leader's log: batches carry their offsets (gaps are allowed, going back is not) and their epochs."""


class AppendInfo(NamedTuple):
    """What an append did; for a duplicate (KIP-98), where the records already are."""

    first_offset: Offset
    last_offset: Offset
    max_timestamp: Millis
    log_append_time: Millis
    """-1 with create time."""
    log_start_offset: Offset
    size: int
    duplicate: bool

    @classmethod
    def nothing(cls, end: Offset, log_start_offset: Offset) -> AppendInfo:
        """Return what an append of no batch did."""
        return cls(end, Offset(end - 1), Millis(-1), Millis(-1), log_start_offset, 0, False)


class LogSlice(NamedTuple):
    """Bytes of one segment to send as they are: whole batches from `position` on, the last perhaps cut by a limit.

    Nothing is copied; `file.pread(position, size)` or sendfile reads it. Empty where `size` is 0.
    """

    file: File
    position: int
    size: int
    segment_base_offset: Offset

    def read(self) -> bytes:
        """Return the bytes; may wait for the device."""
        return self.file.pread(self.position, self.size) if self.size else b""


class EpochStart(NamedTuple):
    """The first offset that an epoch's leader wrote."""

    epoch: LeaderEpoch
    offset: Offset


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record, as OffsetForLeaderEpoch answers; -1 and -1 where it is not known."""

    epoch: LeaderEpoch
    end_offset: Offset


class TimestampOffset(NamedTuple):
    """A record by its timestamp, as ListOffsets answers."""

    timestamp: Millis
    offset: Offset
    leader_epoch: LeaderEpoch


class AbortedTransaction(NamedTuple):
    """One entry of a `.txnindex`: an aborted transaction and the last stable offset when it ended."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What recovery found and did to one log."""

    log_end_offset: Offset
    scanned_bytes: int = 0
    cut_bytes: int = 0
    """Bytes of a torn tail that were removed."""
    kept_aside: tuple[str, ...] = ()
    """Files that hold what was cut where whole batches followed the damage: not a torn tail, so it is not thrown away."""
    notes: tuple[str, ...] = ()
    """One line for everything else that was repaired."""
    leader_epochs: tuple[EpochStart, ...] = ()
    """The epochs as the records tell them."""
    scanned_from: int = 0
    """The base offset of the first segment that was read whole: the files of all from there on are made of it."""


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A segment that takes the place of those that begin at these offsets; its files are there as `.cleaned`."""

    bases: tuple[int, ...]
    size: int
    offset_index_bytes: int
    time_index_bytes: int
    transaction_index_bytes: int


class BatchAt(NamedTuple):
    """Where a batch lies in a segment."""

    position: int
    end: int


class Cut(NamedTuple):
    """What is left of a segment that is cut: where its bytes and its offsets end, entries of its indexes, its times."""

    position: int
    end_offset: int
    index_entries: int
    time_entries: int
    max_timestamp: int
    max_timestamp_offset: int
