"""One transactional id's side of the protocol: begin, write, end (KIP-98), in the first and the second form (KIP-890).

In the second form (`transaction.version` 2) a Produce adds its partitions to the transaction by itself, and every end
answers with the next epoch, so that nothing of an old transaction can enter a later one. In the first the producer names
partitions beforehand, and its epoch stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition
from ottla.client.batches import Appended, Records
from ottla.client.client import Client
from ottla.client.coordinators import Coordinated, CoordinatorKind
from ottla.wire import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

__all__ = ["TransactionalProducer"]

FEATURE = "transaction.version"
SECOND_PROTOCOL = 2
FIRST_ADD_VERSION_MAX, FIRST_PRODUCE_VERSION_MAX, FIRST_END_VERSION_MAX = 3, 11, 4
"""The highest versions that mean the first form."""


class TransactionalProducer:
    """Writes whole batches in transactions under one transactional id; `begin` first, and again after any error."""

    def __init__(self, client: Client, transactional_id: str, *, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = ProducerId(NO_PRODUCER_ID)
        self.epoch = ProducerEpoch(NO_PRODUCER_EPOCH)
        self._client = client
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinated(transactional_id, CoordinatorKind.TRANSACTION)
        self._is_second = True
        self._added: set[TopicPartition] = set()
        self._adding = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """True where something may have been written that no end has followed."""
        return bool(self._added)

    async def begin(self) -> None:
        """Take the transactional id over (InitProducerId).

        Whoever had it can commit nothing any more, and what he left open is aborted when this returns. Raises KafkaError.
        """
        self._is_second = (await self._client.features()).get(FEATURE, 0) >= SECOND_PROTOCOL
        message = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms)
        answer = await self._client.request(message, coordinator_of=self._coordinator)
        self._check(answer.error_code, "takes over")
        self.producer_id, self.epoch = ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)
        self._added.clear()

    async def produce(self, batches: Mapping[TopicPartition, Records], *, timeout_ms: int = 30_000) -> list[Appended]:
        """Append transactional batches; calls in flight together keep their order as in `Client.produce`.

        Raises KafkaError; INVALID_PRODUCER_EPOCH and PRODUCER_FENCED mean that another has taken the id over.
        """
        if not self._is_second:
            async with self._adding:  # so that a later batch of a partition waits as well
                await self._add([each for each in batches if each not in self._added])
        self._added.update(batches)
        return await self._client.produce(
            batches,
            timeout_ms=timeout_ms,
            transactional_id=self.transactional_id,
            highest=None if self._is_second else FIRST_PRODUCE_VERSION_MAX,
        )

    async def _add(self, partitions: Iterable[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        if not topics:
            return
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()
            ],
        )
        limits = self._client.limits
        loop = asyncio.get_running_loop()
        until_s, backoff_s = loop.time() + limits.call_s, limits.backoff_s
        while True:
            answer = await self._client.request(
                message, coordinator_of=self._coordinator, highest=FIRST_ADD_VERSION_MAX
            )
            codes = {
                ErrorCode(each.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            } - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}
            if not codes:
                return
            code = codes.pop()
            if not KafkaError(code).retriable or loop.time() > until_s:  # the end before may still be written
                self._check(code, "adds partitions")
            await asyncio.sleep(backoff_s)

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; what commits is visible for good when this returns. Raises KafkaError.

        An answer that was lost is asked for again, which the coordinator knows how to take.
        """
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        highest = None if self._is_second else FIRST_END_VERSION_MAX
        answer = await self._client.request(message, coordinator_of=self._coordinator, highest=highest)
        self._check(answer.error_code, "commits" if commit else "aborts")
        if self._is_second:
            self.producer_id, self.epoch = ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)
        self._added.clear()

    def _check(self, code: int, what: str) -> None:
        if code:
            found = ErrorCode(code)
            raise KafkaError(found, f"{self.transactional_id} {what}: {found.name}")
