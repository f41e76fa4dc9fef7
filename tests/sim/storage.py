"""What a host's file system holds: what every reader sees now, and what a power loss would leave.

Rules of the model:

- A file has content as every reader sees it (the page cache) and content that is durable. `fsync` makes them equal. A
  failed `fsync` drops the dirty pages' claim to be written: a second `fsync` succeeds and writes nothing of them
  (as Linux does), so code that tries again and goes on loses data here.
- After a power loss each dirty sector of 512 bytes is old or new on its own; where a file had grown, its size is
  anything from the durable size to the size seen, and sectors inside it that were not written are zeros. A truncation
  that did not become durable takes the writes after it with it (file systems order the two in their journal).
- A directory's changes (create, rename, unlink, mkdir, rmdir) become durable by `fsync` of the directory; without it a
  prefix of them, in order, survives a power loss. Rename is atomic. fsync of a file does not make its name durable.
- A process crash loses nothing that reached the page cache.
- The disk may be full: `room_bytes` left, after which writes stop part way with ENOSPC.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from functools import lru_cache
from random import Random
from typing import NamedTuple

__all__ = ["Directory", "Inode", "Storage"]

SECTOR_BYTES = 512
Copies = dict[int, "Inode | Directory"]
"""By the identity of what was copied."""


class Inode:
    """One file's bytes, with a name or without."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.modified_ms = 0
        self.cuts: list[int] = []
        """The sizes to which it was shortened."""
        self._durable = bytearray()
        self._dirty: list[tuple[int, int]] = []
        self._shrunk_to: int | None = None

    def copy(self, copies: Copies) -> Inode:
        """Return a file that holds the same, durable and not; the same one where it has been copied."""
        found = copies.get(id(self))
        if isinstance(found, Inode):
            return found
        copies[id(self)] = other = Inode()
        other.data, other.modified_ms, other._durable = bytearray(self.data), self.modified_ms, bytearray(self._durable)
        other._dirty, other._shrunk_to = list(self._dirty), self._shrunk_to
        return other

    def write(self, position: int, piece: bytes | memoryview) -> None:
        """Put bytes into the page cache."""
        end = position + len(piece)
        if position > len(self.data):
            self.data += bytes(position - len(self.data))
        self.data[position:end] = piece
        if self._dirty and self._dirty[-1][1] == position:
            self._dirty[-1] = (self._dirty[-1][0], end)
        else:
            self._dirty.append((position, end))

    def truncate(self, size: int) -> None:
        """Cut or extend with zeros."""
        if size < len(self.data):
            self.cuts.append(size)
            del self.data[size:]
            self._shrunk_to = size if self._shrunk_to is None else min(size, self._shrunk_to)
        elif size > len(self.data):
            self.write(len(self.data), bytes(size - len(self.data)))

    @property
    def is_dirty(self) -> bool:
        """True where a power loss could change the file."""
        return bool(self._dirty) or self._shrunk_to is not None

    def sync(self) -> None:
        """Make the content durable."""
        if self._shrunk_to is not None:
            del self._durable[self._shrunk_to :]
        size = len(self.data)
        self._durable += bytes(max(0, size - len(self._durable)))
        for start, end in self._dirty:
            end = min(end, size)
            if start < end:
                self._durable[start:end] = self.data[start:end]
        del self._durable[size:]
        self.forget_dirty()

    def forget_dirty(self) -> None:
        """After a failed fsync: the pages are called clean, and are not durable."""
        self._dirty.clear()
        self._shrunk_to = None

    def lose_power(self, rng: Random) -> None:
        """Become one of the contents that a power loss may leave."""
        if not self.is_dirty:
            self.data = bytearray(self._durable)
            return
        mood = rng.random()
        chance = 0.0 if mood < 0.25 else 1.0 if mood > 0.75 else mood

        def survives() -> bool:
            return rng.random() < chance

        result = bytearray(self._durable)
        if self._shrunk_to is not None:
            if not survives():
                self._become(result)
                return
            del result[self._shrunk_to :]
        grown = len(self.data) - len(result)
        if grown > 0:
            kept = grown if survives() else rng.choice((0, rng.randrange(grown + 1)))
            result += bytes(kept)
        for start, end in self._dirty:
            self._lose_sectors(result, start, min(end, len(self.data), len(result)), survives)
        self._become(result)

    def _become(self, content: bytearray) -> None:
        self.data = content
        self._durable = bytearray(content)
        self.forget_dirty()

    def _lose_sectors(self, result: bytearray, start: int, end: int, survives: Callable[[], bool]) -> None:
        while start < end:
            stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
            if survives():
                result[start:stop] = self.data[start:stop]
            start = stop


