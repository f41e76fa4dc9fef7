"""ListGroups: the groups that this broker coordinates; version 4 filters by state (KIP-518), 5 by type (KIP-848)."""

from __future__ import annotations

from ottla import groups
from ottla.base import KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

__all__ = ["HANDLER"]


def list_groups(context: RequestContext[GroupParts], request: ListGroupsRequest) -> ListGroupsResponse:
    """List what the client may describe."""
    found: list[ListedGroup] = []
    for state in context.services.groups.committed_states():
        found += groups.list_groups(state, request.states_filter, request.types_filter)
    if not context.would_allow(Operation.DESCRIBE, Resource.CLUSTER):
        found = [each for each in found if context.would_allow(Operation.DESCRIBE, Resource.GROUP, each.group_id)]
    return ListGroupsResponse(groups=found)


def refuse(request: ListGroupsRequest, error: KafkaError) -> ListGroupsResponse:
    """Answer with an error."""
    return ListGroupsResponse(error_code=int(error.code))


HANDLER = Handler(
    ListGroupsRequest,
    versions=(0, 5),
    needs=Needs(Operation.DESCRIBE, Resource.GROUP),
    handle=list_groups,
    error_response=refuse,
)
