"""A real disk that is full when a test says so: nothing that needs room has any, and what is deleted gives some."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from typing import Any

from ottla.base import NoSpaceError
from ottla.log import Buffer, File, HeldFile, OsDisk

__all__ = ["FillableDisk"]


class FillableDisk:
    """A `Disk`; `fill` and `clear` may be called from any thread."""

    def __init__(self) -> None:
        self.disk = OsDisk()
        self._room: int | None = None
        """Bytes that are left; None for as many as there are."""
        self._lock = threading.Lock()

    def fill(self) -> None:
        """Leave no byte from now on."""
        with self._lock:
            self._room = 0

    def clear(self) -> None:
        """Give all room back."""
        with self._lock:
            self._room = None

    def take(self, size: int, path: str) -> None:
        """Use bytes; raises NoSpaceError where there are not so many."""
        with self._lock:
            if self._room is None or size <= 0:
                return
            if size > self._room:
                raise NoSpaceError(f"{path}: {os.strerror(errno.ENOSPC)}", path)
            self._room -= size

    def give(self, size: int) -> None:
        """Have bytes back."""
        with self._lock:
            if self._room is not None:
                self._room += size

    # -- the disk

    def open(self, path: str, *, create: bool = False) -> File:
        """As `Disk.open`."""
        return _File(self, self.disk.open(path, create=create))

    def unlink(self, path: str) -> None:
        """As `Disk.unlink`; gives room."""
        size = self._size(path)
        self.disk.unlink(path)
        self.give(size)

    def rename(self, source: str, target: str) -> None:
        """As `Disk.rename`; gives the room of the file that had the name."""
        size = self._size(target)
        self.disk.rename(source, target)
        self.give(size)

    def fsync_all(self, files: Sequence[Any], folders: Sequence[str] = ()) -> None:
        """As `Disk.fsync_all`."""
        self.disk.fsync_all([each.file for each in files], folders)

    def _size(self, path: str) -> int:
        if self._room is None:
            return 0
        try:
            found = os.lstat(path)
        except OSError:
            return 0
        return found.st_size if found.st_nlink == 1 else 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk, name)


class _File:
    """A file on it."""

    def __init__(self, disk: FillableDisk, file: File) -> None:
        self.disk = disk
        self.file = file

    @property
    def path(self) -> str:
        return self.file.path

    @path.setter
    def path(self, value: str) -> None:
        self.file.path = value

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        if self.disk._room is not None:
            self.disk.take(position + sum(map(len, buffers)) - self.file.size(), self.path)
        self.file.pwrite(position, *buffers)

    def truncate(self, size: int) -> None:
        before = self.file.size()
        self.disk.take(size - before, self.path)
        self.file.truncate(size)
        if size < before:
            self.disk.give(before - size)

    def hold(self) -> HeldFile:
        return self.file.hold()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)
