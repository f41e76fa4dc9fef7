"""What works have made, into topics: placed by key as Kafka's producers do, encoded, and handed to the client's producer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import numpy as np

from ottla.base import KafkaError, Millis, Offset, TopicPartition
from ottla.client import (
    Client,
    PartitionCounts,
    Producer,
    ProducerOptions,
    SettledBatch,
    TransactionalProducer,
    encode_records,
)
from ottla.spark.continuous.meters import TopicMeter
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.spark.continuous.refusals import Refusals, Sent
from ottla.spark.continuous.work import Made, by_topic
from ottla.streams import ExceptionPolicy, Output
from ottla.wire import Codec, Record, hash_keys

__all__ = ["Writer"]

BATCH_BYTES = 256 << 10
"""Bytes of records in a batch, about; a record alone may be more."""
RECORD_OVERHEAD = 40
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
        self.culprit: str | None = None
        """Whose records are refused, however often they are sent."""
        self._hashes: dict[bytes, int] = {}
        self._turn = 0

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
        places: dict[TopicPartition, list[Record]] = {}
        meters: dict[str, TopicMeter] = {}
        for topic, outputs in by_topic(made.outputs):
            count = plan.counts.get(topic) or await self._counts.count(topic)
            made_of = meters[topic] = produced.setdefault((outputs[0].target, topic), TopicMeter())
            made_of.add(0, [now_ms - each.timestamp if each.timestamp >= 0 else 0 for each in outputs])
            for partition, output in zip(self._partitions(outputs, count), outputs, strict=True):
                time_ms = output.timestamp if output.timestamp >= 0 else now_ms
                record = Record(Offset(0), Millis(time_ms), output.key, output.value, output.headers)
                places.setdefault(TopicPartition(topic, partition), []).append(record)
        for change in made.changes:
            changelog = changelogs.get(change.store)
            if changelog is not None:
                time_ms = change.timestamp if change.timestamp >= 0 else now_ms
                record = Record(Offset(0), Millis(time_ms), change.key, change.value, change.headers)
                places.setdefault(TopicPartition(changelog, task), []).append(record)
        left_out = 0
        for place, records in places.items():
            meter = meters.get(place.topic)
            policy = _FAIL if meter is None else plan.production
            bytes_max = BATCH_BYTES
            if meter is not None and place.topic in self._refusals.topics:
                before, bytes_max = len(records), 0
                records = self._allowed(place, Sent(plan.application_id, records, policy))
                left_out += before - len(records)
            for batch in _batches(records, bytes_max):
                encoded = encode_records(place, batch)
                if meter is not None:
                    meter.size_bytes += len(encoded.records)
                self.producer.gather(encoded, Sent(plan.application_id, batch, policy))
                if self.producer.is_full:
                    await self.producer.send_full()
        return left_out

    def _allowed(self, place: TopicPartition, sent: Sent) -> list[Record]:
        try:
            return list(self._refusals.allowed(place, sent))
        except KafkaError:
            self.culprit = sent.application
            raise

    def _settled(self, found: SettledBatch) -> None:
        self.culprit = self._refusals.learn(found) or self.culprit

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
