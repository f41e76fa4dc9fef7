"""Any disk, on which the call with a given number fails: the room's own tests of what happens then.

`tests/faults` has the large machine, with a broker around; this one is for a `Log` or a `LogDir` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.base import MissingFileError, NoSpaceError, StorageError
from ottla.log import Buffer, Disk, File

__all__ = ["KINDS", "FailingDisk", "Killed"]

ERRORS: dict[str, type[StorageError]] = {"ENOSPC": NoSpaceError, "EIO": StorageError, "ENOENT": MissingFileError}
KINDS = (*ERRORS, "short", "full", "kill")
"""short: half of a write is there, then ENOSPC. full: ENOSPC from then on, until `mend`. kill: the process ends before."""
TAKES_ROOM = ("create", "mkdir", "pwrite", "rename", "link")


class Killed(BaseException):
    """The process has ended."""


class FailingDisk:
    """Passes everything on; counts from `watch` on, and fails the call that `watch` was told of."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.calls: list[str] = []
        self._fail_at = 0
        self._kind = ""
        self._only = ""
        self.has_failed = False

    def watch(self, fail_at: int = 0, kind: str = "EIO", *, only: str = "") -> None:
        """Count from here on the calls whose description holds `only`, and let the one with this number fail (from 1)."""
        self.calls, self._fail_at, self._kind, self._only, self.has_failed = [], fail_at, kind, only, False

    def mend(self) -> None:
        """Let nothing fail any more."""
        self._fail_at = 0

    def step(self, name: str, path: str) -> bool:
        """Count a call, and let it fail; True for a write of which half is to be made first."""
        if self._only not in f"{name} {path}":
            return False
        self.calls.append(f"{name} {path}")
        at = len(self.calls)
        if not self._fail_at or at < self._fail_at or (at > self._fail_at and self._kind not in ("full", "kill")):
            return False
        if self._kind == "kill":
            raise Killed(f"{at} {name} {path}")
        if self._kind == "full" and name not in TAKES_ROOM:
            return False
        self.has_failed = True
        if self._kind == "short" and name == "pwrite":
            return True
        raise ERRORS.get(self._kind, NoSpaceError)(f"{path}: {name} fails", path)

    def open(self, path: str, *, create: bool = False) -> File:
        self.step("create" if create and not self._disk.exists(path) else "open", path)
        return FailingFile(self, self._disk.open(path, create=create))

    def fsync_all(self, files: Sequence[File], folders: Sequence[str] = ()) -> None:
        for file in files:
            file.fsync()
        for folder in folders:
            self.fsync_dir(folder)

    def fsync_dir(self, path: str) -> None:
        self.step("fsync_dir", path)
        self._disk.fsync_dir(path)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._disk, name)
        if name in ("mutex", "lock"):
            return call

        def counted(path: str, *rest: str) -> Any:
            self.step(name, path)
            return call(path, *rest)

        return counted


class FailingFile:
    """A file on it."""

    def __init__(self, disk: FailingDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, value: str) -> None:
        self._file.path = value

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        if self._disk.step("pwrite", self.path):
            data = b"".join(buffers)
            self._file.pwrite(position, data[: len(data) // 2])
            raise NoSpaceError(f"{self.path}: pwrite fails", self.path)
        self._file.pwrite(position, *buffers)

    def pread(self, position: int, size: int) -> bytes:
        self._disk.step("pread", self.path)
        return self._file.pread(position, size)

    def truncate(self, size: int) -> None:
        self._disk.step("truncate", self.path)
        self._file.truncate(size)

    def size(self) -> int:
        self._disk.step("size", self.path)
        return self._file.size()

    def fsync(self) -> None:
        self._disk.step("fsync", self.path)
        self._file.fsync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
