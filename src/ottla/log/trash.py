"""Files set aside and removed after `file.delete.delay.ms`, so that readers which found them may finish."""

from __future__ import annotations

from ottla.log.disk import Disk

__all__ = ["Trash"]


class Trash:
    """Paths to remove, each with the time from which it may go; what is still here at a crash goes at the next start."""

    __slots__ = ("_disk", "_due")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._due: list[tuple[int, str]] = []

    def add(self, paths: list[str], due_ms: int) -> None:
        """Remove these files from that time on."""
        self._due.extend((due_ms, path) for path in paths)

    def take_due(self, now_ms: int) -> list[str]:
        """Return the paths whose time has come, and forget them; the caller unlinks them, best on a thread."""
        due = [path for time, path in self._due if time <= now_ms]
        if due:
            self._due = [each for each in self._due if each[0] > now_ms]
        return due

    def moved(self, before: str, folder: str) -> None:
        """Follow a rename of the folder that the files are in."""
        self._due = [(time, folder + path.removeprefix(before)) for time, path in self._due]

    def empty(self) -> None:
        """Remove everything now."""
        for _, path in self._due:
            self._disk.unlink(path)
        self._due.clear()

    def __len__(self) -> int:
        return len(self._due)
