"""The offsets topic, and further ones that connectors name for themselves (`offsets.storage.topic`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla.background import awaited
from ottla.base import KafkaError, TopicPartition
from ottla.client import Client, Isolation, TopicLog, TransactionalProducer, batch_of, partition_of
from ottla.connect import decisions
from ottla.connect.distributed.settings import DistributedSettings, StorageTopic
from ottla.connect.distributed.topic_writer import Entry, TopicWriter
from ottla.connect.distributed.topics import prepare_topic
from ottla.connect.errors import ConnectError
from ottla.connect.storage import OffsetState, apply_offset

__all__ = ["OffsetStores"]

log = logging.getLogger(__name__)
READ_SECONDS_MAX = 30.0
Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]


class _Store:
    """One topic with offsets, followed."""

    def __init__(
        self,
        topic: StorageTopic,
        make_client: Callable[[str], Client],
        *,
        isolation: Isolation,
        failed: Callable[[BaseException], object],
    ) -> None:
        self.topic, self.state, self.partitions = topic, OffsetState(), topic.partitions
        self.client = make_client("offsets")
        self._log = TopicLog(make_client("offsets-reader"), topic.name, self._apply, isolation=isolation, failed=failed)
        self._writer: TopicWriter | None = None

    async def start(self) -> None:
        self.partitions = await prepare_topic(self.client, self.topic)
        await self._log.start()
        self._writer = TopicWriter(self.client, self.topic.name, self.partitions)

    async def close(self) -> None:
        await self._log.close()
        await self.client.close()

    def _apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        self.state, ignored = apply_offset(self.state, key, value)
        if ignored is not None:
            log.warning("%s (in topic %s)", ignored, self.topic.name)

    async def refresh(self) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS_MAX):
                await self._log.read_to_end(self.client)
        except (KafkaError, TimeoutError) as error:
            raise ConnectError(
                f"Could not read offsets from topic {self.topic.name}: {str(error) or 'timed out'}"
            ) from error

    async def write(self, records: Sequence[Entry]) -> None:
        assert self._writer is not None
        await self._writer.write(records)

    async def commit(self, records: Sequence[Entry], transactional_id: str) -> None:
        """Write in one transaction, under an id whose tasks have stopped (KIP-618)."""
        by_partition: dict[TopicPartition, list[Entry]] = {}
        for record in records:
            partition = TopicPartition(self.topic.name, partition_of(record[0], self.partitions))
            by_partition.setdefault(partition, []).append(record)
        producer = TransactionalProducer(self.client, transactional_id, timeout_ms=60_000)
        try:
            await producer.begin()
            batches = {
                each: batch_of(found, producer_id=producer.producer_id, producer_epoch=producer.epoch, sequence=0)
                for each, found in by_partition.items()
            }
            await producer.produce(batches)
            await producer.end(commit=True)
        except KafkaError as error:
            raise ConnectError(f"Could not write offsets to topic {self.topic.name}: {error}") from error


class OffsetStores:
    """The worker's offsets topic and the connectors' own. Raises ConnectError where brokers do not do their part."""

    def __init__(
        self,
        settings: DistributedSettings,
        make_client: Callable[[str], Client],
        failed: Callable[[BaseException], object],
    ) -> None:
        """`failed` is told where a mistake of ours has ended the reading of a topic."""
        self._failed = failed
        self._settings, self._make_client = settings, make_client
        self._isolation = Isolation.READ_COMMITTED if settings.exactly_once_sources else Isolation.READ_UNCOMMITTED
        self._worker = _Store(settings.offset_topic, make_client, isolation=self._isolation, failed=failed)
        self._own: dict[str, asyncio.Task[_Store]] = {}

    async def start(self) -> None:
        """Make or check the worker's topic and read it."""
        await self._worker.start()

    async def close(self) -> None:
        """Stop following."""
        for each in self._own.values():
            each.cancel()
        opened = await asyncio.gather(*self._own.values(), return_exceptions=True)
        for store in (self._worker, *(each for each in opened if isinstance(each, _Store))):
            await store.close()

    def topic_of(self, config: Mapping[str, str | None]) -> str:
        """Return the name of the topic that a source connector's offsets are in."""
        return (config.get("offsets.storage.topic") or "").strip() or self._settings.offset_topic.name

    async def _store(self, config: Mapping[str, str | None]) -> _Store:
        name = self.topic_of(config)
        if name == self._settings.offset_topic.name:
            return self._worker
        opening = self._own.get(name)
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):
            opening = self._own[name] = awaited(self._open(name))
        return await asyncio.shield(opening)

    async def _open(self, name: str) -> _Store:
        topic = replace(self._settings.offset_topic, name=name, setting="offsets.storage.topic")
        store = _Store(topic, self._make_client, isolation=self._isolation, failed=self._failed)
        try:
            await store.start()
        except BaseException:
            await store.close()
            raise
        return store

    async def state(self, connector: str, config: Mapping[str, str | None]) -> OffsetState:
        """Return everything stored before this call; where a connector's own topic says nothing, the worker's holds."""
        store = await self._store(config)
        await store.refresh()
        if store is self._worker:
            return store.state
        await self._worker.refresh()
        merged = self._worker.state.stored
        merged = merged.update({name: each for name, each in store.state.stored.items() if name[0] == connector})
        return OffsetState(merged)

    async def store(
        self, connector: str, config: Mapping[str, str | None], pairs: Pairs, *, transactional_id: str | None = None
    ) -> None:
        """Store offsets; they are durable when this returns."""
        if not pairs:
            return
        store = await self._store(config)
        records = decisions.altered(store.state, connector, pairs)
        if transactional_id is None:
            await store.write(records)
        else:
            await store.commit(records, transactional_id)
        if store is not self._worker and any(offset is None for _, offset in pairs):
            # What is forgotten must not come back from where it was kept before.
            gone = [(partition, None) for partition, offset in pairs if offset is None]
            await self._worker.write(decisions.altered(self._worker.state, connector, gone))
