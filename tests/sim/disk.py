"""`ottla.log.Disk` on a simulated file system, for one process: it can crash inside any change, and errors can be had.

Every change (write, truncate, create, rename, unlink, mkdir, rmdir, fsync) is counted. A process that is told to crash
at the k-th change does so inside it: a write leaves any prefix of its bytes, anything else has happened or not. A dead
process's disk refuses everything with `Crash`, so its dying frames change nothing more.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from random import Random

from ottla.base import StorageError
from ottla.log import Entry, File, NoSpaceError, Space
from tests.sim.process import Process
from tests.sim.storage import Directory, Inode, Storage, parts_of
from tests.sim.trace import Trace

__all__ = ["SimDisk"]

Buffer = bytes | bytearray | memoryview
TOTAL_BYTES = 1 << 41
COLD_READ_CHANCE = 0.05
"""How often a read would have to come from the device, so that it must go off the loop."""


class SimDisk:
    """The disk as one process sees it."""

    def __init__(
        self,
        storage: Storage,
        process: Process,
        rng: Random,
        trace: Trace,
        *,
        crash_at: int | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.storage = storage
        self.process = process
        self.changes = 0
        self.crash_at = crash_at
        self.failing_syncs = 0
        """How many of the next fsyncs fail with EIO."""
        self.failing_writes = 0
        """How many of the next writes fail with EIO after a prefix."""
        self.failed = 0
        """Errors that were given."""
        self._rng = rng
        self._trace = trace
        self.now_ms = now_ms

    def check(self) -> None:
        """Refuse a dead process."""
        self.process.check()

    def change(self, what: str, apply: Callable[[], object], partly: Callable[[], object] | None = None) -> None:
        """Count a change and make it, or crash inside it."""
        self.process.check()
        self.changes += 1
        self._trace.note(f"{self.changes} {what}")
        if self.changes == self.crash_at:
            if partly is not None:
                partly()
            elif self._rng.random() < 0.5:
                apply()
            self._trace.note(f"crash of {self.process.name}")
            self.process.kill()
            self.process.check()
        apply()

    def write(self, path: str, inode: Inode, position: int, piece: bytes) -> None:
        """Write bytes; a crash or an error leaves a prefix of them."""

        def partly() -> None:
            inode.write(position, piece[: self._rng.randrange(len(piece) + 1)])

        if self.failing_writes:
            self.process.check()
            self.failing_writes -= 1
            self.failed += 1
            self._trace.note(f"write error {path}")
            partly()
            raise StorageError(f"{path}: Input/output error")
        grown = position + len(piece) - len(inode.data)
        if grown > self.storage.room_bytes:
            self.process.check()
            self.failed += 1
            self._trace.note(f"no room for {path}")
            kept = self._rng.randrange(max(1, len(piece) - (grown - self.storage.room_bytes) + 1))
            inode.write(position, piece[:kept])
            raise NoSpaceError(f"{path}: No space left on device")
        self.storage.room_bytes -= max(0, grown)
        inode.modified_ms = self.now_ms()
        self.change(
            f"write {path} {position} {len(piece)} {zlib.crc32(piece)}", lambda: inode.write(position, piece), partly
        )

    def sync(self, path: str, inode: Inode) -> None:
        """fsync; an error drops what was dirty, as Linux does."""
        if self.failing_syncs:
            self.process.check()
            self.failing_syncs -= 1
            self.failed += 1
            self._trace.note(f"fsync error {path}")
            inode.forget_dirty()
            raise StorageError(f"{path}: Input/output error")
        self.change(f"fsync {path}", inode.forget_dirty if self.storage.fsync_lies else inode.sync)

    # ---------------------------------------------------------------- ottla.log.Disk

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """Return the file at a path, making it where it is missing and `create` is given."""
        self.process.check()
        if not self.storage.exists(path):
            if not create:
                raise StorageError(f"{path}: No such file or directory")
            self._in_parent(path, lambda folder, name: self.change(f"create {path}", lambda: folder.add(name, Inode())))
        return SimFile(self, path)

    def inode(self, path: str) -> Inode:
        """Return the file at a path, as StorageError where there is none."""
        try:
            return self.storage.inode(path)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from error

    def _in_parent(self, path: str, act: Callable[[Directory, str], object]) -> None:
        try:
            folder, name = self.storage.parent(path)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from error
        act(folder, name)

    def read(self, path: str) -> bytes | None:
        """Return a whole file, or None."""
        self.process.check()
        return bytes(self.inode(path).data) if self.storage.exists(path) else None

    def scan(self, path: str) -> list[Entry]:
        """Return a folder's entries, ordered by name."""
        self.process.check()
        if not self.storage.exists(path):
            return []
        entries = sorted(self.storage.directory(path).entries.items())
        return [
            Entry(name, len(each.data), False, each.modified_ms)
            if isinstance(each, Inode)
            else Entry(name, 0, True, self.now_ms())
            for name, each in entries
        ]

    def exists(self, path: str) -> bool:
        """True where the path names something."""
        self.process.check()
        return self.storage.exists(path)

    def mkdir(self, path: str) -> None:
        """Make a folder and those above it."""
        self.process.check()
        above = "/" if path.startswith("/") else ""
        for part in parts_of(path):
            above = f"{above}{part}"
            if not self.storage.exists(above):
                self._in_parent(
                    above, lambda folder, name: self.change(f"mkdir {name}", lambda: folder.add(name, Directory()))
                )
            above += "/"

    def rename(self, source: str, target: str) -> None:
        """Rename within one folder."""
        self.process.check()
        if source.rpartition("/")[0] != target.rpartition("/")[0]:
            raise AssertionError(f"{source} would be moved to another folder, {target}: the model has no such rename")
        if not self.storage.exists(source):
            raise StorageError(f"{source}: No such file or directory")
        new = target.rpartition("/")[2]
        self._in_parent(
            source, lambda folder, old: self.change(f"rename {source} {new}", lambda: folder.rename(old, new))
        )

    def unlink(self, path: str) -> None:
        """Remove a file, if there is one."""
        self.process.check()
        if self.storage.exists(path):
            freed = len(self.inode(path).data)
            self._in_parent(path, lambda folder, name: self.change(f"unlink {path}", lambda: folder.remove(name)))
            self.storage.room_bytes += freed

    def rmdir(self, path: str) -> None:
        """Remove an empty folder, if there is one."""
        self.process.check()
        if self.storage.exists(path):
            if self.storage.directory(path).entries:
                raise StorageError(f"{path}: Directory not empty")
            self._in_parent(path, lambda folder, name: self.change(f"rmdir {path}", lambda: folder.remove(name)))

    def fsync_dir(self, path: str) -> None:
        """Make a folder's names durable."""
        self.process.check()
        try:
            folder = self.storage.directory(path)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from error
        self.change(f"fsync_dir {path}", folder.sync)

    def fsync_all(self, files: Sequence[File], folders: Sequence[str] = ()) -> None:
        """Make files and then folders durable, one after the other."""
        for file in files:
            file.fsync()
        for folder in folders:
            self.fsync_dir(folder)

    def lock(self, path: str) -> SimLock | None:
        """Take a file's lock, if no living process has it."""
        self.open(path, create=True)
        holder = self.storage.locks.get(path)
        if isinstance(holder, Process) and holder.alive:
            return None
        self.storage.locks[path] = self.process
        return SimLock(self, path)

    def space(self, path: str) -> Space:
        """Return the room that is left."""
        self.process.check()
        return Space(TOTAL_BYTES, self.storage.room_bytes)

    def is_cold(self) -> bool:
        """Draw whether a read has to wait for the device."""
        return self._rng.random() < COLD_READ_CHANCE


