"""A task's producer: takes rows and columns from the task's thread, and sends them in order by the client's `Producer`.

Rows are gathered while requests are under way and encoded all at once, so that a quick task makes large batches and a slow
one waits for nobody. What became of each row stands in `outcomes`, which the task's own thread takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.background import end, supervise
from ottla.base import KafkaError, TopicPartition
from ottla.client import (
    Encoded,
    PartitionCounts,
    Producer,
    ProducerOptions,
    SettledBatch,
    TransactionalProducer,
    encode_records,
)
from ottla.client.arrow.batches import EncodedBatch, Placed, Rows, TopicRows, encode_placed, place_rows
from ottla.connect import ConnectError, SourceBatch
from ottla.connect.tasks.settings import ProducerSettings
from ottla.connect.tasks.task_client import TaskClient
from ottla.wire import iter_batch_records, pack_batch, read_batch_header

__all__ = ["Outcome", "RowChunk", "TaskProducer"]

log = logging.getLogger(__name__)
MERGED_ROWS_MAX = 20_000
"""Rows of several polls that are encoded together."""
UNKNOWN_SECONDS_MAX = 15.0
"""How long a topic may be unknown: a broker that makes it on demand may be started again meanwhile."""
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

    def add_all(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        tokens: Sequence[Any],
        *,
        headers: Headers | None,
        timestamps: Sequence[int],
    ) -> None:
        """Add rows without partition that all have the same headers."""
        count = len(values)
        self.keys += keys
        self.values += values
        self.headers += [headers] * count
        self.partitions += [None] * count
        self.timestamps += timestamps
        self.tokens += tokens
        self.size += count * ROW_BYTES + sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys)))
        self.has_keys |= any(each is not None for each in keys)
        self.has_headers |= bool(headers)

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
            first = self.headers[0]
            if all(each is first for each in self.headers):  # as of tasks that give every record the same
                headers = _same_headers(first, len(self))
            else:
                headers = _header_column(self.headers)
        return Rows(
            pa.array(self.values, pa.binary()),
            pa.array(self.keys, pa.binary()) if self.has_keys else None,
            headers,
            pa.array(self.partitions, pa.int32()) if self.has_partitions else None,
            pa.array(self.timestamps, pa.int64()),
        )


def _header_column(headers: Sequence[Headers | None]) -> pa.Array:
    return pa.array([[{"key": key, "value": value} for key, value in each or ()] for each in headers], HEADERS)


def _same_headers(headers: Headers | None, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), _header_column([headers]))


@dataclass(slots=True, eq=False)
class _ColumnChunk:
    topic: str
    values: pa.Array
    keys: pa.Array | None
    headers: Headers | None
    partition: int | None
    timestamp: int
    token: Any
    size: int

    def __len__(self) -> int:
        return len(self.values)

    def rows(self) -> Rows:
        headers = _same_headers(self.headers, len(self)) if self.headers else None
        keys = self.keys
        if keys is None or self.partition is None:
            return Rows(self.values, keys, headers)
        return Rows(self.values, keys, headers, pa.repeat(pa.scalar(self.partition, pa.int32()), len(self)))


@dataclass(frozen=True, slots=True)
class _WholeBatch:
    """A batch that came as one (`Encoded`)."""

    partition: TopicPartition
    records: memoryview
    count: int
    timestamp_ms: int
    max_timestamp_ms: int

    def halves(self) -> Sequence[Encoded]:
        """Return the same records in two parts, each with its own offsets and times."""
        packed = pack_batch(
            self.records, count=self.count, timestamp_ms=self.timestamp_ms, max_timestamp_ms=self.max_timestamp_ms
        )
        found = list(iter_batch_records(packed, 0, read_batch_header(packed, 0)))
        half = self.count // 2
        return [encode_records(self.partition, part) for part in (found[:half], found[half:])]


@dataclass(slots=True, eq=False)
class _BatchChunk:
    topic: str
    encoded: _WholeBatch
    token: Any
    size: int

    def __len__(self) -> int:
        return self.encoded.count


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of rows that were sent in one batch, in the order of their offsets."""

    topic: str
    partition: int
    tokens: list[Any] | None
    """One per row; None for rows of columns, which share `token`."""

    token: Any
    rows: pa.Array | None
    """Of columns: which of its rows these are; None for those from `first_row` on, as of batches."""

    first_row: int
    count: int
    base_offset: int
    """-1 where the broker does not say."""

    error: KafkaError | None


