"""A story is played once, and at each of its calls the process forks: every child lets that call fail in one way.

So nobody plays what comes before a call again for each of its failures, and as many children run at once as there are
processors. What a child finds is what `run` finds in a play of its own, since a story is the same each time.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from shutil import rmtree
from tempfile import mkdtemp

from tests.faults.case import Case
from tests.faults.disk import Call

__all__ = ["Forks", "explore"]

CHILD_S_MAX = 300
"""Seconds of one child, after which it hangs: the longest take a second of a processor."""
SAID_MAX = 2_000
"""Characters that are kept of what broke, so that a line is written to the pipe at once."""


@dataclass
class Forks:
    """What the player of a story asks at each call, and what it says at the end."""

    cases: Sequence[Case]
    workers: int
    pipe: int
    """Where outcomes are written, a line each."""
    seen: str
    """A folder with a name for each state that a crash has left."""
    case: Case | None = None
    """What fails in this process; None in the one that plays the story whole."""
    power: str = ""
    _children: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_number: dict[int, list[Case]] = {}
        for each in self.cases:
            self._by_number.setdefault(each.number, []).append(each)

    def kind_at(self, number: int, call: Call) -> str:
        """Return, in a child that was forked for it, how this call fails; nothing in the process that goes on."""
        if self.case is not None:
            return ""
        for case in self._by_number.pop(number, ()):
            if case.call != call:
                self._say(case, "the story is not the same twice")
                continue
            if self._is_child(case.name):
                self.case = case
                return case.kind
        return ""

    def one_of(self, choices: Collection[str]) -> str:
        """Return one of these, each in a process of its own."""
        *others, last = choices
        for each in others:
            if self._is_child(each):
                self.power = each
                return each
        self.power = last
        return last

    def is_new(self, state: bytes) -> bool:
        """Return whether no other child was left with this by its crash: what the next process finds is judged once."""
        name = os.path.join(self.seen, hashlib.blake2b(state, digest_size=20).hexdigest())
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _is_child(self, name: str) -> bool:
        """Fork, once there is a processor for it; True in the child."""
        while len(self._children) >= (self.workers if self.case is None else 1):
            self._wait()
        loop, task = asyncio._get_running_loop(), None
        if loop is not None:
            task = asyncio.current_task()
        child = os.fork()
        if child:
            self._children[child] = name
            return False
        signal.alarm(CHILD_S_MAX)
        self._children = {}
        if loop is not None:  # a loop belongs to its process
            asyncio._set_running_loop(loop)
            if task is not None and asyncio.current_task() is None:
                asyncio.tasks._enter_task(loop, task)
        return True

    def _wait(self) -> None:
        child, status = os.wait()
        name = self._children.pop(child)
        if status:
            how = "hangs" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else f"ended: {status}"
            self._write({"name": name, "error": f"its process {how}"})

    def end(self, error: str) -> None:
        """Say what this process has found, once those that it has forked have ended, and end."""
        while self._children:
            self._wait()
        if self.case is not None:
            self._say(self.case, error)
        elif error:
            self._write({"name": "", "error": f"with nothing failing: {error}"})
        elif self._by_number:
            self._write(
                {"name": "", "error": f"the story is not the same twice: {sorted(self._by_number)} are missing"}
            )

    def _say(self, case: Case, error: str) -> None:
        self._write({"name": case.name, "error": f"{error} ({self.power})" if error and self.power else error})

    def _write(self, said: dict[str, str]) -> None:
        said["error"] = said["error"][-SAID_MAX:]
        os.write(self.pipe, json.dumps(said).encode() + b"\n")


def explore(cases: Sequence[Case], play: Callable[[Forks], str], workers: int) -> Iterator[tuple[str, str]]:
    """Yield (name of a case, what broke there or nothing) in the order in which they end; more than one for a power loss.

    `play` plays the cases' story, asks `Forks.kind_at` at each call, and returns what broke.
    """
    gc.collect()
    gc.freeze()  # what is imported is not looked through again, and its pages stay shared
    reading, writing = os.pipe()
    seen = mkdtemp(prefix="faults-")
    player = os.fork()
    if not player:
        os.close(reading)
        code = 1
        with suppress(BaseException):
            gc.disable()  # each of them is short
            forks = Forks(cases, workers, writing, seen)
            forks.end(play(forks))
            code = 0
        os._exit(code)
    os.close(writing)
    try:
        with os.fdopen(reading) as lines:
            for line in lines:
                said = json.loads(line)
                yield said["name"], said["error"]
    finally:
        _, status = os.waitpid(player, 0)
        rmtree(seen)
    if status:
        yield "", f"the story's own process ended: {status}"
