"""The door to the disk: what a log needs of a file system, and nothing more.

Production passes through `OsDisk`; the simulator has its own. The model that both keep: what `pwrite` and `truncate` did
survives the end of the process, but a power failure only where `fsync` returned; a created, renamed or removed name
survives a power failure only where `fsync_dir` of its folder returned; a write that was cut off may have stored any
prefix of its bytes. Every method raises StorageError (NoSpaceError where the disk is full) and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.base import StorageError

__all__ = [
    "TEMPORARY",
    "Buffer",
    "Disk",
    "Entry",
    "File",
    "FileLock",
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


class NoSpaceError(StorageError):
    """The disk is full; the operation left the file as it was, or the log put it back."""


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

    def pread_nowait(self, position: int, size: int) -> bytes | None:
        """As `pread`, but only from memory: None where any of it would have to come from the device."""
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

    def fileno(self) -> int:
        """Return a descriptor for sendfile, valid until the caller lets others run; -1 where there is none (simulated)."""
        ...

    def close(self) -> None:
        """Let the descriptor go; the file may be used again."""
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


def replace_file(disk: Disk, path: str, data: bytes, *, durable: bool = True) -> None:
    """Make `data` the whole content of a file, so that a crash at any moment leaves the old content or the new.

    The content is on the device before the name points at it, and with `durable` the name too on return.
    """
    temporary = path + TEMPORARY
    file = disk.open(temporary, create=True)
    file.truncate(0)
    file.pwrite(0, data)
    file.fsync()
    file.close()
    disk.rename(temporary, path)
    if durable:
        disk.fsync_dir(parent(path))
