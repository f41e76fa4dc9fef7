"""`ottla server start` as a process of its own, for tests that need the real thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Server", "running_server", "start_server"]

READY_SECONDS_MAX = 100.0
STOP_SECONDS_MAX = 100.0
KEEPS_ALL = "log.retention.check.interval.ms=86400000"
"""Tests write records of 1970 and of 2023, which a broker would delete when it first looks, in slow runs only."""


@dataclass
class Server:
    """A broker's process; `lines` is what it has printed so far, standard error included."""

    process: subprocess.Popen[str]
    bootstrap: str
    folder: Path
    lines: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The port that its listener got."""
        return int(self.bootstrap.rpartition(":")[2])

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Ask it to stop and return its exit code; raises TimeoutExpired when it does not."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        return self.process.wait(STOP_SECONDS_MAX)


def start_server(folder: Path, *, port: int = 0, overrides: Sequence[str] = ()) -> Server:
    """Start a broker with its data in `folder/data`; returns when it has printed `ready`.

    Raises AssertionError with everything it printed when it ends or stays silent instead.
    """
    settings = [f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={folder / 'data'}", KEEPS_ALL, *overrides]
    command = [sys.executable, "-m", "ottla.cli.main", "server", "start"]
    for setting in settings:
        command += ["--override", setting]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    server = Server(process, "", folder)
    ready = threading.Event()
    threading.Thread(target=_read, args=(server, ready), daemon=True).start()
    ready.wait(READY_SECONDS_MAX)
    if not server.bootstrap:
        process.kill()
        process.wait()
        raise AssertionError("the broker did not get ready:\n" + "".join(server.lines))
    return server


def _read(server: Server, ready: threading.Event) -> None:
    """Collect the process's lines; take the listener from the line that begins with `ready`."""
    assert server.process.stdout is not None
    for line in server.process.stdout:
        server.lines.append(line)
        if line.startswith("ready ") and not server.bootstrap:
            server.bootstrap = line.split()[1].rpartition("/")[2]
            ready.set()
    ready.set()


@contextmanager
def running_server(folder: Path, *, port: int = 0, overrides: Sequence[str] = ()) -> Iterator[Server]:
    """Run a broker until the block ends, then stop it cleanly."""
    server = start_server(folder, port=port, overrides=overrides)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.terminate()
            try:
                server.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
