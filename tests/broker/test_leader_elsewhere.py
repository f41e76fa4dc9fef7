"""What clients hear of partitions that another broker leads, and of brokers that are not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.base import ErrorCode
from ottla.metadata import decide
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.partition_change_record import PartitionChangeRecord
from tests.broker.followers import FakeFollower, create_replicated
from tests.broker.node_client import NodeClient, batch, run, running_node

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def lead(client: NodeClient, topic: str, leader: int) -> None:
    """Let another broker lead partition 0, or nobody."""
    node: Any = client.node
    change = PartitionChangeRecord(partition_id=0, topic_id=client.topic_ids[topic], leader=leader)
    await node.quorum.submit(lambda image: decide.Decision((change,), None))


async def coordinator(client: NodeClient, *, key_type: int = 0) -> Any:
    answer = await client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"]), 6)
    return answer.coordinators[0]


def test_a_write_that_waits_while_the_leader_changes_is_told_who_leads(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            request = client.produce_request("t", batch(b"x"))
            client.send(request, 13)
            while (await follower.fetch("t", 0)).records is None:
                pass
            await lead(client, "t", 2)
            answer = await client.receive(request, 13)
            refused = answer.responses[0].partition_responses[0]
            assert (refused.error_code, refused.base_offset) == (NOT_LEADER, -1)
            assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 1)
            assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(2, 9002)]
            follower.client.close()

    run(test)


def test_only_the_leader_answers_about_offsets_epochs_and_producers(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 2, 1)
            listed = ListOffsetsPartition(partition_index=0, timestamp=-1)
            offsets = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[listed])], timeout_ms=1000
            )
            assert (await client.ask(offsets, 10)).topics[0].partitions[0].error_code == NOT_LEADER
            asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
            epochs = OffsetForLeaderEpochRequest(
                replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
            )
            assert (await client.ask(epochs)).topics[0].partitions[0].error_code == NOT_LEADER
            doomed = DeleteRecordsPartition(partition_index=0, offset=-1)
            deletion = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[doomed])], timeout_ms=1000)
            assert (await client.ask(deletion)).topics[0].partitions[0].error_code == NOT_LEADER
            producers = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
            assert (await client.ask(producers)).topics[0].partitions[0].error_code == NOT_LEADER
            follower.client.close()

    run(test)


def test_the_coordinator_is_who_leads_its_partition(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "__consumer_offsets", 2, 1)
            found = await coordinator(client)
            assert (found.error_code, found.node_id, found.port) == (0, 2, 9002)
            await lead(client, "__consumer_offsets", 1)
            assert (await coordinator(client)).node_id == 1
            await lead(client, "__consumer_offsets", -1)
            assert (await coordinator(client)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            follower.client.close()

    run(test)


def test_topics_are_made_with_the_brokers_default_factor_once_there_are_as_many_brokers(tmp_path: Path) -> None:
    async def test() -> None:
        settings = ("default.replication.factor=2", "offsets.topic.replication.factor=2", "num.partitions=3")
        async with running_node(tmp_path, *settings) as client:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
            for _ in range(3):
                unknown = (await client.ask(request)).topics[0]
                assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                assert (await coordinator(client)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            follower = await FakeFollower.register(client.node, 2)
            while (topic := (await client.ask(request)).topics[0]).error_code:
                pass
            assert [sorted(each.replica_nodes) for each in topic.partitions] == [[1, 2]] * 3
            while (await coordinator(client)).error_code:
                pass
            follower.client.close()

    run(test)
