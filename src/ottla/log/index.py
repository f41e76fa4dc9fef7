"""A segment's sorted index files: offsets to positions (`.index`), timestamps to offsets (`.timeindex`).

::

    .index       8 bytes an entry   last offset of a batch, less the segment's base offset | position of that batch
    .timeindex  12 bytes an entry   largest timestamp so far | last offset of its batch, less the base offset

Entries only help to find a place to start from, so a missing one costs time and not truth. New ones wait in memory and are
written a few dozen at a time; where that fails they go on waiting, because the records that they point to are written
already. What a crash takes with it, recovery builds again. Of what is on disk a look-up reads about log2(entries / 512)
entries and one block. The block is kept by the indexes that were asked last: whoever reads on finds the next place in it,
or in the one behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from ottla.base import CorruptionError, StorageError
from ottla.log.disk import Disk, File, overwrite, replace_file
from ottla.wire import crc32c

__all__ = ["OFFSET_ENTRY", "TIME_ENTRY", "Index"]

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
PENDING_MAX = 64
"""Entries that wait in memory: one small write for each 64, and half a kilobyte a busy partition."""
KEPT_MAX: Final = 4096
"""Entries that wait where they cannot be written; beyond that every other one is given up, which costs longer walks."""
BLOCK_ENTRIES: Final = 512
"""Below this many entries a block is read instead of one entry more: both cost one system call."""
NEAR_ENTRIES: Final = 16
"""Whoever reads on finds the next place among so many behind the last one, in half the steps of a search in the block."""
BLOCKS_KEPT: Final = 256
"""Indexes that keep their block, 1.5 MiB in all: reading a topic from its start takes an index's block 500 times."""

Pair = tuple[int, int]
_Block = tuple[int, bytes]
"""The number of its first entry, and entries as they are on disk."""
_keepers: Final[deque[Index]] = deque()
"""Who keeps a block, the oldest first. Look-ups by time add to it on threads, too: each step of that is whole."""