@dataclass(slots=True, eq=False)
class _Piece:
    """What of a chunk went into one batch."""

    tokens: list[Any] | None
    token: Any
    first_row: int
    count: int
    size: int
    rows: pa.Array | None = None

    def size_of(self, first: int, count: int) -> int:
        """Return the share of some of its rows; those of all parts together are its size."""
        return self.size * (first + count) // self.count - self.size * first // self.count


_Chunk = RowChunk | _ColumnChunk | _BatchChunk


class TaskProducer:
    """Sends what it is given in order. Its methods are for the task's thread; the work is done in the client's."""

    def __init__(
        self,
        task_client: TaskClient,
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
                task_client.client, transactional_id, timeout_ms=settings.transaction_timeout_ms
            )
        self._task_client = task_client
        self._cancelled = cancelled
        self._producer = Producer(
            task_client.client,
            ProducerOptions(
                acks=settings.acks,
                idempotent=settings.idempotent,
                codec=settings.codec,
                in_flight_max=settings.in_flight_max,
                delivery_timeout_ms=settings.delivery_timeout_ms,
                record_bytes_max=settings.request_bytes_max,
                record_bytes_setting="max.request.size (producer.override.max.request.size of the connector)",
                goes_on=True,
            ),
            transaction=self.transaction,
            settled=self._settle,
            failed=self._fail,
            now=task_client.now,
        )
        self._chunks: deque[_Chunk] = deque()
        self._changed = task_client.condition()
        self._outstanding_bytes = self._submitted = self._settled = 0
        self._fatal: BaseException | None = None
        self._counts = PartitionCounts(
            task_client.client, unknown_s=UNKNOWN_SECONDS_MAX, gives_up=cancelled, now=task_client.now
        )
        self._turn = time.monotonic_ns() >> 10
        self._wake = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    # -- the task's thread

    def start(self) -> None:
        """Take a producer id, or the transactional id over, and begin to send.

        Raises KafkaError; one that could not start says so to whoever sends with it, or waits for it.
        """
        try:
            self._task_client.run(self._start())
        except BaseException as error:
            self._fail(error)
            raise

    def send(self, chunk: RowChunk) -> None:
        """Send rows; waits while `buffer.memory` is full. Raises ConnectError once nothing more can be sent."""
        if len(chunk):
            self._submit(chunk)

    def send_columns(
        self,
        topic: str,
        values: pa.Array,
        token: Any,
        *,
        keys: pa.Array | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int,
    ) -> None:
        """Send one `pa.binary()` value per row; waits as `send` does.

        Rows go to `partition`, else where their keys belong; without keys to the same partition, all of them.
        """
        if len(values):
            size = values.nbytes + (0 if keys is None else keys.nbytes)
            self._submit(_ColumnChunk(topic, values, keys, headers, partition, timestamp, token, size))

    def send_batch(self, batch: SourceBatch, token: Any) -> None:
        """Send records as they stand in a batch; waits as `send` does."""
        place = TopicPartition(batch.topic, batch.partition)
        encoded = _WholeBatch(place, batch.data, batch.count, batch.timestamp_ms, batch.max_timestamp_ms)
        self._submit(_BatchChunk(batch.topic, encoded, token, len(batch.data)))

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything is acknowledged or has failed; returns False when that takes too long."""
        until = None if timeout_s is None else self._task_client.now() + timeout_s
        with self._changed:
            while self._settled < self._submitted:
                self.check()
                left = WAIT_SECONDS if until is None else min(WAIT_SECONDS, until - self._task_client.now())
                if left <= 0 or self._cancelled():
                    return False
                self._changed.wait(left)
        return True

    @property
    def outstanding(self) -> int:
        """How many rows have neither been acknowledged nor failed."""
        return self._submitted - self._settled

    @property
    def submitted(self) -> int:
        """How many rows it was given since it began."""
        return self._submitted

    @property
    def settled(self) -> int:
        """How many of them have been acknowledged, or have failed."""
        return self._settled

    def commit(self) -> None:
        """Wait for what was sent and commit the transaction; raises KafkaError, and ConnectError where it cannot be."""
        assert self.transaction is not None
        if not self.flush():
            raise ConnectError("The task was cancelled before its transaction was written")
        self.check()
        if self.transaction.is_open:
            self._task_client.run(self._producer.end(commit=True))

    def abort(self) -> None:
        """Abort the transaction, and forget what has not been sent; raises KafkaError."""
        assert self.transaction is not None
        self._task_client.run(self._drop())
        if self.transaction.is_open:
            self._task_client.run(self._producer.end(commit=False))

    def close(self) -> None:
        """Stop sending; what is under way is left to itself."""
        self._task_client.run(self._stop())

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; raises KafkaError."""
        return self._task_client.run(self._counts.count(topic))

    def _submit(self, chunk: _Chunk) -> None:
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
        self._task_client.call_soon(self._wake.set)

    def check(self) -> None:
        """Raise ConnectError once nothing more can be sent."""
        if self._fatal is not None:
            raise ConnectError(f"The producer cannot go on: {self._fatal}") from self._fatal

    # -- the client's thread

    async def _start(self) -> None:
        if self.transaction is not None:
            await self.transaction.begin()
        await self._producer.start()
        self._worker = supervise(self._send_all(), name="send", serves="a task")

    async def _stop(self) -> None:
        await end(self._worker)
        await self._producer.close()

    def _fail(self, error: BaseException) -> None:
        """Make what ends the producer the error that the task hears of, where it next sends or waits."""
        with self._changed:
            self._fatal = self._fatal or error
            self._changed.notify_all()

    async def _drop(self) -> None:
        """Forget what is not sent, and wait for what is."""
        with self._changed:
            dropped, self._chunks = list(self._chunks), deque()
        for chunk in dropped:
            self._count_settled(len(chunk), chunk.size)
        while True:
            for piece in self._producer.forget():
                self._count_settled(piece.count, piece.size)
            if self._fatal is not None or (self._producer.is_idle and self._settled >= self._submitted):
                return
            await self._producer.moved()

    async def _send_all(self) -> None:
        try:
            while True:
                chunk = self._next_chunk()
                if chunk is None:
                    await self._producer.send()
                    if not self._chunks:
                        await self._wake.wait()
                        self._wake.clear()
                    continue
                for encoded, piece, now_ms in await self._batches(chunk):
                    self._producer.gather(encoded, piece, timestamp_ms=now_ms)
                    if self._producer.is_full:
                        await self._producer.send_full()
        except Exception as error:  # the task's own thread raises it
            self._fail(error)
            self._producer.wake()

    def _next_chunk(self) -> _Chunk | None:
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

    async def _batches(self, chunk: _Chunk) -> Sequence[tuple[Encoded, _Piece, int]]:
        if isinstance(chunk, _BatchChunk):
            return [(chunk.encoded, _Piece(None, chunk.token, 0, len(chunk), chunk.size), 0)]
        count = await self._counts.count(chunk.topic)
        self._turn += 1
        keyless = self._turn % count
        if isinstance(chunk, _ColumnChunk) and chunk.partition is not None:
            keyless = chunk.partition
        target = TopicRows(chunk.topic, count, keyless)
        placed = place_rows(chunk.rows(), target)
        return list(self._cut(chunk, placed, target))

    def _cut(
        self, chunk: RowChunk | _ColumnChunk, placed: Placed, target: TopicRows
    ) -> Iterator[tuple[EncodedBatch, _Piece, int]]:
        tokens, token, now_ms = None, None, 0
        rows = None
        if isinstance(chunk, _ColumnChunk):
            token, now_ms = chunk.token, chunk.timestamp
            rows = None if placed.order is None else pa.array(placed.order)
        else:
            tokens = chunk.tokens if placed.order is None else [chunk.tokens[row] for row in placed.order.tolist()]
        first, share = 0, chunk.size / max(len(chunk), 1)
        charged = 0
        for encoded in encode_placed(placed, target, batch_bytes=self.settings.batch_bytes):
            last = first + encoded.count
            size = round(share * last) - charged
            charged += size
            mine = None if tokens is None else tokens[first:last]
            places = None if rows is None else rows.slice(first, encoded.count)
            yield encoded, _Piece(mine, token, first, encoded.count, size, places), now_ms
            first = last

    def _settle(self, found: SettledBatch) -> None:
        piece: _Piece = found.token
        first, count = found.first, found.count
        tokens = piece.tokens
        if tokens is not None and count != piece.count:
            tokens = tokens[first : first + count]
        rows = None if piece.rows is None else piece.rows.slice(first, count)
        topic, partition = found.partition
        first_row, base, error = piece.first_row + first, found.base_offset, found.error
        self.outcomes.append(
            Outcome(topic, partition, tokens, piece.token, rows, first_row, count, base, error),
        )
        self._count_settled(count, piece.size_of(first, count))

    def _count_settled(self, count: int, size: int) -> None:
        with self._changed:
            self._outstanding_bytes -= size
            self._settled += count
            self._changed.notify_all()
