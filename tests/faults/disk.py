"""A disk that numbers its calls and lets one of them fail, in a way of one's choice.

It wraps the simulated disk (`tests/sim/disk.py`), whose page cache is kept apart from what is durable, at the `Disk` seam.
While somebody watches, every call of `Disk` and `File` gets a number; the call with the number that it was told fails:

=============  =======================================================================================================
ENOSPC         nothing happens but NoSpaceError: no bytes, inodes, quota or descriptors
EIO            nothing happens but StorageError; an fsync has lost what was dirty
ENOENT         nothing happens but MissingFileError, where the call names a file that may have vanished
short          half of a write's bytes are there, then NoSpaceError
torn           half of a write's bytes are there, then StorageError
full           ENOSPC, and from then on every call that takes room until `mend` is called
rot            what is read has a wrong bit
rot-head       what is read of a `.log` has a wrong bit in its first batch's magic, so that it is no batch
rot-stays      as rot-head, and every later read of these bytes too, until `mend` is called
kill-before    the process ends instead of the call; its files stay as the page cache has them
kill-inside    half of a write's bytes are there, and the process ends
kill-after     the call is made, and the process ends
power-...      as kill, and the machine loses its power: what was not made durable may go
=============  =======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

from ottla.base import MissingFileError, NoSpaceError, StorageError
from ottla.log import Entry, File, Space
from ottla.log.disk import FileLock
from tests.sim.disk import SimDisk, SimFile, copied

__all__ = ["CRASHES", "KINDS", "Call", "FaultyDisk", "Watch", "kinds_of", "ways_to_fail"]

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

ERRORS = ("ENOSPC", "EIO", "ENOENT")
WRITE_ERRORS = ("short", "torn")
CRASHES = ("kill-before", "kill-inside", "kill-after", "power-before", "power-inside", "power-after")
KINDS = (*ERRORS, *WRITE_ERRORS, "full", "rot", "rot-head", "rot-stays", *CRASHES)
READS = frozenset({"read", "scan", "exists", "space", "pread", "pread_nowait", "size"})
TAKES_ROOM = frozenset({"create", "mkdir", "pwrite", "extend", "rename", "link"})
NAMELESS = frozenset({"exists", "read", "scan", "unlink", "rmdir", "mkdir", "link"})
"""Calls that take a missing file for an answer, or make it."""
NEEDS_NOTHING = frozenset({"exists", "unlink", "rmdir"})
"""Calls that need neither room nor a descriptor."""
MAGIC_AT = 16
ROT_BYTES_MIN = 30
"""Where the wrong bit is: behind a batch's length, in what its checksum covers; or in what there is."""


class Call(NamedTuple):
    """One call of a disk."""

    name: str
    path: str


def kinds_of(call: Call) -> list[str]:
    """Return the ways in which a call can fail."""
    name = call.name
    kinds = ["EIO"] if name in NEEDS_NOTHING else ["ENOSPC", "EIO"]
    if name not in NAMELESS:
        kinds.append("ENOENT")
    if name == "pwrite":
        kinds += WRITE_ERRORS
    if name in TAKES_ROOM:
        kinds.append("full")
    if name not in READS:
        kinds += [each for each in CRASHES if name == "pwrite" or not each.endswith("inside")]
    elif name in ("pread", "pread_nowait", "read"):
        kinds.append("rot")
        if name != "read" and call.path.endswith(".log"):
            kinds += ["rot-head", "rot-stays"]
    return kinds


def ways_to_fail(calls: Sequence[Call]) -> list[list[str]]:
    """Return for each call of a story the ways in which it is to fail.

    A crash right after a call leaves the files that a crash right before the next change finds, where more has been
    promised by then: so only the last change of all needs both.
    """
    ways = [kinds_of(call) for call in calls]
    last = max((at for at, kinds in enumerate(ways) if "kill-after" in kinds), default=-1)
    return [
        kinds if at == last else [each for each in kinds if not each.endswith("after")] for at, kinds in enumerate(ways)
    ]


