"""A piece of a file that is an answer's part, to be copied to a socket by the system."""

from __future__ import annotations

import os

__all__ = ["FilePart"]

RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
"""Ask for what is in the page cache only (Linux 4.14)."""
_PROBE = bytearray(1)


class FilePart:
    """Bytes of a file, through a descriptor of its own: the log may close or delete the file meanwhile."""

    __slots__ = ("descriptor", "position", "size")

    def __init__(self, descriptor: int, position: int, size: int) -> None:
        self.descriptor = os.dup(descriptor)
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def is_cached(self, count: int) -> bool:
        """Return whether the page cache holds both ends of the next `count` bytes: it is filled in runs, so the
        middle too.

        Where the file system cannot say, the answer is yes.
        """
        if not RWF_NOWAIT:
            return True
        try:
            os.preadv(self.descriptor, (_PROBE,), self.position, RWF_NOWAIT)
            os.preadv(self.descriptor, (_PROBE,), self.position + count - 1, RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def read_ahead(self, count: int) -> None:
        """Read the next bytes and drop them, on a thread: now the page cache holds them."""
        os.pread(self.descriptor, count, self.position)

    def close(self) -> None:
        """Give the descriptor back; harmless when repeated."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()  # an answer that was never sent, because its connection had gone
