"""ConsumerGroupDescribe (KIP-848): members of consumer groups, what they hold and what they shall hold."""

from __future__ import annotations

from collections.abc import Generator

from ottla.base import ErrorCode, KafkaError
from ottla.broker.api.consumer_group_heartbeat import is_enabled
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.authorized_operations import group_operations
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.groups import ShardState, consumer
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

__all__ = ["HANDLER"]


HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def consumer_group_describe(context: RequestContext[GroupParts], request: ConsumerGroupDescribeRequest) -> Answer:
    """Describe each group by itself, and once where it is named again: a description is much longer than a name."""
    if not is_enabled(context):
        return refuse(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled"))
    return now_or_in_slices(context, _describe_all(context, request))


def _describe_all(
    context: RequestContext[GroupParts], request: ConsumerGroupDescribeRequest
) -> Generator[None, None, ConsumerGroupDescribeResponse]:
    with_operations = request.include_authorized_operations
    found = yield from of_each(
        dict.fromkeys(request.group_ids), lambda each: _describe(context, each, with_operations=with_operations)
    )
    return ConsumerGroupDescribeResponse(groups=found)


def _describe(context: RequestContext[GroupParts], group_id: str, *, with_operations: bool) -> DescribedGroup:
    if not context.allows(Operation.DESCRIBE, Resource.GROUP, group_id):
        return _failed(group_id, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not group_id:
        return _failed(group_id, KafkaError(ErrorCode.INVALID_GROUP_ID))
    coordinator = context.services.groups

    def look(state: ShardState) -> DescribedGroup:
        return consumer.describe(state.groups.get(group_id), group_id, coordinator.decision_context())

    try:
        found: DescribedGroup = coordinator.read(group_id, look)
    except KafkaError as error:
        return _failed(group_id, error)
    if not found.error_code and not all(
        context.allows(Operation.DESCRIBE, Resource.TOPIC, name) for name in _topics(found)
    ):
        return _failed(
            group_id,
            KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS),
        )
    if with_operations and not found.error_code:
        return found.replace(authorized_operations=group_operations(context, group_id))
    return found


def _topics(group: DescribedGroup) -> set[str]:
    """Return the topics that a description names."""
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }.union(*(member.subscribed_topic_names for member in group.members))


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(error.code), error_message=error.message)


def refuse(request: ConsumerGroupDescribeRequest, error: KafkaError) -> ConsumerGroupDescribeResponse:
    """Say of every group that the request failed."""
    return ConsumerGroupDescribeResponse(groups=[_failed(each, error) for each in request.group_ids])


HANDLER = Handler(
    ConsumerGroupDescribeRequest,
    versions=(0, 1),
    needs=Needs(Operation.DESCRIBE, Resource.GROUP),
    handle=consumer_group_describe,
    error_response=refuse,
)
