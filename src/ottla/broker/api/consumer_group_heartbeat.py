"""ConsumerGroupHeartbeat (KIP-848): a member of a consumer group joins, lives, is assigned partitions, and leaves."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import GroupParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.origins import origin_of
from ottla.groups import Decision, Shard, consumer
from ottla.metadata import GROUP_VERSION
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["HANDLER", "is_enabled"]

PROTOCOL = "consumer"


def consumer_group_heartbeat(context: RequestContext[GroupParts], request: ConsumerGroupHeartbeatRequest) -> Answer:
    """Answer a heartbeat; the request is refused as a whole where it names a topic that the client may not know of."""
    if not is_enabled(context):
        return refuse(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled"))
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        return refuse(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    coordinator = context.services.groups
    origin = origin_of(context)
    named = request.subscribed_topic_names or ()
    if not all(context.allows(Operation.DESCRIBE, Resource.TOPIC, each) for each in named):
        return refuse(request, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    def decide(shard: Shard, token: int) -> Decision:
        decision_context = coordinator.decision_context()
        consumer.check_request(request, context.api_version, consumer.assignor_names(decision_context.settings))
        return consumer.heartbeat(shard.groups.get(request.group_id), request, origin, decision_context)

    return coordinator.write(request.group_id, decide, lambda error: refuse(request, error))


def is_enabled(context: RequestContext[GroupParts]) -> bool:
    """Return whether the cluster's feature level and this broker's configuration allow consumer groups."""
    settings = context.services.configuration.broker.settings
    level = context.services.image.features.get(GROUP_VERSION, 0)
    return level >= 1 and PROTOCOL in settings.group_coordinator_rebalance_protocols


def refuse(request: ConsumerGroupHeartbeatRequest, error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    """Answer with an error and its reason."""
    return ConsumerGroupHeartbeatResponse(error_code=int(error.code), error_message=error.message)


HANDLER = Handler(
    ConsumerGroupHeartbeatRequest,
    versions=(0, 1),
    needs=Needs(Operation.READ, Resource.GROUP),
    handle=consumer_group_heartbeat,
    error_response=refuse,
)
