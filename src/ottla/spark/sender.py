"""A task's producer: Arrow batches of rows into record batches, several in flight, idempotent or in a transaction."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import Appended, Pending, TransactionalProducer
from ottla.spark.batches import EncodedBatch, Rows, TopicRows, binary, encode_rows, groups_by_topic, milliseconds
from ottla.spark.links import Link
from ottla.spark.options import WriteOptions
from ottla.wire import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record, build_batch, pack_batch
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Sender"]

IN_FLIGHT_MAX = 5
"""Requests without their answers: what a broker remembers of a producer's sequences (KIP-98)."""
PRODUCE_TIMEOUT_MS = 30_000
REQUEST_BYTES = 1 << 20
"""Bytes of batches in one request; a batch alone may be more."""
SEQUENCES = 1 << 31
"""A sequence wraps to 0 behind 2^31 - 1."""


class Sender:
    """Sends rows in their order; with a transaction, which has begun, they are part of it."""

    def __init__(self, link: Link, options: WriteOptions, transaction: TransactionalProducer | None = None) -> None:
        self._link = link
        self._client = link.client
        self._options = options
        self._transaction = transaction
        self._turn = time.monotonic_ns() >> 10
        self._gathered: dict[TopicPartition, bytearray] = {}
        self._gathered_bytes = 0
        self._in_flight: deque[tuple[dict[TopicPartition, bytearray], Pending[list[Appended]]]] = deque()
        self._sequences: dict[TopicPartition, int] = {}
        self._producer_id, self._producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        if transaction is not None:
            self._producer_id, self._producer_epoch = transaction.producer_id, transaction.epoch
        elif options.idempotent:
            self._take_producer_id()

    def _take_producer_id(self) -> None:
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=PRODUCE_TIMEOUT_MS)
        answer = self._client.request(message)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), "the broker gives out no producer id")
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

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
            count = self._link.partition_count(topic)
            target = TopicRows(topic, count, self._turn % count)
            for encoded in encode_rows(part, target, batch_bytes=self._options.batch_bytes):
                self._send(encoded, now_ms)

    def send_record(self, partition: TopicPartition, record: Record) -> None:
        """Send one record by itself."""
        batch = build_batch(
            [record],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequence(partition, 1),
            transactional=self._transaction is not None,
        )
        self._gather(partition, batch)

    def _by_topic(self, rows: Rows, topics: pa.Array | None) -> Sequence[tuple[str, Rows]]:
        if self._options.topic is not None:
            return [(self._options.topic, rows)]
        assert topics is not None, "the schema was checked"
        groups = groups_by_topic(topics)
        if len(groups) == 1:
            return [(groups[0][0], rows)]
        return [(topic, rows.take(indices)) for topic, indices in groups]

    def _send(self, encoded: EncodedBatch, now_ms: int) -> None:
        batch = pack_batch(
            encoded.records,
            count=encoded.count,
            timestamp_ms=now_ms if encoded.timestamp_ms is None else encoded.timestamp_ms,
            max_timestamp_ms=encoded.max_timestamp_ms,
            codec=self._options.codec,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequence(encoded.partition, encoded.count),
            transactional=self._transaction is not None,
        )
        self._gather(encoded.partition, batch)

    def _sequence(self, partition: TopicPartition, count: int) -> int:
        """Return the first sequence of so many records."""
        if self._producer_id == NO_PRODUCER_ID:
            return NO_SEQUENCE
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + count) % SEQUENCES
        return sequence

    def _gather(self, partition: TopicPartition, batch: bytearray) -> None:
        """Put a batch into the next request: one for each partition, since a transaction pays for each request."""
        if partition in self._gathered or self._gathered_bytes + len(batch) > REQUEST_BYTES:
            self._flush()
        self._gathered[partition] = batch
        self._gathered_bytes += len(batch)

    def _flush(self) -> None:
        if not self._gathered:
            return
        batches, self._gathered, self._gathered_bytes = self._gathered, {}, 0
        self._await(IN_FLIGHT_MAX - 1)
        self._in_flight.append((batches, self._client.begin(self._produce(batches))))

    def _produce(self, batches: dict[TopicPartition, bytearray]) -> Any:
        if self._transaction is not None:
            return self._transaction.produce(batches, timeout_ms=PRODUCE_TIMEOUT_MS)
        return self._client.client.produce(batches, acks=self._options.acks, timeout_ms=PRODUCE_TIMEOUT_MS)

    def finish(self) -> None:
        """Send what is gathered, and wait for every acknowledgement; raises KafkaError."""
        self._flush()
        self._await(0)

    def _await(self, left: int) -> None:
        """Wait until at most `left` requests are without their answers; raises KafkaError."""
        while len(self._in_flight) > left:
            batches, pending = self._in_flight.popleft()
            try:
                pending.result()
            except KafkaError as error:
                if error.code not in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    raise
                self._send_again(batches)

    def _send_again(self, batches: dict[TopicPartition, bytearray]) -> None:
        """Repeat a request, one partition after the other: it overtook an earlier one, which is acknowledged by now.

        What it has stored already is recognised by its sequences.
        """
        for partition, batch in batches.items():
            try:
                self._client.run(self._produce({partition: batch}))
            except KafkaError as error:
                if error.code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    raise

    def give_up(self) -> None:
        """Leave what is under way to itself."""
        self._gathered.clear()
        while self._in_flight:
            self._in_flight.popleft()[1].cancel()
