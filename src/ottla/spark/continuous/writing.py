"""What works have made, into topics: placed by key as Kafka's producers do, encoded, and handed to the client's producer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.base import KafkaError, Millis, Offset, TopicPartition
from ottla.client import (
    Client,
    Encoded,
    PartitionCounts,
    Producer,
    ProducerOptions,
    SettledBatch,
    TransactionalProducer,
    encode_records,
)
from ottla.client.arrow.batches import Placed, Rows, TopicRows, encode_placed, encode_rows
from ottla.spark.continuous.meters import TopicMeter
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.spark.continuous.refusals import Refusals, RowRecords, Sent
from ottla.spark.continuous.work import Made, by_topic
from ottla.streams import ChangeColumns, ExceptionPolicy, Output, OutputColumns, StoreChange
from ottla.wire import Codec, Record, hash_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Writer"]

BATCH_BYTES = 256 << 10
"""Bytes of records in a batch, about; a record alone may be more."""
RECORD_OVERHEAD = 40
COLUMNS_FROM = 256
"""Records of a topic from which on they are encoded as columns, which cost 0.4 ms whatever they hold."""
_FAIL = ExceptionPolicy("fail")
KEYS_KEPT = 50_000
"""Keys whose hashes are remembered: hashing one by one costs more than it does for many at once."""


class Writer:
    """One lane's producer: idempotent, or in transactions, which the lane ends."""

    def __init__(
        self,
        client: Client,
        *,
        acks: int,
        codec: Codec,
        refusals: Refusals,
        transaction: TransactionalProducer | None = None,
    ) -> None:
        self._counts = PartitionCounts(client)
        options = ProducerOptions(acks=acks, idempotent=acks == -1, codec=codec)
        self.producer = Producer(client, options, transaction=transaction, settled=self._settled)
        self._refusals = refusals
        self.changelog_ends: dict[TopicPartition, int | None] = {}
        """How far changelogs are written here; None where a broker has not said it."""
        self.culprit: str | None = None
        """Whose records are refused, however often they are sent."""
        self._hashes: dict[bytes, int] = {}
        self._turn = self._left_out = 0

    async def start(self) -> None:
        """Take a producer id; raises KafkaError."""
        await self.producer.start()

    async def gather(
        self,
        plan: ApplicationPlan,
        task: int,
        changelogs: Mapping[str, str],
        made: Made,
        produced: dict[tuple[str, str], TopicMeter],
    ) -> int:
        """Take in what a work has made, counted in `produced`; full requests leave. Raises KafkaError.

        Returns how many records were left out, as `production.exception.handler` says.
        """
        now_ms = time.time_ns() // 1_000_000
        self._turn += 1
        for topic, outputs in by_topic(made.outputs):
            count = plan.counts.get(topic) or await self._counts.count(topic)
            meter = produced.setdefault((outputs[0].target, topic), TopicMeter())
            for part in _parts(outputs, OutputColumns):
                _note_ages(meter, part, now_ms)
                await self._take(self._outputs(plan, topic, count, part, now_ms), meter)
        for part in _parts(made.changes, ChangeColumns):
            await self._take(self._changes(plan, task, changelogs, part, now_ms), None)
        left_out, self._left_out = self._left_out, 0
        return left_out

    async def _take(self, batches: Iterable[tuple[Encoded, Sent]], meter: TopicMeter | None) -> None:
        for encoded, sent in batches:
            if meter is not None:
                meter.size_bytes += len(encoded.records)
            self.producer.gather(encoded, sent)
            if self.producer.is_full:
                await self.producer.send_full()

    def _outputs(
        self, plan: ApplicationPlan, topic: str, count: int, part: OutputColumns | list[Output], now_ms: int
    ) -> Iterator[tuple[Encoded, Sent]]:
        """Yield batches of what leaves for one topic, in the order of each partition."""
        is_plain = topic not in self._refusals.topics
        columns = _columns_of(topic, part) if isinstance(part, list) else part
        if columns is None or columns.headers is not None or not is_plain:
            outputs = part if isinstance(part, list) else part.outputs()
            places: dict[TopicPartition, list[Record]] = {}
            for partition, output in zip(self._partitions(outputs, count), outputs, strict=True):
                time_ms = output.timestamp if output.timestamp >= 0 else now_ms
                record = Record(Offset(0), Millis(time_ms), output.key, output.value, output.headers)
                places.setdefault(TopicPartition(topic, partition), []).append(record)
            yield from self._records(plan, places)
            return
        rows = Rows(columns.values, columns.keys, timestamp=pa.array(_times(columns.times, now_ms)))
        for each in encode_rows(rows, TopicRows(topic, count, self._turn % count), batch_bytes=BATCH_BYTES):
            yield each, Sent(plan.application_id, RowRecords(each.rows), plan.production)

    def _records(
        self, plan: ApplicationPlan, places: Mapping[TopicPartition, list[Record]]
    ) -> Iterator[tuple[Encoded, Sent]]:
        """Yield batches of results; those of a topic that has refused some are looked at, and go one by one."""
        for place, records in places.items():
            bytes_max = BATCH_BYTES
            if place.topic in self._refusals.topics:
                before, bytes_max = len(records), 0
                records = self._allowed(place, Sent(plan.application_id, records, plan.production))
                self._left_out += before - len(records)
            for batch in _batches(records, bytes_max):
                yield encode_records(place, batch), Sent(plan.application_id, batch, plan.production)

    def _changes(
        self,
        plan: ApplicationPlan,
        task: int,
        changelogs: Mapping[str, str],
        part: ChangeColumns | list[StoreChange],
        now_ms: int,
    ) -> Iterator[tuple[Encoded, Sent]]:
        """Yield batches of stores' changes, in the order of each store."""
        if isinstance(part, list):
            places: dict[TopicPartition, list[Record]] = {}
            for change in part:
                changelog = changelogs.get(change.store)
                if changelog is not None:
                    time_ms = change.timestamp if change.timestamp >= 0 else now_ms
                    record = Record(Offset(0), Millis(time_ms), change.key, change.value, change.headers)
                    places.setdefault(TopicPartition(changelog, task), []).append(record)
            for place, records in places.items():
                for batch in _batches(records, BATCH_BYTES):
                    yield encode_records(place, batch), Sent(plan.application_id, batch, _FAIL, is_changelog=True)
            return
        topic = changelogs.get(part.store)
        if topic is None:
            return
        keys, values = pa.array(part.keys, pa.binary()), pa.array(part.values, pa.binary())
        times = _times(np.array(part.times, np.int64), now_ms)
        placed = Placed(Rows(values, keys, timestamp=pa.array(times)), None, None)
        for each in encode_placed(placed, TopicRows(topic, task + 1, task), batch_bytes=BATCH_BYTES):
            yield each, Sent(plan.application_id, RowRecords(each.rows), _FAIL, is_changelog=True)

    def _allowed(self, place: TopicPartition, sent: Sent) -> list[Record]:
        try:
            return list(self._refusals.allowed(place, sent))
        except KafkaError:
            self.culprit = sent.application
            raise

    def _settled(self, found: SettledBatch) -> None:
        if found.error is not None:
            self.culprit = self._refusals.learn(found) or self.culprit
        elif found.token.is_changelog:
            known = found.base_offset >= 0
            self.changelog_ends[found.partition] = found.base_offset + found.count if known else None

    async def send(self) -> None:
        """Have everything leave, without waiting for answers; raises KafkaError."""
        await self.producer.send()

    async def flush(self) -> None:
        """Have everything leave, and wait until it is acknowledged; raises KafkaError."""
        await self.producer.flush()

    async def close(self) -> None:
        """Stop sending."""
        await self.producer.close()

    def _partitions(self, outputs: list[Output], count: int) -> Iterable[int]:
        """Return each output's partition: the one it names, the one of its key, or this turn's."""
        if count == 1:
            return [0 if each.partition is None else each.partition for each in outputs]
        hashes = self._hashes
        if len(hashes) > KEYS_KEPT:
            hashes.clear()
        new = list({each.key for each in outputs if each.key is not None and each.partition is None} - hashes.keys())
        if new:
            bounds = np.zeros(len(new) + 1, np.int32)
            np.cumsum([len(key) for key in new], out=bounds[1:])
            hashes.update(zip(new, hash_keys(b"".join(new), bounds).tolist(), strict=True))
        keyless = self._turn % count
        return [
            each.partition if each.partition is not None else keyless if each.key is None else hashes[each.key] % count
            for each in outputs
        ]


