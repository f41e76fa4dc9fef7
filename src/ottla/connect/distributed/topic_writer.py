"""Writing to a compacted topic that workers share, as any of them may."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.base import KafkaError, TopicPartition
from ottla.client import Client, batch_of, partition_of
from ottla.connect.errors import ConnectError

__all__ = ["TopicWriter"]

Entry = tuple[bytes | None, bytes | None]
WRITE_RECORDS_MAX = 500
"""Records of one partition that go into one batch."""


class TopicWriter:
    """Writes records to a topic, each to its key's partition; what one partition gets keeps its order."""

    def __init__(self, client: Client, topic: str, partitions: int) -> None:
        self._client, self._topic, self._partitions = client, topic, partitions
        self._turn = asyncio.Lock()

    async def write(self, records: Sequence[Entry]) -> None:
        """Append records; they are durable when this returns. Raises ConnectError."""
        by_partition: dict[TopicPartition, list[Entry]] = {}
        for record in records:
            partition = TopicPartition(self._topic, partition_of(record[0], self._partitions))
            by_partition.setdefault(partition, []).append(record)
        async with self._turn:
            while by_partition:
                batches = {each: batch_of(found[:WRITE_RECORDS_MAX]) for each, found in by_partition.items()}
                try:
                    await self._client.produce(batches)
                except KafkaError as error:
                    raise ConnectError(f"Could not write to topic {self._topic}: {error}") from error
                left = {each: found[WRITE_RECORDS_MAX:] for each, found in by_partition.items()}
                by_partition = {each: found for each, found in left.items() if found}
