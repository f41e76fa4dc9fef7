"""A node's process on this machine: begun in a session of its own, found by its pid file, signalled, awaited."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import OttlaError

if TYPE_CHECKING:
    from ottla.cli.local.cluster import LocalNode

__all__ = [
    "POLL_SECONDS",
    "STOP_SECONDS_MAX",
    "await_end",
    "begin",
    "ending",
    "last_line",
    "pid_of",
    "send",
    "state_of",
]

POLL_SECONDS = 0.05
STOP_SECONDS_MAX = 60.0
"""How long a node has to stop cleanly before it is killed."""
LAST_BYTES = 4096


def begin(
    node: LocalNode, *, within: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a node's process in a session of its own, so that a Ctrl-C here is not one there, and note its pid.

    `within` is a command that runs the node's in its own place, such as `ip netns exec NAME`; without `environment` the
    node has this process's.
    """
    running = pid_of(node)
    if running is not None:
        raise OttlaError(f"node {node.id} runs already, as process {running}")
    with node.log.open("ab") as log:
        process = subprocess.Popen(
            [*within, sys.executable, "-m", "ottla.cli.main", "server", "start", str(node.config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
        )
    new = node.pid_file.with_name("pid.new")
    new.write_text(f"{process.pid}\n")
    os.replace(new, node.pid_file)
    return process


def pid_of(node: LocalNode) -> int | None:
    """Return the node's process, or None where it does not run; a number that is another's by now does not count."""
    try:
        pid = int(node.pid_file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    if state_of(pid) == "ended" or str(node.config) not in _arguments(pid):
        return None
    return pid


def state_of(pid: int) -> str:
    """Return `running`, `paused` or `ended` of a process, as the system has it (`/proc`)."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return "ended"
    return {"T": "paused", "t": "paused", "Z": "ended", "X": "ended"}.get(letter, "running")


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def send(node: LocalNode, number: signal.Signals) -> int:
    """Signal the node's process and return its pid; raises OttlaError where it does not run."""
    pid = pid_of(node)
    if pid is None:
        raise OttlaError(f"node {node.id} does not run")
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise OttlaError(f"node {node.id} does not run") from None
    return pid


def await_end(pid: int, seconds: float = STOP_SECONDS_MAX) -> bool:
    """Return whether a process, this one's child or not, has ended within so many seconds."""
    deadline = time.monotonic() + seconds
    while state_of(pid) != "ended":
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def last_line(path: Path) -> str:
    """Return the last line of a file, or nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LAST_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def ending(code: int | None) -> str:
    """Return how a process ended, in words; None where only that it did is known."""
    if code is None:
        return "has ended"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"has ended with exit code {code}"
