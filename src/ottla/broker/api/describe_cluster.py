"""DescribeCluster (KIP-700): the cluster's brokers; its controllers on a controller listener (KIP-919).

Version 1 adds the kind of endpoint, 2 fenced brokers (KIP-1073).
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.authorized_operations import NOT_ASKED, cluster_operations
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.refusals import not_allowed
from ottla.metadata import Broker, Controller
from ottla.security import NEEDS_NOTHING, Operation, Resource
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

__all__ = ["HANDLER"]

BROKERS, CONTROLLERS = 1, 2
NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def describe_cluster(
    context: RequestContext[ControllerParts], request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe who is reached through the client's listener; a controller's is for administrators."""
    if context.connected.is_controller and not context.allows(Operation.ALTER, Resource.CLUSTER):
        raise not_allowed(Resource.CLUSTER)
    here = CONTROLLERS if context.connected.is_controller else BROKERS
    if request.endpoint_type != here:
        if request.endpoint_type not in NAMES:
            raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {NAMES[here]}, but we wanted an endpoint of type "
            f"{NAMES[request.endpoint_type]}",
        )
    services = context.services
    image = services.image
    if here == CONTROLLERS:
        nodes = _nodes(image.controllers.values(), context.connected.listener)
        controller_id = int(services.quorum.status.leader_id)
    else:
        shown = [each for each in image.brokers.values() if request.include_fenced_brokers or not each.fenced]
        nodes = _nodes(shown, context.connected.listener)
        alive = [each.broker_id for each in nodes if not each.is_fenced]
        # Any broker takes a client's administrative requests and passes them on (KIP-590).
        controller_id = alive[services.rng.randrange(len(alive))] if alive else -1
    return DescribeClusterResponse(
        endpoint_type=here,
        cluster_id=services.cluster_id,
        controller_id=controller_id,
        brokers=nodes,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _nodes(nodes: Iterable[Broker | Controller], listener: str) -> list[DescribeClusterBroker]:
    found = []
    for node in sorted(nodes, key=lambda each: each.id):
        endpoint = next((each for each in node.endpoints if each.name == listener), None)
        if endpoint is not None:
            found.append(
                DescribeClusterBroker(
                    broker_id=node.id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=node.rack if isinstance(node, Broker) else None,
                    is_fenced=isinstance(node, Broker) and node.fenced,
                )
            )
    return found


HANDLER = Handler(DescribeClusterRequest, versions=(0, 2), needs=NEEDS_NOTHING, handle=describe_cluster)
