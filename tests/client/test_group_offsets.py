"""What groups have committed: against a broker of our own, and where a broker's answer is to be waited out or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Offset, TopicPartition
from ottla.client import (
    BlockingClient,
    Client,
    CommittedOffset,
    ConsumerGroupMetadata,
    Limits,
    TransactionalProducer,
    committed_offsets,
    delete_group,
    delete_offsets,
)
from ottla.wire import ApiKey
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.client.scripted import offers, scripted_broker
from tests.server import running_server

PLACES = [TopicPartition("words", partition) for partition in range(3)]
FIRST, SECOND, THIRD = PLACES
HASTY = Limits(request_s=2, call_s=0.5, backoff_s=0.01)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    with running_server(tmp_path_factory.mktemp("offsets")) as server, BlockingClient(server.bootstrap) as opened:
        topic = CreatableTopic(name="words", num_partitions=3, replication_factor=1)
        opened.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), controller=True)
        yield opened


def test_what_was_committed_is_read_with_the_words_beside_it(client: BlockingClient) -> None:
    assert client.committed_offsets("plain") == {}
    client.commit_offsets("plain", {})
    assert client.committed_offsets("plain") == {}
    client.commit_offsets("plain", {SECOND: Offset(7), FIRST: Offset(5)}, metadata="by hand")
    found = client.committed_offsets("plain")
    assert found == {
        FIRST: CommittedOffset(Offset(5), None, "by hand"),
        SECOND: CommittedOffset(Offset(7), None, "by hand"),
    }
    assert list(found) == [FIRST, SECOND]
    assert list(client.committed_offsets("plain", [SECOND, THIRD])) == [SECOND]


def test_a_commit_that_is_refused_names_its_partition_and_group(client: BlockingClient) -> None:
    with pytest.raises(KafkaError, match="nowhere-0 of group refused") as caught:
        client.commit_offsets("refused", {TopicPartition("nowhere", 0): Offset(1)})
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_is_no_member_commits_nothing(client: BlockingClient) -> None:
    client.commit_offsets("members", {FIRST: Offset(1)})
    stranger = ConsumerGroupMetadata("members", "stranger", 3)
    with pytest.raises(KafkaError) as caught:
        client.commit_offsets("members", {FIRST: Offset(2)}, member=stranger)
    assert caught.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    assert client.committed_offsets("members")[FIRST].offset == 1


def test_a_stable_read_waits_for_the_transaction_that_has_committed_offsets(client: BlockingClient) -> None:
    client.commit_offsets("pending", {FIRST: Offset(1)})
    by = TransactionalProducer(client.client, "pending", timeout_ms=60_000)
    client.run(by.begin())
    client.run(by.commit_offsets({FIRST: Offset(9)}, ConsumerGroupMetadata("pending", "", -1)))
    assert client.committed_offsets("pending")[FIRST].offset == 1
    client.run(by.end(commit=True))
    assert client.committed_offsets("pending", require_stable=True)[FIRST].offset == 9


def test_offsets_and_groups_are_deleted(client: BlockingClient) -> None:
    client.commit_offsets("short", dict.fromkeys(PLACES, Offset(1)))
    code, codes = client.run(delete_offsets(client.client, "short", [FIRST, TopicPartition("nowhere", 0)]))
    assert code is ErrorCode.NONE and codes[FIRST] is ErrorCode.NONE
    assert list(client.committed_offsets("short")) == [SECOND, THIRD]
    assert client.run(delete_group(client.client, "short")) is ErrorCode.NONE
    assert client.run(delete_group(client.client, "short")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert client.committed_offsets("short") == {}


def group(code: ErrorCode = ErrorCode.NONE, *, of_partition: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponseGroup:
    there = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=4, committed_leader_epoch=2, metadata=None, error_code=int(of_partition)
    )
    none = OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, committed_leader_epoch=-1, metadata="")
    topic = OffsetFetchResponseTopics(name="words", partitions=[there, none])
    return OffsetFetchResponseGroup(group_id="g", topics=[topic], error_code=int(code))


async def asked(*answers: OffsetFetchResponseGroup, stable: bool = False) -> dict[TopicPartition, CommittedOffset]:
    """Read the offsets of a group whose coordinator answers with these, one after another; the last is repeated."""
    left = list(answers)
    script: dict[int, Any] = {
        ApiKey.API_VERSIONS: offers(
            {ApiKey.API_VERSIONS: 4, ApiKey.METADATA: 12, ApiKey.FIND_COORDINATOR: 4, ApiKey.OFFSET_FETCH: 10}
        ),
        ApiKey.FIND_COORDINATOR: lambda request, version: FindCoordinatorResponse(
            coordinators=[Coordinator(key=request.coordinator_keys[0], node_id=1)]
        ),
        ApiKey.OFFSET_FETCH: lambda request, version: OffsetFetchResponse(
            groups=[left.pop(0) if len(left) > 1 else left[0]]
        ),
    }
    async with scripted_broker(script) as broker, Client(f"127.0.0.1:{broker.port}", limits=HASTY) as client:
        script[ApiKey.METADATA] = lambda request, version: broker.metadata([1])
        found = await committed_offsets(client, "g", require_stable=stable)
        requests = [(version, request) for key, version, request in broker.asked if key == ApiKey.OFFSET_FETCH]
        assert all((version, request.require_stable) == (9, stable) for version, request in requests)
        return found


def test_an_unstable_offset_is_asked_for_until_it_is_stable() -> None:
    answers = [
        group(of_partition=ErrorCode.UNSTABLE_OFFSET_COMMIT),
        group(of_partition=ErrorCode.UNSTABLE_OFFSET_COMMIT),
        group(),
    ]
    found = asyncio.run(asked(*answers, stable=True))
    assert found == {FIRST: CommittedOffset(Offset(4), LeaderEpoch(2), "")}


def test_an_offset_that_stays_unstable_is_an_error_in_the_end() -> None:
    with pytest.raises(KafkaError) as caught:
        asyncio.run(asked(group(of_partition=ErrorCode.UNSTABLE_OFFSET_COMMIT), stable=True))
    assert caught.value.code is ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_group_that_is_not_found_has_committed_nothing_and_other_errors_are_raised() -> None:
    assert asyncio.run(asked(group(ErrorCode.GROUP_ID_NOT_FOUND))) == {}
    with pytest.raises(KafkaError, match="group g") as caught:
        asyncio.run(asked(group(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="words-0 of group g") as caught:
        asyncio.run(asked(group(of_partition=ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
