"""Checkpoints of state as files of an executor's machine: written aside and renamed, read with suspicion.

A file belongs to one work, so hosts of one machine share the folder: a work that moves between them finds what it had. Two
that write the same one at a time leave one of the two, whole. Whatever is wrong with a file costs its advantage alone: it is
named in a line of the log, and the changelog is read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from pathlib import Path

from ottla.config import write_whole
from ottla.streams import (
    DamagedCheckpointError,
    StateCheckpoint,
    StreamsWork,
    read_checkpoint,
    written_checkpoint,
)

__all__ = ["CheckpointFiles"]

log = logging.getLogger(__name__)
ENDING = ".checkpoint"
STALE_SECONDS = 300.0
"""After so long a file that was never renamed is nobody's any more."""
FILE_BYTES_MAX = 8 << 30


class CheckpointFiles:
    """An application's checkpoints in a folder, which is made when there is one to write."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def write(self, state: StateCheckpoint) -> int:
        """Write a work's checkpoint in the place of an earlier one; returns its bytes. Raises OSError; the earlier is left.

        The file is on the disk before it has its name, so that a machine that stops leaves a whole one, or none.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(state.identity.work)
        size = write_whole(path, written_checkpoint(state))
        self._clear(path)
        return size

    def read(self, work: StreamsWork) -> StateCheckpoint | None:
        """Return a work's checkpoint; None where there is none that can be read, which the log says."""
        path = self._path(work)
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > FILE_BYTES_MAX:
                    log.warning("checkpoint %s is no file of this user's, and is not used", path)
                    return None
                return read_checkpoint(file.read())
        except FileNotFoundError:
            return None
        except (OSError, DamagedCheckpointError) as error:
            log.warning("checkpoint %s is not used, the changelog is read: %s", path, error)
            return None

    def remove(self, work: StreamsWork) -> None:
        """Remove a work's checkpoint, where there is one."""
        with contextlib.suppress(OSError):
            self._path(work).unlink()

    def _path(self, work: StreamsWork) -> Path:
        return self._folder / f"{work.sub_topology}_{work.partition}{ENDING}"

    def _clear(self, path: Path) -> None:
        """Remove what writers that were killed have left of this file."""
        with contextlib.suppress(OSError):
            for each in self._folder.glob(f"{path.name}.*.new"):
                if time.time() - each.stat().st_mtime > STALE_SECONDS:
                    each.unlink()
