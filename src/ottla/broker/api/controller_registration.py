"""ControllerRegistration (KIP-919): a controller says where it is reached and what it understands."""

from __future__ import annotations

from ottla.base import NodeId, Uuid
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import Endpoint, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

__all__ = ["HANDLER"]


async def controller_registration(
    context: RequestContext[ControllerParts], request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    """Register a controller, and answer once that is committed."""
    endpoints = tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners)
    features = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    await context.services.quorum.submit(
        lambda image: decide.register_controller(
            image,
            NodeId(request.controller_id),
            Uuid(bytes(request.incarnation_id)),
            endpoints,
            features=features,
        )
    )
    return ControllerRegistrationResponse()


HANDLER = Handler(
    ControllerRegistrationRequest,
    versions=(0, 0),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=controller_registration,
)
