"""Which files there are, and to which log each belongs: the path that its lines were written to before it was rotated."""

from __future__ import annotations

import glob
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from ottla.connect import compile_java

__all__ = ["PACKED", "ROTATED", "FoundFile", "Names", "is_packed"]

PACKED = (".gz", ".bz2", ".xz")
"""Suffixes of compressed files."""

ROTATED = (
    r"[._-]\d{4}-?\d\d-?\d\d(?:[T_-]?\d\d(?:[-:]?\d\d){0,2})?(?:[.-]\d{1,10})?(?=\.[A-Za-z]\w*$|$)"
    r"|\.\d{1,5}(?=\.[A-Za-z]\w*$|$)"
)
"""What rotation adds to a name: a number (`app.log.1`, `app.1.log`) or a date (`app.log-20260131`, `app-2026-01-31.log`)."""

LISTINGS_MAX = 5
"""How often a folder is listed that does not come to rest."""

TICK_NS = 10_000_000
"""How old a folder's last change has to be, for the clocks of file systems are coarse."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was found."""

    path: str
    log: str
    """The path of the log that it belongs to; its own where it was not rotated."""

    inode: str
    size: int
    modified_ns: int
    selected: bool
    """Whether the patterns ask for it; what they do not ask for is only read where it continues what they do."""

    excluded: bool = False
    """Whether it is to be left out."""

    @property
    def active(self) -> bool:
        """Return whether this is where the log is written to."""
        return self.path == self.log

    @property
    def age(self) -> tuple[bool, int, int, str]:
        """Return what sorts a log's files by age, the oldest first."""
        numbers = re.findall(r"\d+", os.path.basename(self.path)[len(os.path.basename(self.log).split(".")[0]) :])
        return self.active, self.modified_ns, -int(numbers[-1]) if numbers else 0, self.path


def is_packed(path: str) -> bool:
    """Return whether a file is compressed."""
    return path.endswith(PACKED)


class Names:
    """Finds files by patterns and knows logs by names."""

    def __init__(self, paths: Sequence[str], exclude: Sequence[str], rotated: str, *, symlinks: bool) -> None:
        self._patterns = [_pattern(each) for each in paths]
        self._exclude = list(exclude)
        self._rotated = compile_java(rotated) if rotated else None
        self._symlinks = symlinks

    def log_of(self, path: str) -> str:
        """Return the path that a file's lines were written to."""
        if self._rotated is None:
            return path
        folder, name = os.path.split(path)
        for suffix in PACKED:
            name = name.removesuffix(suffix)
        return os.path.join(folder, self._rotated.sub(lambda found: "", name) or name)

    def logs(self, known: Iterable[str] = ()) -> dict[str, list[FoundFile]]:
        """Return every log that the patterns ask for, or that is known, with its files, the oldest first."""
        selected = {path for pattern in self._patterns for path in self._matching(pattern)}
        wanted = {self.log_of(path) for path in selected} | set(known)
        found: dict[str, list[FoundFile]] = {log: [] for log in sorted(wanted)}
        for folder in sorted({os.path.dirname(log) for log in wanted}):
            for path, about in _listed(folder, lambda path: self.log_of(path) in found):
                selects = path in selected
                if selects and stat.S_ISLNK(about.st_mode):
                    with suppress(OSError):  # it leads nowhere, or where nobody may look: there is no file
                        about = os.stat(path)
                if stat.S_ISREG(about.st_mode):
                    log = self.log_of(path)
                    inode = f"{about.st_dev}:{about.st_ino}"
                    found[log].append(
                        FoundFile(path, log, inode, about.st_size, about.st_mtime_ns, selects, self._excluded(path))
                    )
        for files in found.values():
            files.sort(key=lambda each: each.age)
        return found

    def _matching(self, pattern: str) -> Iterable[str]:
        for path in glob.iglob(_pattern(pattern), recursive=True):
            if not self._excluded(path) and (self._symlinks or path == pattern or not os.path.islink(path)):
                yield path

    def _excluded(self, path: str) -> bool:
        name = PurePath(path)
        return any(name.match(each) for each in self._exclude)


def _listed(folder: str, wanted: Callable[[str], bool]) -> list[tuple[str, os.stat_result]]:
    """Return a folder's wanted files as they stood at one moment.

    Rotation renames one file after the other; a list made meanwhile can lack a file that is there all the time. So the
    folder is listed again where it has changed since, or only just before.
    """
    found: list[tuple[str, os.stat_result]] = []
    for _ in range(LISTINGS_MAX):
        try:
            before = os.stat(folder or ".").st_mtime_ns
            found = _about(folder, wanted)
            after = os.stat(folder or ".").st_mtime_ns
        except OSError:
            return []  # the folder is gone, or not there yet
        if before == after and not 0 <= time.time_ns() - after < TICK_NS:
            break
        time.sleep(TICK_NS / 2e9)
    return found


def _about(folder: str, wanted: Callable[[str], bool]) -> list[tuple[str, os.stat_result]]:
    found = []
    with os.scandir(folder or ".") as entries:
        for entry in entries:
            path = os.path.join(folder, entry.name)
            if wanted(path):
                with suppress(FileNotFoundError):  # it was renamed since it was listed
                    found.append((path, os.lstat(path)))
    return found


def _pattern(path: str) -> str:
    """Return a pattern; a folder stands for the files in it."""
    return os.path.join(path, "*") if os.path.isdir(path) else path
