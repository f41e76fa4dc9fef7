"""Ending processes that tests and benchmarks have started."""

from __future__ import annotations

import subprocess
from typing import Any

__all__ = ["end"]


def end(process: subprocess.Popen[Any], seconds: float) -> None:
    """Ask a process to end, and kill it where it has not after so long; returns when it is gone."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
