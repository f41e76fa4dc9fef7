"""A process that answers each request as soon as it has come: what a machine takes for a round trip, whoever answers.

Runs by itself (`python -m bench.answering`), prints its port, and ends with its one connection.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["answering"]

ANSWER = (100).to_bytes(4, "big") + bytes(100)
"""About as long as an answer to a Produce, and without an error wherever one stands."""
REQUEST_BYTES_MAX = 64 * 1024
END_SECONDS = 10


@contextmanager
def answering() -> Iterator[int]:
    """Have such a process for the length of a block, and give its port."""
    process = subprocess.Popen([sys.executable, "-m", "bench.answering"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait(END_SECONDS)


def main() -> None:
    """Answer one client; its requests come whole, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        client, _ = server.accept()
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while client.recv(REQUEST_BYTES_MAX):
            client.sendall(ANSWER)


if __name__ == "__main__":
    main()
