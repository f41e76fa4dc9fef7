"""Records of INSERT INTO … VALUES, written to their topics as Kafka's own producers would place them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from ottla.base import ErrorCode, KafkaError, Millis, TopicPartition
from ottla.client import Client, PartitionCounts, partition_of
from ottla.sql import SqlError
from ottla.sql.answers import InsertedRecord
from ottla.sql_server.schemas import Asking
from ottla.wire import Record, build_batch

__all__ = ["Inserting"]

_BOUNDS = {
    ErrorCode.INVALID_TIMESTAMP: "message.timestamp.before.max.ms and message.timestamp.after.max.ms of it bound ROWTIME",
    ErrorCode.MESSAGE_TOO_LARGE: "the topic's max.message.bytes bounds a row",
    ErrorCode.INVALID_RECORD: "a topic with cleanup.policy=compact takes no row without a key",
}
"""What the broker refuses of a row, which is the statement's mistake, by the setting that says so."""


class Inserting:
    """Writes records one by one; each is durable when its `write` returns."""

    def __init__(self, client: Client, asking: Asking) -> None:
        self._asking = asking
        self._client = client
        self._counts = PartitionCounts(client)

    async def write(self, make: Callable[[], InsertedRecord]) -> None:
        """Append the record that is made, in a thread, since that may take long; raises SqlError, KafkaError."""
        record = await self._asking.run(make)
        count = await self._counts.count(record.topic)
        number = random.randrange(count) if record.key is None else partition_of(record.key, count)
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch(
            [
                Record(
                    timestamp=Millis(now_ms if record.timestamp is None else record.timestamp),
                    key=record.key,
                    value=record.value,
                )
            ]
        )
        (appended,) = await self._client.append({TopicPartition(record.topic, number): batch})
        try:
            appended.check()
        except KafkaError as error:
            bounds = _BOUNDS.get(error.code)
            if bounds is None:
                raise
            raise SqlError(f"Topic {record.topic} does not take the row: {error} ({bounds})") from error

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()
