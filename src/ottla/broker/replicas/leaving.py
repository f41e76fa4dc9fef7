"""Folders of partitions that are held no longer: set aside at once, or a few at a time where a topic of many was deleted.

A rename waits for the file system's journal now and then. Until a folder is set aside its name belongs to the old log, so
that whoever makes a topic of that name again has it done first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.base import TopicPartition
from ottla.log import LogDir

__all__ = ["AT_ONCE_MAX", "Leaving", "LeavingFolders"]

AT_ONCE_MAX: Final = 128
"""Folders that are set aside without a pause: a topic of usual size."""
TOGETHER_MAX: Final = 16
"""Folders of a larger one that are set aside before others have their turn."""
TOGETHER_S_MAX: Final = 0.002


@dataclass(slots=True)
class Leaving:
    """The folder of a partition that is held no longer."""

    log_dir: LogDir
    delay_ms: int
    in_turn: bool = False
    """True where it is one of many, so that others have their turn in between."""
    is_late: bool = False
    """True where it is not set aside at once."""


Key = tuple[TopicPartition, str]


class LeavingFolders:
    """Those of one broker, by partition and directory."""

    def __init__(self, set_aside: Callable[[TopicPartition, Leaving], None], try_again: Callable[[], None]) -> None:
        """`set_aside` renames a folder and never raises; `try_again` opens what the old ones were in the way of."""
        self._set_aside = set_aside
        self._try_again = try_again
        self._all: dict[Key, Leaving] = {}
        self._idle: dict[Key, Leaving] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.Handle | None = None

    def pause_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """From here on, set many folders aside beside the other work of the loop."""
        self._loop = loop

    def finish(self) -> None:
        """Set aside now whatever may be, and from here on without pauses."""
        self._loop = None
        if self._next is not None:
            self._next.cancel()
            self._next = None
        while self._idle:
            self._finish_next()

    def add(self, key: TopicPartition, leaving: Leaving, after: Callable[[Callable[[], None]], None]) -> None:
        """Have a folder set aside; `after` calls when no thread uses its files by their names any more."""
        name = key, leaving.log_dir.path
        self._all[name] = leaving
        after(lambda: self._may_go(name))
        leaving.is_late = True

    def holds(self, key: TopicPartition, path: str) -> bool:
        """Return whether a log that is held no longer still has its name in this directory."""
        return (key, path) in self._all

    def is_idle(self, key: TopicPartition, path: str) -> bool:
        """Return whether it could be set aside at once."""
        return (key, path) in self._idle

    def free(self, key: TopicPartition, path: str) -> bool:
        """Set a folder aside for whoever wants its name; False where a thread still uses its files."""
        name = key, path
        if self._idle.pop(name, None) is not None:
            self._set_aside(key, self._all.pop(name))
        return name not in self._all

    def _may_go(self, name: Key) -> None:
        leaving = self._all[name]
        if self._loop is not None and leaving.in_turn:
            self._idle[name] = leaving
            self._go_on()
            return
        self._set_aside(name[0], self._all.pop(name))
        if leaving.is_late:
            self._try_again()

    def _go_on(self) -> None:
        if self._next is None and self._loop is not None and self._idle:
            self._next = self._loop.call_soon(self._finish_some)

    def _finish_some(self) -> None:
        self._next = None
        assert self._loop is not None
        until_s = self._loop.time() + TOGETHER_S_MAX
        try:
            for _ in range(TOGETHER_MAX):
                if not self._idle or self._loop.time() > until_s:
                    break
                self._finish_next()
            self._try_again()
        finally:
            self._go_on()

    def _finish_next(self) -> None:
        name = next(iter(self._idle))
        del self._idle[name]
        self._set_aside(name[0], self._all.pop(name))
