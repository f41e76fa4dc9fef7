"""AllocateProducerIds (KIP-730): a broker draws its next block of producer ids from the controller."""

from __future__ import annotations

from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

__all__ = ["HANDLER"]


async def allocate_producer_ids(
    context: RequestContext[ControllerParts], request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Give the broker a block that nobody else gets, once that is committed."""
    block = await context.services.quorum.submit(
        lambda image: decide.allocate_producer_ids(
            image, broker_id=request.broker_id, broker_epoch=request.broker_epoch
        )
    )
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)


HANDLER = Handler(
    AllocateProducerIdsRequest,
    versions=(0, 0),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=allocate_producer_ids,
)
