"""AlterPartitionReassignments (KIP-455, KIP-860): begin to move replicas to other brokers, or cancel that."""

from __future__ import annotations

from ottla.broker.handler import Handler, Needs, Operation, RequestContext, Resource
from ottla.metadata import decide
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

__all__ = ["HANDLER"]


async def alter_partition_reassignments(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin and cancel what can be, and answer once it is committed; the copying goes on for as long as it takes."""
    services = context.services
    config = services.configuration.broker
    return await services.quorum.submit(
        lambda image: decide.alter_partition_reassignments(image, request, config=config),
        timeout_ms=request.timeout_ms,
    )


HANDLER = Handler(
    AlterPartitionReassignmentsRequest,
    versions=(0, 1),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=alter_partition_reassignments,
    forwards=True,
)
