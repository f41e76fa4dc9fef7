"""How much a connection remembers of the requests that it sends again and again, for quick Produce and quick Fetch."""

from __future__ import annotations

from typing import Final

__all__ = ["LANES_MAX", "REMEMBERED_BYTES_MAX", "LaneRoom"]

LANES_MAX: Final = 16
"""Requests, or beginnings of some, that a connection remembers; an old one goes for a new one."""
REMEMBERED_BYTES_MAX: Final = 1024
"""Longer ones are not remembered: a client id may have 32 KiB, of which no connection can have sixteen kept for it."""
LEARN_EACH: Final = 16
"""With so many remembered, only each sixteenth that is new is: who never sends one twice pays little for it."""


class LaneRoom:
    """Tells which new ones take an old one's place where a connection remembers as many as it may."""

    __slots__ = ("_missed",)

    def __init__(self) -> None:
        self._missed = 0

    def takes(self) -> bool:
        """Return whether the next new one does."""
        self._missed += 1
        return self._missed % LEARN_EACH == 0
