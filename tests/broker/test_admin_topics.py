"""Topics through the wire: Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.base import ZERO_UUID, ErrorCode
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.node_client import NodeClient, run, running_node, start_node

ALL_OPERATIONS = 3576
"""The bits of every operation on a topic, as Kafka answers them to who may do all."""


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


async def until_there(client: NodeClient, topic: str) -> None:
    """Wait until a topic that is being created in the background can be seen."""
    request = MetadataRequest(topics=named(topic), allow_auto_topic_creation=False)
    while (await client.ask(request)).topics[0].error_code:
        pass  # every request takes a turn of the broker's loop


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_brokers_topics_and_leaders(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a", 2)
            answer = await client.ask(MetadataRequest(topics=[] if version == 0 else None), version)
            (broker,) = answer.brokers
            assert (broker.host, broker.port) == (client.node.listeners[0].host, client.node.listeners[0].port)
            (topic,) = answer.topics
            assert (topic.error_code, topic.name) == (0, "a")
            found = [(each.partition_index, each.leader_id, list(each.isr_nodes)) for each in topic.partitions]
            assert found == [(0, broker.node_id, [broker.node_id]), (1, broker.node_id, [broker.node_id])]
            if version >= 1:
                assert answer.controller_id == broker.node_id
            if version >= 10:
                assert bytes(topic.topic_id) == client.topic_ids["a"]

    run(test)


def test_metadata_of_no_topics_names_none(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a")
            assert (await client.ask(MetadataRequest(topics=[]), 1)).topics == []

    run(test)


def test_a_topic_is_found_by_its_id_and_an_unknown_id_is_said_to_be_unknown(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a")
            asked = [MetadataRequestTopic(topic_id=each, name=None) for each in (client.topic_ids["a"], b"x" * 16)]
            known, unknown = (await client.ask(MetadataRequest(topics=asked), 12)).topics
            assert (known.name, known.error_code) == ("a", 0)
            assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
            (refused,) = (await client.ask(MetadataRequest(topics=asked[:1]), 10)).topics
            assert refused.error_code == ErrorCode.INVALID_REQUEST, "ids are for version 12 and later"

    run(test)


def test_a_topic_asked_for_is_created_where_client_and_broker_allow_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "num.partitions=3") as client:
            (first,) = (await client.ask(MetadataRequest(topics=named("made")))).topics
            assert first.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await until_there(client, "made")
            (made,) = (await client.ask(MetadataRequest(topics=named("made")))).topics
            assert len(made.partitions) == 3
            request = MetadataRequest(topics=named("not"), allow_auto_topic_creation=False)
            for _ in range(3):
                assert (await client.ask(request)).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            (bad,) = (await client.ask(MetadataRequest(topics=named("a b")))).topics
            assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(test)


def test_a_broker_that_forbids_it_creates_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "auto.create.topics.enable=false") as client:
            for _ in range(3):
                (topic,) = (await client.ask(MetadataRequest(topics=named("not")))).topics
                assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


def test_internal_topics_are_created_with_their_own_policies(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "offsets.topic.num.partitions=5") as client:
            await client.ask(MetadataRequest(topics=named("__consumer_offsets")))
            await until_there(client, "__consumer_offsets")
            (topic,) = (await client.ask(MetadataRequest(topics=named("__consumer_offsets")))).topics
            assert topic.is_internal and len(topic.partitions) == 5

    run(test)


@pytest.mark.parametrize("version", [8, 13])
def test_authorized_operations_are_told_when_asked_for(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a")
            request = MetadataRequest(topics=named("a"), include_topic_authorized_operations=True)
            assert (await client.ask(request, version)).topics[0].topic_authorized_operations == ALL_OPERATIONS

    run(test)


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics_answers_each_topic_by_itself(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            topics = [
                CreatableTopic(name="a", num_partitions=2, replication_factor=1),
                CreatableTopic(name="b", num_partitions=1, replication_factor=9),
            ]
            answer = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=9_000), version)
            good, bad = answer.topics
            assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_REPLICATION_FACTOR)
            if version >= 5:
                assert (good.num_partitions, good.replication_factor) == (2, 1)
                assert "retention.ms" in {each.name for each in good.configs}
            if version >= 7:
                assert bytes(good.topic_id) != ZERO_UUID

    run(test)


def test_too_many_partitions_in_one_request_are_refused_as_a_whole(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            topics = [CreatableTopic(name=name, num_partitions=6_000, replication_factor=1) for name in "ab"]
            answer = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=9_000))
            assert {each.error_code for each in answer.topics} == {ErrorCode.POLICY_VIOLATION}

    run(test)


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics_by_name_in_every_version(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a")
            request = DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=9_000)
            if version >= 6:
                topics = [DeleteTopicState(name="a"), DeleteTopicState(name="b")]
                request = DeleteTopicsRequest(topics=topics, timeout_ms=9_000)
            answer = await client.ask(request, version)
            codes = {each.name: each.error_code for each in answer.responses}
            assert codes == {"a": 0, "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert (await client.ask(MetadataRequest(topics=None))).topics == []

    run(test)


def test_delete_topics_by_id_and_what_names_no_one_topic(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a")
            await client.create("b")
            topics = [
                DeleteTopicState(name=None, topic_id=client.topic_ids["a"]),
                DeleteTopicState(name=None, topic_id=b"x" * 16),
                DeleteTopicState(name=None),
                DeleteTopicState(name="b", topic_id=client.topic_ids["b"]),
            ]
            answer = await client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=9_000))
            codes = {(each.name, bytes(each.topic_id)): each.error_code for each in answer.responses}
            assert codes == {
                ("a", client.topic_ids["a"]): 0,
                (None, b"x" * 16): ErrorCode.UNKNOWN_TOPIC_ID,
                (None, ZERO_UUID): ErrorCode.INVALID_REQUEST,
                ("b", client.topic_ids["b"]): ErrorCode.INVALID_REQUEST,
            }

    run(test)


def test_deletion_may_be_switched_off(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "delete.topic.enable=false") as client:
            await client.create("a")
            for version, code in ((2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)):
                answer = await client.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=9_000), version)
                assert answer.responses[0].error_code == code

    run(test)


@pytest.mark.parametrize("version", range(4))
def test_create_partitions_grows_a_topic(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a", 1)
            topics = [CreatePartitionsTopic(name="a", count=3, assignments=None)]
            request = CreatePartitionsRequest(topics=topics, timeout_ms=9_000)
            assert (await client.ask(request, version)).results[0].error_code == 0
            (topic,) = (await client.ask(MetadataRequest(topics=named("a")))).topics
            assert [each.partition_index for each in topic.partitions] == [0, 1, 2]
            again = (await client.ask(request, version)).results[0]
            assert (again.error_code, again.error_message) == (
                ErrorCode.INVALID_PARTITIONS,
                "Topic already has 3 partition(s).",
            )

    run(test)


def test_topics_configs_ids_and_deletions_survive_a_restart(tmp_path: Path) -> None:
    async def before() -> dict[str, bytes]:
        async with running_node(tmp_path) as client:
            await client.create("kept", 2, retention_ms="1234")
            await client.create("gone")
            topics = [DeleteTopicState(name="gone")]
            await client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=9_000))
            return client.topic_ids

    async def after(ids: dict[str, bytes]) -> None:
        node = await start_node(tmp_path)
        try:
            client = await NodeClient.connect(node)
            (topic,) = (await client.ask(MetadataRequest(topics=None))).topics
            assert (topic.name, bytes(topic.topic_id), len(topic.partitions)) == ("kept", ids["kept"], 2)
            assert {each.leader_id for each in topic.partitions} == {node.config.node_id}
            client.close()
        finally:
            await node.stop()

    ids: dict[str, bytes] = asyncio.run(before())
    asyncio.run(after(ids))


def test_partitions_are_described_in_pages(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a", 3)
            await client.create("b", 2)
            topics = [TopicRequest(name=name) for name in ("b", "a", "missing")]
            seen: list[tuple[str, int]] = []
            cursor: Cursor | None = None
            missing = 0
            for _ in range(9):
                request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2, cursor=cursor)
                answer = await client.ask(request)
                for topic in answer.topics:
                    seen += [(topic.name, each.partition_index) for each in topic.partitions]
                    missing += topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                cursor = answer.next_cursor
                if cursor is None:
                    break
            assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
            assert missing == 1

    run(test)
