"""Named places at which a test may kill this process: inert unless the environment names a folder.

A test arms a place by making a file of its name there. Whoever passes next takes the file away, so that one arming kills
once, and ends as `kill -9` ends it: the process alone, or its whole group where the file says `group`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

__all__ = ["FOLDER", "failpoint"]

FOLDER = "OTTLA_FAILPOINTS"
"""The environment variable that names the folder."""


def failpoint(name: str) -> None:
    """End this process here if a test has asked for it."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    armed = Path(folder, name)
    try:
        whom = armed.read_text()
        armed.unlink()
    except FileNotFoundError:
        return
    os.kill(0 if whom == "group" else os.getpid(), signal.SIGKILL)
