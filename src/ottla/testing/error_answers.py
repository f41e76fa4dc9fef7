"""A request's answer that says an error, as a broker would give it."""

from __future__ import annotations

from typing import Any

from ottla.base import ErrorCode
from ottla.wire import APIS, ApiKey, encode_response

__all__ = ["answers_with_error", "api_named", "error_answer", "is_incremental", "topics_of"]

IN_PARTITIONS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT})
"""APIs whose answers say an error of each partition."""
NO_SESSION = 0


def api_named(name: str) -> ApiKey:
    """Return the API of this name, as Kafka writes it (`Produce`, `OffsetCommit`); raises ValueError for none."""
    found = {spec.name.lower(): ApiKey(key) for key, spec in APIS.items()}
    try:
        return found[name.replace("_", "").lower()]
    except KeyError:
        raise ValueError(f"{name!r} is no API of Kafka's, as Produce and OffsetCommit are") from None


def answers_with_error(api: ApiKey) -> bool:
    """Return whether an error can be answered here: of the whole, or of each partition in those that know only that."""
    return api in IN_PARTITIONS or any(field.name == "error_code" for field in APIS[api].response.FIELDS)


def topics_of(api: ApiKey, request: Any) -> list[tuple[str, bytes]]:
    """Return the topics that a request names, by name and id as far as its version has them; none where it names none."""
    found = getattr(request, "topic_data" if api is ApiKey.PRODUCE else "topics", None) or ()
    names = ((getattr(each, "name", getattr(each, "topic", "")), getattr(each, "topic_id", b"")) for each in found)
    return [(name or "", bytes(topic_id)) for name, topic_id in names]


def is_incremental(fetch: Any) -> bool:
    """Return whether a Fetch names only what has changed since the one before it (KIP-227)."""
    return bool(fetch.session_id != NO_SESSION and fetch.session_epoch > 0)


def error_answer(api: ApiKey, request: Any, code: ErrorCode, *, version: int, correlation_id: int) -> bytes:
    """Return a whole answer to a request, with an error of all that it asks for."""
    match api:
        case ApiKey.PRODUCE:
            message = _produce(request, code)
        case ApiKey.FETCH:
            message = _fetch(request, code)
        case ApiKey.OFFSET_COMMIT:
            message = _offset_commit(request, code)
        case _:
            message = APIS[api].response(error_code=int(code))  # type: ignore[call-arg]
    return encode_response(message, api, version, correlation_id)


def _produce(request: Any, code: ErrorCode) -> Any:
    from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=each.index, error_code=int(code), base_offset=-1)
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: Any, code: ErrorCode) -> Any:
    """Of an incremental request, which names only what has changed, the session is unknown: then the client says all."""
    from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

    if is_incremental(request):
        return FetchResponse(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=each.partition,
                        error_code=int(code),
                        high_watermark=-1,
                        last_stable_offset=-1,
                        log_start_offset=-1,
                        records=b"",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_commit(request: Any, code: ErrorCode) -> Any:
    from ottla.wire.messages.offset_commit import (
        OffsetCommitResponse,
        OffsetCommitResponsePartition,
        OffsetCommitResponseTopic,
    )

    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=int(code))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
