"""Processes that tests and benchmarks have started: ending them, and finding what they have started themselves."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

__all__ = ["below", "command_of", "end", "name_of", "parents", "python_workers"]

DAEMONS = ("pyspark.daemon", "ottla.spark.connect.daemon")
FORKED = "ottla-fork"
"""The name of our fork server, and of what it has forked."""


def end(process: subprocess.Popen[Any], seconds: float) -> None:
    """Ask a process to end, and kill it where it has not after so long; returns when it is gone."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def parents() -> dict[int, int]:
    """Return every process's parent."""
    found: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                found[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    return found


def below(pid: int) -> set[int]:
    """Return a process with all that it has started, directly or not."""
    known, found = parents(), {pid}
    while more := {each for each, parent in known.items() if parent in found} - found:
        found |= more
    return found


def command_of(pid: int) -> str:
    """Return a process's command line, nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def name_of(pid: int) -> str:
    """Return a process's name, nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def python_workers(pids: Collection[int]) -> list[int]:
    """Return which of some processes run Spark's tasks: forked by a daemon, which may be forked of our server itself."""
    known, commands = parents(), {pid: command_of(pid) for pid in pids}
    forked = {pid for pid in commands if name_of(pid) == FORKED}
    daemons = {pid for pid, command in commands.items() if any(each in command for each in DAEMONS)}
    daemons |= {pid for pid in forked if known.get(pid) in forked}
    return sorted(pid for pid in daemons if known.get(pid) in daemons)
