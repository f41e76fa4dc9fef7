"""Connections that outlive a task: a Python worker that Spark uses again need not connect again for each micro-batch.

A link belongs to one task at a time: it is taken out of the process's store, and put back only by a task that ended well,
so that no request of a failed task can be under way on it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ottla.base import Offset, TopicPartition
from ottla.client import BlockingClient, Limits
from ottla.spark.source.options import Connecting

__all__ = ["PooledClient", "pooled_client"]

LIMITS = {"unreachable_s": 60.0, "backoff_s": 0.02}
"""A sink waits for a broker that is started again, and asks soon whether the end of a transaction is written."""
COUNTS_SECONDS_MAX = 60.0
"""How long a topic's number of partitions is taken for granted."""


@dataclass
class PooledClient:
    """A client, and what was learnt on it."""

    client: BlockingClient
    hints: dict[str, Offset] = field(default_factory=dict)
    """Per transactional id: an offset of the commits topic that its last record is not before."""
    _counts: dict[str, tuple[int, float]] = field(default_factory=dict)

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; one that the broker makes on demand is waited for. Raises KafkaError."""
        count, until = self._counts.get(topic, (0, 0.0))
        if time.monotonic() >= until:
            found = self.client.metadata([topic], allow_auto_topic_creation=True).topics.get(topic)
            count = len(found.partitions) if found is not None and not found.error else self._await_topic(topic)
            self._counts[topic] = count, time.monotonic() + COUNTS_SECONDS_MAX
        return count

    def _await_topic(self, topic: str) -> int:
        client = self.client.client
        self.client.run(client.list_offsets({TopicPartition(topic, 0): -1}))  # type: ignore[dict-item]
        return len(client.cluster.topics[topic].partitions)


_idle: dict[tuple[int, Connecting, bool], PooledClient] = {}
_left: list[PooledClient] = []
"""Links to be closed by whoever comes next."""


@contextmanager
def pooled_client(connecting: Connecting, *, reading: bool = False) -> Iterator[PooledClient]:
    """Lend a link to the cluster; it is closed when the block raises.

    Those for `reading` are others: a Fetch that waits for records holds up what is asked behind it.
    """
    key = (os.getpid(), connecting, reading)
    while _left:
        _left.pop().client.close()
    link = _idle.pop(key, None)
    if link is None:
        limits = Limits(request_s=connecting.request_timeout_ms / 1000, **({} if reading else LIMITS))
        servers = [str(each) for each in connecting.bootstrap]
        link = PooledClient(BlockingClient(servers, client_id=connecting.client_id, limits=limits))
    else:
        link.client.run(asyncio.sleep(0))  # hears of connections that the broker has closed meanwhile
    try:
        yield link
    except BaseException:
        _close(link)
        raise
    other = _idle.pop(key, None)
    if other is not None:
        other.client.close()
    _idle[key] = link


def _close(link: PooledClient) -> None:
    """Close a link; later where Python finds a generator that was left over while another client waits for an answer."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        link.client.close()
    else:
        _left.append(link)
