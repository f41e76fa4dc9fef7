"""What a ConsumerGroupHeartbeat may not say, whatever the group: checked before a shard is asked."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

__all__ = ["check_request"]


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for what no group can answer."""
    epoch = request.member_epoch
    # From version 1 the client makes its member id itself (KIP-1082).
    if (api_version >= 1 or epoch > 0 or epoch == LEAVE_EPOCH) and not request.member_id:
        raise _invalid("MemberId is empty; it has to be given")
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} is empty; it has to be given or null")
    if epoch == 0:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid(f"InstanceId is null; a member leaves with epoch {STATIC_LEAVE_EPOCH} only where it has one")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch {epoch} is not allowed; {STATIC_LEAVE_EPOCH} is the lowest")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported; {', '.join(assignors)} are",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs is missing; a member that joins has to give it")
    if request.topic_partitions is None or len(request.topic_partitions):
        raise _invalid("TopicPartitions has to be an empty list; a member that joins owns nothing")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "SubscribedTopicNames and SubscribedTopicRegex are both null; a member that joins has to give one"
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
