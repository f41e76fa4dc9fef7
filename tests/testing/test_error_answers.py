"""What a fault answers says its error in every version of every API that it is offered for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.testing.error_answers import answers_with_error, error_answer, topics_of
from ottla.wire import APIS, ApiKey, Message, read_response
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE
TRANSACTION = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
REQUESTS: dict[ApiKey, Any] = {
    ApiKey.PRODUCE: ProduceRequest(
        topic_data=[TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0)])]
    ),
    ApiKey.FETCH: FetchRequest(topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition=0)])]),
    ApiKey.OFFSET_COMMIT: OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0)])]
    ),
    ApiKey.OFFSET_FETCH: OffsetFetchRequest(
        topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])],
        groups=[OffsetFetchRequestGroup(group_id="readers", topics=[OffsetFetchRequestTopics(name="orders")])],
    ),
    ApiKey.FIND_COORDINATOR: FindCoordinatorRequest(key="readers", coordinator_keys=["readers"]),
    ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest(
        transactions=[AddPartitionsToTxnTransaction(transactional_id="pays", topics=TRANSACTION)],
        v3_and_below_topics=TRANSACTION,
    ),
}


def codes(message: Message) -> Iterator[int]:
    """Yield every error code in a message."""
    for field in message.FIELDS:
        found = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            yield found
        for each in found if isinstance(found, list | tuple) else ():
            if isinstance(each, Message):
                yield from codes(each)


@pytest.mark.parametrize(
    "api", [ApiKey(key) for key in APIS if answers_with_error(ApiKey(key))], ids=lambda it: it.name
)
def test_an_error_is_in_the_answer_of_every_version(api: ApiKey) -> None:
    spec = APIS[api]
    for version in range(spec.min_version, spec.max_version + 1):
        frame = error_answer(api, REQUESTS.get(api), CODE, version=version, correlation_id=7)[4:]
        number, message = read_response(spec.response, frame, api, version)
        assert number == 7 and int(CODE) in set(codes(message)), version


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.ELECT_LEADERS, ApiKey.DELETE_TOPICS])
def test_an_api_of_which_some_version_has_no_error_is_not_offered(api: ApiKey) -> None:
    assert not answers_with_error(api)


@pytest.mark.parametrize("api", REQUESTS.keys() - {ApiKey.FIND_COORDINATOR}, ids=lambda it: it.name)
def test_a_request_is_known_by_its_topics_wherever_its_version_names_them(api: ApiKey) -> None:
    assert {name for name, _ in topics_of(api, REQUESTS[api])} == {"orders"}
