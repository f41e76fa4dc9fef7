"""The client against brokers that follow a script: versions, routing, retries, and what its errors say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.base import ConfigError, ErrorCode, KafkaError, NodeId, Offset, TopicPartition
from ottla.client import Address, BlockingClient, Client, Coordinated, FetchPosition, Limits, parse_bootstrap
from ottla.wire import ApiKey, Record, build_batch, encode_response, iter_records
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.client.scripted import ScriptedBroker, offers, scripted_broker
from tests.ports import free_port, free_ports
from tests.waiting import until_async

WORDS = TopicPartition("words", 0)
HASTY = Limits(connect_s=2, request_s=0.2, call_s=2, unreachable_s=0, unknown_topic_s=0, backoff_s=0.01)
PRODUCE, FETCH, METADATA, API_VERSIONS, DESCRIBE_CLUSTER = 0, 1, 3, 18, 60
FIND_COORDINATOR, DESCRIBE_GROUPS = 10, 15


def at(broker: ScriptedBroker) -> str:
    return f"127.0.0.1:{broker.port}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", [Address("a", 1)]),
        (" a:1 , b:2,a:1", [Address("a", 1), Address("b", 2)]),
        ("[::1]:9092", [Address("::1", 9092)]),
        ("PLAINTEXT://a:1", [Address("a", 1)]),
    ],
)
def test_bootstrap_lists_are_read(text: str, expected: list[Address]) -> None:
    assert list(parse_bootstrap(text)) == expected


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:0", "a:65536", "a:x", "::1:9092"])
def test_what_is_no_bootstrap_list_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        parse_bootstrap(text)


def test_hosts_that_refuse_are_named() -> None:
    first, second = free_ports(2)
    with (
        BlockingClient(f"127.0.0.1:{first},127.0.0.1:{second}", limits=HASTY) as client,
        pytest.raises(KafkaError) as caught,
    ):
        client.metadata()
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION
    assert f"127.0.0.1:{first} refused the connection; 127.0.0.1:{second} refused" in caught.value.message


def test_the_highest_common_version_is_used() -> None:
    async def run() -> None:
        script: dict[int, Any] = {API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 9})}
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            cluster = await client.metadata()
            assert cluster.controller_id == 1
            assert broker.asked[-1][:2] == (METADATA, 9)
            assert (await client.versions())[METADATA] == (0, 9)

    asyncio.run(run())


def test_an_old_broker_that_refuses_our_api_versions_is_asked_again_in_version_0() -> None:
    async def run() -> None:
        def api_versions(request: Any, version: int) -> Any:
            if version == 0:
                return offers({API_VERSIONS: 2, METADATA: 5})(request, version)
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            return encode_response(refusal, API_VERSIONS, 0, 1)

        script: dict[int, Any] = {API_VERSIONS: api_versions}
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            await client.metadata()
            assert [asked[:2] for asked in broker.asked] == [(API_VERSIONS, 4), (API_VERSIONS, 0), (METADATA, 5)]

    asyncio.run(run())


def test_an_api_that_is_not_offered_is_an_error_that_names_it() -> None:
    async def run() -> None:
        async with (
            scripted_broker({API_VERSIONS: offers({API_VERSIONS: 4})}) as broker,
            Client(at(broker), limits=HASTY) as client,
        ):
            with pytest.raises(KafkaError, match="does not offer DescribeCluster") as caught:
                await client.request(DescribeClusterRequest())
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION

    asyncio.run(run())


def test_a_retriable_code_is_retried_and_any_other_is_returned() -> None:
    async def run() -> None:
        codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, DESCRIBE_CLUSTER: 2}),
            DESCRIBE_CLUSTER: lambda request, version: DescribeClusterResponse(error_code=codes.pop(0)),
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            response = await client.request(DescribeClusterRequest(), controller=True)
            assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert not codes

    asyncio.run(run())


def test_a_silent_broker_costs_the_request_and_the_connection() -> None:
    async def run() -> None:
        script = {
            API_VERSIONS: offers({API_VERSIONS: 4, DESCRIBE_CLUSTER: 2}),
            DESCRIBE_CLUSTER: lambda request, version: None,
        }
        limits = Limits(connect_s=2, request_s=0.05, call_s=0.04, backoff_s=0.01)
        async with scripted_broker(script) as broker, Client(at(broker), limits=limits) as client:
            with pytest.raises(KafkaError, match=r"did not answer DescribeCluster within 0.05 s") as caught:
                await client.request(DescribeClusterRequest())
            assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
            script[DESCRIBE_CLUSTER] = lambda request, version: DescribeClusterResponse(cluster_id="c")
            assert (await client.request(DescribeClusterRequest())).cluster_id == "c"
            assert [key for key, _, _ in broker.asked].count(API_VERSIONS) == 2

    asyncio.run(run())


def test_answers_out_of_order_and_garbage_end_the_connection_not_the_client() -> None:
    async def run() -> None:
        def wrong_number(request: Any, version: int) -> bytes:
            return encode_response(DescribeClusterResponse(), DESCRIBE_CLUSTER, version, 4711)

        answers: list[Any] = [
            wrong_number,
            lambda request, version: b"\xff\xff\xff\xff",
            lambda request, version: b"\0\0\0\0",
        ]
        script = {API_VERSIONS: offers({API_VERSIONS: 4, DESCRIBE_CLUSTER: 2})}
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            answers.append(lambda request, version: DescribeClusterResponse(cluster_id="c"))
            script[DESCRIBE_CLUSTER] = lambda request, version: answers.pop(0)(request, version)
            assert (await client.request(DescribeClusterRequest())).cluster_id == "c"
            assert not answers

    asyncio.run(run())


def fetched(records: bytes, error: int = 0) -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=error, high_watermark=3, records=records)
    return FetchResponse(
        responses=[FetchableTopicResponse(topic="words", topic_id=bytes(15) + b"\x07", partitions=[data])]
    )


@pytest.mark.parametrize("version", [4, 12, 13, 17])
def test_fetch_returns_whole_batches_in_every_way_of_naming_topics(version: int) -> None:
    async def run() -> None:
        batch = bytes(build_batch([Record(value=b"one"), Record(value=b"two")]))
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, FETCH: version}),
            FETCH: lambda request, version: fetched(batch),
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            [found] = await client.fetch([FetchPosition(WORDS, Offset(0))])
            assert [record.value for record in iter_records(found.check().records)] == [b"one", b"two"]
            asked = broker.asked[-1][2].topics[0]
            assert (asked.topic, asked.topic_id[-1]) == (("words", 0) if version < 13 else ("", 7))

    asyncio.run(run())


def test_a_leader_that_moved_is_found_and_asked() -> None:
    async def run() -> None:
        batch = bytes(build_batch([Record(value=b"x")]))
        old: dict[int, Any] = {API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, FETCH: 12})}
        new = {API_VERSIONS: offers({API_VERSIONS: 4, FETCH: 12}), FETCH: lambda request, version: fetched(batch)}
        async with (
            scripted_broker(old) as first,
            scripted_broker(new) as second,
            Client(at(first), limits=HASTY) as client,
        ):
            leaders = [[1], [2]]
            others = {2: second.port}
            old[METADATA] = lambda request, version: first.metadata(leaders.pop(0), others=others)
            old[FETCH] = lambda request, version: fetched(b"", ErrorCode.NOT_LEADER_OR_FOLLOWER)
            [found] = await client.fetch([FetchPosition(WORDS, Offset(0))])
            assert len(found.records) == len(batch)
            assert [key for key, _, _ in second.asked] == [API_VERSIONS, FETCH]

    asyncio.run(run())


def test_an_offset_out_of_range_stands_in_the_answer_and_is_raised_by_check() -> None:
    async def run() -> None:
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, FETCH: 12}),
            FETCH: lambda request, version: fetched(b"", ErrorCode.OFFSET_OUT_OF_RANGE),
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            [found] = await client.fetch([FetchPosition(WORDS, Offset(9))])
            with pytest.raises(KafkaError, match="words-0 at offset 9"):
                found.check()

    asyncio.run(run())


def produced(error: int = 0, base_offset: int = 0) -> ProduceResponse:
    data = PartitionProduceResponse(index=0, error_code=error, base_offset=base_offset)
    return ProduceResponse(
        responses=[TopicProduceResponse(name="words", topic_id=bytes(15) + b"\x07", partition_responses=[data])]
    )


def test_batches_in_flight_leave_in_order_without_waiting_for_answers() -> None:
    batch = bytes(build_batch([Record(value=b"x")]))

    async def run() -> None:
        script: dict[int, Any] = {API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, PRODUCE: 12})}
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            held: list[int] = []

            def produce(request: Any, version: int) -> bytes | None:
                held.append(len(held) + 3)  # ApiVersions and Metadata were 1 and 2
                if len(held) < 5:
                    return None
                return b"".join(encode_response(produced(base_offset=each), PRODUCE, version, each) for each in held)

            script[PRODUCE] = produce
            await client.metadata(["words"])
            answers = await asyncio.gather(*(client.produce({WORDS: batch}) for _ in range(5)))
            assert [answer[0].base_offset for answer in answers] == [3, 4, 5, 6, 7]

    asyncio.run(run())


def test_a_refused_batch_raises_its_partition_and_code() -> None:
    async def run() -> None:
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, PRODUCE: 12}),
            PRODUCE: lambda request, version: produced(ErrorCode.MESSAGE_TOO_LARGE),
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            with pytest.raises(KafkaError, match="words-0: MESSAGE_TOO_LARGE") as caught:
                await client.produce({WORDS: b""})
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    asyncio.run(run())


def test_produce_without_acknowledgement_waits_for_no_answer() -> None:
    async def run() -> None:
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, PRODUCE: 12}),
            PRODUCE: lambda request, version: None,
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            [appended] = await client.produce({WORDS: b""}, acks=0)
            assert appended.base_offset == -1
            await client.metadata()
            assert [key for key, _, _ in broker.asked][-2:] == [PRODUCE, METADATA]

    asyncio.run(run())


def test_a_partition_that_does_not_exist_is_named() -> None:
    async def run() -> None:
        script: dict[int, Any] = {API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, FETCH: 12})}
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            with pytest.raises(KafkaError, match="words-3 does not exist"):
                await client.fetch([FetchPosition(TopicPartition("words", 3), Offset(0))])

    asyncio.run(run())


def test_api_keys_of_this_file_are_kafkas() -> None:
    assert (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA) == (PRODUCE, FETCH, METADATA)
    assert (ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER) == (API_VERSIONS, DESCRIBE_CLUSTER)


def test_a_coordinator_is_found_once_and_again_when_it_has_moved() -> None:
    async def run() -> None:
        codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE, ErrorCode.NONE]
        found = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE]
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, FIND_COORDINATOR: 4, DESCRIBE_GROUPS: 5}),
            FIND_COORDINATOR: lambda request, version: FindCoordinatorResponse(
                coordinators=[Coordinator(key=request.coordinator_keys[0], node_id=1, error_code=found.pop(0))]
            ),
            DESCRIBE_GROUPS: lambda request, version: DescribeGroupsResponse(
                groups=[DescribedGroup(group_id="g", error_code=codes.pop(0))]
            ),
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            for _ in range(2):
                message = DescribeGroupsRequest(groups=["g"])
                response = await client.request(message, coordinator_of=Coordinated("g"))
                assert response.groups[0].group_id == "g"
            assert (codes, found) == ([], [])

    asyncio.run(run())


def test_a_coordinator_that_other_brokers_do_not_know_is_asked_for_again() -> None:
    """It stops, or has just started: who told of it, and who lists the brokers, need not know the same yet."""

    async def run() -> None:
        nodes = [9, 9, 1]
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, FIND_COORDINATOR: 4, DESCRIBE_GROUPS: 5}),
            FIND_COORDINATOR: lambda request, version: FindCoordinatorResponse(
                coordinators=[Coordinator(key=request.coordinator_keys[0], node_id=nodes.pop(0))]
            ),
            DESCRIBE_GROUPS: lambda request, version: DescribeGroupsResponse(groups=[DescribedGroup(group_id="g")]),
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            response = await client.request(DescribeGroupsRequest(groups=["g"]), coordinator_of=Coordinated("g"))
            assert response.groups[0].group_id == "g" and not nodes

    asyncio.run(run())


def test_a_group_that_no_broker_coordinates_is_an_error_in_the_brokers_words() -> None:
    async def run() -> None:
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, FIND_COORDINATOR: 3}),
            FIND_COORDINATOR: lambda request, version: FindCoordinatorResponse(
                error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, error_message="not yours"
            ),
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            with pytest.raises(KafkaError, match="not yours"):
                await client.coordinator(Coordinated("g"))
            assert broker.asked[-1][2].key == "g"

    asyncio.run(run())


def test_an_advertised_address_that_nobody_answers_is_named_as_such() -> None:
    async def run() -> None:
        elsewhere = free_port()
        script: dict[int, Any] = {API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, DESCRIBE_CLUSTER: 2})}
        limits = Limits(connect_s=2, request_s=0.2, call_s=0.02, unreachable_s=0, backoff_s=0.01)
        async with scripted_broker(script) as broker, Client(at(broker), limits=limits) as client:
            script[METADATA] = lambda request, version: broker.metadata([1], others={2: elsewhere})
            with pytest.raises(KafkaError) as caught:
                await client.request(DescribeClusterRequest(), node=NodeId(2))
            said = f"127.0.0.1:{elsewhere} refused the connection; node 2 says that it is there (advertised.listeners)"
            assert caught.value.message == said

    asyncio.run(run())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("when", ["while it connects", "while it waits for an answer", "between two tries"])
def test_a_call_under_way_at_the_close_fails_and_asks_nobody_any_more(when: str) -> None:
    """It was tried again over a connection that nobody closed, or ended as if its caller had been cancelled."""

    async def main() -> None:
        refused = when == "between two tries"
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, PRODUCE: 12}),
            PRODUCE: lambda request, version: produced(ErrorCode.NOT_LEADER_OR_FOLLOWER) if refused else None,
        }
        limits = Limits(connect_s=5, request_s=5, call_s=20, unreachable_s=20, unknown_topic_s=0, backoff_s=0.3)
        async with scripted_broker(script) as broker:
            script[METADATA] = lambda request, version: broker.metadata([1])
            if when == "while it connects":
                script[API_VERSIONS] = lambda request, version: None
            client = Client(at(broker), limits=limits)
            call = asyncio.ensure_future(client.produce({WORDS: bytes(build_batch([Record(value=b"x")]))}))
            last = API_VERSIONS if when == "while it connects" else PRODUCE
            await until_async(lambda: any(key == last for key, _, _ in broker.asked))
            if refused:
                await asyncio.sleep(0.05)
            await client.close()
            asked = len(broker.asked)
            await asyncio.wait([call], timeout=20)
            with pytest.raises(KafkaError):
                call.result()
            assert len(broker.asked) == asked

    asyncio.run(main())
