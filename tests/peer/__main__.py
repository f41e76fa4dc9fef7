"""`python -m tests.peer fetch | broker DIR PORT [key=value ...] | tool NAME args...`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests import peer


def main(argv: list[str]) -> int:
    """Run one of the three commands; returns the exit code."""
    match argv:
        case ["fetch"]:
            peer.fetch()
        case ["broker", folder, port, *overrides]:
            with peer.running_broker(Path(folder), int(port), overrides=overrides) as process:
                print(f"ready PLAINTEXT://127.0.0.1:{port}", flush=True)
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    return 0
        case ["tool", name, *args]:
            command = peer.tool_command(name, *args)
            os.execvp(command[0], command)
        case _:
            print(__doc__, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
