"""TxnOffsetCommit: how far a group has read, to count when the producer's transaction commits (KIP-98, KIP-447).

Version 4 knows TRANSACTION_ABORTABLE; with version 5 the group's partition is added to the transaction here (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from ottla import groups
from ottla.base import OFFSETS_TOPIC, ErrorCode, KafkaError, ProducerEpoch, ProducerId
from ottla.broker.coordinators.coordinator_errors import coordinator_error
from ottla.broker.coordinators.transaction_admission import Admitted, Writer, admit
from ottla.broker.parts import TransactionParts
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.origins import origin_of
from ottla.broker.requests.slices import now_or_in_slices
from ottla.groups import Decision, Shard
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["HANDLER"]

SECOND_PROTOCOL_FROM = 5
ABORTABLE_FROM = 4
LOADING_FROM = 2

CommitAnswer = TxnOffsetCommitResponse | Deferred[TxnOffsetCommitResponse] | Awaitable[TxnOffsetCommitResponse]
"""The answer, or what has it later."""


def txn_offset_commit(context: RequestContext[TransactionParts], request: TxnOffsetCommitRequest) -> Answer:
    """Commit what may be committed; the other partitions are refused beside it."""
    if not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return groups.commit_in_transaction_refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        return groups.commit_in_transaction_refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return now_or_in_slices(context, _sorted_out(context, request))


def _sorted_out(
    context: RequestContext[TransactionParts], request: TxnOffsetCommitRequest
) -> Generator[None, None, Answer]:
    """Sort out what may be committed, and have that decided at one moment."""
    refused: list[TxnOffsetCommitResponseTopic] = []
    permitted = yield from _permitted(context, request, refused)
    if not permitted:
        return TxnOffsetCommitResponse(topics=refused)
    asked = request.replace(topics=permitted)
    try:
        answer: CommitAnswer = _commit(context, asked)
    except KafkaError as error:
        answer = _refused(context, asked, error.code)
    if not refused:
        return answer
    if isinstance(answer, Deferred):
        return answer.then(lambda committed: _joined(refused, committed))
    return _joined(refused, answer) if isinstance(answer, TxnOffsetCommitResponse) else _joined_later(refused, answer)


def _joined(refused: list[TxnOffsetCommitResponseTopic], committed: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[*refused, *committed.topics])


async def _joined_later(
    refused: list[TxnOffsetCommitResponseTopic], answer: Awaitable[TxnOffsetCommitResponse]
) -> TxnOffsetCommitResponse:
    return _joined(refused, await answer)


def _permitted(
    context: RequestContext[TransactionParts],
    request: TxnOffsetCommitRequest,
    refused: list[TxnOffsetCommitResponseTopic],
) -> Generator[None, None, list[TxnOffsetCommitRequestTopic]]:
    """Return the partitions that exist and may be read; note the others as refused."""
    permitted = []
    image = context.services.image
    for topic in request.topics:
        may_read = context.allows(Operation.READ, Resource.TOPIC, topic.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if may_read else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        good: list[TxnOffsetCommitRequestPartition] = []
        bad: list[TxnOffsetCommitRequestPartition] = []
        yield
        for each in topic.partitions:
            is_there = may_read and image.partition(topic.name, each.partition_index) is not None
            (good if is_there else bad).append(each)
        if good:
            permitted.append(topic.replace(partitions=good))
        if bad:
            partitions = [
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=int(code))
                for each in bad
            ]
            refused.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return permitted


def _commit(context: RequestContext[TransactionParts], request: TxnOffsetCommitRequest) -> CommitAnswer:
    """Have the transaction's coordinator asked, then the group's decide; raises KafkaError."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    index = context.services.groups.partition_of(request.group_id)
    partition = None if index is None else context.services.partitions.get(OFFSETS_TOPIC, index)
    if partition is None or not partition.replica.is_leader:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    version = context.api_version
    writer = Writer(
        request.transactional_id,
        ProducerId(request.producer_id),
        ProducerEpoch(request.producer_epoch),
        is_second=version >= SECOND_PROTOCOL_FROM,
        knows_abortable=version >= ABORTABLE_FROM,
    )
    admitted = admit(context, writer, [(partition, 0)])
    if isinstance(admitted, dict):
        return _commit_admitted(context, request, partition, admitted)
    return _commit_later(context, request, partition, admitted)


async def _commit_later(
    context: RequestContext[TransactionParts],
    request: TxnOffsetCommitRequest,
    partition: LocalPartition,
    admitted: Awaitable[Admitted],
) -> TxnOffsetCommitResponse:
    found = await admitted
    try:
        answer = _commit_admitted(context, request, partition, found)
    except KafkaError as error:
        return _refused(context, request, error.code)
    return await answer.wait() if isinstance(answer, Deferred) else answer


def _commit_admitted(
    context: RequestContext[TransactionParts],
    request: TxnOffsetCommitRequest,
    partition: LocalPartition,
    admitted: Admitted,
) -> TxnOffsetCommitResponse | Deferred[TxnOffsetCommitResponse]:
    """Write the offsets; raises the KafkaError for which they cannot be part of the transaction."""
    verification = admitted[partition.key]
    if isinstance(verification, KafkaError):
        raise KafkaError(coordinator_error(verification.code), verification.message)
    coordinator = context.services.groups

    def decide(shard: Shard, token: int) -> Decision:
        try:
            partition.check_transaction(request.producer_id, request.producer_epoch, 0, verification)
        except KafkaError as error:
            raise KafkaError(coordinator_error(error.code), error.message) from error
        group = shard.groups.get(request.group_id)
        return groups.commit_in_transaction(group, request, origin_of(context, token), coordinator.decision_context())

    answer = coordinator.write(request.group_id, decide, lambda error: _refused(context, request, error.code))
    partition.verifications.end(request.producer_id)
    return answer


def _refused(
    context: RequestContext[TransactionParts], request: TxnOffsetCommitRequest, code: ErrorCode
) -> TxnOffsetCommitResponse:
    """Refuse every partition; clients before version 2 do not ask again while a coordinator is loading."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.api_version < LOADING_FROM:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return groups.commit_in_transaction_refused(request, code)


def refuse(request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    """Say of every partition that the request failed."""
    return groups.commit_in_transaction_refused(request, error.code)


HANDLER = Handler(
    TxnOffsetCommitRequest,
    versions=(0, 5),
    needs=Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    handle=txn_offset_commit,
    error_response=refuse,
)
