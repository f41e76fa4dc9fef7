"""AlterPartition (KIP-497, KIP-903): a partition's leader asks the controller for another set of in-sync replicas."""

from __future__ import annotations

from ottla.broker.handler import Handler, Needs, Operation, RequestContext, Resource
from ottla.metadata import decide
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

__all__ = ["HANDLER"]


async def alter_partition(context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Change what may be changed, and answer once it is committed."""
    services = context.services
    config = services.configuration.broker
    return await services.quorum.submit(
        lambda image: decide.alter_partition(image, request, version=context.api_version, config=config)
    )


HANDLER = Handler(
    AlterPartitionRequest,
    versions=(2, 3),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=alter_partition,
)
