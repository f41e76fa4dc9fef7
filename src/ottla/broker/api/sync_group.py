"""SyncGroup: the leader brings every member's assignment, and the members fetch theirs; theirs waits for the leader's."""

from __future__ import annotations

from ottla import groups
from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.origins import origin_of
from ottla.groups import Decision, Shard
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["HANDLER"]

PROTOCOL_FROM = 5


def sync_group(context: RequestContext[GroupParts], request: SyncGroupRequest) -> Answer:
    """Answer with the member's assignment, now or when the leader has brought it."""
    if context.api_version >= PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
        return refuse(request, KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        return refuse(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return refuse(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    coordinator = context.services.groups

    def decide(shard: Shard, token: int) -> Decision:
        return groups.sync(
            shard.groups.get(request.group_id), request, origin_of(context, token), coordinator.decision_context()
        )

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
