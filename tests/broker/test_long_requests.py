"""Requests with very many elements: each thing is told once, what must be decided at one moment has a bound."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from ottla.base import ErrorCode, Millis
from ottla.broker import SystemClock
from ottla.broker.api.produce import PARTITIONS_PER_STEP
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.node_client import NodeClient, batch, run, running_node

TOPIC = 2
MANY = 2_000


def asked(folder: Path, *requests: Any) -> list[Any]:
    """Return the answers of a broker with one topic."""
    answers: list[Any] = []

    async def test() -> None:
        async with running_node(folder, "auto.create.topics.enable=false") as client:
            await client.create("t", 2)
            await client.topic_id("t")
            answers.extend(
                [await client.ask(each, 12 if isinstance(each, ProduceRequest) else None) for each in requests]
            )
            await works(client)

    run(test)
    return answers


async def works(client: NodeClient) -> None:
    assert (await client.produce("t", batch(b"x"))).error_code == 0


def test_a_partition_that_is_named_again_tells_its_producers_once(tmp_path: Path) -> None:
    topics = [TopicRequest(name="t", partition_indexes=[0] * MANY), TopicRequest(name="t", partition_indexes=[1, 0])]
    (answer,) = asked(tmp_path, DescribeProducersRequest(topics=topics))
    assert [[each.partition_index for each in topic.partitions] for topic in answer.topics] == [[0, 1]]


def test_a_group_that_is_named_again_is_described_once(tmp_path: Path) -> None:
    (answer,) = asked(tmp_path, DescribeGroupsRequest(groups=["a"] * MANY + ["b", "a"]))
    assert [each.group_id for each in answer.groups] == ["a", "b"]


def test_a_resource_that_is_named_again_with_the_same_keys_is_described_once(tmp_path: Path) -> None:
    one = DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=None)
    other = one.replace(configuration_keys=["retention.ms"])
    (answer,) = asked(tmp_path, DescribeConfigsRequest(resources=[one] * MANY + [other, one]))
    assert [len(each.configs) for each in answer.results] == [len(answer.results[0].configs), 1]


def test_what_is_decided_at_one_moment_has_a_bound(tmp_path: Path) -> None:
    topics = [DeleteTopicState(name=f"n{at}") for at in range(10_001)]
    (answer,) = asked(tmp_path, DeleteTopicsRequest(topics=topics, timeout_ms=10_000))
    assert {each.error_code for each in answer.responses} == {int(ErrorCode.POLICY_VIOLATION)}


def test_the_bound_counts_what_lies_within_other_things(tmp_path: Path) -> None:
    many = [ReassignablePartition(partition_index=at, replicas=[1]) for at in range(5_001)]
    topics = [ReassignableTopic(name=f"n{at}", partitions=many) for at in range(2)]
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000)
    few = request.replace(topics=topics[:1])
    refused, decided = asked(tmp_path, request, few)
    assert (refused.error_code, decided.error_code) == (int(ErrorCode.POLICY_VIOLATION), 0)
    assert len(decided.responses[0].partitions) == 5_001


def test_long_answers_that_are_made_in_slices_are_whole_and_in_order(tmp_path: Path) -> None:
    names = ["t", *(f"n{at:05}" for at in range(MANY))]
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names])
    topics = [
        TopicProduceData(name=each, partition_data=[PartitionProduceData(index=0, records=batch(b"x"))])
        for each in names
    ]
    answer, produced = asked(tmp_path, metadata, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics))
    assert [each.name for each in answer.topics] == names
    assert [each.error_code for each in answer.topics] == [0] + [3] * MANY
    assert [each.name for each in produced.responses] == names
    assert [each.partition_responses[0].error_code for each in produced.responses] == [0] + [3] * MANY


class _TurnsClock(SystemClock):
    """Counts how often it is asked in each turn of the loop: a Produce asks it once for each topic or slice of one."""

    def __init__(self) -> None:
        self.turn = 0
        self.asked: Counter[int] = Counter()

    def now_ms(self) -> Millis:
        self.asked[self.turn] += 1
        return super().now_ms()

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turn += 1


def test_of_many_topics_with_partitions_of_less_than_a_slice_only_a_few_are_produced_to_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        clock = _TurnsClock()
        async with running_node(tmp_path, "auto.create.topics.enable=false", clock=clock) as client:
            data = [PartitionProduceData(index=at, records=None) for at in range(PARTITIONS_PER_STEP - 1)]
            topics = [TopicProduceData(name=f"n{at}", partition_data=data) for at in range(PARTITIONS_PER_STEP)]
            turns = asyncio.create_task(clock.count())
            answer = await client.ask(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics), 12)
            turns.cancel()
            assert [len(each.partition_responses) for each in answer.responses] == [len(data)] * len(topics)
            assert max(clock.asked.values()) < 10

    run(test)
