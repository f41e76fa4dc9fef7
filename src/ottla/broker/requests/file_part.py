"""A piece of a file that is an answer's part: it is read, or copied by the system, when its turn to be sent has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.base import StorageError
from ottla.log import Buffer, File, HeldFile

__all__ = ["FilePart"]


class FilePart:
    """Bytes of a file that stay readable: the log may close, rename or delete the file meanwhile.

    A file that was cut below them (by a new leader epoch) may hold other bytes in their place: they are not sent then.
    `on_failure` hears of a disk that cannot read them, and of the partition, since the answer can no longer say so.
    """

    __slots__ = ("_held", "_on_failure", "_partition", "position", "size")

    def __init__(
        self,
        file: File,
        position: int,
        size: int,
        on_failure: Callable[[StorageError, Any], object] | None = None,
        partition: object = None,
    ) -> None:
        self._held: HeldFile = file.hold()
        self._on_failure = on_failure
        self._partition = partition
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def send_to(self, socket_fd: int, count: int) -> int:
        """Have the system copy the next bytes to a socket, and return how many it took.

        Raises PartGoneError where they are there no more, StorageError where the disk cannot read them, OSError where the
        socket takes none.
        """
        self._check()
        sent = self._held.sendfile(socket_fd, self.position, count)
        if sent == 0:
            raise PartGoneError("the file ends before the bytes that were announced")
        self.sent(sent)
        return sent

    def is_cached(self, start: int, count: int) -> bool:
        """Return whether the page cache holds `count` bytes, `start` bytes behind the next."""
        return self._held.is_cached(self.position + start, count)

    def read_nowait(self) -> Buffer | None:
        """Return all the bytes that are left, None where some would have to come from the device; raises StorageError."""
        self._check()
        found = self._held.pread_nowait(self.position, self.size)
        if found is not None:
            _check_size(found, self.size)
        return found

    def read_into(self, memory: memoryview) -> int | None:
        """Read what the page cache holds of the bytes that are left, and return how many; None where it lacks the first.

        Raises PartGoneError where they are there no more, StorageError where the disk cannot read them.
        """
        self._check()
        count = self._held.pread_into(self.position, memory[: self.size])
        if count == 0:
            raise PartGoneError("the file ends before the bytes that were announced")
        return count

    def read(self, count: int) -> bytes:
        """Return the next bytes, on a thread; raises StorageError, PartGoneError."""
        found = self._held.pread(self.position, count)
        _check_size(found, count)
        self._check()  # it may have been cut while the thread was reading
        return found

    def read_ahead(self, count: int) -> bytes:
        """Read the next bytes, on a thread: now the page cache holds them; raises StorageError."""
        return self._held.pread(self.position, count)

    def sent(self, count: int) -> None:
        """Take bytes that are sent off the beginning."""
        self.position += count
        self.size -= count

    def failed(self, error: StorageError) -> None:
        """Called when the disk could not read them."""
        if self._on_failure is not None:
            self._on_failure(error, self._partition)

    def _check(self) -> None:
        if self._held.was_cut(self.position + self.size):
            raise PartGoneError("the log was cut while an answer from it was sent")


def _check_size(found: Buffer, size: int) -> None:
    if len(found) != size:
        raise PartGoneError("the file ends before the bytes that were announced")


class PartGoneError(Exception):
    """Bytes that were announced are there no more: the log was cut. It costs the connection, and is no fault of the disk."""
