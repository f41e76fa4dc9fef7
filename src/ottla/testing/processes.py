"""A program as a child of the tests: begun, known to be ready by what it prints, and ended with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from ottla.background import supervise_thread
from ottla.base import OttlaError

__all__ = ["READY_SECONDS", "ChildProcess", "StartError"]

READY_SECONDS = 60.0
"""How long a program may take until it is ready, on a busy machine too."""
STOP_SECONDS = 30.0
"""How long it may take to stop before it is killed."""
LAST_LINES_SECONDS = 1.0
"""How long its last lines are waited for: a process of its own, such as Spark's, may hold the pipe for longer."""
LINES_MAX = 5_000
"""What is kept of what it prints, from the newest back."""
READY = "ready "
DONE = "done "
ORDER_SECONDS = 30.0
"""How long an order to a program may take."""


class StartError(OttlaError):
    """A program of the tests did not get ready; the text has what it printed."""


class ChildProcess:
    """A process that prints `ready ADDRESS` when it serves. It ends when its standard input does."""

    def __init__(self, module: str, arguments: Sequence[str], *, folder: Path, ready_seconds: float) -> None:
        """Begin `python -m MODULE ARGUMENTS` in a folder; returns when it is ready. Raises StartError where it is not."""
        self.command = " ".join((module, *arguments))
        self.address = ""
        """What stands behind `ready`."""
        self.lines: list[str] = []
        """What it has printed, errors included, the newest `LINES_MAX` lines."""
        self.dropped = 0
        """Lines before those."""
        self._told = threading.Event()
        self._done: SimpleQueue[str] = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl+C, as within a debugger, is for the tests, which end it themselves
        )
        self._reader = supervise_thread(self._read, name="read a test's process", serves=self.command)
        try:
            was_told = self._told.wait(ready_seconds)
        except BaseException:  # an interrupt, or a test's own limit of time: nobody else has it to end it
            self.kill()
            raise
        if not self.address:
            self.kill()
            why = "has ended before it was ready" if was_told else f"is not ready after {ready_seconds:g} s"
            raise StartError(f"`{self.command}` {why}; it printed:\n{self.newest(50)}")

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def newest(self, count: int) -> str:
        """Return the last lines that it has printed."""
        return "".join(self.lines[-count:])

    def ask(self, order: str) -> None:
        """Write a line to its standard input, and return when it has printed `done` and the line.

        Raises StartError where it has ended, and TimeoutError where it does not say so in time.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise StartError(f"`{self.command}` has ended; it printed:\n{self.newest(50)}") from error
        try:
            while self._done.get(timeout=ORDER_SECONDS) != order:
                pass
        except Empty:
            raise TimeoutError(f"`{self.command}` has not done {order!r} within {ORDER_SECONDS:g} s") from None

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._process.kill()
        self._ended()

    def stop(self) -> None:
        """Ask it to stop and wait for its end; what does not end in time is killed."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._ended()

    def _ended(self) -> None:
        self._process.wait()
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # what was not yet written to it has no reader any more
            self._process.stdin.close()
        self._reader.join(LAST_LINES_SECONDS)
        if not self._reader.is_alive():
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self.lines.append(line)
                if len(self.lines) > LINES_MAX:
                    self.dropped += len(self.lines) - LINES_MAX
                    del self.lines[:-LINES_MAX]
                if line.startswith(DONE):
                    self._done.put(line.removeprefix(DONE).strip())
                if line.startswith(READY) and not self.address:
                    self.address = line.split()[1]
                    self._told.set()
        finally:
            self._told.set()
