"""Putting a cleaned segment in the place of those that it was made from, so that a crash leaves the one or the others.

::

    .cleaned  →  .swap     from here on a start completes it, before it undoes it
    old       →  .deleted  for those who still read them
    .swap     →  the plain name, the data first

Renames of one folder reach the device in their order, so no fsync stands between them. All of it waits for the disk, so a
thread does it beside the log's own (`Segments`): before the exchange in memory nobody knows of the new files, after it
nobody asks for the old ones, and the new ones may be read under either name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from ottla.base import StorageError
from ottla.log.disk import Disk, Entry, join
from ottla.log.names import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, TXN_INDEX, file_name
from ottla.log.segment import Segment
from ottla.log.types import CleanedGroup

__all__ = ["Swap", "cleaned_files"]


def cleaned_files(folder: str, group: CleanedGroup) -> list[str]:
    """Return the plain paths of a cleaned segment's files, the data first."""
    suffixes = [LOG, INDEX, TIME_INDEX, *([TXN_INDEX] if group.transaction_index_bytes else [])]
    return [join(folder, file_name(group.bases[0], suffix)) for suffix in suffixes]


class Swap:
    """One such exchange. Once `begin` has returned it is going to be completed, by `finish_next` or by the next start.

    Until memory has followed, `revoke` takes it back.
    """

    __slots__ = ("_disk", "_gone", "_mark", "new", "old", "snapshots")

    def __init__(self, disk: Disk, folder: str, old: Sequence[Segment], group: CleanedGroup, now_ms: int) -> None:
        """Take what a cleaning wrote, and the segments that it was made from."""
        self._disk = disk
        self.old = tuple(old)
        self._gone = list(old)
        self.snapshots: list[str] = []
        """Files that go with the old segments."""
        self._mark = f".{now_ms}"
        sizes = (group.size, group.offset_index_bytes, group.time_index_bytes, group.transaction_index_bytes)
        entries: dict[str, Entry] = {}
        paths = cleaned_files(folder, group)
        for path, size in zip(paths, sizes, strict=False):
            name = path.rpartition("/")[2]
            entries[name] = Entry(name, size, False, old[-1].modified_ms)
        self.new = Segment(disk, folder, group.bases[0], entries, now_ms, disk.open(paths[0] + CLEANED))
        self.new.file.path = paths[0]
        self.new.vouch()

    def begin(self) -> None:
        """Promise it to the next start, whole or not at all; raises StorageError."""
        paths = self.new.paths()
        try:
            for path in paths:
                self._disk.rename(path + CLEANED, path + SWAP)
            self.new.end_names(SWAP)
            self.new.find_files()
        except StorageError:
            with suppress(StorageError):
                self._remove(paths)
            raise

    def revoke(self) -> None:
        """Take the promise back; raises StorageError, and may be tried again."""
        self._remove([path.removesuffix(SWAP) for path in self.new.paths()])

    def _remove(self, paths: Sequence[str]) -> None:
        # the data first: without it a start gives up the others too, and beside one that is not renamed, it as well
        for path in paths:
            self._disk.unlink(path + SWAP)
        for path in paths:
            self._disk.unlink(path + CLEANED)

    def finish_next(self, aside: Callable[[Segment], None]) -> bool:
        """Go on to complete it, by one old segment, of which `aside` hears, or by what is left after them.

        True once that is done; raises StorageError, and may be tried again.
        """
        if self._gone:
            self._gone[0].set_aside(self._mark)
            aside(self._gone.pop(0))
            return False
        self.new.take_names(SWAP)
        while self.snapshots:
            self._disk.unlink(self.snapshots[-1])
            self.snapshots.pop()
        return True
