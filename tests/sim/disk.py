"""`ottla.log.Disk` on a simulated file system, for one process: it can crash inside any change, and errors can be had.

Every change (write, truncate, create, rename, unlink, mkdir, rmdir, fsync) is counted. A process that is told to crash
at the k-th change does so inside it: a write leaves any prefix of its bytes, anything else has happened or not. A dead
process's disk refuses everything with `Crash`, so its dying frames change nothing more.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from random import Random

from ottla.base import MissingFileError, NoSpaceError, StorageError
from ottla.log import Entry, File, Space
from tests.sim.process import Process
from tests.sim.storage import Directory, Inode, Storage, parts_of
from tests.sim.trace import Trace

__all__ = ["CallFailure", "SimDisk", "copied"]

Buffer = bytes | bytearray | memoryview


class CallFailure(Enum):
    """How one call may fail."""

    IO_ERROR = "Input/output error"
    IO_ERROR_PARTLY = "Input/output error in the middle of a write"
    NO_SPACE = "No space left on device"
    MISSING = "No such file or directory"
    CRASH_BEFORE = "a crash before it"
    CRASH_AFTER = "a crash after it"


_ALWAYS = frozenset({CallFailure.IO_ERROR, CallFailure.CRASH_BEFORE, CallFailure.CRASH_AFTER})
FAILURES_OF: dict[str, frozenset[CallFailure]] = {
    "open": frozenset({CallFailure.IO_ERROR, CallFailure.MISSING, CallFailure.NO_SPACE, CallFailure.CRASH_BEFORE}),
    "read": frozenset({CallFailure.IO_ERROR, CallFailure.CRASH_BEFORE}),
    "create": _ALWAYS | {CallFailure.NO_SPACE},
    "write": _ALWAYS | {CallFailure.NO_SPACE, CallFailure.IO_ERROR_PARTLY},
    "truncate": _ALWAYS | {CallFailure.NO_SPACE},
    "rename": _ALWAYS | {CallFailure.NO_SPACE, CallFailure.MISSING},
    "link": _ALWAYS | {CallFailure.NO_SPACE},
    "unlink": _ALWAYS,
    "fsync": _ALWAYS,
    "fsync_dir": _ALWAYS,
}
"""What each call may meet; whatever else was drawn for it is an I/O error. A write without room leaves any prefix."""
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
        self.fail_in: tuple[int, CallFailure] | None = None
        """After how many more calls of any kind one fails, and how."""
        self.at_failure: Callable[[CallFailure], None] | None = None
        """Told when that call has met its failure."""
        self.failed_syncs_drop = True
        """True where the pages of a failed fsync count as clean; else they stay dirty, and a later one writes them."""
        self.sync_failed = False
        """True once an fsync has failed: the page cache shows since then what the device does not have."""
        self._dies_after = False
        self._rng = rng
        self._trace = trace
        self.now_ms = now_ms

    def check(self) -> None:
        """Refuse a dead process."""
        self.process.check()

    def meet(self, call: str, path: str) -> CallFailure | None:
        """Count down to the call that fails; at it raise what that call may raise, or return what its caller has to do."""
        self.process.check()
        if self.fail_in is None:
            return None
        left, failure = self.fail_in
        if left > 0:
            self.fail_in = (left - 1, failure)
            return None
        self.fail_in = None
        self.failed += 1
        if failure not in FAILURES_OF[call]:
            failure = CallFailure.IO_ERROR
        self._trace.note(f"{call} of {path} meets {failure.value}")
        if self.at_failure is not None:
            self.at_failure(failure)
        match failure:
            case CallFailure.IO_ERROR if call != "fsync":
                raise StorageError(f"{path}: Input/output error", path)
            case CallFailure.NO_SPACE if call != "write":
                raise NoSpaceError(f"{path}: No space left on device", path)
            case CallFailure.MISSING:
                raise MissingFileError(f"{path}: No such file or directory", path)
            case CallFailure.CRASH_BEFORE:
                self._die()
        return failure

    def _die(self) -> None:
        self._trace.note(f"crash of {self.process.name}")
        self.process.kill()
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
        if self._dies_after:
            self._die()

    def write(self, path: str, inode: Inode, position: int, piece: bytes) -> None:
        """Write bytes; a crash or an error leaves a prefix of them."""

        def partly() -> None:
            inode.write(position, piece[: self._rng.randrange(len(piece) + 1)])

        met = self.meet("write", path)
        self._dies_after = met is CallFailure.CRASH_AFTER
        if met in (CallFailure.NO_SPACE, CallFailure.IO_ERROR_PARTLY):
            partly()
            error = NoSpaceError if met is CallFailure.NO_SPACE else StorageError
            raise error(f"{path}: {met.value}", path)
        if self.failing_writes:
            self.process.check()
            self.failing_writes -= 1
            self.failed += 1
            self._trace.note(f"write error {path}")
            partly()
            raise StorageError(f"{path}: Input/output error", path)
        grown = position + len(piece) - len(inode.data)
        if grown > self.storage.room_bytes:
            self.process.check()
            self.failed += 1
            self._trace.note(f"no room for {path}")
            kept = self._rng.randrange(max(1, len(piece) - (grown - self.storage.room_bytes) + 1))
            inode.write(position, piece[:kept])
            raise NoSpaceError(f"{path}: No space left on device", path)
        self.storage.room_bytes -= max(0, grown)
        inode.modified_ms = self.now_ms()
        self.change(
            f"write {path} {position} {len(piece)} {zlib.crc32(piece)}", lambda: inode.write(position, piece), partly
        )

    def sync(self, path: str, inode: Inode) -> None:
        """fsync; an error drops what was dirty, as Linux does."""
        met = self.meet("fsync", path)
        self._dies_after = met is CallFailure.CRASH_AFTER
        if self.failing_syncs or met is CallFailure.IO_ERROR:
            self.process.check()
            self.failing_syncs -= 0 if met else 1
            self.failed += 0 if met else 1
            self.sync_failed = True
            self._trace.note(f"fsync error {path}")
            if self.failed_syncs_drop:
                inode.forget_dirty()
            raise StorageError(f"{path}: Input/output error", path)
        self.change(f"fsync {path}", inode.forget_dirty if self.storage.fsync_lies else inode.sync)

    # ---------------------------------------------------------------- ottla.log.Disk

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """Return the file at a path, making it where it is missing and `create` is given."""
        self.meet("open", path)
        if not self.storage.exists(path):
            if not create:
                raise MissingFileError(f"{path}: No such file or directory", path)
            self._changes("create", path)
            self._in_parent(path, lambda folder, name: self.change(f"create {path}", lambda: folder.add(name, Inode())))
        return SimFile(self, path)

    def inode(self, path: str) -> Inode:
        """Return the file at a path, as MissingFileError where there is none."""
        try:
            return self.storage.inode(path)
        except OSError as error:
            raise _failed(path, error) from error

    def _changes(self, call: str, path: str) -> None:
        self._dies_after = self.meet(call, path) is CallFailure.CRASH_AFTER

    def _in_parent(self, path: str, act: Callable[[Directory, str], object]) -> None:
        try:
            folder, name = self.storage.parent(path)
        except OSError as error:
            raise _failed(path, error) from error
        act(folder, name)

    def read(self, path: str) -> bytes | None:
        """Return a whole file, or None."""
        self.meet("read", path)
        return bytes(self.inode(path).data) if self.storage.exists(path) else None

    def scan(self, path: str) -> list[Entry]:
        """Return a folder's entries, ordered by name."""
        self.meet("read", path)
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
        self._changes("rename", source)
        if source.rpartition("/")[0] != target.rpartition("/")[0]:
            raise AssertionError(f"{source} would be moved to another folder, {target}: the model has no such rename")
        if not self.storage.exists(source):
            raise MissingFileError(f"{source}: No such file or directory", source)
        new = target.rpartition("/")[2]
        self._in_parent(
            source, lambda folder, old: self.change(f"rename {source} {new}", lambda: folder.rename(old, new))
        )

    def link(self, source: str, target: str) -> bool:
        """Give a file one more name, which takes as much room as the file."""
        self._changes("link", target)
        if not self.storage.exists(source):
            return False
        inode = self.inode(source)
        self._in_parent(
            target, lambda folder, name: self.change(f"link {source} {target}", lambda: folder.add(name, inode))
        )
        self.storage.room_bytes -= len(inode.data)
        return True

    def unlink(self, path: str) -> None:
        """Remove a file, if there is one."""
        self._changes("unlink", path)
        if self.storage.exists(path):
            freed = len(self.inode(path).data)
            self._in_parent(path, lambda folder, name: self.change(f"unlink {path}", lambda: folder.remove(name)))
            self.storage.room_bytes += freed

    def rmdir(self, path: str) -> None:
        """Remove an empty folder, if there is one."""
        self._changes("unlink", path)
        if self.storage.exists(path):
            if self.storage.directory(path).entries:
                raise StorageError(f"{path}: Directory not empty", path)
            self._in_parent(path, lambda folder, name: self.change(f"rmdir {path}", lambda: folder.remove(name)))

    def fsync_dir(self, path: str) -> None:
        """Make a folder's names durable."""
        self._changes("fsync_dir", path)
        try:
            folder = self.storage.directory(path)
        except OSError as error:
            raise _failed(path, error) from error
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

    def mutex(self) -> AbstractContextManager[object]:
        """There are no threads."""
        return nullcontext()

    def space(self, path: str) -> Space:
        """Return the room that is left."""
        self.process.check()
        return Space(TOTAL_BYTES, self.storage.room_bytes)

    def is_cold(self) -> bool:
        """Draw whether a read has to wait for the device."""
        return self._rng.random() < COLD_READ_CHANCE


