"""How much clients' batches may still become on the event loop before others have their turn.

All requests of one pass of the loop share it: a connection's read may bring hundreds, and each of them little that is much.
"""

from __future__ import annotations

import asyncio

from ottla.wire import DECOMPRESSED_AT_ONCE_MAX

__all__ = ["ROOM", "Room"]


class Room:
    """Bytes that are left until the loop has gone on."""

    def __init__(self) -> None:
        self.left = DECOMPRESSED_AT_ONCE_MAX
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self, size: int) -> bool:
        """Take so many bytes; False where there are not as many, and nothing is taken."""
        if not size:
            return True
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self.left = loop, DECOMPRESSED_AT_ONCE_MAX
        if size > self.left:
            return False
        if self.left == DECOMPRESSED_AT_ONCE_MAX:
            loop.call_soon(self._renew)
        self.left -= size
        return True

    def _renew(self) -> None:
        self.left = DECOMPRESSED_AT_ONCE_MAX


ROOM = Room()
"""Of this process."""
