"""The sink: rows into topics, at least once.

A task sends whole record batches, several in flight, and returns when all of them are acknowledged; Spark then commits. A
task or micro-batch that is run again sends its rows again: readers see every row at least once. Within one task batches
carry a producer id and sequences (KIP-98), so that a request that was sent twice is stored once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from ottla.base import ConfigError, ErrorCode, KafkaError, TopicPartition
from ottla.client import Appended, BlockingClient, Pending
from ottla.spark.batches import EncodedBatch, Rows, TopicRows, binary, encode_rows, groups_by_topic
from ottla.spark.columns import HEADERS
from ottla.spark.options import WriteOptions
from ottla.spark.positions import connect
from ottla.wire import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, pack_batch
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OttlaStreamWriter", "OttlaWriter", "RowsWritten", "check_overwrite"]

IN_FLIGHT_MAX = 5
"""Requests without their answers: what a broker remembers of a producer's sequences (KIP-98)."""
PRODUCE_TIMEOUT_MS = 30_000
SEQUENCES = 1 << 31
"""A sequence wraps to 0 behind 2^31 - 1."""


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int


class OttlaWriter(DataSourceArrowWriter):
    """Writes one batch."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        check_schema(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows; returns when all are acknowledged."""
        return write_rows(iterator, self._options)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        check_schema(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows; returns when all are acknowledged."""
        return write_rows(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Need nothing: what the tasks sent is in the topic."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave what was sent: the sink is at least once."""


def check_overwrite(overwrite: bool) -> None:
    """Refuse `mode("overwrite")`: a topic is only appended to."""
    if overwrite:
        raise ConfigError("mode", "overwrite", "a topic is appended to; use append")


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Refuse columns that a topic cannot take; columns of other names are not written, as in Spark's Kafka connector."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise ConfigError("columns", ", ".join(types) or None, "a column value is needed")
    if options.topic is None and "topic" not in types:
        raise ConfigError("topic", None, "the option topic or a column topic is needed")
    allowed: dict[str, tuple[type, ...]] = {
        "key": (StringType, BinaryType),
        "value": (StringType, BinaryType),
        "topic": (StringType,),
        "partition": (IntegerType,),
    }
    for name, kinds in allowed.items():
        if name in types and not isinstance(types[name], kinds):
            wanted = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in kinds)
            raise ConfigError(f"column {name}", types[name].simpleString(), f"{wanted} is expected")
    if "headers" in types and types["headers"].simpleString() != HEADERS.simpleString():
        raise ConfigError("column headers", types["headers"].simpleString(), f"{HEADERS.simpleString()} is expected")


def write_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> RowsWritten:
    """Send Arrow batches to their topics and wait for every acknowledgement; raises KafkaError."""
    rows = 0
    with connect(options.connecting) as client:
        sender = _Sender(client, options)
        for batch in batches:
            if batch.num_rows:
                sender.send(batch)
                rows += batch.num_rows
        sender.drain(0)
    return RowsWritten(rows)


class _Sender:
    """One task's producer."""

    def __init__(self, client: BlockingClient, options: WriteOptions) -> None:
        self._client = client
        self._options = options
        self._counts: dict[str, int] = {}
        self._turn = time.monotonic_ns() >> 10
        self._in_flight: deque[tuple[TopicPartition, bytearray, Pending[list[Appended]]]] = deque()
        self._sequences: dict[TopicPartition, int] = {}
        self._producer_id, self._producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        if options.idempotent:
            answer = client.request(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=PRODUCE_TIMEOUT_MS)
            )
            if answer.error_code:
                raise KafkaError(ErrorCode(answer.error_code), "the broker gives out no producer id")
            self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    def send(self, batch: pa.RecordBatch) -> None:
        """Encode a batch's rows and send them."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        rows = Rows(
            binary(columns["value"]),
            binary(columns["key"]) if "key" in columns else None,
            columns.get("headers"),
            columns.get("partition"),
        )
        self._turn += 1
        for topic, part in self._by_topic(rows, columns.get("topic")):
            count = self._partition_count(topic)
            target = TopicRows(topic, count, self._turn % count)
            for encoded in encode_rows(part, target, batch_bytes=self._options.batch_bytes):
                self._send(encoded)

    def _by_topic(self, rows: Rows, topics: pa.Array | None) -> Sequence[tuple[str, Rows]]:
        if self._options.topic is not None:
            return [(self._options.topic, rows)]
        assert topics is not None, "the schema was checked"
        return [(topic, rows.take(indices)) for topic, indices in groups_by_topic(topics)]

    def _partition_count(self, topic: str) -> int:
        count = self._counts.get(topic)
        if count is None:
            cluster = self._client.metadata([topic], allow_auto_topic_creation=True)
            found = cluster.topics.get(topic)
            count = len(found.partitions) if found is not None and not found.error else self._await_topic(topic)
            self._counts[topic] = count
        return count

    def _await_topic(self, topic: str) -> int:
        """Ask until a topic that the broker creates on demand is there; raises its error when it is not to be."""
        client = self._client.client
        self._client.run(client.list_offsets({TopicPartition(topic, 0): -1}))  # type: ignore[dict-item]
        return len(client.cluster.topics[topic].partitions)

    def _send(self, encoded: EncodedBatch) -> None:
        sequence = NO_SEQUENCE
        if self._options.idempotent:
            sequence = self._sequences.get(encoded.partition, 0)
            self._sequences[encoded.partition] = (sequence + encoded.count) % SEQUENCES
        batch = pack_batch(
            encoded.records,
            count=encoded.count,
            timestamp_ms=time.time_ns() // 1_000_000,
            codec=self._options.codec,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )
        self.drain(IN_FLIGHT_MAX - 1)
        self._in_flight.append((encoded.partition, batch, self._client.begin(self._produce(encoded.partition, batch))))

    def _produce(self, partition: TopicPartition, batch: bytearray) -> Any:
        return self._client.client.produce({partition: batch}, acks=self._options.acks, timeout_ms=PRODUCE_TIMEOUT_MS)

    def drain(self, left: int) -> None:
        """Wait until at most `left` requests are without their answers."""
        while len(self._in_flight) > left:
            partition, batch, pending = self._in_flight.popleft()
            try:
                pending.result()
            except KafkaError as error:
                if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    raise
                # it overtook an earlier batch that was sent again; that one is acknowledged by now
                self._client.run(self._produce(partition, batch))
