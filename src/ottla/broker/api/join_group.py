"""JoinGroup: entering a group of the classic protocol. The answer waits until the group's next generation begins."""

from __future__ import annotations

from ottla import groups
from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer, Deferred
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.origins import origin_of
from ottla.groups import Decision, Shard
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

__all__ = ["HANDLER"]

NULLABLE_PROTOCOL_FROM = 7


def join_group(context: RequestContext[GroupParts], request: JoinGroupRequest) -> Answer:
    """Let the client into the group, now or when everyone has joined."""
    answer = _join(context, request)
    if context.api_version >= NULLABLE_PROTOCOL_FROM:
        return answer
    if isinstance(answer, Deferred):
        return answer.then(_without_null)
    return _without_null(answer)


def _join(
    context: RequestContext[GroupParts], request: JoinGroupRequest
) -> JoinGroupResponse | Deferred[JoinGroupResponse]:
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        return groups.join_refused(ErrorCode.GROUP_AUTHORIZATION_FAILED, request.member_id)
    coordinator = context.services.groups

    def decide(shard: Shard, token: int) -> Decision:
        return groups.join(
            shard.groups.get(request.group_id), request, origin_of(context, token), coordinator.decision_context()
        )

    return coordinator.write(request.group_id, decide, lambda error: groups.join_refused(error.code, request.member_id))


def _without_null(response: JoinGroupResponse) -> JoinGroupResponse:
    """Return the answer for versions in which the protocol's name cannot be left out."""
    return response if response.protocol_name is not None else response.replace(protocol_name="")


def refuse(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    """Answer with an error, in what every version can say."""
    return _without_null(groups.join_refused(error.code, request.member_id))


HANDLER = Handler(
    JoinGroupRequest,
    versions=(0, 9),
    needs=Needs(Operation.READ, Resource.GROUP),
    handle=join_group,
    error_response=refuse,
)
