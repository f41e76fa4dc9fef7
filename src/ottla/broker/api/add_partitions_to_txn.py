"""AddPartitionsToTxn: a transaction is going to write to these partitions (KIP-98).

Clients send versions 0 to 3, for one transaction. Brokers send 4 and 5, for many at once: to ask whether partitions belong
to a transaction, or to add them because a client of the second protocol has begun to write (KIP-890).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.base import INTERNAL_TOPICS, ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition
from ottla.broker.parts import TransactionParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.transactions import Outcome, add_partitions, verify_partitions
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

__all__ = ["HANDLER"]

BROKERS_FROM = 4
SECOND_PROTOCOL_FROM = 5
FENCED_FROM = 2

Codes = Mapping[TopicPartition, ErrorCode]


def add_partitions_to_txn(context: RequestContext[TransactionParts], request: AddPartitionsToTxnRequest) -> Answer:
    """Answer for one transaction, or for many."""
    if context.api_version < BROKERS_FROM:
        answer = _one(context, _of_client(request))
        if isinstance(answer, Deferred):
            return answer.then(_for_client)
        return _for_client(answer)
    if not context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answers = [(each.transactional_id, _one(context, each)) for each in request.transactions]
    if any(isinstance(answer, Deferred) for _, answer in answers):
        return _many_later(answers)
    return _many(answers)


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _one(context: RequestContext[TransactionParts], asked: AddPartitionsToTxnTransaction) -> Any:
    """Return the codes of one transaction's partitions, or a Deferred of them."""
    partitions = _partitions(asked.topics)
    name = asked.transactional_id
    try:
        _check_all(context, name, partitions)
    except _NotAttempted as refused:
        return refused.codes
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    producer_id, epoch = ProducerId(asked.producer_id), ProducerEpoch(asked.producer_epoch)
    transactions = context.services.transactions
    if asked.verify_only:
        try:
            return verify_partitions(transactions.look(name), producer_id, epoch, partitions)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
    client_version = 2 if context.api_version >= SECOND_PROTOCOL_FROM else 0
    answer = transactions.decide(
        name,
        lambda found, decision_context: add_partitions(
            found, producer_id, epoch, frozenset(partitions), decision_context, client_version=client_version
        ),
    )
    if isinstance(answer, Deferred):
        return answer.then(lambda outcome: _codes(context, outcome, partitions))
    return _codes(context, answer, partitions)


def _codes(context: RequestContext[TransactionParts], outcome: Outcome, partitions: list[TopicPartition]) -> Codes:
    """Return the outcome for each partition; clients before version 2 do not know PRODUCER_FENCED."""
    code = outcome.code
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(partitions, code)


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


class _NotAttempted(KafkaError):
    """Some partitions cannot be added, so none is."""

    def __init__(self, codes: Codes) -> None:
        super().__init__(ErrorCode.OPERATION_NOT_ATTEMPTED)
        self.codes = codes


def _writable(context: RequestContext[TransactionParts], partitions: list[TopicPartition]) -> set[str]:
    """Return the topics that a client may write to: no internal one."""
    counts = Counter(each.topic for each in partitions if each.topic not in INTERNAL_TOPICS)
    return {name for name, count in counts.items() if context.allows(Operation.WRITE, Resource.TOPIC, name, count)}


def _check_all(context: RequestContext[TransactionParts], name: str, partitions: list[TopicPartition]) -> None:
    """Raise what refuses the whole transaction: no access to it, or partitions that are not there or not the client's."""
    is_client = context.api_version < BROKERS_FROM
    if is_client and not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    image = context.services.image
    codes = {}
    may_write = _writable(context, partitions) if is_client else None
    for each in partitions:
        if may_write is not None and each.topic not in may_write:
            codes[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(*each) is None:
            codes[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if codes:
        raise _NotAttempted({each: codes.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions})


# -- answering


def _topics(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for partition, code in codes.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=partition.partition, partition_error_code=int(code))
        topics.setdefault(partition.topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()]


def _for_client(codes: Codes) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topics(codes))


def _many(answers: list[tuple[str, Any]]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=name, topic_results=_topics(codes)) for name, codes in answers
        ]
    )


async def _many_later(answers: list[tuple[str, Any]]) -> AddPartitionsToTxnResponse:
    return _many([(name, await answer.wait() if isinstance(answer, Deferred) else answer) for name, answer in answers])


def refuse(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    """Say that the request failed: at the top for brokers, of each partition for clients."""
    codes = dict.fromkeys(_partitions(request.v3_and_below_topics), error.code)
    return AddPartitionsToTxnResponse(error_code=int(error.code), results_by_topic_v3_and_below=_topics(codes))


HANDLER = Handler(
    AddPartitionsToTxnRequest,
    versions=(0, 5),
    needs=Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    handle=add_partitions_to_txn,
    error_response=refuse,
)
