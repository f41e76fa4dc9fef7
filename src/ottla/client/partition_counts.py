"""How many partitions topics have, as whoever places records has to know; a topic that is made on demand is waited for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client.client import Client
from ottla.client.offsets import LATEST

__all__ = ["PartitionCounts"]

log = logging.getLogger(__name__)
KNOWN_SECONDS_MAX = 60.0
"""How long a count is taken for granted."""


class PartitionCounts:
    """Asks, and remembers for a minute."""

    def __init__(
        self,
        client: Client,
        *,
        unknown_s: float = 0.0,
        gives_up: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Where it does not give up at the first error, it asks on after those that pass: for a topic that is not known
        as long as `unknown_s`, on top of what the client waits.
        """
        self._client, self._unknown_s, self._gives_up, self._now = client, unknown_s, gives_up, now
        self._counts: dict[str, tuple[int, float]] = {}

    def known(self, topic: str) -> int | None:
        """Return a topic's count where it is remembered."""
        count, until = self._counts.get(topic, (0, 0.0))
        return count if self._now() < until else None

    async def count(self, topic: str) -> int:
        """Return how many partitions a topic has; raises KafkaError."""
        give_up_at = self._now() + self._unknown_s
        while (known := self.known(topic)) is None:
            try:
                found = (await self._client.metadata([topic], allow_auto_topic_creation=True)).topics.get(topic)
                if found is None or found.error:
                    await self._client.list_offsets({TopicPartition(topic, 0): LATEST})  # waits until it is there
                    found = self._client.cluster.topics[topic]
            except KafkaError as error:
                is_unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._now() > give_up_at
                if not error.retriable or is_unknown or self._gives_up():
                    raise
                log.warning("it is not known yet how many partitions topic %s has: %s", topic, error)
                continue
            self._counts[topic] = len(found.partitions), self._now() + KNOWN_SECONDS_MAX
        return known
