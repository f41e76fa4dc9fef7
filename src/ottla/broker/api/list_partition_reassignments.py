"""ListPartitionReassignments (KIP-455): which replicas are on their way."""

from __future__ import annotations

from ottla.base import KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

__all__ = ["HANDLER"]


async def list_partition_reassignments(
    context: RequestContext[ControllerParts], request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer from what is committed."""
    return await context.services.quorum.submit(
        lambda image: decide.Decision((), decide.list_partition_reassignments(image, request)),
        timeout_ms=request.timeout_ms,
    )


def refuse(request: ListPartitionReassignmentsRequest, error: KafkaError) -> ListPartitionReassignmentsResponse:
    """Say that the request failed, and name what was asked for, as Kafka does."""
    return ListPartitionReassignmentsResponse(
        error_code=int(error.code),
        error_message=error.message,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[OngoingPartitionReassignment(partition_index=each) for each in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )


HANDLER = Handler(
    ListPartitionReassignmentsRequest,
    versions=(0, 0),
    needs=Needs(Operation.DESCRIBE, Resource.CLUSTER),
    handle=list_partition_reassignments,
    error_response=refuse,
    forwards=True,
)