def _failed(path: str, error: OSError) -> StorageError:
    kind = MissingFileError if isinstance(error, FileNotFoundError) else StorageError
    return kind(f"{path}: {error.strerror}", path)


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
        inode = self._opened()
        self._disk.meet("read", self.path)
        return bytes(inode.data[position : position + size])

    def pread_nowait(self, position: int, size: int) -> bytes | None:
        """As pread, or None at the seed's whim."""
        inode = self._opened()
        return None if self._disk.is_cold() else bytes(inode.data[position : position + size])

    def pread_into(self, position: int, into: memoryview) -> int | None:
        """As pread, into memory, or None at the seed's whim."""
        return copied(self.pread_nowait(position, len(into)), into)

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        """Write the buffers one after the other."""
        self._disk.write(self.path, self._opened(), position, b"".join(buffers))

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros."""
        inode = self._opened()
        self._disk._changes("truncate", self.path)
        self._disk.change(f"truncate {self.path} {size}", lambda: inode.truncate(size))

    def size(self) -> int:
        """Return the length."""
        return len(self._opened().data)

    def fsync(self) -> None:
        """Make the content durable."""
        self._disk.sync(self.path, self._opened())

    def hold(self) -> SimHeldFile:
        """Return what the path names now."""
        return SimHeldFile(self._disk, self._opened())

    def rename(self, target: str) -> None:
        """Rename it, and know it by that name."""
        self._disk.rename(self.path, target)
        self.path = target

    def release(self) -> None:
        """Whoever refers to this file goes on reading what the path named."""

    def close(self) -> None:
        """Forget what the path named."""
        self._inode = None


class SimHeldFile:
    """An inode that somebody reads from, whatever its names are by now."""

    def __init__(self, disk: SimDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._cuts = len(inode.cuts)

    def pread(self, position: int, size: int) -> bytes:
        """Return bytes, fewer only at the file's end."""
        self._disk.check()
        return bytes(self._inode.data[position : position + size])

    def pread_nowait(self, position: int, size: int) -> bytes | None:
        """As pread, or None at the seed's whim."""
        return None if self._disk.is_cold() else self.pread(position, size)

    def pread_into(self, position: int, into: memoryview) -> int | None:
        """As pread, into memory, or None at the seed's whim."""
        return copied(self.pread_nowait(position, len(into)), into)

    def is_cached(self, position: int, size: int) -> bool:
        """At the seed's whim."""
        return not self._disk.is_cold()

    def sendfile(self, socket_fd: int, position: int, size: int) -> int:
        """Nobody has a socket here."""
        raise AssertionError("a simulated file was to be copied to a real socket")

    def was_cut(self, end: int) -> bool:
        """Return whether the inode was shortened below `end` since."""
        return min(self._inode.cuts[self._cuts :], default=end) < end


def copied(found: bytes | None, into: memoryview) -> int | None:
    """Copy what was read, and return how many bytes that was; None of nothing that was in memory."""
    if found is None:
        return None
    into[: len(found)] = found
    return len(found)
