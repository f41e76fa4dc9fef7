"""ElectLeaders (KIP-183, KIP-460): lead by the preferred replica again, or by one that may lack records."""

from __future__ import annotations

from ottla.base import KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

__all__ = ["HANDLER"]


async def elect_leaders(context: RequestContext[ControllerParts], request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect what can be elected, and answer once it is committed."""
    services = context.services
    config = services.configuration.broker
    return await services.quorum.submit(
        lambda image: decide.elect_leaders(image, request, config=config), timeout_ms=request.timeout_ms
    )


def refuse(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Say of every partition, and of the whole, that the request failed."""
    code = int(error.code)
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=each.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=error.message)
                    for index in each.partitions
                ],
            )
            for each in request.topic_partitions or ()
        ],
    )


HANDLER = Handler(
    ElectLeadersRequest,
    versions=(0, 2),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=elect_leaders,
    error_response=refuse,
    forwards=True,
)
