"""Whether a port of this machine can be had: asked by whoever chooses one for a server that is about to start."""

from __future__ import annotations

import socket

__all__ = ["LOOPBACK", "why_not_free"]

LOOPBACK = "127.0.0.1"


def why_not_free(port: int) -> OSError | None:
    """Return why nobody could listen on a port of loopback now; None where it is free, until somebody takes it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error
    return None
