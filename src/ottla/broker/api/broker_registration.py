"""BrokerRegistration (KIP-631): a broker says where it is reached and what it has, and gets its epoch.

Version 2 adds log directories (KIP-858), 3 the epoch of the last clean shutdown (KIP-966), 4 features that begin at 0.
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, NodeId, Uuid
from ottla.broker.controller.duties import ControllerDuties
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import Endpoint, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

__all__ = ["HANDLER", "active_duties"]

PREVIOUS_EPOCH_FROM = 3


def active_duties(context: RequestContext[ControllerParts]) -> ControllerDuties:
    """Return the duties of the active controller; raises NOT_CONTROLLER on any other node."""
    duties = context.services.duties
    if duties is None or not duties.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
    return duties


async def broker_registration(
    context: RequestContext[ControllerParts], request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Register a broker, fenced, and answer once that is committed."""
    services = context.services
    duties = active_duties(context)
    if request.cluster_id != services.cluster_id:
        text = f"Expected cluster ID {services.cluster_id}, but got cluster ID {request.cluster_id}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    registration = decide.Registration(
        broker_id=NodeId(request.broker_id),
        incarnation_id=Uuid(bytes(request.incarnation_id)),
        endpoints=tuple(
            Endpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
        ),
        rack=request.rack,
        log_dirs=tuple(Uuid(bytes(each)) for each in request.log_dirs),
        previous_epoch=request.previous_broker_epoch,
        features={each.name: (each.min_supported_version, each.max_supported_version) for each in request.features},
    )
    supersede = duties.supersedes(registration)
    config = services.configuration.broker
    epoch = await services.quorum.submit(
        lambda image: decide.register_broker(image, registration, supersede=supersede, config=config)
    )
    duties.heard(registration.broker_id, epoch, context.connected)
    return BrokerRegistrationResponse(broker_epoch=epoch)


HANDLER = Handler(
    BrokerRegistrationRequest,
    versions=(0, 4),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=broker_registration,
)