class Index:
    """Entries (key, value), ascending in both; keys of a `.index` are relative offsets, of a `.timeindex` timestamps."""

    __slots__ = (
        "_at",
        "_block",
        "_disk",
        "_entry",
        "_expected",
        "_file",
        "_is_longer",
        "_is_made",
        "_last",
        "_pending",
        "_written",
        "is_proven",
        "path",
    )

    def __init__(self, disk: Disk, path: str, entry: Struct, size: int) -> None:
        """Take the index at `path`, whose file has `size` bytes; no file is opened before it is needed."""
        self.path = path
        self._disk = disk
        self._entry = entry
        self._file: File | None = None
        self._written = size // entry.size
        self._pending: list[Pair] = []
        self._last: Pair | None = None
        self._block: _Block | None = None
        """What was read last; entries on disk do not change, and where they are cut it goes."""
        self._at = 0
        """Where in a block an entry was found last; whoever goes by it looks whether that is so."""
        self._is_longer = False
        """True where the file still has entries that were cut."""
        self._is_made = True
        """False where the file is another one's, or not there."""
        self._expected: Pair | None = None
        """How many bytes the file begins with that are not compared yet, and their CRC-32C."""
        self.is_proven = False
        """True where this process wrote the content, or it is compared with its sum before it is read."""

    def expect(self, crc: int) -> None:
        """Believe what is on disk only if it has this CRC-32C, which is found out before it is first read."""
        self._expected = (self._written * self._entry.size, crc)
        self.is_proven = True

    def check(self) -> None:
        """Compare what is on disk with its sum, where that was not done yet; raises CorruptionError, StorageError."""
        if self._expected is None:
            return
        size, crc = self._expected
        if crc32c(self._opened().pread(0, size)) != crc:
            raise CorruptionError(f"{self.path} does not hold what was written to it", self.path)
        self._expected = None

    def content(self) -> bytes:
        """Return all that is on disk; raises CorruptionError where it is not what was written, and StorageError."""
        return self._checked().pread(0, self._written * self._entry.size) if self._written else b""

    def create(self) -> None:
        """Begin without entries; the file is made when there is something to write, or `file` asks for it.

        Many a partition never gets as many bytes as lie between two entries.
        """
        self.close()
        self._written, self._is_longer, self._last, self._is_made = 0, False, None, False
        self._expected, self.is_proven = None, True
        self._pending.clear()

    def __len__(self) -> int:
        return self._written + len(self._pending)

    @property
    def entry_size(self) -> int:
        """Bytes of an entry."""
        return self._entry.size

    def last(self) -> Pair | None:
        """Return the last entry, or None."""
        if self._last is None and len(self):
            self._last = self.entry(len(self) - 1)
        return self._last

    def entry(self, at: int) -> Pair:
        """Return the entry with this number."""
        return self._pending[at - self._written] if at >= self._written else self._read(at)

    def append(self, key: int, value: int) -> None:
        """Add an entry after all others; the caller keeps the order. Never fails: what cannot be written waits."""
        self._last = entry = (key, value)
        pending = self._pending
        pending.append(entry)
        if not len(pending) % PENDING_MAX:
            self._try_to_write()

    def _try_to_write(self) -> None:
        try:
            self.write()
        except StorageError:  # whoever seals the segment hears of it, unless there is room again by then
            if len(self._pending) >= KEPT_MAX:
                del self._pending[::2]

    def write(self) -> None:
        """Hand what waits in memory to the operating system, and cut the file where it is longer; raises StorageError."""
        if self._is_longer:
            self._opened().truncate(self._written * self._entry.size)
            self._is_longer = False
        if self._pending:
            pack = self._entry.pack
            data = b"".join([pack(*each) for each in self._pending])
            self._opened().pwrite(self._written * self._entry.size, data)
            self._written += len(self._pending)
            self._pending.clear()

    def floor(self, key: int) -> Pair | None:
        """Return the entry with the largest key that is not above this one, or None."""
        pending = self._pending
        if pending and pending[0][0] <= key:
            for each in reversed(pending):
                if each[0] <= key:
                    return each
        return self._floor(key)

    def above(self, key: int) -> Pair | None:
        """Return the entry with the smallest key above this one, where it lies in the block that was read last."""
        kept = self._block
        if kept is None:
            return None
        size, unpack = self._entry.size, self._entry.unpack_from
        data = kept[1]
        count = len(data) // size
        at = self._at + 1
        if not (at < count and unpack(data, (at - 1) * size)[0] <= key < unpack(data, at * size)[0]):
            at = _first_above(data, unpack, size, key, 0, count)
        if not 0 < at < count:
            return None
        found, value = unpack(data, at * size)
        return found, value

    def count_below(self, value: int, *, field: int) -> int:
        """Return how many entries have a key (field 0) or value (field 1) below `value`; they come first."""
        for at in range(len(self._pending), 0, -1):
            if self._pending[at - 1][field] < value:
                return self._written + at
        return self._first_above(value - 1, field=field)

    def cut(self, kept: int) -> None:
        """Keep the first so many entries; the file is cut by the next `write`. `count_below` was asked before."""
        if kept < self._written:
            self._written, self._is_longer = kept, True
            self._pending.clear()
        else:
            del self._pending[kept - self._written :]
        self._last = self._block = None

    def replace(self, entries: list[Pair], *, durable: bool) -> None:
        """Make these the whole content; with `durable` a crash at any moment leaves the old file or the new one."""
        data = b"".join([self._entry.pack(*each) for each in entries])
        self.close()
        if durable:
            replace_file(self._disk, self.path, data)
            self._is_made = True
        else:
            overwrite(self._opened(create=True), data)
        self._written, self._is_longer = len(entries), False
        self._pending.clear()
        self._last = self._block = None
        self._expected, self.is_proven = None, True

    def mend(self, entries: list[Pair]) -> None:
        """Make these the whole content, in memory where the disk has no room for them. Another thread may read the old ones
        by another object."""
        try:
            self.replace(entries, durable=True)
        except StorageError:
            self.close()
            self._written, self._is_longer, self._last = 0, True, None
            self._pending[:] = entries
            self._expected, self.is_proven = None, True

    @property
    def is_written(self) -> bool:
        """True where the file is as long as it has to be."""
        return not (self._pending or self._is_longer)

    def file(self) -> File:
        """Return the file, which is made now where it was not, for `fsync`; what waits in memory must have been written."""
        return self._opened()

    def close(self) -> None:
        """Let the descriptor go."""
        self._block = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename(self, path: str) -> None:
        """Give the file another name, also while it is read, where `file` has been asked for before."""
        if self._file is None:
            self._disk.rename(self.path, path)
        else:
            self._file.rename(path)
        self.path = path

    def moved(self, path: str) -> None:
        """Follow a rename."""
        self.path = path
        if self._file is not None:
            self._file.path = path

    def _opened(self, *, create: bool = False) -> File:
        """Return the file; only who writes a new one makes it, or a missing one would pass for one without entries."""
        if not self._is_made:
            file = self._disk.open(self.path, create=True)
            file.truncate(0)
            self._file, self._is_made = file, True
        if self._file is None:
            self._file = self._disk.open(self.path, create=create)
        return self._file

    def _checked(self) -> File:
        """Return the file, whose content is what was written to it, as far as anybody has said what that was."""
        if self._expected is not None:
            self.check()
        return self._opened()

    def _read(self, at: int) -> Pair:
        size = self._entry.size
        data = self._checked().pread(at * size, size)
        if len(data) < size:
            raise CorruptionError(f"{self.path}: entry {at} lies beyond the end of the file", self.path)
        key, value = self._entry.unpack(data)
        return key, value

    def _floor(self, key: int) -> Pair | None:
        """Return the written entry with the largest key that is not above this one, or None."""
        kept = self._block
        if kept is not None:
            found = self._floor_in(kept, key)
            if found is None and (behind := self._block_behind(kept)) is not None:
                found = self._floor_in(behind, key)
            if found is not None:
                return found
        at = self._first_above(key, field=0)
        if not at:
            return None
        block = self._read_block(at - 1 if self._written > BLOCK_ENTRIES else 0)
        self._keep(block)
        return self._floor_in(block, key)

    def _floor_in(self, block: _Block, key: int) -> Pair | None:
        """Return the entry that is wanted where the block shows that it is the one, as it does but for its last."""
        first, data = block
        size, unpack = self._entry.size, self._entry.unpack_from
        low, high = 0, len(data) // size
        at = self._at
        near = at + NEAR_ENTRIES
        if near < high and unpack(data, at * size)[0] <= key < unpack(data, near * size)[0]:
            low, high = at + 1, near
        elif unpack(data, 0)[0] > key or (first + high < self._written and unpack(data, (high - 1) * size)[0] <= key):
            return None
        self._at = at = _first_above(data, unpack, size, key, low, high) - 1
        found, value = unpack(data, at * size)
        return found, value

    def _block_behind(self, block: _Block) -> _Block | None:
        """Read the block that begins with the last entry of this one, which is its neighbour's floor."""
        first = block[0] + len(block[1]) // self._entry.size - 1
        if first + 1 >= self._written:
            return None
        behind = self._read_block(first)
        self._keep(behind)
        return behind

    def _read_block(self, first: int) -> _Block:
        size = self._entry.size
        count = min(self._written - first, BLOCK_ENTRIES)
        data = self._checked().pread(first * size, count * size)
        if len(data) < count * size:
            raise CorruptionError(f"{self.path}: entry {first} lies beyond the end of the file", self.path)
        return first, data

    def _keep(self, block: _Block) -> None:
        if self._block is None:
            _keepers.append(self)
            if len(_keepers) > BLOCKS_KEPT:
                _keepers.popleft()._block = None
        self._block = block

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
        block = self._checked().pread(low * size, (high - low) * size)
        unpack, first = self._entry.unpack_from, low
        high = low + len(block) // size
        while low < high:
            middle = (low + high) // 2
            if unpack(block, (middle - first) * size)[field] <= bound:
                low = middle + 1
            else:
                high = middle
        return low


def _first_above(data: bytes, unpack: Callable[[bytes, int], Pair], size: int, key: int, low: int, high: int) -> int:
    """Return where among entries of a block, of which these may be it, the first one stands whose key is above this one."""
    while low < high:
        middle = (low + high) // 2
        if unpack(data, middle * size)[0] <= key:
            low = middle + 1
        else:
            high = middle
    return low
