"""A task's producer: rows and columns in their order, several requests in flight, idempotent or in transactions.

Rows are gathered while requests are under way and encoded all at once, so that a quick task makes large batches and a slow
one waits for nobody. What became of each row stands in `outcomes`, which the task's own thread takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import (
    LATEST,
    Appended,
    TransactionalProducer,
    larger_than_client_sends,
    larger_than_topic_takes,
    size_limit,
)
from ottla.client.arrow.batches import EncodedBatch, Placed, Rows, TopicRows, encode_halves, encode_placed, place_rows
from ottla.connect import ConnectError
from ottla.connect.tasks.link import Link
from ottla.connect.tasks.settings import ProducerSettings
from ottla.wire import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, pack_batch
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

__all__ = ["Outcome", "Producer", "RowChunk"]

log = logging.getLogger(__name__)
REQUEST_BYTES = 1 << 20
"""Bytes of batches in one request; a batch alone may be more."""
MERGED_ROWS_MAX = 20_000
"""Rows of several polls that are encoded together."""
PRODUCE_TIMEOUT_MS = 30_000
COUNTS_SECONDS_MAX = 60.0
"""How long a topic's number of partitions is taken for granted."""
UNKNOWN_SECONDS_MAX = 15.0
"""How long a topic may be unknown: a broker that makes it on demand may be started again meanwhile."""
SEQUENCES = 1 << 31
"""A sequence wraps to 0 behind 2^31 - 1."""
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
ROW_BYTES = 70
"""What a row costs besides its bytes, as Kafka's producer counts it for `buffer.memory`."""
WAIT_SECONDS = 0.1

Headers = list[tuple[str, bytes | None]]


@dataclass(slots=True, eq=False)
class RowChunk:
    """Rows for one topic, one by one."""

    topic: str
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers | None] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    tokens: list[Any] = field(default_factory=list)
    has_keys: bool = False
    has_headers: bool = False
    has_partitions: bool = False
    size: int = 0

    def __len__(self) -> int:
        return len(self.values)

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        token: Any,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int,
    ) -> None:
        """Add a row."""
        self.keys.append(key)
        self.values.append(value)
        self.headers.append(headers)
        self.partitions.append(partition)
        self.timestamps.append(timestamp)
        self.tokens.append(token)
        self.size += ROW_BYTES + (0 if value is None else len(value))
        if key is not None:
            self.has_keys = True
            self.size += len(key)
        if headers:
            self.has_headers = True
        if partition is not None:
            self.has_partitions = True

    def extend(self, other: RowChunk) -> None:
        """Add another chunk's rows behind these."""
        self.keys += other.keys
        self.values += other.values
        self.headers += other.headers
        self.partitions += other.partitions
        self.timestamps += other.timestamps
        self.tokens += other.tokens
        self.has_keys |= other.has_keys
        self.has_headers |= other.has_headers
        self.has_partitions |= other.has_partitions
        self.size += other.size

    def rows(self) -> Rows:
        """Return the rows as columns."""
        headers = None
        if self.has_headers:
            pairs = [[{"key": key, "value": value} for key, value in each or ()] for each in self.headers]
            headers = pa.array(pairs, HEADERS)
        return Rows(
            pa.array(self.values, pa.binary()),
            pa.array(self.keys, pa.binary()) if self.has_keys else None,
            headers,
            pa.array(self.partitions, pa.int32()) if self.has_partitions else None,
            pa.array(self.timestamps, pa.int64()),
        )


