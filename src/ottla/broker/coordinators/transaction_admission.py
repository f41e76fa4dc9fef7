"""May this write be part of its transaction? What is asked of the transaction's coordinator before it (KIP-890).

A client of the first protocol has told the coordinator itself, and the coordinator is asked whether it has. A client of the
second has not, and the partition is added for it. What goes on with a transaction that is open in the partition is not asked
about at all. Where the coordinator is this broker the answer is there at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple

from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition
from ottla.broker.parts import TransactionParts
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.verification import OPEN, Verification, is_in_transaction
from ottla.broker.requests.answers import Deferred
from ottla.broker.requests.handler import RequestContext
from ottla.transactions import SECOND_PROTOCOL, Outcome, add_partitions, verify_partitions
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

__all__ = ["Admission", "Admitted", "Writer", "admit"]

Admission = KafkaError | Verification
"""Why a partition is not written to, or with what it is."""
Admitted = dict[TopicPartition, Admission]

BROKER_VERSIONS_FROM = 4
UNREACHABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Writer(NamedTuple):
    """A transactional producer, and how much of KIP-890 its request speaks."""

    transactional_id: str
    producer_id: ProducerId
    epoch: ProducerEpoch
    is_second: bool
    """Its partitions are added for it."""
    knows_abortable: bool
    """It understands TRANSACTION_ABORTABLE."""


def admit(
    context: RequestContext[TransactionParts], writer: Writer, wanted: Iterable[tuple[LocalPartition, int]]
) -> Admitted | Coroutine[Any, Any, Admitted]:
    """Return with what each partition is to be written to, or why it is not; they come with their batches' sequences."""
    admitted: Admitted = {}
    unknown: list[tuple[LocalPartition, int]] = []
    for partition, sequence in wanted:
        is_asked = writer.is_second or partition.verifies
        if is_asked and not is_in_transaction(partition.log, writer.producer_id, writer.epoch):
            unknown.append((partition, sequence))
        else:
            admitted[partition.key] = OPEN
    if not unknown:
        return admitted
    verifications = _begun(context, writer, unknown)
    codes = _ask_at_once(context, writer, list(verifications))
    if codes is None or _must_ask_again(writer, codes):
        return _admit_later(context, writer, unknown, admitted)
    return admitted | _admitted(writer, verifications, codes)


def _begun(
    context: RequestContext[TransactionParts], writer: Writer, unknown: Iterable[tuple[LocalPartition, int]]
) -> dict[TopicPartition, Verification]:
    """Begin to verify the producer for these partitions, or go on where that was begun and nothing has ended it."""
    now_ms = context.now_ms()
    return {
        partition.key: partition.verifications.begin(
            writer.producer_id, writer.epoch, sequence, now_ms, is_second=writer.is_second
        )
        for partition, sequence in unknown
    }


async def _admit_later(
    context: RequestContext[TransactionParts],
    writer: Writer,
    unknown: list[tuple[LocalPartition, int]],
    admitted: Admitted,
) -> Admitted:
    """Ask until there is an answer; an end that is being written is waited for a little (CONCURRENT_TRANSACTIONS)."""
    settings = context.services.configuration.broker.settings
    loop = context.services.loop
    until_s = loop.time() + settings.add_partitions_to_txn_retry_backoff_max_ms / 1000
    partitions = [partition.key for partition, _ in unknown]
    while True:
        verifications = _begun(context, writer, unknown)  # the marker that is waited for may have ended the last
        codes = await _ask(context, writer, partitions)
        if not _must_ask_again(writer, codes) or loop.time() >= until_s:
            return admitted | _admitted(writer, verifications, codes)
        await asyncio.sleep(settings.add_partitions_to_txn_retry_backoff_ms / 1000)


_Codes = dict[TopicPartition, ErrorCode]


def _must_ask_again(writer: Writer, codes: _Codes) -> bool:
    return writer.is_second and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()


def _admitted(writer: Writer, verifications: dict[TopicPartition, Verification], codes: _Codes) -> Admitted:
    """Return what the coordinator's answer means for each partition."""
    return {
        partition: found if codes[partition] is ErrorCode.NONE else _refusal(writer, codes[partition])
        for partition, found in verifications.items()
    }


def _refusal(writer: Writer, code: ErrorCode) -> KafkaError:
    """Return how a producer is told: in codes that it knows, and that it retries where it may."""
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not writer.knows_abortable:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code in UNREACHABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not writer.is_second):
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return KafkaError(code)


# -- asking


def _ask_at_once(
    context: RequestContext[TransactionParts], writer: Writer, partitions: list[TopicPartition]
) -> _Codes | None:
    """Return the codes where this broker coordinates and nothing has to be waited for; None otherwise."""
    if context.services.transactions.coordinator_of(writer.transactional_id) != context.services.node_id:
        return None
    answer = _ask_here(context, writer, partitions)
    return None if isinstance(answer, Deferred) else answer


def _ask_here(
    context: RequestContext[TransactionParts], writer: Writer, partitions: list[TopicPartition]
) -> _Codes | Deferred[_Codes]:
    transactions = context.services.transactions
    if not writer.is_second:
        try:
            found = transactions.look(writer.transactional_id)
            return verify_partitions(found, writer.producer_id, writer.epoch, partitions)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
    answer = transactions.decide(
        writer.transactional_id,
        lambda found, decision_context: add_partitions(
            found,
            writer.producer_id,
            writer.epoch,
            frozenset(partitions),
            decision_context,
            client_version=SECOND_PROTOCOL,
        ),
    )
    if isinstance(answer, Deferred):
        return answer.then(lambda outcome: _same(partitions, outcome))
    return _same(partitions, answer)


def _same(partitions: list[TopicPartition], outcome: Outcome) -> _Codes:
    return dict.fromkeys(partitions, outcome.code)


async def _ask(context: RequestContext[TransactionParts], writer: Writer, partitions: list[TopicPartition]) -> _Codes:
    """Return the coordinator's codes, wherever it is."""
    transactions = context.services.transactions
    node = transactions.coordinator_of(writer.transactional_id)
    if node is None:
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if node == context.services.node_id:
        answer = _ask_here(context, writer, partitions)
        codes: _Codes = await answer.wait() if isinstance(answer, Deferred) else answer
        return codes
    try:
        response = await transactions.peers.ask(node, _request(writer, partitions), lowest=BROKER_VERSIONS_FROM)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    found = {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for result in response.results_by_transaction
        for topic in result.topic_results
        for each in topic.results_by_partition
    }
    missing = ErrorCode(response.error_code) if response.error_code else ErrorCode.NETWORK_EXCEPTION
    return {each: found.get(each, missing) for each in partitions}


def _request(writer: Writer, partitions: list[TopicPartition]) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=writer.transactional_id,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        verify_only=not writer.is_second,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])
