"""What a task of Spark sends: Arrow batches of rows, placed and encoded, through the client's `Producer`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base import TopicPartition
from ottla.client import Encoded, Producer, ProducerOptions, TransactionalProducer, encode_records
from ottla.client.arrow.batches import Rows, TopicRows, binary, encode_rows, groups_by_topic, milliseconds
from ottla.spark.source.client_pool import PooledClient
from ottla.spark.source.options import WriteOptions
from ottla.wire import Record

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Sender"]

KEY_BYTES_SHOWN = 100


def _record_named(encoded: Encoded) -> str:
    rows: Any = getattr(encoded, "rows", None)
    key = None if rows is None or rows.key is None else rows.key[0].as_py()
    return f"the record with key {key if key is None else key[:KEY_BYTES_SHOWN]!r} for {encoded.partition}"


class Sender:
    """Sends rows in their order; with a transaction, which has begun, they are part of it."""

    def __init__(
        self,
        pooled: PooledClient,
        options: WriteOptions,
        transaction: TransactionalProducer | None = None,
        *,
        named: Callable[[Encoded], str] = _record_named,
    ) -> None:
        """`named` has words for a record that is too large; raises KafkaError where brokers give out no producer id."""
        self._pooled, self._client, self._options = pooled, pooled.client, options
        self._turn = time.monotonic_ns() >> 10
        how = ProducerOptions(acks=options.acks, idempotent=options.idempotent, codec=options.codec)
        self._producer = Producer(pooled.client.client, how, transaction=transaction, named=named)
        self._client.run(self._producer.start())

    def send(self, batch: pa.RecordBatch) -> None:
        """Encode a batch's rows and send them; returns while some are still under way. Raises KafkaError, ValueError."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        now_ms = time.time_ns() // 1_000_000
        rows = Rows(
            binary(columns["value"]),
            binary(columns["key"]) if "key" in columns else None,
            columns.get("headers"),
            columns.get("partition"),
            milliseconds(columns["timestamp"], now_ms) if "timestamp" in columns else None,
        )
        self._turn += 1
        for topic, part in self._by_topic(rows, columns.get("topic")):
            count = self._pooled.partition_count(topic)
            target = TopicRows(topic, count, self._turn % count)
            for encoded in encode_rows(part, target, batch_bytes=self._options.batch_bytes):
                self._send(encoded, now_ms)

    def send_records(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Send a few records as one batch; raises KafkaError."""
        self._send(encode_records(partition, records))

    def _by_topic(self, rows: Rows, topics: pa.Array | None) -> Sequence[tuple[str, Rows]]:
        if self._options.topic is not None:
            return [(self._options.topic, rows)]
        assert topics is not None, "the schema was checked"
        groups = groups_by_topic(topics)
        if len(groups) == 1:
            return [(groups[0][0], rows)]
        return [(topic, rows.take(indices)) for topic, indices in groups]

    def _send(self, encoded: Encoded, now_ms: int = 0) -> None:
        self._producer.gather(encoded, timestamp_ms=now_ms)
        if self._producer.is_full:
            self._client.run(self._begin())

    async def _begin(self) -> None:
        """Let requests leave: nothing more happens in this loop until it is asked again."""
        await self._producer.send_full()
        await asyncio.sleep(0)

    def finish(self) -> None:
        """Send what is gathered, and wait for every acknowledgement; raises KafkaError."""
        self._client.run(self._producer.flush())
        self._client.run(self._producer.close())

    def give_up(self) -> None:
        """Leave what is under way to itself."""
        self._client.run(self._producer.close())
