"""What Spark runs as its Python in a local session: has `fork_server` fork a process that does what this one was asked for.

It is copied to beside the server's socket, with a first line that names the interpreter, and imports little, since it is run
for each of Spark's Python processes. A process that was asked for by `-m MODULE`, with a module of PySpark or of ours, it
leaves to a child of the server, gives it all that it was given itself, waits for its end and ends alike. Everything else,
and everything where the server is gone, the interpreter does as if nobody had been between.
"""

import json
import os
import signal
import socket
import sys

READY, FORKED = b"R", b"F"
READY_SECONDS_MAX = 60.0
"""How long the server may import, on a machine with much other work."""
OURS = ("pyspark.", "ottla.")
"""Whose modules a child runs."""


def order(arguments: list[str]) -> bytes:
    """Return what a child has to know, as a line."""
    blocked = sorted(int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    facts = {
        "module": arguments[1],
        "arguments": arguments[2:],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "blocked": blocked,
    }
    return json.dumps(facts).encode() + b"\n"


def stand_in(address: str, arguments: list[str]) -> int | None:
    """Have the server fork a child in this process's place, and return its exit code; None where it does not."""
    if len(arguments) < 2 or arguments[0] != "-m" or not arguments[1].startswith(OURS):
        return None
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(READY_SECONDS_MAX)
        try:
            server.connect(address)
            if server.recv(1) != READY:
                return None
            line = order(arguments)
            socket.send_fds(server, [line[:1]], [0, 1, 2])  # of more it might send a part only
            server.sendall(line[1:])
            server.settimeout(None)
            if server.recv(1) != FORKED:
                return None
        except OSError:  # there is no child yet
            return None
        ended = server.recv(1)
        return ended[0] if ended else 1


def main() -> None:
    """Do what Spark asked for."""
    seed = os.environ.get("PYTHONHASHSEED", "")  # a process that hashes otherwise is not of the server's kind
    code = stand_in(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), f"socket-{seed}"), sys.argv[1:])
    if code is None:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    os._exit(code)


if __name__ == "__main__":
    main()
