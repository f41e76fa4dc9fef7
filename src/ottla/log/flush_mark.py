"""How far a log was last fsynced, told by the last batch that was: what `flush-mark` in its folder says.

Recovery points are stored once a minute. What was fsynced after that would be cut by a recovery that meets damage in it,
as if it were a torn tail. So each flush leaves a mark, which costs a write and no fsync: whatever of it survives was true
when it was written. A mark counts only while the log has the batch that it names in its place. A truncation takes the
marks back before anything is appended: a batch of the same epoch, in the same place, would pass for the one that was there.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import NamedTuple

from ottla.base import KafkaError, MissingFileError, NoSpaceError, Offset
from ottla.log.disk import Disk, File, join
from ottla.log.names import LOG, file_name
from ottla.wire import BATCH_OVERHEAD, crc32c, read_batch_header

__all__ = ["FLUSH_MARK_FILE", "FlushMark", "FlushMarks", "flushed_end"]

FLUSH_MARK_FILE = "flush-mark"
LAYOUT = struct.Struct(">QQQQiI")
CHECKSUM = struct.Struct(">I")
SLOT_BYTES = LAYOUT.size + CHECKSUM.size
SLOTS = 2
"""They take turns, so that a write that is broken off leaves the mark before."""
HEAD = struct.Struct(">Q4xixI")
"""A batch's base offset, epoch and checksum."""
ALIKE_MIN = 2
"""So many of those prove that a batch is the same one: the damage may be in its header."""


class FlushMark(NamedTuple):
    """The last batch that was there before an fsync."""

    segment: int
    """Base offset of its segment."""
    position: int
    end_offset: int
    """Offset that follows the batch."""
    base_offset: int
    epoch: int
    checksum: int

    @classmethod
    def of(cls, file: File, segment: int, position: int) -> FlushMark | None:
        """Return the mark of the batch at this position; None where there is none."""
        try:
            header = read_batch_header(file.pread(position, BATCH_OVERHEAD))
        except KafkaError:
            return None
        return cls(segment, position, header.next_offset, header.base_offset, header.partition_leader_epoch, header.crc)


class FlushMarks:
    """Leaves the marks of one log, each in the slot of the one before the last."""

    __slots__ = ("_count", "_last")

    def __init__(self) -> None:
        self._last: FlushMark | None = None
        self._count = 0

    def leave(self, disk: Disk, folder: str, mark: FlushMark | None) -> None:
        """Leave a mark, now that everything up to it is on the device, if there is a new one. Raises StorageError."""
        if mark is None or mark == self._last:
            return
        data = LAYOUT.pack(*mark)
        with suppress(NoSpaceError, MissingFileError):  # the mark before says less, and is as true
            file = disk.open(join(folder, FLUSH_MARK_FILE), create=True)
            try:
                file.pwrite(self._count % SLOTS * SLOT_BYTES, data + CHECKSUM.pack(crc32c(data)))
            finally:
                file.close()
            self._last, self._count = mark, self._count + 1

    def take_back(self, disk: Disk, folder: str) -> None:
        """Forget every mark; durable with the folder's names. Raises StorageError."""
        self._last = None
        disk.unlink(join(folder, FLUSH_MARK_FILE))


def flushed_end(disk: Disk, folder: str) -> Offset:
    """Return the offset before which everything is known to have been fsynced; 0 where nothing is. Raises StorageError."""
    stored = disk.read(join(folder, FLUSH_MARK_FILE)) or b""
    end = 0
    for at in range(0, min(len(stored), SLOTS * SLOT_BYTES) - SLOT_BYTES + 1, SLOT_BYTES):
        data = stored[at : at + LAYOUT.size]
        if CHECKSUM.unpack_from(stored, at + LAYOUT.size) == (crc32c(data),):
            mark = FlushMark(*LAYOUT.unpack(data))
            if mark.end_offset > end and _is_there(disk, folder, mark):
                end = mark.end_offset
    return Offset(end)


def _is_there(disk: Disk, folder: str, mark: FlushMark) -> bool:
    """Return whether the batch is in its place, sound or not."""
    path = join(folder, file_name(mark.segment, LOG))
    if not disk.exists(path):
        return False
    file = disk.open(path)
    try:
        head = file.pread(mark.position, HEAD.size)
    finally:
        file.close()
    if len(head) < HEAD.size:
        return False
    known = (mark.base_offset, mark.epoch, mark.checksum)
    return sum(map(int.__eq__, known, HEAD.unpack(head))) >= ALIKE_MIN
