"""A real disk on which a test may let a single call fail, or wait, by what it does and to which path."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Any

from ottla.base import MissingFileError, NoSpaceError, StorageError
from ottla.log import Buffer, File, HeldFile, OsDisk

__all__ = ["HookedDisk", "broken", "full", "gone"]

Hook = Callable[[str, str], None]


def broken(path: str) -> StorageError:
    """Return the error of a dead device."""
    return StorageError(f"{path}: {os.strerror(errno.EIO)}", path)


def full(path: str) -> NoSpaceError:
    """Return the error of a full disk."""
    return NoSpaceError(f"{path}: {os.strerror(errno.ENOSPC)}", path)


def gone(path: str) -> MissingFileError:
    """Return the error of a name that is not there."""
    return MissingFileError(f"{path}: {os.strerror(errno.ENOENT)}", path)


class HookedDisk:
    """Calls `hook(call, path)` before each call; what that raises is the call's failure."""

    def __init__(self) -> None:
        self.disk = OsDisk()
        self.hook: Hook = lambda call, path: None
        self.is_cold = False
        """True where the page cache holds nothing of any file that nobody holds."""
        self.reads_into = 0
        """Reads into memory that the reader has, of files that nobody holds."""
        self.sends = 0
        """Calls of `sendfile`."""

    def open(self, path: str, *, create: bool = False) -> File:
        self.hook("create" if create and not self.disk.exists(path) else "open", path)
        return HookedFile(self, self.disk.open(path, create=create))  # type: ignore[return-value]

    def fsync_all(self, files: Sequence[Any], folders: Sequence[str] = ()) -> None:
        for file in files:
            self.hook("fsync", file.path)
        self.disk.fsync_all([file.file for file in files], folders)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.disk, name)

        def call(*args: Any, **named: Any) -> Any:
            if args:
                self.hook(name, args[0])
            return found(*args, **named)

        return call


class HookedFile:
    """A file on it."""

    def __init__(self, disk: HookedDisk, file: File) -> None:
        self.disk = disk
        self.file = file

    @property
    def path(self) -> str:
        return self.file.path

    @path.setter
    def path(self, value: str) -> None:
        self.file.path = value

    def pread_nowait(self, position: int, size: int) -> bytes | None:
        self.disk.hook("pread", self.path)
        return None if self.disk.is_cold else self.file.pread_nowait(position, size)

    def pread_into(self, position: int, into: memoryview) -> int | None:
        self.disk.hook("pread", self.path)
        self.disk.reads_into += 1
        return None if self.disk.is_cold else self.file.pread_into(position, into)

    def pread(self, position: int, size: int) -> bytes:
        self.disk.hook("pread", self.path)
        return self.file.pread(position, size)

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        self.disk.hook("pwrite", self.path)
        self.file.pwrite(position, *buffers)

    def fsync(self) -> None:
        self.disk.hook("fsync", self.path)
        self.file.fsync()

    def hold(self) -> HookedHeldFile:
        return HookedHeldFile(self.disk, self.path, self.file.hold())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class HookedHeldFile:
    """A file on it that somebody holds."""

    def __init__(self, disk: HookedDisk, path: str, held: HeldFile) -> None:
        self.disk = disk
        self.path = path
        self.held = held

    def sendfile(self, socket_fd: int, position: int, size: int) -> int:
        self.disk.hook("sendfile", self.path)
        self.disk.sends += 1
        return self.held.sendfile(socket_fd, position, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held, name)
