"""Running a handler for a request that came in through no connection of its own: another node's, or this node's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ottla.broker.requests.answers import Reply, reply_of
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.error_answers import error_answer
from ottla.broker.requests.handler import AccessParts, Handler, RequestContext
from ottla.broker.requests.refusals import not_allowed
from ottla.security import Resource

__all__ = ["authorize", "dispatch", "local_controller"]


async def dispatch(handler: Handler[Any], context: RequestContext[AccessParts], request: Any) -> Reply:
    """Return what a connection would be answered, errors among it; raises WireError where the API cannot say them."""
    try:
        if handler.needs.resource is Resource.CLUSTER:
            authorize(handler, context)
        return await reply_of(handler.handle(context, request))
    except Exception as error:  # rendered as for a client, in the one place for it
        return error_answer(handler, request, error, context.api_version)


def authorize(handler: Handler[Any], context: RequestContext[AccessParts]) -> None:
    """Raise CLUSTER_AUTHORIZATION_FAILED where the peer may not do to the cluster what the API needs."""
    operation = handler.needs.operation
    assert operation is not None
    if not context.allows(operation, Resource.CLUSTER):
        raise not_allowed(Resource.CLUSTER)


def local_controller(services: AccessParts, handlers: Iterable[Handler[Any]]) -> Callable[[Any], Awaitable[Reply]]:
    """Return what answers a message as this node's own controller listener would."""
    by_key = {each.api_key: each for each in handlers}

    async def answer(message: Any) -> Reply:
        handler = by_key[int(message.API_KEY)]
        peer = Connected(listener="", is_controller=True, is_this_node=True)
        context = RequestContext(services, peer, handler.api_key, handler.versions[1], 0, "broker")
        return await dispatch(handler, context, message)

    return answer
