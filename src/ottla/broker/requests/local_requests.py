"""Running a handler for a request that came in through no connection of its own: another node's, or this node's."""

from __future__ import annotations

import inspect
from typing import Any

from ottla.base import ErrorCode, KafkaError
from ottla.broker.requests.error_answers import error_answer
from ottla.broker.requests.error_counts import count_errors
from ottla.broker.requests.handler import Deferred, Handler, RequestContext, Resource

__all__ = ["answered", "authorize", "has_moved"]

NOT_HERE = (int(ErrorCode.NOT_CONTROLLER), int(ErrorCode.NOT_LEADER_OR_FOLLOWER))


async def answered(handler: Handler[Any], context: RequestContext, request: Any) -> Any:
    """Return what a connection would be answered, errors among it; raises WireError where the API cannot say them."""
    try:
        if handler.needs.resource is Resource.CLUSTER:
            authorize(handler, context)
        answer = handler.handle(context, request)
        if isinstance(answer, Deferred):
            answer = await answer.wait()
        elif inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # rendered as for a client, in the one place for it
        answer = error_answer(handler, request, error)
    return answer


def authorize(handler: Handler[Any], context: RequestContext) -> None:
    """Raise CLUSTER_AUTHORIZATION_FAILED where the peer may not do to the cluster what the API needs."""
    operation = handler.needs.operation
    assert operation is not None
    if not context.allows(operation, Resource.CLUSTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def has_moved(response: Any) -> bool:
    """Return whether a response says, anywhere in it, that the node which gave it is not the active controller."""
    counts: dict[int, int] = {}
    count_errors(counts, response)
    return any(code in counts for code in NOT_HERE)
