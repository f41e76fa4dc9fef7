"""What happened in a world, in order: a running hash to compare runs with, and the last events to show."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

__all__ = ["Trace"]

SHOWN_MAX = 60
"""Events that a failure report shows."""


class Trace:
    """Every event of one world; two runs of a seed have the same `digest`."""

    def __init__(self, *, shows_disks: bool = True) -> None:
        """`shows_disks` is False where changes of disks are left out of what a report shows."""
        self._shows_disks = shows_disks
        self._hash = blake2b(digest_size=16)
        self._recent: deque[str] = deque(maxlen=SHOWN_MAX)
        self.count = 0

    def note(self, text: str) -> None:
        """Add one event; the text must say nothing that differs between runs (no ids of objects, no real time)."""
        self.count += 1
        self._hash.update(text.encode())
        if self._shows_disks or not text.partition(" ")[0].isdigit():
            self._recent.append(text)

    @property
    def digest(self) -> str:
        """The hash of every event so far."""
        return self._hash.hexdigest()

    def recent(self) -> list[str]:
        """The last events, oldest first."""
        return list(self._recent)
