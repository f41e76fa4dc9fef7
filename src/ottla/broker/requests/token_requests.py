"""What the four APIs of delegation tokens share: who may ask at all, and where requests are decided."""

from __future__ import annotations

from typing import Any

from ottla.broker.parts import TokenParts
from ottla.broker.requests.forwarding import from_controller
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.sasl.tokens import check_may_ask

__all__ = ["check_asker", "decided"]


def check_asker(context: RequestContext[TokenParts]) -> None:
    """Raise DELEGATION_TOKEN_REQUEST_NOT_ALLOWED where a client may not ask about tokens on its connection.

    The broker that a client is connected to asks; the controller to which it forwards cannot know the connection.
    """
    peer = context.connected
    if peer.is_controller:
        return
    listeners = context.services.configuration.broker.listeners
    protocol = next(each.protocol for each in listeners if each.name == peer.listener)
    check_may_ask(protocol, peer.principal, by_token=peer.token_authenticated)


async def decided(handler: Handler[Any], context: RequestContext[TokenParts], request: Any) -> Any:
    """Return the active controller's answer, for a client who may ask."""
    check_asker(context)
    return await from_controller(handler, context, request)
