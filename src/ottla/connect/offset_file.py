"""The file in which a standalone worker keeps its source connectors' offsets: Kafka's format, replaced as a whole."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from ottla.config import write_whole
from ottla.connect.errors import ConnectError
from ottla.connect.storage import OffsetState, apply_offset, read_java_map, write_java_map

__all__ = ["OffsetFile"]

log = logging.getLogger(__name__)
Entries = dict[bytes | None, bytes | None]


class OffsetFile:
    """The offsets of `offset.storage.file.filename`; None keeps them in memory only. Any thread may write."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._writing = threading.Lock()
        """Held from one file to the next: of two at once each would lack, or replace, what the other stores."""
        self._entries: dict[bytes | None, bytes | None] = {}
        self.state = OffsetState()
        """What the file holds."""
        data = path.read_bytes() if path is not None and path.exists() else b""
        if data:
            self._entries, self.state = self._with(read_java_map(data).items())

    def write(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store records of `encode_offset`; they are on the disk when this returns. Raises ConnectError."""
        with self._writing:
            entries, state = self._with(records)
            try:
                self._save(entries)
            except OSError as error:
                raise ConnectError(f"Could not write offsets to {self._path}: {error.strerror}") from error
            self._entries, self.state = entries, state

    def _with(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> tuple[Entries, OffsetState]:
        entries, state = dict(self._entries), self.state
        for key, value in records:
            entries[key] = value
            state, ignored = apply_offset(state, key, value)
            if ignored is not None:
                log.error("%s (in %s)", ignored, self._path)
        return entries, state

    def _save(self, entries: Entries) -> None:
        if self._path is None:
            return
        write_whole(self._path, [write_java_map(entries)])
