"""Ports for processes that are started again on the same ones, or whose ports others have to know before.

They lie below the system's own range (`ip_local_port_range` begins at 32768): a port from there may be some connection's
own by the time that a process wants it back. Nothing else in tests chooses a port (`tests/test_style.py`); who needs it
once lets the system choose, by port 0.
"""

from __future__ import annotations

import os
import random
import socket
from functools import cache
from itertools import cycle, islice

__all__ = ["CONTROLLERS_AFTER", "free_port", "free_ports"]

BLOCKS = range(10_000, 32_600, 200)
CONTROLLERS_AFTER = 100
"""Where the controllers of a cluster lie, as `ottla cluster start` has them."""
BLOCK = 5
"""Brokers that a test's cluster has at most."""


def free_port() -> int:
    """Return the first of five ports that nobody listens on, nor on those 100 further on.

    Another block each time, and never one of the tests that run beside (pytest-xdist): between the look and the start of
    who listens there, nobody takes it.
    """
    for first in islice(_own_blocks(), len(BLOCKS)):
        if all(_is_free(first + more + index) for more in (0, CONTROLLERS_AFTER) for index in range(BLOCK)):
            return first
    raise AssertionError("no block of ports is free")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, at most 100 of them."""
    first = free_port()
    found = [port for port in range(first, first + 2 * CONTROLLERS_AFTER) if _is_free(port)]
    assert count <= CONTROLLERS_AFTER
    return found[:count]


@cache
def _own_blocks() -> cycle[int]:
    """Return the blocks of this process, around and around: its share of all, from a place that chance says.

    Chance keeps apart what is started twice on a machine, as two checkouts' tests are, as well as it can.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = BLOCKS[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    begin = random.SystemRandom().randrange(len(own))
    return cycle([*own[begin:], *own[:begin]])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
