"""The processes of an application on Spark: which there are below a driver, and how they are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from ottla.spark.failpoints import FOLDER
from tests.processes import below, command_of, python_workers

__all__ = ["Driver", "Placed"]

ROOT = Path(__file__).parents[3]
START_SECONDS_MAX = 240.0
APPLICATION = (sys.executable, "-m", "tests.streams.kills.query")
QUERIES = 2
WORKER, EXECUTOR = "pyspark.daemon", "CoarseGrainedExecutorBackend"


class Placed:
    """The folder in which failpoints are armed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    def arm(self, name: str, whom: str) -> None:
        """Kill who passes next: `pid`, or `group` for the driver with its JVM."""
        hidden = self.folder / "arming"
        hidden.write_text(whom)
        hidden.rename(self.folder / name)

    def is_armed(self, name: str) -> bool:
        """Return whether nobody has passed yet."""
        return (self.folder / name).exists()

    def disarm(self) -> None:
        """Let everybody pass."""
        for each in self.folder.iterdir():
            each.unlink(missing_ok=True)


class Driver:
    """One life of the application."""

    def __init__(self, bootstrap: str, folder: Path, placed: Placed, master: str, state: str) -> None:
        self.master = master
        self._log = folder / "driver.out"
        self._known: set[int] = set()
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        with self._log.open("ab") as log:
            self._began = log.tell()
            self.process = subprocess.Popen(
                [*APPLICATION, bootstrap, str(folder / "checkpoints"), master, state],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path, FOLDER: str(placed.folder)},
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        """Whether the driver still runs."""
        return self.process.poll() is None

    def await_running(self) -> None:
        """Return when its queries are started; raises AssertionError with what it said."""
        until = time.monotonic() + START_SECONDS_MAX
        while self._said().count(b" is running") < QUERIES:
            assert self.is_alive and time.monotonic() < until, self._said()[-4000:].decode(errors="replace")
            time.sleep(0.1)

    def _said(self) -> bytes:
        return self._log.read_bytes()[self._began :]

    def workers(self) -> list[int]:
        """Return the Python workers of its tasks."""
        return python_workers(self._below())

    def executors(self) -> list[int]:
        """Return its executors; none where the driver is one itself."""
        return sorted(pid for pid in self._below() if EXECUTOR in command_of(pid))

    def _below(self) -> set[int]:
        found = below(self.process.pid)
        self._known |= found
        return found

    def kill_one(self, pids: list[int], rng: random.Random) -> bool:
        """End one of these processes as `kill -9` does; returns whether there was one."""
        if not pids:
            return False
        try:
            os.kill(rng.choice(pids), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """End the driver and its JVM as `kill -9` does; its workers and executors live on as long as they like."""
        self._below()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """End the driver and everything that it ever started and that is known to be its own."""
        self.kill()
        for pid in self._known:
            if str(ROOT) in command_of(pid) or WORKER in command_of(pid) or EXECUTOR in command_of(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
