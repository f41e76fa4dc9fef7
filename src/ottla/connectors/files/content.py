"""A file's bytes by position: of a plain file as it stands, of a compressed one as they are unpacked."""

from __future__ import annotations

import bz2
import logging
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from ottla.connect import ConnectError
from ottla.connectors.files.marks import TAIL_BYTES
from ottla.connectors.files.names import is_packed

__all__ = ["Content", "UnreadableError", "opened"]

log = logging.getLogger(__name__)

STEP_BYTES = 1 << 18
"""How much of a compressed file is read at once."""


class UnreadableError(ConnectError):
    """A file that cannot be opened: its log waits, and other logs are read on."""


class Content(Protocol):
    """An open file."""

    def read(self, start: int, size: int) -> bytes:
        """Return up to so many bytes from a position on, fewer at the end; quick only where positions go forward."""
        ...

    def size(self) -> int:
        """Return a number that changes when the file grows: its size on the disk."""
        ...

    def complete(self) -> bool:
        """Return whether everything has been unpacked and nothing can follow; never for a plain file."""
        ...

    @property
    def damaged(self) -> bool:
        """True where the rest of a compressed file cannot be unpacked: it ends there."""
        ...

    def first_data(self) -> int:
        """Return where the first byte is that is not in a hole of NULs, as truncation can leave one."""
        ...

    def modified_ns(self) -> int:
        """Return when the file was written to last."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


def opened(path: str, inode: str) -> Content | None:
    """Open a file; None where the path is no longer this file's. Raises UnreadableError where it may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableError(f"file {path} cannot be opened: {error.strerror}") from error
    about = os.fstat(descriptor)
    if f"{about.st_dev}:{about.st_ino}" != inode:
        os.close(descriptor)
        return None
    return PackedFile(descriptor, path) if is_packed(path) else PlainFile(descriptor)


class PlainFile:
    """A file as it stands."""

    damaged = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, start: int, size: int) -> bytes:
        """See `Content`."""
        return os.pread(self._descriptor, size, start)

    def size(self) -> int:
        """See `Content`."""
        return os.fstat(self._descriptor).st_size

    def complete(self) -> bool:
        """See `Content`."""
        return False

    def first_data(self) -> int:
        """See `Content`."""
        try:
            place = os.lseek(self._descriptor, 0, os.SEEK_DATA)
        except OSError:
            return 0
        while True:
            piece = self.read(place, STEP_BYTES)
            rest = piece.lstrip(b"\0")
            place += len(piece) - len(rest)
            if rest or not piece:
                return place

    def modified_ns(self) -> int:
        """See `Content`."""
        return os.fstat(self._descriptor).st_mtime_ns

    def close(self) -> None:
        """See `Content`."""
        os.close(self._descriptor)


_UNPACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
}


class PackedFile:
    """A compressed file, unpacked from its beginning; one that is still being written may grow."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self._path = descriptor, path
        self._make = next(make for suffix, make in _UNPACKERS.items() if path.endswith(suffix))
        self._begin()

    def _begin(self) -> None:
        self._unpacker = self._make()
        self._packed_at = 0
        self._start = 0
        self._data = b""
        self._between = True
        self.damaged = False

    def read(self, start: int, size: int) -> bytes:
        """See `Content`."""
        if start < self._start:
            self._begin()
        while len(self._data) < start - self._start + size and not self.damaged:
            piece = os.pread(self._descriptor, STEP_BYTES, self._packed_at)
            if not piece:
                break
            self._packed_at += len(piece)
            self._drop(start)
            self._data += self._unpacked(piece)
        place = start - self._start
        return self._data[place : place + size]

    def _drop(self, start: int) -> None:
        """Forget what lies before a position, but for the few bytes that marks are held against."""
        passed = min(start - TAIL_BYTES - self._start, len(self._data))
        if passed > 0:
            self._data, self._start = self._data[passed:], self._start + passed

    def _unpacked(self, piece: bytes) -> bytes:
        found = []
        try:
            while piece:
                if self._between:
                    self._unpacker, self._between = self._make(), False
                found.append(self._unpacker.decompress(piece))
                if not self._unpacker.eof:
                    break
                self._between = True
                piece = self._unpacker.unused_data.lstrip(b"\0")  # padding, as some write it
        except (zlib.error, EOFError, OSError, ValueError, lzma.LZMAError) as error:
            self.damaged = True
            unpacked = self._start + len(self._data) + sum(map(len, found))
            log.error(
                "%s cannot be unpacked behind byte %d of its content (%s): what follows is lost, and the file is kept",
                *(self._path, unpacked, error),
            )
        return b"".join(found)

    def size(self) -> int:
        """See `Content`."""
        return os.fstat(self._descriptor).st_size

    def complete(self) -> bool:
        """See `Content`."""
        return self.damaged or (self._between and self._packed_at > 0 and self._packed_at >= self.size())

    def first_data(self) -> int:
        """See `Content`."""
        return 0

    def modified_ns(self) -> int:
        """See `Content`."""
        return os.fstat(self._descriptor).st_mtime_ns

    def close(self) -> None:
        """See `Content`."""
        os.close(self._descriptor)