@dataclass(slots=True, eq=False)
class _ColumnChunk:
    topic: str
    values: pa.Array
    partition: int | None
    timestamp: int
    token: Any
    size: int

    def __len__(self) -> int:
        return len(self.values)

    def rows(self) -> Rows:
        return Rows(self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of rows that were sent in one batch, in the order of their offsets."""

    topic: str
    partition: int
    tokens: list[Any] | None
    """One per row; None for rows of columns, which share `token`."""

    token: Any
    first_row: int
    """Of columns: which of its rows is the first of these."""

    count: int
    base_offset: int
    """-1 where the broker does not say."""

    error: KafkaError | None


@dataclass(slots=True, eq=False)
class _Batch:
    encoded: EncodedBatch
    timestamp_ms: int
    tokens: list[Any] | None
    token: Any
    first_row: int
    size: int
    since: float
    packed: bytearray | None = None

    @property
    def place(self) -> TopicPartition:
        return self.encoded.partition


@dataclass(slots=True, eq=False)
class _Request:
    batches: list[_Batch]
    task: asyncio.Task[list[Appended]]


class Producer:
    """Sends what it is given in order. Its methods are for the task's thread; the work is done in the client's."""

    def __init__(
        self,
        link: Link,
        settings: ProducerSettings,
        *,
        transactional_id: str | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.settings = settings
        self.outcomes: deque[Outcome] = deque()
        self.transaction: TransactionalProducer | None = None
        if transactional_id is not None:
            self.transaction = TransactionalProducer(
                link.client, transactional_id, timeout_ms=settings.transaction_timeout_ms
            )
        self._link, self._client = link, link.client
        self._cancelled = cancelled
        self._chunks: deque[RowChunk | _ColumnChunk] = deque()
        self._changed = link.changes()
        self._outstanding_bytes = self._submitted = self._settled = 0
        self._fatal: BaseException | None = None
        self._id, self._epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._sequences: dict[TopicPartition, int] = {}
        self._counts: dict[str, tuple[int, float]] = {}
        self._turn = time.monotonic_ns() >> 10
        self._gathered: dict[TopicPartition, _Batch] = {}
        self._gathered_bytes = 0
        self._in_flight: deque[_Request] = deque()
        self._wake, self._moved, self._may_send = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._may_send.set()
        self._workers: list[asyncio.Task[None]] = []

    # -- the task's thread

    def start(self) -> None:
        """Take a producer id, or the transactional id over, and begin to send; raises KafkaError."""
        self._link.run(self._start())

    def send(self, chunk: RowChunk) -> None:
        """Send rows; waits while `buffer.memory` is full. Raises ConnectError once nothing more can be sent."""
        if len(chunk):
            self._submit(chunk)

    def send_columns(
        self, topic: str, values: pa.Array, token: Any, *, partition: int | None = None, timestamp: int
    ) -> None:
        """Send one `pa.binary()` value per row, all to the same partition; waits as `send` does."""
        if len(values):
            self._submit(_ColumnChunk(topic, values, partition, timestamp, token, values.nbytes))

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything is acknowledged or has failed; returns False when that takes too long."""
        until = None if timeout_s is None else self._link.now() + timeout_s
        with self._changed:
            while self._settled < self._submitted:
                self.check()
                left = WAIT_SECONDS if until is None else min(WAIT_SECONDS, until - self._link.now())
                if left <= 0 or self._cancelled():
                    return False
                self._changed.wait(left)
        return True

    @property
    def outstanding(self) -> int:
        """How many rows have neither been acknowledged nor failed."""
        return self._submitted - self._settled

    def commit(self) -> None:
        """Wait for what was sent and commit the transaction; raises KafkaError, and ConnectError where it cannot be."""
        assert self.transaction is not None
        if not self.flush():
            raise ConnectError("The task was cancelled before its transaction was written")
        self.check()
        if self.transaction.is_open:
            self._link.run(self._end(commit=True))

    def abort(self) -> None:
        """Abort the transaction, and forget what has not been sent; raises KafkaError."""
        assert self.transaction is not None
        self._link.run(self._drop())
        if self.transaction.is_open:
            self._link.run(self._end(commit=False))

    def close(self) -> None:
        """Stop sending; what is under way is left to itself."""
        self._link.run(self._stop())

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; raises KafkaError."""
        return self._link.run(self._count(topic))

    def _submit(self, chunk: RowChunk | _ColumnChunk) -> None:
        with self._changed:
            while self._outstanding_bytes and self._outstanding_bytes + chunk.size > self.settings.buffer_bytes:
                self.check()
                if self._cancelled():
                    raise ConnectError("The task was cancelled while it waited for room to send")
                self._changed.wait(WAIT_SECONDS)
            self.check()
            self._outstanding_bytes += chunk.size
            self._submitted += len(chunk)
            self._chunks.append(chunk)
        self._link.soon(self._wake.set)

    def check(self) -> None:
        """Raise ConnectError once nothing more can be sent."""
        if self._fatal is not None:
            raise ConnectError(f"The producer cannot go on: {self._fatal}") from self._fatal

    # -- the client's thread

    async def _start(self) -> None:
        if self.transaction is not None:
            await self.transaction.begin()
        elif self.settings.idempotent:
            await self._take_id()
        self._workers = [asyncio.create_task(self._guarded(each)) for each in (self._send_all, self._settle_all)]

    async def _stop(self) -> None:
        for each in (*self._workers, *(request.task for request in self._in_flight)):
            each.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _guarded(self, work: Callable[[], Any]) -> None:
        """Make what ends a worker the error that the task hears of."""
        try:
            await work()
        except Exception as error:  # the task's own thread raises it where it next sends
            with self._changed:
                self._fatal = self._fatal or error
                self._changed.notify_all()
            self._moved.set()  # an abort waits for what was under way, which nobody settles any more

    async def _take_id(self) -> None:
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=PRODUCE_TIMEOUT_MS)
        answer = await self._client.request(message)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), "the broker gives out no producer id")
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    async def _end(self, *, commit: bool) -> None:
        assert self.transaction is not None
        before = self.transaction.producer_id, self.transaction.epoch
        await self.transaction.end(commit=commit)
        if (self.transaction.producer_id, self.transaction.epoch) != before:
            self._sequences.clear()

    async def _drop(self) -> None:
        """Forget what is not sent, and wait for what is."""
        with self._changed:
            dropped, self._chunks = list(self._chunks), deque()
        for chunk in dropped:
            self._count_settled(len(chunk), chunk.size)
        while True:
            gathered, self._gathered, self._gathered_bytes = self._gathered, {}, 0
            for batch in gathered.values():
                self._count_settled(batch.encoded.count, batch.size)
            if not self._in_flight and self._settled >= self._submitted:
                return
            if self._fatal is not None:
                return
            self._moved.clear()
            await self._moved.wait()

    async def _send_all(self) -> None:
        while True:
            chunk = self._next_chunk()
            if chunk is None:
                await self._dispatch()
                if not self._chunks:
                    await self._wake.wait()
                    self._wake.clear()
                continue
            for batch in await self._batches(chunk):
                await self._gather(batch)

    def _next_chunk(self) -> RowChunk | _ColumnChunk | None:
        """Return what is to be sent next, the rows of several polls together; None to send what is gathered first."""
        with self._changed:
            if not self._chunks:
                return None
            first = self._chunks.popleft()
            while isinstance(first, RowChunk) and self._chunks and len(first) < MERGED_ROWS_MAX:
                second = self._chunks[0]
                if not isinstance(second, RowChunk) or second.topic != first.topic:
                    break
                first.extend(second)
                self._chunks.popleft()
            return first

    async def _batches(self, chunk: RowChunk | _ColumnChunk) -> list[_Batch]:
        count = await self._count(chunk.topic)
        self._turn += 1
        keyless = self._turn % count
        if isinstance(chunk, _ColumnChunk) and chunk.partition is not None:
            keyless = chunk.partition
        target = TopicRows(chunk.topic, count, keyless)
        placed = place_rows(chunk.rows(), target)
        return list(self._cut(chunk, placed, target))

    def _cut(self, chunk: RowChunk | _ColumnChunk, placed: Placed, target: TopicRows) -> Iterator[_Batch]:
        tokens, token, now_ms = None, None, 0
        if isinstance(chunk, _ColumnChunk):
            token, now_ms = chunk.token, chunk.timestamp
        else:
            tokens = chunk.tokens if placed.order is None else [chunk.tokens[row] for row in placed.order.tolist()]
        first, since, share = 0, self._link.now(), chunk.size / max(len(chunk), 1)
        charged = 0
        for encoded in encode_placed(placed, target, batch_bytes=self.settings.batch_bytes):
            last = first + encoded.count
            size = round(share * last) - charged
            charged += size
            yield _Batch(
                encoded,
                now_ms if encoded.timestamp_ms is None else encoded.timestamp_ms,
                None if tokens is None else tokens[first:last],
                token,
                first,
                size,
                since,
            )
            first = last

    async def _count(self, topic: str) -> int:
        count, until = self._counts.get(topic, (0, 0.0))
        give_up_at = self._link.now() + UNKNOWN_SECONDS_MAX
        while self._link.now() >= until:
            try:
                found = (await self._client.metadata([topic], allow_auto_topic_creation=True)).topics.get(topic)
                if found is None or found.error:
                    await self._client.list_offsets({TopicPartition(topic, 0): LATEST})
                    found = self._client.cluster.topics[topic]
            except KafkaError as error:
                is_unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._link.now() > give_up_at
                if not error.retriable or is_unknown or self._cancelled():
                    raise
                log.warning("it is not known yet how many partitions topic %s has: %s", topic, error)
                continue
            count, until = len(found.partitions), self._link.now() + COUNTS_SECONDS_MAX
            self._counts[topic] = count, until
        return count

    async def _gather(self, batch: _Batch) -> None:
        """Put a batch into the next request: one for each partition."""
        size = len(batch.encoded.records)
        if batch.place in self._gathered or (self._gathered and self._gathered_bytes + size > REQUEST_BYTES):
            await self._dispatch()
        self._gathered[batch.place] = batch
        self._gathered_bytes += size

    async def _dispatch(self) -> None:
        """Send what is gathered, once there is room for another request in flight."""
        while self._gathered and (len(self._in_flight) >= self.settings.in_flight_max or not self._may_send.is_set()):
            self._moved.clear()
            await self._moved.wait()
        batches, self._gathered, self._gathered_bytes = list(self._gathered.values()), {}, 0
        sendable = [batch for batch in batches if self._pack(batch)]
        if sendable:
            call = self._append({batch.place: _packed(batch) for batch in sendable})
            self._in_flight.append(_Request(sendable, asyncio.create_task(call)))
            self._moved.set()

    def _pack(self, batch: _Batch) -> bool:
        """Give a batch its sequence and bytes; a single record that is larger than may be sent fails here."""
        encoded, transaction = batch.encoded, self.transaction
        if encoded.count == 1 and len(encoded.records) > self.settings.request_bytes_max:
            text = larger_than_client_sends(
                f"a record for {batch.place}",
                len(encoded.records),
                batch.place.topic,
                limit_bytes=self.settings.request_bytes_max,
                setting="max.request.size (producer.override.max.request.size of the connector)",
            )
            self._settle(batch, -1, KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text))
            return False
        ids = (self._id, self._epoch) if transaction is None else (transaction.producer_id, transaction.epoch)
        sequence = self._sequences.get(batch.place, 0) if ids[0] != NO_PRODUCER_ID else NO_SEQUENCE
        batch.packed = pack_batch(
            encoded.records,
            count=encoded.count,
            timestamp_ms=batch.timestamp_ms,
            max_timestamp_ms=encoded.max_timestamp_ms,
            codec=self.settings.codec,
            producer_id=ids[0],
            producer_epoch=ids[1],
            base_sequence=sequence,
            transactional=transaction is not None,
        )
        if sequence != NO_SEQUENCE:
            self._sequences[batch.place] = (sequence + encoded.count) % SEQUENCES
        return True

    async def _append(self, batches: dict[TopicPartition, bytearray]) -> list[Appended]:
        if self.transaction is not None:
            return await self.transaction.produce(batches, timeout_ms=PRODUCE_TIMEOUT_MS)
        return await self._client.append(batches, acks=self.settings.acks, timeout_ms=PRODUCE_TIMEOUT_MS)

    async def _settle_all(self) -> None:
        while True:
            while not self._in_flight:
                self._moved.clear()
                await self._moved.wait()
            request = self._in_flight[0]
            await asyncio.wait([request.task])
            if request.task.exception() is None and not any(each.error for each in request.task.result()):
                self._in_flight.popleft()
                for batch, appended in zip(request.batches, request.task.result(), strict=True):
                    self._settle(batch, appended.base_offset, None)
            else:
                await self._recover()
            self._moved.set()

    async def _recover(self) -> None:
        """Go on one batch after the other, once a request has failed; the order stays what it was.

        Requests behind a failed one fail too, by their sequences. What is stored already is recognised by its own.
        """
        self._may_send.clear()
        await asyncio.wait([request.task for request in self._in_flight])
        left: deque[_Batch] = deque()
        for request in self._in_flight:
            left.extend(self._unsettled(request))
        self._in_flight.clear()
        while left:
            batch = left.popleft()
            try:
                appended = await self._append_alone(batch)
            except _Split as split:
                left.extendleft(reversed(split.halves))
                continue
            except KafkaError as error:
                self._settle(batch, -1, error)
                if self.transaction is not None:
                    raise
                if self.settings.idempotent:
                    await self._take_id()
                    for each in left:
                        self._pack(each)
                continue
            self._settle(batch, appended, None)
        self._may_send.set()

    def _unsettled(self, request: _Request) -> Iterator[_Batch]:
        """Settle what a request did store, and return the rest."""
        if request.task.exception() is not None:
            yield from request.batches
            return
        for batch, appended in zip(request.batches, request.task.result(), strict=True):
            if appended.error:
                yield batch
            else:
                self._settle(batch, appended.base_offset, None)

    async def _append_alone(self, batch: _Batch) -> int:
        """Append a batch that is the only one under way, and return its offset; raises KafkaError, _Split."""
        until = batch.since + self.settings.delivery_timeout_ms / 1000
        renewed = False
        while True:
            try:
                [appended] = await self._append({batch.place: _packed(batch)})
                return appended.check().base_offset
            except KafkaError as error:
                if error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    return -1
                if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                    if batch.encoded.count > 1:
                        raise self._split(batch) from error
                    raise await self._refused(batch) from error
                lost = error.code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
                if lost and self.transaction is None and not renewed:
                    renewed = True  # the partition has forgotten the producer
                    await self._take_id()
                    self._pack(batch)
                elif not error.retriable or self._link.now() > until:
                    raise
                else:
                    log.warning("%s does not take records yet, which are sent again: %s", batch.place, error)
            except OSError as error:
                if self._link.now() > until:
                    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error

    async def _refused(self, batch: _Batch) -> KafkaError:
        """Return what to say of a single record that is larger than its topic takes."""
        topic, size_bytes = batch.place.topic, len(_packed(batch))
        limit = await size_limit(self._client, topic)
        text = larger_than_topic_takes(f"a record for {batch.place}", size_bytes, topic, limit)
        return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def _split(self, batch: _Batch) -> _Split:
        """Return a batch that is too large for its topic as two, under the same sequences."""
        before = self._sequences.get(batch.place, 0)
        if batch.packed is not None:
            self._sequences[batch.place] = (before - self._behind(batch)) % SEQUENCES
        halves: list[_Batch] = []
        first = 0
        for encoded in encode_halves(batch.encoded):
            made = _Batch(
                encoded,
                batch.timestamp_ms if encoded.timestamp_ms is None else encoded.timestamp_ms,
                None if batch.tokens is None else batch.tokens[first : first + encoded.count],
                batch.token,
                batch.first_row + first,
                batch.size // 2 if first == 0 else batch.size - batch.size // 2,
                batch.since,
            )
            first += encoded.count
            self._pack(made)
            halves.append(made)
        if batch.packed is not None:
            self._sequences[batch.place] = before
        return _Split(halves)

    def _behind(self, batch: _Batch) -> int:
        """Return how many sequences of the partition lie behind the beginning of a batch."""
        assert batch.packed is not None
        first = int.from_bytes(batch.packed[SEQUENCE_AT : SEQUENCE_AT + 4], "big", signed=True)
        return (self._sequences.get(batch.place, 0) - first) % SEQUENCES if first != NO_SEQUENCE else 0

    def _settle(self, batch: _Batch, base_offset: int, error: KafkaError | None) -> None:
        topic, partition = batch.place
        count = batch.encoded.count
        self.outcomes.append(
            Outcome(topic, partition, batch.tokens, batch.token, batch.first_row, count, base_offset, error)
        )
        self._count_settled(count, batch.size)

    def _count_settled(self, count: int, size: int) -> None:
        with self._changed:
            self._outstanding_bytes -= size
            self._settled += count
            self._changed.notify_all()


SEQUENCE_AT = 53
"""Where a batch's base sequence stands."""


class _Split(Exception):
    def __init__(self, halves: list[_Batch]) -> None:
        super().__init__()
        self.halves = halves


def _packed(batch: _Batch) -> bytearray:
    assert batch.packed is not None
    return batch.packed
