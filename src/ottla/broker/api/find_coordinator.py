"""FindCoordinator: which broker coordinates a group, a transactional id or a share group; version 4 asks for many at once.

The partition of the coordinator's topic to which the key hashes says it: its leader is the coordinator. The topic is made
when it is first asked for; who asked is told COORDINATOR_NOT_AVAILABLE, and asks again. Version 6: share groups (KIP-932).
"""

from __future__ import annotations

from collections.abc import Generator

from ottla.base import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    ErrorCode,
    KafkaError,
    coordinating_partition,
)
from ottla.broker.endpoints import leader_endpoints
from ottla.broker.parts import MetadataParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

__all__ = ["HANDLER"]

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_STATE_TOPIC}
BATCHED_FROM = 4
SHARE_FROM = 6
TEXTS = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
        "incompatible broker. See the broker logs for more details."
    ),
}
"""What Kafka's clients are told of these codes."""


def find_coordinator(context: RequestContext[MetadataParts], request: FindCoordinatorRequest) -> Answer:
    """Answer for every key, or for the one that earlier versions name."""
    if context.api_version >= BATCHED_FROM:
        return now_or_in_slices(context, _answer_all(context, request))
    found = _answer(context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _answer_all(
    context: RequestContext[MetadataParts], request: FindCoordinatorRequest
) -> Generator[None, None, FindCoordinatorResponse]:
    found = yield from of_each(request.coordinator_keys, lambda key: _answer(context, request.key_type, key))
    return FindCoordinatorResponse(coordinators=found)


def _answer(context: RequestContext[MetadataParts], key_type: int, key: str) -> Coordinator:
    try:
        node_id, host, port = _find(context, key_type, key)
    except KafkaError as error:
        # As in Kafka: from version 4 on there is a text only where the whole request is wrong.
        is_told = (
            context.api_version < BATCHED_FROM
            or key_type not in TOPICS
            or error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        text = TEXTS.get(error.code, error.message) if is_told else ""
        return Coordinator(key=key, error_code=int(error.code), error_message=text, node_id=-1, host="", port=-1)
    text = "NONE" if context.api_version < BATCHED_FROM else ""
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message=text)


def _find(context: RequestContext[MetadataParts], key_type: int, key: str) -> tuple[int, str, int]:
    """Return node id, host and port of the coordinator of a key; raises KafkaError where there is none now."""
    _check(context, key_type, key)
    services = context.services
    topic = services.image.topic(TOPICS[key_type])
    if topic is None:
        services.auto_creation.create([TOPICS[key_type]])
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = topic.partitions.get(coordinating_partition(key, len(topic.partitions)))
    endpoints = leader_endpoints(context, [partition.leader]) if partition is not None else []
    if not endpoints:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    node_id, host, port, _ = endpoints[0]
    return node_id, host, port


def _check(context: RequestContext[MetadataParts], key_type: int, key: str) -> None:
    """Raise the KafkaError for which the key is refused."""
    if key_type == GROUP and not context.allows(Operation.DESCRIBE, Resource.GROUP, key):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if key_type == TRANSACTION and not context.allows(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, key):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if key_type == SHARE:
        if context.api_version < SHARE_FROM or not _is_share_key(key):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if key_type not in TOPICS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _is_share_key(key: str) -> bool:
    """Return whether a key is `group:topic id:partition`, as share groups have it."""
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and all(part.strip() for part in parts) and parts[2].isdecimal()


def refuse(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    """Say of every key, or of the one, that the request failed."""
    code, text = int(error.code), error.message
    if request.coordinator_keys:
        failed = [
            Coordinator(key=key, error_code=code, error_message=text, node_id=-1, host="", port=-1)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=failed)
    return FindCoordinatorResponse(error_code=code, error_message=text, node_id=-1, host="", port=-1)


HANDLER = Handler(
    FindCoordinatorRequest,
    versions=(0, 6),
    needs=Needs(Operation.DESCRIBE, Resource.GROUP),
    handle=find_coordinator,
    error_response=refuse,
)
