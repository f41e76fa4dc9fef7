"""Connections that outlive a task: a Python worker that Spark uses again need not connect again for each micro-batch.

A client belongs to one task at a time: it is taken out of the process's store, and put back only by a task that ended well,
so that no request of a failed task can be under way on it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ottla.base import Offset
from ottla.client import BlockingClient, Limits, PartitionCounts
from ottla.spark.source.fetch_sizes import FetchSizes
from ottla.spark.source.options import Connecting
from ottla.spark.source.secured import network_of

__all__ = ["PooledClient", "pooled_client"]


@dataclass
class PooledClient:
    """A client, and what was learnt on it."""

    client: BlockingClient
    hints: dict[str, Offset] = field(default_factory=dict)
    """Per transactional id: an offset of the commits topic that its last record is not before."""
    sizes: FetchSizes = field(default_factory=FetchSizes)
    """What records weigh that were read."""
    _counts: PartitionCounts = field(init=False)

    def __post_init__(self) -> None:
        self._counts = PartitionCounts(self.client.client)

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; one that the broker makes on demand is waited for. Raises KafkaError."""
        known = self._counts.known(topic)
        return self.client.run(self._counts.count(topic)) if known is None else known


_idle: dict[tuple[int, Connecting, bool], PooledClient] = {}
_left: list[PooledClient] = []
"""Clients to be closed by whoever comes next."""


@contextmanager
def pooled_client(connecting: Connecting, *, reading: bool = False) -> Iterator[PooledClient]:
    """Lend a client of the cluster; it is closed when the block raises.

    Those for `reading` are others: a Fetch that waits for records holds up what is asked behind it.
    """
    key = (os.getpid(), connecting, reading)
    while _left:
        _left.pop().client.close()
    pooled = _idle.pop(key, None)
    if pooled is None:
        timeout_ms = connecting.request_timeout_ms
        limits = Limits(request_s=timeout_ms / 1000) if reading else Limits.of_task(timeout_ms)
        servers = [str(each) for each in connecting.bootstrap]
        network = network_of(connecting.security)
        client = BlockingClient(servers, client_id=connecting.client_id, limits=limits, network=network)
        pooled = PooledClient(client)
    else:
        pooled.client.run(asyncio.sleep(0))  # hears of connections that the broker has closed meanwhile
    try:
        yield pooled
    except BaseException:
        _close(pooled)
        raise
    other = _idle.pop(key, None)
    if other is not None:
        other.client.close()
    _idle[key] = pooled


def _close(pooled: PooledClient) -> None:
    """Close a client; later where Python finds a generator that was left over while another client waits for an answer."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pooled.client.close()
    else:
        _left.append(pooled)
