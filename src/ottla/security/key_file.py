"""The door through which TLS gets a private key: Python's `ssl` takes one from a file only.

On Linux the file is in memory and has no name; elsewhere only its owner may read it, and it is deleted at once.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["file_of", "read_file"]

FILE_BYTES_MAX = 64 << 20
"""A trust store with all of the world's authorities has some hundred kilobytes."""


@contextmanager
def file_of(data: bytes) -> Iterator[str]:
    """Yield the path of a file with these bytes, until the block ends."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ottla-tls", os.MFD_CLOEXEC)
        try:
            _write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(prefix="ottla-tls-")  # 0600
    try:
        try:
            _write(descriptor, data)
        finally:
            os.close(descriptor)
        yield path
    finally:
        os.unlink(path)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_file(path: str) -> bytes:
    """Return what a store's file holds; raises OSError, also for what is no file: a pipe would be waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise OSError(f"{path} has more than {FILE_BYTES_MAX} bytes")
    return data
