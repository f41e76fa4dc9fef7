"""`Producer`: encoded records out in their order, several requests in flight, idempotent or in a transaction.

It gives batches their sequences, puts one of each partition into a request, and says what became of each. Where a request
fails it goes on one batch after the other, so that the order stays what it was and nothing is stored twice; a batch that is
too large for its topic is sent in halves, as Java's producer does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.background import awaited, supervise
from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition
from ottla.client.batches import Appended
from ottla.client.client import Client
from ottla.client.record_size import larger_than_client_sends, larger_than_topic_takes, size_limit
from ottla.client.transactions import TransactionalProducer, init_producer_id
from ottla.wire import (
    BATCH_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Codec,
    Record,
    build_batch,
    pack_batch,
    read_batch_header,
)

__all__ = [
    "IN_FLIGHT_MAX",
    "Encoded",
    "EncodedRecords",
    "Producer",
    "ProducerOptions",
    "RecordTooLargeError",
    "SettledBatch",
    "encode_records",
]

log = logging.getLogger(__name__)
IN_FLIGHT_MAX = 5
"""Requests without their answers: what a broker remembers of a producer's sequences (KIP-98)."""
REQUEST_BYTES = 1 << 20
"""Bytes of batches in one request; a batch alone may be more."""
PRODUCE_TIMEOUT_MS = 30_000
SEQUENCES = 1 << 31
"""A sequence wraps to 0 behind 2^31 - 1."""
LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""Codes of a batch that is alone under way: the partition has forgotten the producer."""
AGAIN = LOST | {ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.MESSAGE_TOO_LARGE}
"""Codes after which a batch is sent again by itself in any case: its sequences, or its parts, may be taken then."""


class RecordTooLargeError(KafkaError):
    """A single record is larger than its topic, or this client, allows; it will be the next time."""


class Encoded(Protocol):
    """A batch's records, encoded, without the batch's header."""

    @property
    def partition(self) -> TopicPartition:
        """Where they go."""
        ...

    @property
    def records(self) -> memoryview:
        """The records' bytes."""
        ...

    @property
    def count(self) -> int:
        """How many they are."""
        ...

    @property
    def timestamp_ms(self) -> int | None:
        """The first record's, from which the others' deltas count; None where they have none of their own."""
        ...

    @property
    def max_timestamp_ms(self) -> int | None:
        """The latest; None where they have none of their own."""
        ...

    def halves(self) -> Sequence[Encoded]:
        """Return the same records, of which there are several, in two parts."""
        ...


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """A few records, as `encode_records` makes them."""

    partition: TopicPartition
    records: memoryview
    count: int
    timestamp_ms: int
    max_timestamp_ms: int
    source: Sequence[Record]

    def halves(self) -> Sequence[Encoded]:
        """Return the same records in two parts."""
        half = self.count // 2
        return [encode_records(self.partition, part) for part in (self.source[:half], self.source[half:])]


def encode_records(partition: TopicPartition, records: Sequence[Record]) -> EncodedRecords:
    """Encode a few records, at least one."""
    batch = build_batch(records)
    header = read_batch_header(batch, 0)
    encoded = memoryview(batch)[BATCH_OVERHEAD:]
    return EncodedRecords(partition, encoded, len(records), header.base_timestamp, header.max_timestamp, records)


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How a producer sends; times in milliseconds."""

    acks: int = -1
    idempotent: bool = True
    codec: Codec = Codec.NONE
    in_flight_max: int = IN_FLIGHT_MAX
    delivery_timeout_ms: int = 0
    """How long after it was gathered a batch is sent again for errors that pass; 0 leaves that to the client's `Limits`."""
    record_bytes_max: int | None = None
    """A single record that is larger is not sent (`max.request.size`)."""
    record_bytes_setting: str = "max.request.size"
    """How the user names that limit."""
    goes_on: bool = False
    """Whether what is behind a batch that failed is sent all the same; else, as in transactions, the producer ends."""


@dataclass(frozen=True, slots=True, eq=False)
class SettledBatch:
    """What became of a batch, or of a part of one: of `count` records from `first` on of what was given with `token`."""

    token: Any
    partition: TopicPartition
    first: int
    count: int
    base_offset: int
    """-1 where the broker does not say."""

    error: KafkaError | None


