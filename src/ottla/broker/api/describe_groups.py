"""DescribeGroups: members, protocol and assignment of classic groups. Version 6 tells which do not exist (KIP-1043)."""

from __future__ import annotations

from collections.abc import Generator

from ottla import groups
from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.authorized_operations import group_operations
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.groups import ShardState
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

__all__ = ["HANDLER"]


def describe_groups(context: RequestContext[GroupParts], request: DescribeGroupsRequest) -> Answer:
    """Describe each group by itself, and once where it is named again: a description is much longer than a name."""
    return now_or_in_slices(context, _describe_all(context, request))


def _describe_all(
    context: RequestContext[GroupParts], request: DescribeGroupsRequest
) -> Generator[None, None, DescribeGroupsResponse]:
    operations = request.include_authorized_operations
    found = yield from of_each(
        dict.fromkeys(request.groups), lambda each: _describe(context, each, operations=operations)
    )
    return DescribeGroupsResponse(groups=found)


def _describe(context: RequestContext[GroupParts], group_id: str, *, operations: bool) -> DescribedGroup:
    if not context.allows(Operation.DESCRIBE, Resource.GROUP, group_id):
        return _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def look(state: ShardState) -> DescribedGroup:
        return groups.describe_classic(state, group_id, context.api_version)

    try:
        found: DescribedGroup = context.services.groups.read(group_id, look)
    except KafkaError as error:
        return _failed(group_id, error.code)
    if operations and not found.error_code:
        return found.replace(authorized_operations=group_operations(context, group_id))
    return found


def _failed(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(code))


def refuse(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    """Say of every group that the request failed."""
    return DescribeGroupsResponse(groups=[_failed(each, error.code) for each in request.groups])


HANDLER = Handler(
    DescribeGroupsRequest,
    versions=(0, 6),
    needs=Needs(Operation.DESCRIBE, Resource.GROUP),
    handle=describe_groups,
    error_response=refuse,
)
