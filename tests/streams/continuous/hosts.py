"""Hosts as processes of their own, as Spark's workers are, without Spark: they can be killed as such."""

from __future__ import annotations

import base64
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

from ottla.connect.tasks import Dial
from ottla.spark.continuous.executor import run_host

__all__ = ["ROOT", "ProcessHostJobs"]

ROOT = Path(__file__).parents[3]


class ProcessHostJobs:
    """Runs each host in a Python process (`HostJobs`)."""

    def __init__(self) -> None:
        self.is_local, self.slots = True, 4
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._killed: set[str] = set()

    def run(self, dial: Dial, name: str) -> str | None:
        """Run a host and return when its process has ended."""
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        given = base64.b64encode(pickle.dumps(dial)).decode()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.streams.continuous.hosts"],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            cwd=ROOT,
        )
        self._processes[dial.attempt] = process
        process.communicate(given.encode())
        del self._processes[dial.attempt]
        return None if process.returncode == 0 else f"the process ended with {process.returncode}"

    def cancel(self, dial: Dial) -> None:
        """End a host at once."""
        process = self._processes.get(dial.attempt)
        if process is not None:
            process.kill()

    def kill(self) -> int:
        """End every host as `kill -9` does; returns how many lived (a process is there until somebody has waited for it)."""
        found = {attempt: each for attempt, each in self._processes.items() if attempt not in self._killed}
        for each in found.values():
            os.kill(each.pid, signal.SIGKILL)
        self._killed.update(found)
        return len(found)


if __name__ == "__main__":
    run_host(pickle.loads(base64.b64decode(sys.stdin.read())))
