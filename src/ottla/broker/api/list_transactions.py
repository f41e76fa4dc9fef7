"""ListTransactions: the transactional ids that this broker coordinates (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from ottla.broker.parts import TransactionParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.transactions import list_transactions, unknown_states
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

__all__ = ["HANDLER"]


def list_here(context: RequestContext[TransactionParts], request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List those that the filters let through and the asker may know of."""
    transactions = context.services.transactions
    now_ms = context.now_ms()
    found = [
        each
        for state in transactions.committed_states()
        for each in list_transactions(state.values(), request, now_ms)
        if context.would_allow(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, each.transactional_id)
    ]
    return ListTransactionsResponse(unknown_state_filters=unknown_states(request), transaction_states=found)


HANDLER = Handler(
    ListTransactionsRequest,
    versions=(0, 2),
    needs=Needs(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
    handle=list_here,
)
