"""A segment's sorted index files: offsets to positions (`.index`), timestamps to offsets (`.timeindex`).

::

    .index       8 bytes an entry   last offset of a batch, less the segment's base offset | position of that batch
    .timeindex  12 bytes an entry   largest timestamp so far | last offset of its batch, less the base offset

Entries only help to find a place to start from, so a missing one costs time and not truth. New ones wait in memory and are
written a few dozen at a time; what a crash takes with it, recovery builds again. Nothing is kept of what is on disk: a
look-up reads it, about log2(entries / 512) small reads and one block.
"""

from __future__ import annotations

from struct import Struct

from ottla.base import CorruptionError
from ottla.log.disk import Disk, File, overwrite, replace_file

__all__ = ["OFFSET_ENTRY", "TIME_ENTRY", "Index"]

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
PENDING_MAX = 64
"""Entries that wait in memory: one small write for each 64, and half a kilobyte a busy partition."""
BLOCK_ENTRIES = 512
"""Below this many entries a block is read instead of one entry more: both cost one system call."""

Pair = tuple[int, int]


class Index:
    """Entries (key, value), ascending in both; keys of a `.index` are relative offsets, of a `.timeindex` timestamps."""

    __slots__ = ("_disk", "_entry", "_file", "_last", "_pending", "_written", "path")

    def __init__(self, disk: Disk, path: str, entry: Struct, size: int) -> None:
        """Take the index at `path`, whose file has `size` bytes; no file is opened before it is needed."""
        self.path = path
        self._disk = disk
        self._entry = entry
        self._file: File | None = None
        self._written = size // entry.size
        self._pending: list[Pair] = []
        self._last: Pair | None = None

    def __len__(self) -> int:
        return self._written + len(self._pending)

    @property
    def entry_size(self) -> int:
        """Bytes of an entry."""
        return self._entry.size

    def last(self) -> Pair | None:
        """Return the last entry, or None."""
        if self._last is None and self._written:
            self._last = self._read(self._written - 1)
        return self._last

    def append(self, key: int, value: int) -> None:
        """Add an entry after all others; the caller keeps the order."""
        self._last = entry = (key, value)
        self._pending.append(entry)
        if len(self._pending) >= PENDING_MAX:
            self.write()

    def write(self) -> None:
        """Hand what waits in memory to the operating system."""
        if self._pending:
            pack = self._entry.pack
            data = b"".join([pack(*each) for each in self._pending])
            self._opened().pwrite(self._written * self._entry.size, data)
            self._written += len(self._pending)
            self._pending.clear()

    def floor(self, key: int) -> Pair | None:
        """Return the entry with the largest key that is not above this one, or None."""
        for each in reversed(self._pending):
            if each[0] <= key:
                return each
        at = self._first_above(key, field=0)
        return self._read(at - 1) if at else None

    def cut(self, value: int, *, field: int) -> None:
        """Remove the entries whose key (field 0) or value (field 1) is `value` or more."""
        self.write()
        kept = self._first_above(value - 1, field=field)
        if kept < self._written:
            self._opened().truncate(kept * self._entry.size)
            self._written = kept
        self._last = None

    def replace(self, entries: list[Pair], *, durable: bool) -> None:
        """Make these the whole content; with `durable` a crash at any moment leaves the old file or the new one."""
        data = b"".join([self._entry.pack(*each) for each in entries])
        self.close()
        if durable:
            replace_file(self._disk, self.path, data)
        else:
            overwrite(self._opened(), data)
        self._written = len(entries)
        self._pending.clear()
        self._last = None

    def sync(self) -> None:
        """Return once everything is on the device."""
        self.write()
        self._opened().fsync()

    def file(self) -> File:
        """Return the file, for `fsync` on a thread; what waits in memory must have been written."""
        return self._opened()

    def close(self) -> None:
        """Let the descriptor go."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def moved(self, path: str) -> None:
        """Follow a rename."""
        self.path = path
        if self._file is not None:
            self._file.path = path

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def _read(self, at: int) -> Pair:
        size = self._entry.size
        data = self._opened().pread(at * size, size)
        if len(data) < size:
            raise CorruptionError(f"{self.path}: entry {at} lies beyond the end of the file")
        key, value = self._entry.unpack(data)
        return key, value

    def _first_above(self, bound: int, *, field: int) -> int:
        """Return how many written entries have a field that is not above the bound (they come first)."""
        low, high = 0, self._written
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self._read(middle)[field] <= bound:
                low = middle + 1
            else:
                high = middle
        if low == high:
            return low
        size = self._entry.size
        block = self._opened().pread(low * size, (high - low) * size)
        unpack, first = self._entry.unpack_from, low
        high = low + len(block) // size
        while low < high:
            middle = (low + high) // 2
            if unpack(block, (middle - first) * size)[field] <= bound:
                low = middle + 1
            else:
                high = middle
        return low