class SimLock:
    """A lock that is held until it is released or its process ends."""

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        """Give the lock up."""
        self._disk.check()
        self._disk.storage.locks.pop(self._path, None)


class SimFile:
    """A file by its path; what it names is looked up when it is first used, as a descriptor is."""

    def __init__(self, disk: SimDisk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._inode: Inode | None = None

    def _opened(self) -> Inode:
        self._disk.check()
        if self._inode is None:
            self._inode = self._disk.inode(self.path)
        return self._inode

    def pread(self, position: int, size: int) -> bytes:
        """Return bytes, fewer only at the file's end."""
        return bytes(self._opened().data[position : position + size])

    def pread_nowait(self, position: int, size: int) -> bytes | None:
        """As pread, or None at the seed's whim."""
        inode = self._opened()
        return None if self._disk.is_cold() else bytes(inode.data[position : position + size])

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        """Write the buffers one after the other."""
        self._disk.write(self.path, self._opened(), position, b"".join(buffers))

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros."""
        inode = self._opened()
        self._disk.change(f"truncate {self.path} {size}", lambda: inode.truncate(size))

    def size(self) -> int:
        """Return the length."""
        return len(self._opened().data)

    def fsync(self) -> None:
        """Make the content durable."""
        self._disk.sync(self.path, self._opened())

    def fileno(self) -> int:
        """There is no descriptor."""
        return -1

    def close(self) -> None:
        """Forget what the path named."""
        self._inode = None
