"""SyncGroup: the leader brings every member's assignment, and the members fetch theirs; theirs waits for the leader's."""

from __future__ import annotations

from typing import Any

from ottla import groups
from ottla.base import ErrorCode, KafkaError
from ottla.broker.coordinators.group_coordinator import asker_of
from ottla.broker.requests.handler import Handler, Needs, Operation, RequestContext, Resource
from ottla.groups import Decision, Shard
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["HANDLER"]

PROTOCOL_FROM = 5


def sync_group(context: RequestContext, request: SyncGroupRequest) -> Any:
    """Answer with the member's assignment, now or when the leader has brought it."""
    if context.api_version >= PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
        return refuse(request, KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        return refuse(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return refuse(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    coordinator = context.services.groups

    def decide(shard: Shard, token: int) -> Decision:
        return groups.sync(shard.groups.get(request.group_id), request, asker_of(context, token), coordinator.moment())

    return coordinator.write(request.group_id, decide, lambda error: refuse(request, error))


def refuse(request: SyncGroupRequest, error: KafkaError) -> SyncGroupResponse:
    """Answer with an error."""
    return groups.sync_refused(error.code)


HANDLER = Handler(
    SyncGroupRequest,
    versions=(0, 5),
    needs=Needs(Operation.READ, Resource.GROUP),
    handle=sync_group,
    error_response=refuse,
)
