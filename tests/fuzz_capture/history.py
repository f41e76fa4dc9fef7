"""A history: steps that a seed has made, which can be done again, and the fewest of them that still fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["History", "Step", "shrunk"]

Kind = Literal["sql", "poll", "kill", "check", "restart", "retain", "snapshot"]


@dataclass(frozen=True)
class Step:
    """One step: a statement of a session, or what is done to the capture or the server."""

    kind: Kind
    text: str = ""
    """The statement; `{db}` is the database, `{n}` the step. Of a kill its place, of a snapshot its tables."""
    session: str = "a"

    def __str__(self) -> str:
        if self.kind == "sql":
            return f"/* {self.session} */ {self.text};"
        return f"-- {self.kind} {self.text}".rstrip()


@dataclass(frozen=True)
class History:
    """All steps: those before `begin` are there before the capture begins."""

    steps: tuple[Step, ...]
    begin: int

    def __str__(self) -> str:
        lines = [str(each) for each in self.steps]
        return "\n".join([*lines[: self.begin], "-- the capture begins", *lines[self.begin :]])

    def without(self, first: int, count: int) -> History:
        """Return the history without some steps."""
        gone = max(0, min(self.begin, first + count) - min(self.begin, first))
        return History(self.steps[:first] + self.steps[first + count :], self.begin - gone)


def shrunk(history: History, fails: Callable[[History], bool], *, seconds: float) -> History:
    """Return a history of fewer steps that still fails, as few as that time finds: halves first, then single ones."""
    until, size = time.monotonic() + seconds, max(1, len(history.steps) // 2)
    while True:
        first = len(history.steps) - size
        before = len(history.steps)
        while first > -size and time.monotonic() < until:
            smaller = history.without(max(0, first), min(size, first + size))
            if fails(smaller):
                history = smaller
            first -= size
        if time.monotonic() >= until or (size == 1 and len(history.steps) == before):
            return history
        size = max(1, size // 2)


def as_lines(steps: Sequence[Step]) -> str:
    """Return steps as SQL, one a line."""
    return "\n".join(map(str, steps))