class Watch:
    """Counts calls, of one process after the other, and knows which one fails; `at` is its number and `kind` how."""

    def __init__(self, *, at: int = 0, kind: str = "") -> None:
        self.at = at
        self.kind = kind
        self.on = False
        """False while calls are made that nobody counts."""
        self.calls: list[Call] = []
        """What was called while it watched, in order; the first is number 1."""
        self.failed: Call | None = None
        """The call that has failed."""
        self.is_full = False
        self.rotten: tuple[str, int] | None = None
        """The file and the position of a byte with a wrong bit."""
        self.kind_at: Callable[[int, Call], str] | None = None
        """Asked at each call how it fails; see `Forks`."""

    def mend(self) -> None:
        """Let there be room again, and no wrong bit."""
        self.is_full = False
        self.rotten = None

    def read(self, path: str, position: int, data: bytes) -> bytes:
        """Return what is read of a file at a position, with the wrong bit that is in it."""
        at = self.rotten[1] - position if self.rotten is not None and self.rotten[0] == path else -1
        return _rotten(data, at) if 0 <= at < len(data) else data


class FaultyDisk:
    """The disk of one process."""

    def __init__(self, disk: SimDisk, watch: Watch) -> None:
        self.disk = disk
        self.watch = watch

    def call(
        self,
        name: str,
        path: str,
        do: Callable[[], T],
        *,
        partly: Callable[[], object] | None = None,
        spoil: Callable[[], object] | None = None,
        position: int = 0,
    ) -> T:
        """Make a call, or fail it; `partly` does half of a write, `spoil` what a failing fsync does.

        `position` is where a read begins.
        """
        self.disk.check()
        watch = self.watch
        if not watch.on:
            return do()
        watch.calls.append(Call(name, path))
        if watch.is_full and name in TAKES_ROOM:
            raise NoSpaceError(f"{path}: No space left on device", path)
        if watch.kind_at is not None and (kind := watch.kind_at(len(watch.calls), watch.calls[-1])):
            watch.at, watch.kind = len(watch.calls), kind
        if len(watch.calls) != watch.at:
            return do()
        watch.failed = watch.calls[-1]
        if watch.kind == "rot-stays":
            watch.rotten = path, position + MAGIC_AT
            return do()
        return self._fail(name, path, do, partly, spoil)

    def _fail(
        self,
        name: str,
        path: str,
        do: Callable[[], T],
        partly: Callable[[], object] | None,
        spoil: Callable[[], object] | None,
    ) -> T:
        kind = self.watch.kind
        if kind.startswith("rot"):
            return _rotten(do(), MAGIC_AT if kind == "rot-head" else ROT_BYTES_MIN)
        if partly is not None and (kind in WRITE_ERRORS or kind.endswith("inside")):
            partly()
        if kind == "full":
            self.watch.is_full = True
        if kind in ("ENOSPC", "short", "full"):
            raise NoSpaceError(f"{path}: No space left on device", path)
        if kind == "ENOENT":
            raise MissingFileError(f"{path}: No such file or directory", path)
        if kind in ("EIO", "torn"):
            if spoil is not None:
                spoil()
            raise StorageError(f"{path}: Input/output error", path)
        assert kind in CRASHES, kind
        if kind.endswith("after"):
            do()
        self.disk.process.kill()
        self.disk.check()
        raise AssertionError("a dead process goes on")

    # ---------------------------------------------------------------- ottla.log.Disk

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        """See `Disk.open`."""
        name = "create" if create and not self.disk.storage.exists(path) else "open"
        return FaultyFile(self, self.call(name, path, lambda: self.disk.open(path, create=create)))

    def read(self, path: str) -> bytes | None:
        """See `Disk.read`."""
        return self.call("read", path, lambda: self.disk.read(path))

    def scan(self, path: str) -> list[Entry]:
        """See `Disk.scan`."""
        return self.call("scan", path, lambda: self.disk.scan(path))

    def exists(self, path: str) -> bool:
        """See `Disk.exists`."""
        return self.call("exists", path, lambda: self.disk.exists(path))

    def mkdir(self, path: str) -> None:
        """See `Disk.mkdir`."""
        self.call("mkdir", path, lambda: self.disk.mkdir(path))

    def rename(self, source: str, target: str) -> None:
        """See `Disk.rename`."""
        self.call("rename", source, lambda: self.disk.rename(source, target))

    def link(self, source: str, target: str) -> bool:
        """See `Disk.link`."""
        return self.call("link", target, lambda: self.disk.link(source, target))

    def unlink(self, path: str) -> None:
        """See `Disk.unlink`."""
        self.call("unlink", path, lambda: self.disk.unlink(path))

    def rmdir(self, path: str) -> None:
        """See `Disk.rmdir`."""
        self.call("rmdir", path, lambda: self.disk.rmdir(path))

    def fsync_dir(self, path: str) -> None:
        """See `Disk.fsync_dir`."""
        self.call("fsync_dir", path, lambda: self.disk.fsync_dir(path))

    def fsync_all(self, files: Sequence[File], folders: Sequence[str] = ()) -> None:
        """See `Disk.fsync_all`; each file and folder is a call."""
        for file in files:
            file.fsync()
        for folder in folders:
            self.fsync_dir(folder)

    def lock(self, path: str) -> FileLock | None:
        """See `Disk.lock`."""
        return self.call("lock", path, lambda: self.disk.lock(path))

    def mutex(self) -> AbstractContextManager[object]:
        """See `Disk.mutex`."""
        return self.disk.mutex()

    def space(self, path: str) -> Space:
        """See `Disk.space`."""
        return self.call("space", path, lambda: self.disk.space(path))


