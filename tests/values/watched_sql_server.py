"""`ottla sql server`, whose loop is watched: where it does one thing for too long, the process ends with all its stacks.

`python -m tests.values.watched_sql_server WORDS…` takes the words of `ottla sql server`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys

from ottla.cli.main import main
from ottla.sql_server import Instance, ServerSettings

STALL_SECONDS_MAX = 20.0
"""Of the clock, on a machine that has much else to do."""
LOOKS_SECONDS = 0.5

__all__ = ["LOOKS_SECONDS", "STALL_SECONDS_MAX", "watch"]


def watch() -> None:
    """Say that the loop goes round, now and again and again."""
    faulthandler.dump_traceback_later(STALL_SECONDS_MAX, exit=True)
    asyncio.get_running_loop().call_later(LOOKS_SECONDS, watch)


class _Watched(Instance):
    """A server whose loop is watched."""

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        watch()


def run() -> int:
    """Run the command line's server, watched."""
    import ottla.sql_server

    ottla.sql_server.Instance = _Watched  # type: ignore[misc]
    return main(["sql", "server", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(run())
