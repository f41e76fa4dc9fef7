"""AddOffsetsToTxn: a transaction is going to commit offsets of a group, into its partition of `__consumer_offsets`.

Only clients of the first protocol send it; in the second, TxnOffsetCommit itself adds the partition (KIP-890).
"""

from __future__ import annotations

from ottla.base import OFFSETS_TOPIC, ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition
from ottla.broker.parts import TransactionParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.transactions import Outcome, add_partitions
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

__all__ = ["HANDLER"]

FENCED_FROM = 2


def add_offsets_to_txn(context: RequestContext[TransactionParts], request: AddOffsetsToTxnRequest) -> Answer:
    """Add the group's partition to the transaction."""
    name = request.transactional_id
    if not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    index = context.services.groups.partition_of(request.group_id)
    if index is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = context.services.transactions.decide(
        name,
        lambda found, decision_context: add_partitions(
            found,
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            frozenset({TopicPartition(OFFSETS_TOPIC, index)}),
            decision_context,
            client_version=0,
        ),
    )
    if isinstance(answer, Deferred):
        return answer.then(lambda outcome: _answer(context, outcome))
    return _answer(context, answer)


def _answer(context: RequestContext[TransactionParts], outcome: Outcome) -> AddOffsetsToTxnResponse:
    code = outcome.code
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=int(code))


HANDLER = Handler(
    AddOffsetsToTxnRequest,
    versions=(0, 4),
    needs=Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    handle=add_offsets_to_txn,
)
