"""Heartbeat: a member of a classic group says that it lives, and hears of a rebalance."""

from __future__ import annotations

from ottla import groups
from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.groups import Decision, Shard
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

__all__ = ["HANDLER"]


def heartbeat(context: RequestContext[GroupParts], request: HeartbeatRequest) -> Answer:
    """Let the member's session begin anew."""
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        return refuse(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return refuse(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    coordinator = context.services.groups

    def decide(shard: Shard, token: int) -> Decision:
        return groups.heartbeat(shard.groups.get(request.group_id), request, coordinator.decision_context())

    return coordinator.write(request.group_id, decide, lambda error: refuse(request, error))


def refuse(request: HeartbeatRequest, error: KafkaError) -> HeartbeatResponse:
    """Answer with an error; while the shard is loaded the member is taken to live."""
    code = ErrorCode.NONE if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
    return HeartbeatResponse(error_code=int(code))


HANDLER = Handler(
    HeartbeatRequest,
    versions=(0, 4),
    needs=Needs(Operation.READ, Resource.GROUP),
    handle=heartbeat,
    error_response=refuse,
)
