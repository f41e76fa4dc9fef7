"""Replacing a small file on the operating system, so that whatever ends leaves the old content or the new one.

Beside logs (`ottla.log.replace_file` does the same through a `Disk`) there are files that a program cannot do without:
logins, a cluster's identity, offsets, checkpoints. A rename alone is not enough: without an fsync of the content the name
may point at an empty file after a power failure, and without one of the folder it may point at the old file, or be gone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

__all__ = ["sync_folder", "write_whole"]

PRIVATE = 0o600


def write_whole(path: Path, pieces: Iterable[bytes], *, mode: int = PRIVATE) -> int:
    """Make these bytes the whole content of a file, durably, and return how many they are.

    `mode` is narrowed by the process' umask. Raises OSError, and then the file is what it was, unless only the fsync of its
    folder failed: then it is the old one or the new one. What is written until the rename has a name of its own.
    """
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    size = 0
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            for piece in pieces:
                size += file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    sync_folder(path.parent)
    return size


def sync_folder(folder: Path) -> None:
    """Return once the names in a folder are on the device; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
