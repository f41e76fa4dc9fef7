"""EndTxn: commit or abort. Version 5 speaks the second protocol and answers with the next epoch (KIP-890)."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId
from ottla.broker.parts import TransactionParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.transactions import Outcome, end_transaction
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

__all__ = ["HANDLER"]

FENCED_FROM = 2
SECOND_PROTOCOL_FROM = 5


def end_txn(context: RequestContext[TransactionParts], request: EndTxnRequest) -> Answer:
    """Answer when the end is decided for good; its markers may still be on their way."""
    name = request.transactional_id
    if not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    client_version = 2 if context.api_version >= SECOND_PROTOCOL_FROM else 0
    answer = context.services.transactions.decide(
        name,
        lambda found, decision_context: end_transaction(
            found,
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            decision_context,
            commit=request.committed,
            client_version=client_version,
        ),
    )
    if isinstance(answer, Deferred):
        return answer.then(lambda outcome: _answer(context, outcome))
    return _answer(context, answer)


def _answer(context: RequestContext[TransactionParts], outcome: Outcome) -> EndTxnResponse:
    code = outcome.code
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=int(code), producer_id=outcome.producer_id, producer_epoch=outcome.epoch)


HANDLER = Handler(
    EndTxnRequest,
    versions=(0, 5),
    needs=Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    handle=end_txn,
)
