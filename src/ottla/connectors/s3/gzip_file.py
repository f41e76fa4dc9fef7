"""Files whose bytes are compressed by gzip on their way: equal bytes in give equal bytes out, however they were cut."""

from __future__ import annotations

import zlib
from typing import Any

from ottla.connectors.storage import Held, StoredFile, Upload

__all__ = ["GzipFile"]

SLICE_BYTES = 1 << 18
"""How much is compressed at a time. What zlib makes may depend on where its input is cut, so it is cut here always alike."""

_GZIP = 16 + zlib.MAX_WBITS


class GzipFile:
    """A file that compresses into another. The header has no time and no name."""

    def __init__(self, file: StoredFile, level: int) -> None:
        self._file = file
        self._compressor: Any = zlib.compressobj(level, zlib.DEFLATED, _GZIP)
        self._buffer = bytearray()

    def write(self, data: bytes | memoryview, /) -> int:
        """See `Output`."""
        self._buffer += data
        while len(self._buffer) >= SLICE_BYTES:
            self._file.write(self._compressor.compress(memoryview(self._buffer)[:SLICE_BYTES]))
            del self._buffer[:SLICE_BYTES]
        return len(data)

    def check(self) -> None:
        """See `StoredFile`."""
        self._file.check()

    def commit(self, held: Held) -> Upload:
        """See `StoredFile`."""
        self._file.write(self._compressor.compress(bytes(self._buffer)) + self._compressor.flush())
        return self._file.commit(held)

    def abort(self) -> None:
        """See `StoredFile`."""
        self._file.abort()
