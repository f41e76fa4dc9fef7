"""AssignReplicasToDirs (KIP-858): a broker tells the controller in which of its log directories replicas lie."""

from __future__ import annotations

from ottla.base import KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

__all__ = ["HANDLER"]


async def assign_replicas_to_dirs(
    context: RequestContext[ControllerParts], request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Note it, and answer once it is committed."""
    services = context.services
    config = services.configuration.broker
    return await services.quorum.submit(lambda image: decide.assign_replicas_to_dirs(image, request, config=config))


def refuse(request: AssignReplicasToDirsRequest, error: KafkaError) -> AssignReplicasToDirsResponse:
    """Say that nothing was noted."""
    return AssignReplicasToDirsResponse(error_code=int(error.code))


HANDLER = Handler(
    AssignReplicasToDirsRequest,
    versions=(0, 0),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=assign_replicas_to_dirs,
    error_response=refuse,
)
