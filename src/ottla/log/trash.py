"""Files set aside and removed after `file.delete.delay.ms`, so that readers which found them may finish."""

from __future__ import annotations

from ottla.log.disk import join
from ottla.log.segment import Segment

__all__ = ["Trash"]


class Trash:
    """Paths to remove, each with the time from which it may go; what is still here at a crash goes at the next start."""

    __slots__ = ("_due", "_segments")

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []
        self._segments: list[tuple[int, Segment]] = []

    def add(self, segment: Segment, due_ms: int) -> None:
        """Remove a segment, whose files were set aside, from that time on."""
        self._due.extend((due_ms, path) for path in segment.paths())
        self._segments.append((due_ms, segment))

    def take_due(self, now_ms: int) -> list[str]:
        """Return the paths whose time has come, and forget them; the caller unlinks them, best on a thread.

        Nothing here keeps them open from now on, so that their space is free once the last reader in flight has finished.
        """
        due = [path for time, path in self._due if time <= now_ms]
        if due:
            for _, segment in [each for each in self._segments if each[0] <= now_ms]:
                segment.release()
            self._due = [each for each in self._due if each[0] > now_ms]
            self._segments = [each for each in self._segments if each[0] > now_ms]
        return due

    def moved(self, folder: str) -> None:
        """Follow a rename of the folder that the files are in."""
        self._due = [(time, join(folder, path.rpartition("/")[2])) for time, path in self._due]
        for _, segment in self._segments:
            segment.moved(folder)

    def release(self) -> None:
        """Let every file go, as whoever removes the whole folder needs."""
        for _, segment in self._segments:
            segment.close()

    def __len__(self) -> int:
        return len(self._due)
