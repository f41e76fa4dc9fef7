"""DeleteTopics: by name up to version 5, by name or id from version 6 (KIP-516)."""

from __future__ import annotations

from collections import Counter

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, Uuid
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.mutations import mutation_quota
from ottla.metadata import Image, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

__all__ = ["HANDLER"]

STRICT_FROM = 5
"""The first version in which a quota that is exceeded refuses (KIP-599)."""

TEXTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The throttling quota has been exceeded.",
}
Result = tuple[decide.TopicRef, ErrorCode, str | None]


async def delete_topics(context: RequestContext[ControllerParts], request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete each topic by itself, and answer once that is committed."""
    if not context.services.configuration.broker.settings.delete_topic_enable:
        if context.api_version < 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    image = context.services.image
    results = _misnamed(request)
    refused = {ref for ref, _, _ in results}
    wanted = [ref for ref in dict.fromkeys(_refs(request)) if ref not in refused]
    results += _not_allowed(context, image, wanted)
    refused = {ref for ref, _, _ in results}
    results += _named_twice(image, [ref for ref in wanted if ref not in refused])
    refused = {ref for ref, _, _ in results}
    wanted = [ref for ref in wanted if ref not in refused]
    quota = mutation_quota(context, strict_from=STRICT_FROM)
    charge = None if quota is None else quota.charge
    codes = await context.services.quorum.submit(
        lambda latest: decide.delete_topics(latest, wanted, charge=charge),
        timeout_ms=request.timeout_ms,
        makes_room=True,
    )
    results += [(ref, code, TEXTS.get(code)) for ref, code in zip(wanted, codes, strict=True)]
    throttle_ms = 0 if quota is None else quota.throttle_ms
    responses = [_result(context, image, each) for each in results]
    return DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=responses)


def _refs(request: DeleteTopicsRequest) -> list[decide.TopicRef]:
    """Return what is to be deleted, whichever way this version names it."""
    refs: list[decide.TopicRef] = [(name, ZERO_UUID) for name in request.topic_names]
    return refs + [(each.name, Uuid(bytes(each.topic_id))) for each in request.topics]


def _misnamed(request: DeleteTopicsRequest) -> list[Result]:
    """Return the errors of what is named by both or neither of name and id, or more than once."""
    found: list[Result] = []
    for ref, count in Counter(_refs(request)).items():
        name, topic_id = ref
        if name is None and topic_id == ZERO_UUID:
            problem = "Neither topic name nor id were specified."
        elif name is not None and topic_id != ZERO_UUID:
            problem = "You may not specify both topic name and topic id."
        elif count > 1:
            problem = "Duplicate topic name." if name is not None else "Duplicate topic id."
        else:
            continue
        found.append((ref, ErrorCode.INVALID_REQUEST, problem))
    return found


def _named_twice(image: Image, wanted: list[decide.TopicRef]) -> list[Result]:
    """Return the errors of topics that are named by name and by id in one request."""
    ids = {topic_id for name, topic_id in wanted if name is None}
    found: list[Result] = []
    for name, _ in wanted:
        topic = image.topic(name) if name is not None else None
        if topic is not None and topic.id in ids:
            problem = "The provided topic name maps to an ID that was already supplied."
            found.append(((name, ZERO_UUID), ErrorCode.INVALID_REQUEST, problem))
    return found


def _not_allowed(context: RequestContext[ControllerParts], image: Image, wanted: list[decide.TopicRef]) -> list[Result]:
    """Return the errors of topics that the client may not delete."""
    found: list[Result] = []
    if context.would_allow(Operation.DELETE, Resource.CLUSTER):
        return found
    for ref in wanted:
        name, topic_id = ref
        topic = image.topic(name) if name is not None else image.topic_by_id(topic_id)
        known_as = name if topic is None else topic.name
        if known_as is None or context.allows(Operation.DELETE, Resource.TOPIC, known_as):
            continue
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found.append((ref, code, TEXTS[code]))
    return found


def _result(context: RequestContext[ControllerParts], image: Image, result: Result) -> DeletableTopicResult:
    """Return what is told of one topic: both name and id of what was deleted, and of what may at least be described."""
    (name, topic_id), code, message = result
    if code in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        topic = image.topic(name) if name is not None else image.topic_by_id(topic_id)
        if topic is not None and (
            code is ErrorCode.NONE or context.would_allow(Operation.DESCRIBE, Resource.TOPIC, topic.name)
        ):
            name, topic_id = topic.name, topic.id
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=int(code), error_message=message)


def refuse(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Say of every topic that the request failed."""
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=int(error.code), error_message=error.message)
            for name, topic_id in _refs(request)
        ]
    )


HANDLER = Handler(
    DeleteTopicsRequest,
    versions=(1, 6),
    needs=Needs(Operation.DELETE, Resource.TOPIC),
    handle=delete_topics,
    error_response=refuse,
    forwards=True,
)
