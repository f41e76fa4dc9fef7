"""`python -m ottla.testing.faulted_broker KEY=VALUE…`: a broker whose disk is full when its standard input says so.

The lines `full` and `room` are answered by `done full` and `done room`; it stops when standard input ends, or by SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from typing import cast

from ottla.background import supervise_thread
from ottla.broker import Node, SystemClock, ThreadsAndProcess
from ottla.config import BrokerConfig
from ottla.log import Disk
from ottla.net import TcpNetwork
from ottla.testing.fillable_disk import FillableDisk

__all__: list[str] = []

FORMAT = "%(asctime)s %(levelname)s %(message)s (%(name)s)"


async def serve(config: BrokerConfig) -> None:
    """Run a broker until it is told to stop."""
    disk, offload = FillableDisk(), ThreadsAndProcess()
    node = Node(config, cast("Disk", disk), TcpNetwork(), SystemClock(), random.SystemRandom(), offload)
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)

    def orders() -> None:
        """Do what standard input says."""
        does = {"full": disk.fill, "room": disk.clear}
        for line in sys.stdin:
            does[line.strip()]()
            print("done", line.strip(), flush=True)
        loop.call_soon_threadsafe(stopping.set)

    await node.start()
    supervise_thread(orders, name="orders", serves="a test's broker")
    print(f"ready {node.listeners[0]}", flush=True)
    await stopping.wait()
    await node.stop()
    offload.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format=FORMAT, stream=sys.stderr)
    asyncio.run(serve(BrokerConfig.load(environment={}, overrides=sys.argv[1:])))
