"""`python -m tests.peer fetch | broker DIR PORT [key=value ...] | nodes DIR PORT,PORT,... [key=value ...] | tool NAME`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests import peer
from tests.peer.nodes import running_nodes


def main(argv: list[str]) -> int:
    """Run one of the commands; returns the exit code."""
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
        case ["nodes", folder, ports, *overrides]:
            with running_nodes(Path(folder), [int(port) for port in ports.split(",")], overrides=overrides) as cluster:
                print(f"ready {cluster.bootstrap}", flush=True)
                signal.sigwait({signal.SIGINT, signal.SIGTERM})
        case ["tool", name, *args]:
            command = peer.tool_command(name, *args)
            os.execvp(command[0], command)
        case _:
            print(__doc__, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
