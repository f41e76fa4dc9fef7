"""The cluster through the wire: DescribeCluster, DescribeQuorum, DescribeLogDirs, InitProducerId."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import ZERO_UUID, ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.node_client import batch, run, running_node


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described_to_its_clients(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            request = DescribeClusterRequest(include_cluster_authorized_operations=True)
            answer = await client.ask(request, version)
            (broker,) = answer.brokers
            listener = client.node.listeners[0]
            assert (broker.host, broker.port, answer.controller_id) == (listener.host, listener.port, broker.broker_id)
            assert len(answer.cluster_id) == 22 and answer.cluster_authorized_operations == 8096

    run(test)


def test_a_client_listener_does_not_describe_controllers(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            for kind, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
                answer = await client.ask(DescribeClusterRequest(endpoint_type=kind))
                assert (answer.error_code, answer.brokers) == (code, [])

    run(test)


def quorum_request(topic: str = "__cluster_metadata") -> DescribeQuorumRequest:
    partitions = [RequestPartitionData(partition_index=0)]
    return DescribeQuorumRequest(topics=[RequestTopicData(topic_name=topic, partitions=partitions)])


@pytest.mark.parametrize("version", range(3))
def test_a_quorum_of_one_is_led_and_caught_up(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            answer = await client.ask(quorum_request(), version)
            (partition,) = answer.topics[0].partitions
            (voter,) = partition.current_voters
            assert (answer.error_code, partition.leader_id, voter.replica_id) == (0, *[client.node.config.node_id] * 2)
            assert partition.high_watermark == voter.log_end_offset > 0
            if version >= 2:
                assert bytes(voter.replica_directory_id) != ZERO_UUID
                assert [each.node_id for each in answer.nodes] == [client.node.config.node_id]

    run(test)


def test_only_the_metadata_log_has_a_quorum(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            (partition,) = (await client.ask(quorum_request("other"))).topics[0].partitions
            assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs_tell_what_lies_in_them(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a", 2)
            data = batch(b"x" * 100)
            assert (await client.produce("a", data, index=1)).error_code == 0
            answer = await client.ask(DescribeLogDirsRequest(topics=None), version)
            (found,) = answer.results
            assert (found.error_code, found.log_dir) == (0, str(tmp_path))
            (topic,) = found.topics
            sizes = {each.partition_index: each.partition_size for each in topic.partitions}
            assert sizes == {0: 0, 1: len(data)}
            if version >= 4:
                assert found.total_bytes > found.usable_bytes > 0
            one = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="a", partitions=[0])])
            (found,) = (await client.ask(one, version)).results
            assert [each.partition_index for each in found.topics[0].partitions] == [0]

    run(test)


@pytest.mark.parametrize("version", range(6))
def test_every_idempotent_producer_gets_its_own_id(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            request = InitProducerIdRequest(transactional_id=None)
            answers = [await client.ask(request, version) for _ in range(3)]
            assert {(each.error_code, each.producer_epoch) for each in answers} == {(0, 0)}
            assert len({each.producer_id for each in answers}) == 3

    run(test)


def test_producer_ids_never_come_twice_over_restarts(tmp_path: Path) -> None:
    seen: list[int] = []

    async def test() -> None:
        async with running_node(tmp_path) as client:
            for _ in range(2):
                seen.append((await client.ask(InitProducerIdRequest(transactional_id=None), 4)).producer_id)  # noqa: PERF401

    for _ in range(3):
        run(test)
    assert len(set(seen)) == 6


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "producer_epoch", "code"),
    [
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
        (None, 5, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 5, ErrorCode.INVALID_REQUEST),
        ("tx", 5, -1, ErrorCode.INVALID_REQUEST),
        ("tx", -1, -1, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_producers_that_get_no_id(
    tmp_path: Path, transactional_id: str | None, producer_id: int, producer_epoch: int, code: ErrorCode
) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            request = InitProducerIdRequest(
                transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch
            )
            answer = await client.ask(request, 4)
            assert (answer.error_code, answer.producer_id) == (code, -1)

    run(test)
