"""The latest offset of each key of a stretch of log, in one flat buffer; mypyc can compile it.

::

    16 bytes   BLAKE2b-128 of the key
     8 bytes   offset + 1, so that a slot of zeros is a free one

24 bytes a key whatever its length, as Kafka's map has them: 128 MiB hold five million keys. Open addressing with steps of
one; two keys of one hash would count as the same key, which 128 bits do not let happen.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final

__all__ = ["ENTRY_BYTES", "OffsetMap"]

ENTRY_BYTES: Final = 24
_ENTRY: Final = Struct("<16sQ")


class OffsetMap:
    """Keys to offsets, at most `capacity` of them."""

    def __init__(self, slots: int, load_factor: float) -> None:
        """Make room for `slots` entries, of which the share `load_factor` may be taken (probing slows beyond)."""
        self._slots = max(slots, 2)
        self._buffer = bytearray(self._slots * ENTRY_BYTES)
        self.capacity = max(1, min(int(self._slots * load_factor), self._slots - 1))
        self.size = 0
        self.latest_offset = -1
        """Offset up to which the log is in the map."""

    def put(self, key: bytes, offset: int) -> bool:
        """Take in a key's offset, which is larger than all before; False where the map has no room for another key."""
        digest = blake2b(key, digest_size=16).digest()
        buffer, at = self._buffer, int.from_bytes(digest[:8], "little") % self._slots * ENTRY_BYTES
        found, value = _ENTRY.unpack_from(buffer, at)
        while value and found != digest:
            at = at + ENTRY_BYTES if at + ENTRY_BYTES < len(buffer) else 0
            found, value = _ENTRY.unpack_from(buffer, at)
        if not value:
            if self.size >= self.capacity:
                return False
            self.size += 1
        _ENTRY.pack_into(buffer, at, digest, offset + 1)
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the key's latest offset, or -1."""
        digest = blake2b(key, digest_size=16).digest()
        buffer, at = self._buffer, int.from_bytes(digest[:8], "little") % self._slots * ENTRY_BYTES
        found, value = _ENTRY.unpack_from(buffer, at)
        while value and found != digest:
            at = at + ENTRY_BYTES if at + ENTRY_BYTES < len(buffer) else 0
            found, value = _ENTRY.unpack_from(buffer, at)
        return int(value) - 1
