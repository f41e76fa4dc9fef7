"""`python -m ottla.testing.child ARGUMENTS`: the command `ottla ARGUMENTS`, which ends when its standard input does.

Whoever runs the tests holds the other end. Where that process is killed, no broker is left behind; and `ottla server stop`,
which stops a user's servers, leaves those of tests alone.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys

from ottla.background import supervise_thread

__all__: list[str] = []

PROGRAM = "ottla.cli.main"


def end_with_input() -> None:
    """Wait for the end of standard input, and ask this process to stop then."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    supervise_thread(end_with_input, name="end with the tests", serves="a test's process")
    sys.argv[0] = "ottla"
    runpy.run_module(PROGRAM, run_name="__main__")
