"""Ports for processes that are started again on the same ones.

They lie below the system's own range (`ip_local_port_range` begins at 32768): a port from there may be some connection's
own by the time that a process wants it back.
"""

from __future__ import annotations

import random
import socket

__all__ = ["free_port", "free_ports"]

BLOCKS = range(10_000, 19_800, 200)
CONTROLLERS_AFTER = 100
"""Where the controllers of a cluster lie, as `ottla cluster start` has them."""
BLOCK = 5
"""Brokers that a test's cluster has at most."""


def free_port() -> int:
    """Return the first of five ports that nobody listens on, nor on those 100 further on.

    By chance, so that tests beside each other seldom choose the same.
    """
    blocks = random.SystemRandom().sample(BLOCKS, len(BLOCKS))
    for first in blocks:
        if all(_is_free(first + more + index) for more in (0, CONTROLLERS_AFTER) for index in range(BLOCK)):
            return first
    raise AssertionError("no block of ports is free")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, at most 100 of them."""
    first = free_port()
    found = [port for port in range(first, first + 2 * CONTROLLERS_AFTER) if _is_free(port)]
    assert count <= CONTROLLERS_AFTER
    return found[:count]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
