"""DescribeTransactions: state, producer and partitions of transactional ids, from their coordinator (KIP-664)."""

from __future__ import annotations

from collections.abc import Generator

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import TransactionParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.security import Needs, Operation, Resource
from ottla.transactions import describe
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

__all__ = ["HANDLER"]


def describe_transactions(context: RequestContext[TransactionParts], request: DescribeTransactionsRequest) -> Answer:
    """Answer for each transactional id by itself."""
    return now_or_in_slices(context, _answer_all(context, request))


def _answer_all(
    context: RequestContext[TransactionParts], request: DescribeTransactionsRequest
) -> Generator[None, None, DescribeTransactionsResponse]:
    found = yield from of_each(dict.fromkeys(request.transactional_ids), lambda each: _answer(context, each))
    return DescribeTransactionsResponse(transaction_states=found)


def _answer(context: RequestContext[TransactionParts], name: str) -> TransactionState:
    try:
        if not context.allows(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        found = context.services.transactions.look(name) if name else None
    except KafkaError as error:
        return TransactionState(transactional_id=name, error_code=int(error.code))
    return describe(found, name, lambda topic: context.would_allow(Operation.DESCRIBE, Resource.TOPIC, topic))


def refuse(request: DescribeTransactionsRequest, error: KafkaError) -> DescribeTransactionsResponse:
    """Say of every transactional id that the request failed."""
    code = int(error.code)
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=each, error_code=code) for each in request.transactional_ids
        ]
    )


HANDLER = Handler(
    DescribeTransactionsRequest,
    versions=(0, 0),
    needs=Needs(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
    handle=describe_transactions,
    error_response=refuse,
)
