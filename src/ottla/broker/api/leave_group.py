"""LeaveGroup: members go, and their group rebalances at once; version 3 names several (KIP-345)."""

from __future__ import annotations

from ottla import groups
from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.groups import Decision, Shard
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

__all__ = ["HANDLER"]

MEMBERS_FROM = 3


def leave_group(context: RequestContext[GroupParts], request: LeaveGroupRequest) -> Answer:
    """Remove the members that are named."""
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        return refuse(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return refuse(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    coordinator = context.services.groups
    is_single = context.api_version < MEMBERS_FROM
    asked = request.replace(members=[MemberIdentity(member_id=request.member_id)]) if is_single else request

    def decide(shard: Shard, token: int) -> Decision:
        return groups.leave(shard.groups.get(request.group_id), asked, coordinator.decision_context())

    answer = coordinator.write(request.group_id, decide, lambda error: refuse(request, error))
    if not is_single:
        return answer
    return answer.then(_single) if isinstance(answer, Deferred) else _single(answer)


def _single(response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Return the answer for versions that name one member: its error is the whole one."""
    if response.error_code or not response.members:
        return response
    return LeaveGroupResponse(error_code=response.members[0].error_code)


def refuse(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    """Answer with an error."""
    return LeaveGroupResponse(error_code=int(error.code))


HANDLER = Handler(
    LeaveGroupRequest,
    versions=(0, 5),
    needs=Needs(Operation.READ, Resource.GROUP),
    handle=leave_group,
    error_response=refuse,
)
