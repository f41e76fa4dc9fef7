"""Writing `derived-sums`: lines at a flush, all of it at a clean end or after a truncation took it back."""

from __future__ import annotations

from contextlib import suppress

from ottla.base import CorruptionError, MissingFileError, NoSpaceError
from ottla.log.derived_sums import DERIVED_SUMS_FILE, Ends, FileSum, SegmentSum, sum_of, sums_lines
from ottla.log.disk import TEMPORARY, Disk, File, join, overwrite
from ottla.log.leader_epochs import LEADER_EPOCH_FILE
from ottla.log.names import SNAPSHOT, file_name
from ottla.log.producer_state import ProducerState
from ottla.log.segment import Segment
from ottla.log.segments import Segments

__all__ = ["SumsKeeper"]


class SumsKeeper:
    """Of one log; knows what the file says already."""

    __slots__ = ("_disk", "_parts", "_state", "_told")

    def __init__(self, disk: Disk, parts: Segments, state: ProducerState) -> None:
        self._disk = disk
        self._parts = parts
        self._state = state
        self._told: set[SegmentSum | tuple[str, FileSum]] = {
            *(each.sum for each in parts.all if each.sum is not None),
            *_of_snapshots(state),
        }

    def append(self, sealed: list[Segment], epochs: bytes | None) -> None:
        """Say what these segments' files, new snapshots and these epochs hold, which are written already or will be now.

        May run on a thread. Where there is no room nothing is said, and a start has to look into more; raises StorageError.
        """
        with suppress(NoSpaceError, MissingFileError):
            if self._parts.sums_gone:
                sealed = self._parts.all[:-1]
                self._disk.unlink(join(self._parts.folder, DERIVED_SUMS_FILE))
                self._told.clear()
                self._parts.sums_gone = False
            segments = [found for each in sealed if (found := _summed(each)) is not None and found not in self._told]
            files = [each for each in _of_snapshots(self._state) if each not in self._told]
            if epochs is not None:
                files.append((LEADER_EPOCH_FILE, sum_of(epochs)))
            if not segments and not files:
                return
            file = self._disk.open(join(self._parts.folder, DERIVED_SUMS_FILE), create=True)
            try:
                file.pwrite(file.size(), sums_lines(segments, files))
            finally:
                file.close()
            self._told.update(segments, files)

    def take_back(self) -> None:
        """Forget what a flush said while the log was truncated; raises StorageError."""
        self._disk.unlink(join(self._parts.folder, DERIVED_SUMS_FILE))
        self._parts.sums_gone = True

    def begin_close(self, epochs: bytes, start: int, end: int) -> File:
        """Write the whole file of a log from `start` to `end` under another name, to be fsynced before `end_close`.

        Raises StorageError.
        """
        segments = [found for each in self._parts.all if (found := _mended_sum(each)) is not None]
        files = [*_of_snapshots(self._state), (LEADER_EPOCH_FILE, sum_of(epochs))]
        last = self._parts.all[-1]
        file = self._disk.open(join(self._parts.folder, DERIVED_SUMS_FILE + TEMPORARY), create=True)
        overwrite(file, sums_lines(segments, files, Ends(start, end, last.base_offset, last.size)))
        return file

    def end_close(self) -> None:
        """Give it its name; raises StorageError."""
        path = join(self._parts.folder, DERIVED_SUMS_FILE)
        self._disk.rename(path + TEMPORARY, path)


def _of_snapshots(state: ProducerState) -> list[tuple[str, FileSum]]:
    return [(file_name(offset, SNAPSHOT), known) for offset, known in list(state.sums.items())]


def _summed(segment: Segment) -> SegmentSum | None:
    try:
        return segment.summed()
    except CorruptionError:  # whoever reads it next builds it again
        return None


def _mended_sum(segment: Segment) -> SegmentSum | None:
    try:
        return segment.summed()
    except CorruptionError:
        return _summed(segment) if segment.mend() else None