class FaultyFile:
    """A file on it."""

    def __init__(self, disk: FaultyDisk, file: SimFile) -> None:
        self._disk = disk
        self.file = file

    @property
    def path(self) -> str:
        """Where the file is now."""
        return self.file.path

    @path.setter
    def path(self, path: str) -> None:
        self.file.path = path

    def pread(self, position: int, size: int) -> bytes:
        """See `File.pread`."""
        found = self._disk.call("pread", self.path, lambda: self.file.pread(position, size), position=position)
        return self._disk.watch.read(self.path, position, found)

    def pread_nowait(self, position: int, size: int) -> bytes | None:
        """See `File.pread_nowait`."""
        found = self._disk.call(
            "pread_nowait", self.path, lambda: self.file.pread_nowait(position, size), position=position
        )
        return found if found is None else self._disk.watch.read(self.path, position, found)

    def pread_into(self, position: int, into: memoryview) -> int | None:
        """See `File.pread_into`."""
        return copied(self.pread_nowait(position, len(into)), into)

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        """See `File.pwrite`."""
        data = b"".join(buffers)

        def partly() -> None:
            self.file.pwrite(position, data[: len(data) // 2])

        self._disk.call("pwrite", self.path, lambda: self.file.pwrite(position, data), partly=partly)

    def truncate(self, size: int) -> None:
        """See `File.truncate`."""
        name = "extend" if self._is_longer(size) else "truncate"
        self._disk.call(name, self.path, lambda: self.file.truncate(size))

    def _is_longer(self, size: int) -> bool:
        try:
            return size > self.file.size()
        except StorageError:
            return False

    def size(self) -> int:
        """See `File.size`."""
        return self._disk.call("size", self.path, self.file.size)

    def fsync(self) -> None:
        """See `File.fsync`."""

        def spoil() -> None:
            self._disk.disk.inode(self.path).forget_dirty()

        self._disk.call("fsync", self.path, self.file.fsync, spoil=spoil)

    def fileno(self) -> int:
        """See `File.fileno`."""
        return -1

    def rename(self, target: str) -> None:
        """See `File.rename`."""
        self._disk.rename(self.path, target)
        self.path = target

    def release(self) -> None:
        """See `File.release`."""
        self.file.release()

    def close(self) -> None:
        """See `File.close`."""
        self.file.close()


def _rotten(found: Any, at: int) -> Any:
    """Return what was read with a wrong bit, where it holds anything."""
    if not found:
        return found
    data = bytearray(found)
    data[min(at, len(data) - 1)] ^= 0x10
    return bytes(data)
