"""AlterPartition (KIP-497, KIP-903): a partition's leader asks the controller for another set of in-sync replicas."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base import ErrorCode, NodeId
from ottla.broker.controller.hand_over import submit_in_parts
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

__all__ = ["HANDLER"]

PATIENCE_S = 0.25
"""How long a leader is kept waiting because a reassignment that it ends takes a copy from a broker that is not heard: it
has one such request at a time, and other partitions of its to ask about."""


async def alter_partition(
    context: RequestContext[ControllerParts], request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """Change what may be changed, and answer once it is committed; what has to wait is to be asked for again."""
    config = context.services.configuration.broker
    parted = await submit_in_parts(
        context,
        request,
        lambda image, part: decide.alter_partition(image, part, version=context.api_version, config=config),
        knowing=NodeId(request.broker_id),
        patience_s=PATIENCE_S,
    )
    topics = [topic for answer in parted.answers for topic in answer.topics]
    if parted.waiting is not None:
        topics += [_not_yet(topic.topic_id, topic.partitions) for topic in parted.waiting.topics]
    return parted.answers[0].replace(topics=topics)


def _not_yet(topic_id: bytes, partitions: Sequence[RequestPartitionData]) -> ResponseTopicData:
    code = int(ErrorCode.REQUEST_TIMED_OUT)
    answers = [ResponsePartitionData(partition_index=each.partition_index, error_code=code) for each in partitions]
    return ResponseTopicData(topic_id=topic_id, partitions=answers)


HANDLER = Handler(
    AlterPartitionRequest,
    versions=(2, 3),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=alter_partition,
)
