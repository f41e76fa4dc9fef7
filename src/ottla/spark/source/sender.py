"""A task's producer: Arrow batches of rows into record batches, several in flight, idempotent or in a transaction."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import Appended, Pending, TransactionalProducer, larger_than_topic_takes, size_limit
from ottla.client.arrow.batches import (
    EncodedBatch,
    Rows,
    TopicRows,
    binary,
    encode_halves,
    encode_rows,
    groups_by_topic,
    milliseconds,
)
from ottla.spark.source.client_pool import PooledClient
from ottla.spark.source.options import WriteOptions
from ottla.wire import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record, build_batch, pack_batch
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RecordTooLargeError", "Sender"]

IN_FLIGHT_MAX = 5
"""Requests without their answers: what a broker remembers of a producer's sequences (KIP-98)."""
PRODUCE_TIMEOUT_MS = 30_000
REQUEST_BYTES = 1 << 20
"""Bytes of batches in one request; a batch alone may be more."""
KEY_BYTES_SHOWN = 100
AGAIN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
)
"""Codes after which a batch is sent again by itself: its sequences, or its parts, may be taken then."""
SEQUENCES = 1 << 31
"""A sequence wraps to 0 behind 2^31 - 1."""


class RecordTooLargeError(KafkaError):
    """A single record is larger than its topic allows; it will be the next time."""


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch on its way, and what it is made of again if it is too large."""

    partition: TopicPartition
    count: int
    sequence: int
    encoded: EncodedBatch | None = None
    now_ms: int = 0
    data: bytearray = field(default_factory=bytearray)


class Sender:
    """Sends rows in their order; with a transaction, which has begun, they are part of it."""

    def __init__(
        self, link: PooledClient, options: WriteOptions, transaction: TransactionalProducer | None = None
    ) -> None:
        self._link = link
        self._client = link.client
        self._options = options
        self._transaction = transaction
        self._turn = time.monotonic_ns() >> 10
        self._gathered: dict[TopicPartition, _Batch] = {}
        self._gathered_bytes = 0
        self._in_flight: deque[tuple[dict[TopicPartition, _Batch], Pending[list[Appended]]]] = deque()
        self._sequences: dict[TopicPartition, int] = {}
        self._known: set[TopicPartition] = set()
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

    def send_records(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Send a few records as one batch."""
        made = _Batch(partition, len(records), self._sequence(partition, len(records)))
        made.data = build_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=made.sequence,
            transactional=self._transaction is not None,
        )
        self._gather(made)

    def _by_topic(self, rows: Rows, topics: pa.Array | None) -> Sequence[tuple[str, Rows]]:
        if self._options.topic is not None:
            return [(self._options.topic, rows)]
        assert topics is not None, "the schema was checked"
        groups = groups_by_topic(topics)
        if len(groups) == 1:
            return [(groups[0][0], rows)]
        return [(topic, rows.take(indices)) for topic, indices in groups]

    def _send(self, encoded: EncodedBatch, now_ms: int) -> None:
        made = _Batch(
            encoded.partition, encoded.count, self._sequence(encoded.partition, encoded.count), encoded, now_ms
        )
        made.data = self._packed(made)
        self._gather(made)

    def _packed(self, batch: _Batch) -> bytearray:
        encoded = batch.encoded
        assert encoded is not None, "a record by itself is built at once"
        return pack_batch(
            encoded.records,
            count=encoded.count,
            timestamp_ms=batch.now_ms if encoded.timestamp_ms is None else encoded.timestamp_ms,
            max_timestamp_ms=encoded.max_timestamp_ms,
            codec=self._options.codec,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=batch.sequence,
            transactional=self._transaction is not None,
        )

    def _sequence(self, partition: TopicPartition, count: int) -> int:
        """Return the first sequence of so many records."""
        if self._producer_id == NO_PRODUCER_ID:
            return NO_SEQUENCE
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + count) % SEQUENCES
        return sequence

    def _gather(self, batch: _Batch) -> None:
        """Put a batch into the next request: one for each partition, since a transaction pays for each request."""
        if batch.partition in self._gathered or self._gathered_bytes + len(batch.data) > REQUEST_BYTES:
            self._flush()
        self._gathered[batch.partition] = batch
        self._gathered_bytes += len(batch.data)

    def _flush(self) -> None:
        if not self._gathered:
            return
        batches, self._gathered, self._gathered_bytes = self._gathered, {}, 0
        begun = {each for sent, _ in self._in_flight for each in sent}
        # a broker that knows nothing of the producer takes whatever sequence comes first: that has to be the first
        is_first = any(each in begun and each not in self._known for each in batches)
        self._await(0 if is_first else IN_FLIGHT_MAX - 1)
        self._in_flight.append((batches, self._client.begin(self._produce(batches.values()))))

    def _produce(self, batches: Iterable[_Batch]) -> Any:
        data = {each.partition: each.data for each in batches}
        if self._transaction is not None:
            return self._transaction.produce(data, timeout_ms=PRODUCE_TIMEOUT_MS)
        return self._client.client.produce(data, acks=self._options.acks, timeout_ms=PRODUCE_TIMEOUT_MS)

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
                self._known.update(batches)
            except KafkaError as error:
                if error.code not in AGAIN:
                    raise
                self._send_again(batches)

    def _send_again(self, refused: dict[TopicPartition, _Batch]) -> None:
        """Repeat what was refused, one batch after the other, once nothing else is under way.

        A request that overtook an earlier one goes through now, and one that is behind a batch that was too large goes
        behind its parts. What has been stored already is recognised by its sequences. Raises KafkaError.
        """
        left = deque(refused.values())
        while self._in_flight:
            batches, pending = self._in_flight.popleft()
            try:
                pending.result()
                self._known.update(batches)
            except KafkaError as error:
                if error.code not in AGAIN:
                    raise
                left.extend(batches.values())
        while left:
            batch = left.popleft()
            try:
                self._client.run(self._produce([batch]))
            except KafkaError as error:
                if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                    left.extendleft(reversed(self._halves(batch, error)))
                    continue
                if error.code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    raise
            self._known.add(batch.partition)

    def _halves(self, batch: _Batch, error: KafkaError) -> list[_Batch]:
        """Return a batch that is too large for its topic as two, under the same sequences, as Java's producer does.

        Raises RecordTooLargeError for a record alone.
        """
        if batch.encoded is None or batch.count == 1:
            raise self._too_large(batch) from error
        halves, sequence = [], batch.sequence
        for encoded in encode_halves(batch.encoded):
            made = _Batch(batch.partition, encoded.count, sequence, encoded, batch.now_ms)
            made.data = self._packed(made)
            halves.append(made)
            if sequence != NO_SEQUENCE:
                sequence = (sequence + encoded.count) % SEQUENCES
        return halves

    def _too_large(self, batch: _Batch) -> RecordTooLargeError:
        key = None
        if batch.encoded is not None and batch.encoded.rows.key is not None:
            key = batch.encoded.rows.key[0].as_py()
        topic = batch.partition.topic
        limit = self._client.run(size_limit(self._client.client, topic))
        what = f"the record with key {key if key is None else key[:KEY_BYTES_SHOWN]!r} for {batch.partition}"
        text = larger_than_topic_takes(what, len(batch.data), topic, limit)
        return RecordTooLargeError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def give_up(self) -> None:
        """Leave what is under way to itself."""
        self._gathered.clear()
        while self._in_flight:
            self._in_flight.popleft()[1].cancel()