class Directory:
    """Names and what they name: as seen now, and the changes that are not durable yet."""

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self._durable: dict[str, Inode | Directory] = {}
        self._pending: list[_Change] = []

    def copy(self, copies: Copies) -> Directory:
        """Return a directory that holds the same, durable and not; the same one where it has been copied."""
        found = copies.get(id(self))
        if isinstance(found, Directory):
            return found
        copies[id(self)] = other = Directory()
        other.entries = {name: each.copy(copies) for name, each in self.entries.items()}
        other._durable = {name: each.copy(copies) for name, each in self._durable.items()}
        other._pending = [each._replace(entry=each.entry and each.entry.copy(copies)) for each in self._pending]
        return other

    def add(self, name: str, entry: Inode | Directory) -> None:
        """Give an entry a name."""
        self._change(_Change(name, entry))

    def remove(self, name: str) -> None:
        """Take a name away."""
        self._change(_Change(name, None))

    def rename(self, old: str, new: str) -> None:
        """Change a name in one step, replacing what had the new one."""
        self._change(_Change(new, self.entries[old], before=old))

    def _change(self, change: _Change) -> None:
        change.make(self.entries)
        self._pending.append(change)

    def sync(self) -> None:
        """Make the names durable."""
        self._durable = dict(self.entries)
        self._pending.clear()

    def lose_power(self, rng: Random) -> None:
        """Keep a prefix of the pending changes, here and in everything below."""
        survivors = dict(self._durable)
        for change in self._pending[: rng.randrange(len(self._pending) + 1)]:
            change.make(survivors)
        self.entries = survivors
        self.sync()
        for name in sorted(self.entries):
            self.entries[name].lose_power(rng)


class _Change(NamedTuple):
    """One change of a directory's names; `entry` is None where a name is taken away."""

    name: str
    entry: Inode | Directory | None
    before: str = ""

    def make(self, names: dict[str, Inode | Directory]) -> None:
        """Change these names."""
        if self.before:
            names.pop(self.before, None)
        if self.entry is None:
            names.pop(self.name, None)
        else:
            names[self.name] = self.entry


class Storage:
    """The file system of one host; it outlives processes."""

    def __init__(self, rng: Random, *, room_bytes: int = 1 << 40) -> None:
        self.root = Directory()
        self.room_bytes = room_bytes
        self.locks: dict[str, object] = {}
        self.fsync_lies = False
        """A disk that says it has written and has not: for tests of the simulator itself."""
        self._rng = rng

    def lose_power(self) -> None:
        """Keep only what a power loss may leave."""
        self.root.lose_power(self._rng)
        self.locks.clear()

    def copy(self, rng: Random) -> Storage:
        """Return another host's storage that holds the same, durable and not, and whose locks nobody holds."""
        other = Storage(rng, room_bytes=self.room_bytes)
        other.fsync_lies = self.fsync_lies
        other.root = self.root.copy({})
        return other

    def find(self, path: str) -> Inode | Directory:
        """Return what a path names; raises FileNotFoundError."""
        entry: Inode | Directory = self.root
        for part in parts_of(path):
            if not isinstance(entry, Directory):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
            found = entry.entries.get(part)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            entry = found
        return entry

    def directory(self, path: str) -> Directory:
        """Return the directory at a path."""
        entry = self.find(path)
        if not isinstance(entry, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return entry

    def inode(self, path: str) -> Inode:
        """Return the file at a path."""
        entry = self.find(path)
        if not isinstance(entry, Inode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return entry

    def parent(self, path: str) -> tuple[Directory, str]:
        """Return the directory that holds a path's last name, and that name."""
        *above, name = parts_of(path)
        return self.directory("/".join(above)), name

    def exists(self, path: str) -> bool:
        """True where the path names something."""
        try:
            self.find(path)
        except OSError:
            return False
        return True

    def walk(self, path: str = "") -> Iterator[tuple[str, Inode]]:
        """Yield (path, file) of everything below a path, in order of name."""
        for name, entry in sorted(self.directory(path).entries.items()):
            inner = f"{path}/{name}" if path else name
            if isinstance(entry, Directory):
                yield from self.walk(inner)
            else:
                yield inner, entry

    def contents(self, path: str = "") -> dict[str, bytes]:
        """Every file below a path, for comparing two moments."""
        return {name: bytes(inode.data) for name, inode in self.walk(path)}


@lru_cache(10_000)
def parts_of(path: str) -> tuple[str, ...]:
    """Split a path into its names."""
    return tuple(part for part in path.split("/") if part and part != ".")
