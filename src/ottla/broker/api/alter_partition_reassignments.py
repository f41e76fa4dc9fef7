"""AlterPartitionReassignments (KIP-455, KIP-860): begin to move replicas to other brokers, or cancel that."""

from __future__ import annotations

from ottla.base import KafkaError
from ottla.broker.controller.hand_over import submit_in_parts
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

__all__ = ["HANDLER"]


async def alter_partition_reassignments(
    context: RequestContext[ControllerParts], request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin and cancel what can be, and answer once it is committed; the copying goes on for as long as it takes."""
    config = context.services.configuration.broker
    parted = await submit_in_parts(
        context,
        request,
        lambda image, part: decide.alter_partition_reassignments(image, part, config=config),
        timeout_ms=request.timeout_ms,
    )
    if len(parted.answers) == 1:
        return parted.answers[0]
    found = {
        (topic.name, each.partition_index): each
        for answer in parted.answers
        for topic in answer.responses
        for each in topic.partitions
    }
    responses = [
        ReassignableTopicResponse(
            name=topic.name, partitions=[found[topic.name, each.partition_index] for each in topic.partitions]
        )
        for topic in request.topics
    ]
    return parted.answers[0].replace(responses=responses)


def refuse(request: AlterPartitionReassignmentsRequest, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    """Say of every partition, and of the whole, that the request failed."""
    code = int(error.code)
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=code, error_message=error.message
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


HANDLER = Handler(
    AlterPartitionReassignmentsRequest,
    versions=(0, 1),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=alter_partition_reassignments,
    error_response=refuse,
    forwards=True,
)
