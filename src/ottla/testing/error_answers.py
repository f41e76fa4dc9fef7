"""A request's answer that says an error, as a broker would give it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.base import ErrorCode
from ottla.wire import APIS, ApiKey, encode_response

__all__ = ["answers_with_error", "api_named", "error_answer", "is_incremental", "topics_of"]

IN_PARTS = frozenset(
    {
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH),
        *(ApiKey.FIND_COORDINATOR, ApiKey.ADD_PARTITIONS_TO_TXN),
    }
)
"""APIs whose answers say, in some version, an error of each part that was asked for."""
NO_SESSION = 0
OFFSET_FETCH_OF_WHOLE = 2
OFFSET_FETCH_OF_GROUPS = 8
FIND_COORDINATOR_OF_KEYS = 4
ADD_PARTITIONS_OF_WHOLE = 4


def api_named(name: str) -> ApiKey:
    """Return the API of this name, as Kafka writes it (`Produce`, `OffsetCommit`); raises ValueError for none."""
    found = {spec.name.lower(): ApiKey(key) for key, spec in APIS.items()}
    try:
        return found[name.replace("_", "").lower()]
    except KeyError:
        raise ValueError(f"{name!r} is no API of Kafka's, as Produce and OffsetCommit are") from None


def answers_with_error(api: ApiKey) -> bool:
    """Return whether an error can be answered here, in every version: of the whole, or of each part."""
    spec = APIS[api]
    every = (spec.min_version, spec.max_version)
    whole = [field.versions or every for field in spec.response.FIELDS if field.name == "error_code"]
    return api in IN_PARTS or any(first <= spec.min_version and last >= spec.max_version for first, last in whole)


def topics_of(api: ApiKey, request: Any) -> list[tuple[str, bytes]]:
    """Return the topics that a request names, by name and id as far as its version has them; none where it names none."""
    match api:
        case ApiKey.PRODUCE:
            found = request.topic_data
        case ApiKey.OFFSET_FETCH:
            found = _all_topics(request.topics, request.groups)
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            found = _all_topics(request.v3_and_below_topics, request.transactions)
        case _:
            found = getattr(request, "topics", None) or ()
    names = ((getattr(each, "name", getattr(each, "topic", "")), getattr(each, "topic_id", b"")) for each in found)
    return [(name or "", bytes(topic_id)) for name, topic_id in names]


def _all_topics(own: Sequence[Any] | None, parts: Sequence[Any]) -> list[Any]:
    """Return the topics that a request names itself, as older versions do, and those of its parts."""
    return [*(own or ()), *(topic for each in parts for topic in each.topics or ())]


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
        case ApiKey.OFFSET_FETCH:
            message = _offset_fetch(request, code, version)
        case ApiKey.FIND_COORDINATOR:
            message = _find_coordinator(request, code, version)
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            message = _add_partitions_to_txn(request, code, version)
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


def _offset_fetch(request: Any, code: ErrorCode, version: int) -> Any:
    """Of each partition before version 2, of the whole before 8, then of each group."""
    from ottla.wire.messages.offset_fetch import (
        OffsetFetchResponse,
        OffsetFetchResponseGroup,
        OffsetFetchResponsePartition,
        OffsetFetchResponseTopic,
    )

    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(partition_index=each, committed_offset=-1, error_code=int(code))
                    for each in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
            if version < OFFSET_FETCH_OF_WHOLE
        ],
        error_code=int(code),
        groups=[
            OffsetFetchResponseGroup(group_id=each.group_id, error_code=int(code))
            for each in request.groups
            if version >= OFFSET_FETCH_OF_GROUPS
        ],
    )


def _find_coordinator(request: Any, code: ErrorCode, version: int) -> Any:
    """Of the whole before version 4, then of each key."""
    from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse

    if version < FIND_COORDINATOR_OF_KEYS:
        return FindCoordinatorResponse(error_code=int(code), node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=each, node_id=-1, port=-1, error_code=int(code)) for each in request.coordinator_keys
        ]
    )


def _add_partitions_to_txn(request: Any, code: ErrorCode, version: int) -> Any:
    """Of each partition, and of the whole from version 4 on."""
    from ottla.wire.messages.add_partitions_to_txn import (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnResult,
        AddPartitionsToTxnTopicResult,
    )

    def results(topics: Sequence[Any]) -> list[AddPartitionsToTxnTopicResult]:
        return [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=int(code))
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ]

    if version < ADD_PARTITIONS_OF_WHOLE:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results(request.v3_and_below_topics))
    return AddPartitionsToTxnResponse(
        error_code=int(code),
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=results(each.topics))
            for each in request.transactions
        ],
    )
