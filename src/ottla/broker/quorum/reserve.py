"""Room that the metadata log has of its own: a file that is given up, a piece at a time, to what makes room on a full disk.

Nobody could delete a topic, or shorten a retention, on a disk that is full to its last byte, since the decision has to be
written down. So there is a file that holds nothing (`ottla.metadata.reserve.bytes`), beside the log's folder. A piece of it
goes when a decision that makes room finds none, and the decision is appended in the same breath: no partition's append
comes between. When there is room again the file grows back.
"""

from __future__ import annotations

import logging
from hashlib import shake_128

from ottla.base import StorageError
from ottla.log import Disk, join

__all__ = ["Reserve"]

log = logging.getLogger(__name__)

RESERVE_FILE = "metadata-reserve"
PIECE_BYTES = 64 << 10
"""Given up at once: several blocks, since an append may need them for an index and the log's file both."""
AMPLE = 4
"""The reserve takes room when so many times of what it lacks is free: it must not be what fills the disk."""


class Reserve:
    """The file; one that cannot be read or written is missing, which costs nothing but the room."""

    def __init__(self, disk: Disk, folder: str, size: int) -> None:
        self._disk = disk
        self._path = join(folder, RESERVE_FILE)
        self._folder = folder
        self._wanted = size // PIECE_BYTES * PIECE_BYTES
        self._held = 0
        self._mutex = disk.mutex()
        self._promised = -1

    def open(self) -> None:
        """Find what there is from before, and make it what it is to be."""
        try:
            if self._wanted:
                file = self._disk.open(self._path, create=True)
                try:
                    self._held = file.size() // PIECE_BYTES * PIECE_BYTES
                    if self._held > self._wanted:
                        file.truncate(self._wanted)
                        self._held = self._wanted
                finally:
                    file.close()
                self.renew()
            else:
                self._disk.unlink(self._path)
        except StorageError as error:
            log.warning("The metadata log has no room of its own: %s", error)

    def promise(self, offset: int) -> None:
        """Let what is appended up to this offset have the room."""
        self._promised = offset

    def is_promised(self, offset: int) -> bool:
        """Return whether an append that begins here may have the room."""
        return offset <= self._promised

    def give(self) -> bool:
        """Give a piece up; False where there is none left. Not for long: nothing may append before who asked does."""
        with self._mutex:
            if not self._held:
                return False
            self._held -= PIECE_BYTES
            try:
                file = self._disk.open(self._path)
                try:
                    file.truncate(self._held)
                finally:
                    file.close()
            except StorageError as error:
                log.warning("The metadata log's own room cannot be used: %s", error)
                self._held = 0
                return False
        return True

    def renew(self) -> None:
        """Take room again, where there is plenty; may run on a thread."""
        lacking = self._wanted - self._held
        if not lacking:
            return
        try:
            if self._disk.space(self._folder).usable < AMPLE * lacking:
                return
            # incompressible, so that file systems that compress keep room for it
            data = shake_128(self._path.encode()).digest(PIECE_BYTES)
            while self._held < self._wanted:
                with self._mutex:
                    file = self._disk.open(self._path, create=True)
                    try:
                        file.pwrite(self._held, data)
                    finally:
                        file.close()
                    self._held += PIECE_BYTES
        except StorageError as error:
            log.warning("The metadata log's own room is %d bytes of %d: %s", self._held, self._wanted, error)
