"""InitProducerId: an identity for an idempotent producer, or the next epoch of a transactional id (KIP-98, KIP-360).

Version 4 can say PRODUCER_FENCED (KIP-588). Version 6 adds two-phase commit (KIP-939) and is not stable in Kafka 4.3.
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId
from ottla.broker.parts import TransactionParts
from ottla.broker.requests.answers import Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.transactions import Identity, initialise
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["HANDLER"]

FENCED_FROM = 4


async def init_producer_id(
    context: RequestContext[TransactionParts], request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give the producer what it writes under."""
    transactions = context.services.transactions
    name = request.transactional_id
    if name is None:
        if not _may_write(context):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        _expected(request)
        return InitProducerIdResponse(producer_id=await transactions.take_producer_id(), producer_epoch=0)
    if not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    expected = _expected(request)
    timeout_ms = request.transaction_timeout_ms
    await transactions.producer_id_at_hand()
    answer = transactions.decide(
        name, lambda found, decision_context: initialise(found, name, timeout_ms, expected, decision_context)
    )
    outcome = await answer.wait() if isinstance(answer, Deferred) else answer
    code = outcome.code
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    if code is not ErrorCode.NONE:
        raise KafkaError(code)
    return InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch)


def _expected(request: InitProducerIdRequest) -> Identity | None:
    """Return the identity that the producer had, if it says one; raises INVALID_REQUEST for half of one."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.producer_id == -1:
        return None
    return ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)


def _may_write(context: RequestContext[TransactionParts]) -> bool:
    """Whoever may write to the cluster, or to any topic at all, may be idempotent about it (KIP-679)."""
    may_write_anyhow = context.would_allow(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
    return may_write_anyhow or context.allows_on_some(Operation.WRITE, Resource.TOPIC)


def refuse(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    """Answer with an error and no id; not to lead the quorum for a moment is a reason to ask again."""
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error.code is ErrorCode.NOT_CONTROLLER else error.code
    return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)


HANDLER = Handler(
    InitProducerIdRequest,
    versions=(0, 5),
    needs=Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    handle=init_producer_id,
    error_response=refuse,
)