def _parts(made: list[Any], columns: type) -> Iterator[Any]:
    """Yield columns as they are, and what lies between them as lists."""
    for is_columns, found in groupby(made, key=lambda each: isinstance(each, columns)):
        if is_columns:
            yield from found
        else:
            yield list(found)


def _times(times: NDArray[np.int64], now_ms: int) -> NDArray[np.int64]:
    return np.where(times < 0, now_ms, times)


def _columns_of(topic: str, outputs: list[Output]) -> OutputColumns | None:
    """Return many results as columns; None where they are few, or some have headers or name their partition."""
    if len(outputs) < COLUMNS_FROM or any(each.headers or each.partition is not None for each in outputs):
        return None
    keys, values = (pa.array([each[at] for each in outputs], pa.binary()) for at in (2, 3))
    return OutputColumns("", topic, keys, values, np.array([each.timestamp for each in outputs], np.int64))


def _note_ages(meter: TopicMeter, part: OutputColumns | list[Output], now_ms: int) -> None:
    """Note how old results are."""
    if isinstance(part, list):
        meter.add(0, [now_ms - each.timestamp if each.timestamp >= 0 else 0 for each in part])
        return
    ages = now_ms - _times(part.times, now_ms)
    meter.add_many(len(part), total_ms=int(ages.sum()), least_ms=int(ages.min()), most_ms=int(ages.max()))


def _batches(records: list[Record], bytes_max: int) -> Iterable[list[Record]]:
    """Cut a partition's records into batches of about so many bytes."""
    found: list[Record] = []
    size = 0
    for record in records:
        size += RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
        found.append(record)
        if size >= bytes_max:
            yield found
            found, size = [], 0
    if found:
        yield found
