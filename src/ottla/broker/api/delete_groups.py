"""DeleteGroups: remove groups without members, and what they have committed (KIP-229)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from ottla import groups
from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.groups import Decision, Shard
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

__all__ = ["HANDLER"]


def delete_groups(context: RequestContext[GroupParts], request: DeleteGroupsRequest) -> Answer:
    """Delete each group by itself; answer when all of that is committed."""
    return now_or_in_slices(context, _delete_all(context, request))


def _delete_all(context: RequestContext[GroupParts], request: DeleteGroupsRequest) -> Generator[None, None, Answer]:
    results = yield from of_each(dict.fromkeys(request.groups_names), lambda each: _delete(context, each))
    if any(isinstance(each, Deferred) for each in results):
        return _gathered(results)
    return DeleteGroupsResponse(results=results)


async def _gathered(results: Iterable[Any]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[await each.wait() if isinstance(each, Deferred) else each for each in results])


def _delete(context: RequestContext[GroupParts], group_id: str) -> Any:
    """Return the result for one group, or a Deferred of it."""
    if not context.allows(Operation.DELETE, Resource.GROUP, group_id):
        return _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def decide(shard: Shard, token: int) -> Decision:
        return groups.delete_group(shard.state, group_id)

    return context.services.groups.write(group_id, decide, lambda error: _failed(group_id, error.code))


def _failed(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=int(code))


def refuse(request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    """Say of every group that the request failed."""
    return DeleteGroupsResponse(results=[_failed(each, error.code) for each in request.groups_names])


HANDLER = Handler(
    DeleteGroupsRequest,
    versions=(0, 2),
    needs=Needs(Operation.DELETE, Resource.GROUP),
    handle=delete_groups,
    error_response=refuse,
)
