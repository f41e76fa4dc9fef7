"""One transactional id's side of the protocol: begin, write, end (KIP-98), in the first and the second form (KIP-890).

In the second form (`transaction.version` 2) a Produce adds its partitions to the transaction by itself, and every end
answers with the next epoch, so that nothing of an old transaction can enter a later one. In the first the producer names
partitions beforehand, and its epoch stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.base import ErrorCode, KafkaError, Offset, ProducerEpoch, ProducerId, TopicPartition
from ottla.client.batches import Appended, Records
from ottla.client.client import Client
from ottla.client.coordinators import Coordinated, CoordinatorKind
from ottla.client.group_offsets import ConsumerGroupMetadata, words_for
from ottla.wire import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

__all__ = ["TransactionalProducer", "init_producer_id"]

FEATURE = "transaction.version"
SECOND_PROTOCOL = 2
FIRST_ADD_VERSION_MAX, FIRST_PRODUCE_VERSION_MAX, FIRST_END_VERSION_MAX = 3, 11, 4
"""The highest versions that mean the first form."""
MEMBERS_FROM, FIRST_OFFSETS_VERSION_MAX = 3, 4
"""Of TxnOffsetCommit: the first that names a member (KIP-447), and the last that means the first form."""


async def init_producer_id(
    client: Client, transactional_id: str | None, *, timeout_ms: int
) -> tuple[ProducerId, ProducerEpoch]:
    """Take a transactional id over, whose transactions may last `timeout_ms`, or without one a new producer id.

    Raises KafkaError.
    """
    coordinator = None if transactional_id is None else Coordinated(transactional_id, CoordinatorKind.TRANSACTION)
    message = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    answer = await client.request(message, coordinator_of=coordinator)
    if answer.error_code:
        code = ErrorCode(answer.error_code)
        what = "the broker gives out no producer id" if transactional_id is None else f"{transactional_id} takes over"
        raise KafkaError(code, f"{what}: {code.name}")
    return ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)


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
        self._has_offsets = False
        self._adding = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """True where something may have been written that no end has followed."""
        return bool(self._added) or self._has_offsets

    async def begin(self) -> None:
        """Take the transactional id over (InitProducerId).

        Whoever had it can commit nothing any more, and what he left open is aborted when this returns. Raises KafkaError.
        """
        self._is_second = (await self._client.features()).get(FEATURE, 0) >= SECOND_PROTOCOL
        taken = await init_producer_id(self._client, self.transactional_id, timeout_ms=self._timeout_ms)
        self.producer_id, self.epoch = taken
        self._added.clear()
        self._has_offsets = False

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
        await self._settled(
            message,
            self._coordinator,
            lambda answer: (
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ),
            "adds partitions",
            highest=FIRST_ADD_VERSION_MAX,
        )

    async def _settled(
        self,
        message: Any,
        coordinator: Coordinated,
        codes_of: Callable[[Any], Iterable[int]],
        what: str,
        *,
        lowest: int = 0,
        highest: int | None = None,
    ) -> None:
        """Send a request until its answer has no code that passes: the end before may still be written."""
        limits = self._client.limits
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limits.call_s
        while True:
            answer = await self._client.request(message, coordinator_of=coordinator, lowest=lowest, highest=highest)
            codes = {ErrorCode(each) for each in codes_of(answer)} - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}
            if not codes:
                return
            code = codes.pop()
            if not KafkaError(code).retriable or loop.time() > until_s:
                self._check(code, what)
            await asyncio.sleep(limits.backoff_s)

    async def commit_offsets(
        self,
        offsets: Mapping[TopicPartition, Offset],
        member: ConsumerGroupMetadata,
        *,
        words: str | Mapping[TopicPartition, str] = "",
    ) -> None:
        """Commit a group's offsets with the transaction (KIP-98); they count when it commits.

        `words` stand beside each offset, the same for all or by partition.

        The group's coordinator checks the member (KIP-447). Raises KafkaError; ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID
        mean that it is a member no longer, or of an older generation.
        """
        if not self._is_second:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=member.group,
            )
            await self._settled(adding, self._coordinator, lambda answer: [answer.error_code], "adds offsets")
        self._has_offsets = True
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    committed_metadata=words_for(words, TopicPartition(topic, partition)),
                )
            )
        message = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=member.group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=found) for name, found in topics.items()],
        )
        await self._settled(
            message,
            Coordinated(member.group),
            lambda answer: (each.error_code for topic in answer.topics for each in topic.partitions),
            f"commits offsets of group {member.group} as {member.member_id}",
            lowest=MEMBERS_FROM,
            highest=None if self._is_second else FIRST_OFFSETS_VERSION_MAX,
        )

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
        self._has_offsets = False

    def _check(self, code: int, what: str) -> None:
        if code:
            found = ErrorCode(code)
            raise KafkaError(found, f"{self.transactional_id} {what}: {found.name}")
