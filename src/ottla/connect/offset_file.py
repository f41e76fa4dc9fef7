"""The file in which a standalone worker keeps its source connectors' offsets: Kafka's format, replaced as a whole."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from ottla.connect.errors import ConnectError
from ottla.connect.storage import OffsetState, apply_offset, read_java_map, write_java_map

__all__ = ["OffsetFile"]

log = logging.getLogger(__name__)


class OffsetFile:
    """The offsets of `offset.storage.file.filename`; None keeps them in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries: dict[bytes | None, bytes | None] = {}
        self.state = OffsetState()
        data = path.read_bytes() if path is not None and path.exists() else b""
        if data:
            self._take(read_java_map(data).items())

    def write(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store records of `encode_offset`; they are on the disk when this returns. Raises ConnectError."""
        before, entries = self.state, dict(self._entries)
        self._take(records)
        try:
            self._save()
        except OSError as error:
            self.state, self._entries = before, entries
            raise ConnectError(f"Could not write offsets to {self._path}: {error.strerror}") from error

    def _take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in records:
            self._entries[key] = value
            self.state, ignored = apply_offset(self.state, key, value)
            if ignored is not None:
                log.error("%s (in %s)", ignored, self._path)

    def _save(self) -> None:
        if self._path is None:
            return
        beside = self._path.with_name(self._path.name + ".next")
        with beside.open("wb") as file:
            file.write(write_java_map(self._entries))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