@dataclass(slots=True, eq=False)
class _Batch:
    encoded: Encoded
    token: Any
    first: int
    timestamp_ms: int
    since: float
    sequence: int = NO_SEQUENCE
    packed: bytearray | None = None
    error: KafkaError | None = None
    """What the request had that it was sent in first."""

    @property
    def place(self) -> TopicPartition:
        return self.encoded.partition


@dataclass(slots=True, eq=False)
class _Request:
    batches: dict[TopicPartition, _Batch]
    task: asyncio.Task[list[Appended]]


class Producer:
    """Sends what is gathered, in order. `start` first; `send_full` whenever it `is_full`, `flush` at the end, then `close`.

    With a transaction, which the caller begins and ends, what is sent is part of it. `settled` is called once for each
    batch or part of one; `failed` where the producer can send nothing more, which every later call raises. All is done in
    the loop that `start` runs in.
    """

    def __init__(
        self,
        client: Client,
        options: ProducerOptions,
        *,
        transaction: TransactionalProducer | None = None,
        settled: Callable[[SettledBatch], None] = lambda found: None,
        failed: Callable[[BaseException], None] = lambda error: None,
        named: Callable[[Encoded], str] = lambda encoded: f"a record for {encoded.partition}",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`named` returns words for the record in a batch of one, `now` the seconds that `delivery_timeout_ms` counts in."""
        self.transaction = transaction
        self.error: BaseException | None = None
        """Why nothing more can be sent; None while that is not so."""
        self._client, self._options = client, options
        self._settled, self._failed, self._named, self._now = settled, failed, named, now
        self._id, self._epoch = ProducerId(NO_PRODUCER_ID), ProducerEpoch(NO_PRODUCER_EPOCH)
        self._sequences: dict[TopicPartition, int] = {}
        self._known: set[TopicPartition] = set()
        """Partitions that have stored something of this producer."""
        self._unproven: set[TopicPartition] = set()
        """Partitions whose first batch is under way: the broker would take one that came before it as the first."""
        self._full: deque[dict[TopicPartition, _Batch]] = deque()
        self._open: dict[TopicPartition, _Batch] = {}
        self._open_bytes = 0
        self._in_flight: deque[_Request] = deque()
        self._moved, self._may_send = asyncio.Event(), asyncio.Event()
        self._may_send.set()
        self._worker: asyncio.Task[None] | None = None

    # -- from start to end

    async def start(self) -> None:
        """Take a producer id where it is idempotent and in no transaction, and begin to send; raises KafkaError."""
        if self.transaction is None and self._options.idempotent:
            await self._take_id()
        self._worker = supervise(self._settle_all(), name="producer", serves="who produces")

    async def close(self) -> None:
        """Stop sending; what is under way is left to itself."""
        tasks: list[asyncio.Task[Any]] = [request.task for request in self._in_flight]
        tasks += [] if self._worker is None else [self._worker]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def gather(self, encoded: Encoded, token: Any = None, *, timestamp_ms: int = 0) -> None:
        """Put records into the next request; `timestamp_ms` is that of all where they have none of their own."""
        own_ms = encoded.timestamp_ms
        batch = _Batch(encoded, token, 0, timestamp_ms if own_ms is None else own_ms, self._now())
        if self._refuses(batch):
            return
        self._pack(batch)
        size = len(_packed(batch))
        if batch.place in self._open or (self._open and self._open_bytes + size > REQUEST_BYTES):
            self._fill()
        self._open[batch.place] = batch
        self._open_bytes += size

    def _refuses(self, batch: _Batch) -> bool:
        """Settle a single record that is larger than may be sent."""
        limit = self._options.record_bytes_max
        if limit is None or batch.encoded.count > 1:
            return False
        size = len(batch.encoded.records)
        if size <= limit:
            return False
        what, setting = self._named(batch.encoded), self._options.record_bytes_setting
        text = larger_than_client_sends(what, size, batch.place.topic, limit_bytes=limit, setting=setting)
        self._settle(batch, -1, RecordTooLargeError(ErrorCode.MESSAGE_TOO_LARGE, text))
        return True

    def _fill(self) -> None:
        """End the request that is open."""
        if self._open:
            self._full.append(self._open)
            self._open, self._open_bytes = {}, 0

    @property
    def is_full(self) -> bool:
        """Whether there is a request that waits for nothing but `send_full`."""
        return bool(self._full)

    @property
    def is_idle(self) -> bool:
        """True where nothing is gathered, and nothing under way."""
        return not (self._open or self._full or self._is_unsettled)

    @property
    def _is_unsettled(self) -> bool:
        """Whether something was sent that is not settled: it is under way, or is sent again one after the other."""
        return bool(self._in_flight) or not self._may_send.is_set()

    async def send_full(self) -> None:
        """Send requests that are full, once there is room for them in flight; raises what the producer failed with."""
        while self._full:
            self._check()
            if self._must_wait(self._full[0]):
                await self.moved()
                continue
            batches = self._full.popleft()
            call = self._append({place: _packed(batch) for place, batch in batches.items()})
            if self._is_numbered:
                self._unproven.update(batches.keys() - self._known)
            self._in_flight.append(_Request(batches, awaited(call)))
            self._moved.set()

    def _must_wait(self, batches: dict[TopicPartition, _Batch]) -> bool:
        if len(self._in_flight) >= self._options.in_flight_max or not self._may_send.is_set():
            return True
        return bool(self._unproven) and not self._unproven.isdisjoint(batches)

    async def send(self) -> None:
        """Send all that is gathered; raises as `send_full`."""
        self._fill()
        await self.send_full()

    async def flush(self) -> None:
        """Send all that is gathered, and wait until everything is settled; raises what the producer failed with."""
        await self.send()
        while self._is_unsettled:
            self._check()
            await self.moved()
        self._check()

    async def moved(self) -> None:
        """Wait until something was sent, or settled, or the producer has failed."""
        self._moved.clear()
        await self._moved.wait()

    def wake(self) -> None:
        """End every `moved`: the caller has something to say to those who wait."""
        self._moved.set()

    def forget(self) -> list[Any]:
        """Forget what is gathered and not sent, and return the tokens that came with it."""
        self._fill()
        dropped = [batch for batches in self._full for batch in batches.values()]
        self._full.clear()
        for batch in reversed(dropped):
            if batch.sequence != NO_SEQUENCE:
                self._sequences[batch.place] = batch.sequence
        return [batch.token for batch in dropped]

    async def end(self, *, commit: bool) -> None:
        """End the transaction; what is under way is to be waited for before. Raises KafkaError."""
        assert self.transaction is not None
        before = self.transaction.producer_id, self.transaction.epoch
        await self.transaction.end(commit=commit)
        if (self.transaction.producer_id, self.transaction.epoch) != before:
            self._sequences.clear()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    # -- ids and sequences

    @property
    def _is_numbered(self) -> bool:
        return self.transaction is not None or self._id != NO_PRODUCER_ID

    async def _take_id(self) -> None:
        self._id, self._epoch = await init_producer_id(self._client, None, timeout_ms=PRODUCE_TIMEOUT_MS)
        self._sequences.clear()
        self._known.clear()

    async def _renew(self, behind: Iterable[_Batch]) -> None:
        """Go on under a new producer id: with these, which stand before what is gathered."""
        await self._take_id()
        for batch in behind:
            self._pack(batch)
        for batches in (*self._full, self._open):
            for batch in batches.values():
                self._pack(batch)

    def _pack(self, batch: _Batch) -> None:
        """Give a batch the partition's next sequences, and its bytes."""
        if self._is_numbered:
            batch.sequence = self._sequences.get(batch.place, 0)
            self._sequences[batch.place] = (batch.sequence + batch.encoded.count) % SEQUENCES
        self._build(batch)

    def _build(self, batch: _Batch) -> None:
        encoded, transaction = batch.encoded, self.transaction
        batch.packed = pack_batch(
            encoded.records,
            count=encoded.count,
            timestamp_ms=batch.timestamp_ms,
            max_timestamp_ms=encoded.max_timestamp_ms,
            codec=self._options.codec,
            producer_id=self._id if transaction is None else transaction.producer_id,
            producer_epoch=self._epoch if transaction is None else transaction.epoch,
            base_sequence=batch.sequence,
            transactional=transaction is not None,
        )

    # -- what becomes of requests

    async def _append(self, batches: dict[TopicPartition, bytearray]) -> list[Appended]:
        if self.transaction is not None:
            return await self.transaction.produce(batches, timeout_ms=PRODUCE_TIMEOUT_MS)
        return await self._client.append(batches, acks=self._options.acks, timeout_ms=PRODUCE_TIMEOUT_MS)

    async def _settle_all(self) -> None:
        """The worker: settle requests in the order in which they were sent."""
        try:
            while True:
                while not self._in_flight:
                    await self.moved()
                request = self._in_flight[0]
                await asyncio.wait([request.task])
                if request.task.exception() is None and not any(each.error for each in request.task.result()):
                    self._in_flight.popleft()
                    for batch, appended in zip(request.batches.values(), request.task.result(), strict=True):
                        self._settle(batch, appended.base_offset, None)
                else:
                    await self._recover()
                self._moved.set()
        except Exception as error:  # whoever sends hears of it
            self.error = error
            self._failed(error)
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
                base_offset = await self._append_alone(batch, left)
            except _Split as split:
                left.extendleft(reversed(split.halves))
                continue
            except KafkaError as error:
                self._settle(batch, -1, error)
                if self.transaction is not None or not self._options.goes_on:
                    raise
                if self._options.idempotent:
                    await self._renew(left)
                continue
            self._settle(batch, base_offset, None)
        self._unproven.clear()
        self._may_send.set()

    def _unsettled(self, request: _Request) -> Iterator[_Batch]:
        """Settle what a request did store, and return the rest with its errors; raises what is no error of the cluster's."""
        error = request.task.exception()
        if error is not None:
            for batch in request.batches.values():
                batch.error = _kafka_error(error)
                yield batch
            return
        for batch, appended in zip(request.batches.values(), request.task.result(), strict=True):
            if appended.error:
                batch.error = KafkaError(appended.error, f"{batch.place}: {appended.message or appended.error.name}")
                yield batch
            else:
                self._settle(batch, appended.base_offset, None)

    async def _append_alone(self, batch: _Batch, behind: Iterable[_Batch]) -> int:
        """Append a batch that is the only one under way, and return its offset; raises KafkaError, _Split."""
        timeout_ms, renewed = self._options.delivery_timeout_ms, False
        if not timeout_ms and batch.error is not None and batch.error.code not in AGAIN:
            raise batch.error
        until = batch.since + timeout_ms / 1000
        while True:
            try:
                [appended] = await self._append({batch.place: _packed(batch)})
                return appended.check().base_offset
            except (KafkaError, OSError) as found:
                error = _kafka_error(found)
            if error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                return -1
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                if batch.encoded.count > 1:
                    raise self._split(batch)
                raise await self._too_large(batch) from error
            if error.code in LOST and self.transaction is None and not renewed:
                renewed = True
                await self._renew((batch, *behind))
            elif not error.retriable or self._now() >= until:
                raise error
            else:
                log.warning("%s does not take records yet, which are sent again: %s", batch.place, error)

    async def _too_large(self, batch: _Batch) -> RecordTooLargeError:
        topic = batch.place.topic
        limit = await size_limit(self._client, topic)
        text = larger_than_topic_takes(self._named(batch.encoded), len(_packed(batch)), topic, limit)
        return RecordTooLargeError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def _split(self, batch: _Batch) -> _Split:
        """Return a batch that is too large for its topic as two, under the same sequences."""
        first, sequence = batch.first, batch.sequence
        halves: list[_Batch] = []
        for encoded in batch.encoded.halves():
            own_ms = encoded.timestamp_ms
            made = _Batch(encoded, batch.token, first, batch.timestamp_ms if own_ms is None else own_ms, batch.since)
            made.sequence = sequence
            self._build(made)
            halves.append(made)
            first += encoded.count
            if sequence != NO_SEQUENCE:
                sequence = (sequence + encoded.count) % SEQUENCES
        return _Split(halves)

    def _settle(self, batch: _Batch, base_offset: int, error: KafkaError | None) -> None:
        if error is None:
            self._known.add(batch.place)
            self._unproven.discard(batch.place)
        count = batch.encoded.count
        self._settled(SettledBatch(batch.token, batch.place, batch.first, count, base_offset, error))


class _Split(Exception):
    def __init__(self, halves: list[_Batch]) -> None:
        super().__init__()
        self.halves = halves


def _packed(batch: _Batch) -> bytearray:
    assert batch.packed is not None
    return batch.packed


def _kafka_error(error: BaseException) -> KafkaError:
    """Return an error of the cluster's, or of the way to it; raises any other."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, OSError):
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
    raise error
