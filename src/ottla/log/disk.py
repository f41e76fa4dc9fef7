"""The door to the disk: what a log needs of a file system, and nothing more.

Production passes through `OsDisk`; the simulator has its own. The model that both keep: what `pwrite` and `truncate` did
survives the end of the process, but a power failure only where `fsync` returned; a created, renamed or removed name
survives a power failure only where `fsync_dir` of its folder returned; a write that was cut off may have stored any
prefix of its bytes. Every method raises StorageError with the path that failed, and nothing else: NoSpaceError where
bytes, inodes, quota or descriptors ran out, so that nothing happened; MissingFileError where the name is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple, Protocol

from ottla.base import NoSpaceError, StorageError

__all__ = [
    "TEMPORARY",
    "Buffer",
    "Disk",
    "Entry",
    "File",
    "FileLock",
    "HeldFile",
    "NoSpaceError",
    "Space",
    "join",
    "overwrite",
    "parent",
    "replace_file",
]

Buffer = bytes | bytearray | memoryview
TEMPORARY = ".tmp"
"""Ends the name of a file until its content is on the device."""


class Entry(NamedTuple):
    """One name in a folder; `size` is 0 for a folder."""

    name: str
    size: int
    is_folder: bool
    modified_ms: int


class Space(NamedTuple):
    """Bytes of a file system, and those that are free to use."""

    total: int
    usable: int


class File(Protocol):
    """A file by its path. It may have no descriptor open: the disk opens and closes descriptors as it sees fit.

    `pread` may run on any thread, also while the disk closes idle descriptors.
    """

    path: str
    """Where the file is now; whoever renames it on the disk sets this too."""

    def pread(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`; fewer only where the file ends."""
        ...

    def pread_nowait(self, position: int, size: int) -> Buffer | None:
        """As `pread`, but only from memory: None where any of it would have to come from the device.

        What is returned is the caller's own.
        """
        ...

    def pread_into(self, position: int, into: memoryview) -> int | None:
        """Read what is in memory, from `position` on, and return how many bytes that was: 0 at the file's end.

        None where the first of them would have to come from the device.
        """
        ...

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        """Write all the buffers, one after the other, from `position` on; after an error any prefix may be there."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it with zeros."""
        ...

    def size(self) -> int:
        """Return the file's length in bytes."""
        ...

    def fsync(self) -> None:
        """Return once everything written is on the device. After an error nothing may be assumed, nor retried."""
        ...

    def hold(self) -> HeldFile:
        """Return the file as it is now, to be read later whatever the log does with it meanwhile."""
        ...

    def close(self) -> None:
        """Let the descriptor go; the file may be used again."""
        ...

    def rename(self, target: str) -> None:
        """Give the file another name in its folder, and `path` with it, also while other threads open it.

        As `Disk.rename`. Who opens it meanwhile gets this file, and never another one that takes its old name.
        """
        ...

    def release(self) -> None:
        """Called when the file is removed: its descriptor goes with the last one who still refers to this object."""
        ...


class HeldFile(Protocol):
    """What a file's name stood for when it was taken hold of: closed, renamed or deleted, it still can be read.

    Its room on the disk is not free before nobody holds it. What was cut off it is gone: other bytes may have taken the
    place since, and `was_cut` says so.
    """

    def sendfile(self, socket_fd: int, position: int, size: int) -> int:
        """Have the system copy bytes to a socket, and return how many it took; 0 at the file's end.

        Raises StorageError where the file cannot be read, and OSError where the socket does not take them. A simulated
        file has no such way.
        """
        ...

    def pread(self, position: int, size: int) -> bytes:
        """As `File.pread`; may run on any thread."""
        ...

    def pread_nowait(self, position: int, size: int) -> Buffer | None:
        """As `File.pread_nowait`."""
        ...

    def pread_into(self, position: int, into: memoryview) -> int | None:
        """As `File.pread_into`."""
        ...

    def is_cached(self, position: int, size: int) -> bool:
        """Return whether both ends of a piece are in memory, which is filled in runs; True where nobody can say."""
        ...

    def was_cut(self, end: int) -> bool:
        """Return whether the file was cut shorter than `end` since it was taken hold of."""
        ...


class FileLock(Protocol):
    """An exclusive lock held on a file."""

    def release(self) -> None:
        """Give the lock up."""
        ...


class Disk(Protocol):
    """A file system. Paths are absolute or relative to the process, separated by `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Return the file for reading and writing; with `create` it comes to be, empty, where it is missing."""
        ...

    def read(self, path: str) -> bytes | None:
        """Return a whole small file, or None where there is none."""
        ...

    def scan(self, path: str) -> list[Entry]:
        """Return a folder's entries, ordered by name; empty where there is no such folder."""
        ...

    def exists(self, path: str) -> bool:
        """True where there is a file or folder of this name."""
        ...

    def mkdir(self, path: str) -> None:
        """Create a folder and those above it, where they are missing."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing the file that has it; durable after `fsync_dir`."""
        ...

    def link(self, source: str, target: str) -> bool:
        """Give a file one more name, in any folder; durable as a created one is.

        False where that cannot be, and nothing happened: no such file, as many names as the file system allows, or a file
        system where a file has one name only.
        """
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; nothing happens where there is none."""
        ...

    def rmdir(self, path: str) -> None:
        """Remove an empty folder; nothing happens where there is none."""
        ...

    def fsync_dir(self, path: str) -> None:
        """Return once the names in a folder are on the device."""
        ...

    def fsync_all(self, files: Sequence[File], folders: Sequence[str] = ()) -> None:
        """Return once all these files are on the device, and then these folders' names.

        The files go in any order, several at once where the disk can: their journal commits are then shared.
        """
        ...

    def lock(self, path: str) -> FileLock | None:
        """Create the file where it is missing and take its lock; None where another process (or caller) holds it."""
        ...

    def mutex(self) -> AbstractContextManager[object]:
        """Return what one thread of this process at a time can be inside of (`with`)."""
        ...

    def space(self, path: str) -> Space:
        """Return the size of the file system that holds the path."""
        ...


def join(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return f"{folder}/{name}"


def parent(path: str) -> str:
    """Return the folder that holds a path."""
    head, _, _ = path.rpartition("/")
    return head or ("/" if path.startswith("/") else ".")


def overwrite(file: File, data: bytes) -> None:
    """Make `data` the file's whole content; a crash may leave any mixture of it and the old.

    A file system takes milliseconds to give back blocks, so the file is only cut where it is longer.
    """
    if data:
        file.pwrite(0, data)
    if file.size() > len(data):
        file.truncate(len(data))


def replace_file(disk: Disk, path: str, data: bytes, *, durable: bool = True, temporary: str = "") -> None:
    """Make `data` the whole content of a file, so that a crash at any moment leaves the old content or the new.

    The content is on the device before the name points at it, and with `durable` the name too on return. Until then it has
    the name `temporary`, by default that of the file with `TEMPORARY` behind it.
    """
    temporary = temporary or path + TEMPORARY
    try:
        file = disk.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite(0, data)
            file.fsync()
        finally:
            file.close()
        disk.rename(temporary, path)
    except StorageError:
        with suppress(StorageError):
            disk.unlink(temporary)
        raise
    if durable:
        disk.fsync_dir(parent(path))
