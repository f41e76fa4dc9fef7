"""UnregisterBroker (KIP-500): forget a broker that will not come back; what it led is led by others."""

from __future__ import annotations

from ottla.broker.controller.hand_over import submit_handing_over
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

__all__ = ["HANDLER"]


async def unregister_broker(
    context: RequestContext[ControllerParts], request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Forget the broker, and answer once that is committed."""
    config = context.services.configuration.broker
    await submit_handing_over(context, lambda image: decide.unregister_broker(image, request.broker_id, config=config))
    return UnregisterBrokerResponse()


HANDLER = Handler(
    UnregisterBrokerRequest,
    versions=(0, 0),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=unregister_broker,
    forwards=True,
)
