"""The group coordinator of a node over sockets: restarts, deleted topics, parked requests, and a shard that is loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, coordinating_partition
from ottla.wire import Record, build_batch, encode_coordinator_key, encode_coordinator_value, end_transaction_marker
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.broker.group_script import (
    Teller,
    commit_request,
    fetch_request,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.broker.node_client import NodeClient, parts, run, running_node, start_node

NO_DELAY = "group.initial.rebalance.delay.ms=0"


async def ready(client: NodeClient, *group_ids: str) -> None:
    await Teller(client, lambda: NodeClient.connect(client.node)).ready(*group_ids)


async def committed(client: NodeClient, group_id: str) -> dict[tuple[str, int], int]:
    answer = (await client.ask(fetch_request(9, group_id, topics=None), 9)).groups[0]
    assert answer.error_code == 0
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


async def member_of(client: NodeClient, group_id: str) -> str:
    """Bring a group of one to Stable; return its member's id."""
    required = await client.ask(join_request(group_id), 9)
    answer = await client.ask(join_request(group_id, required.member_id), 9)
    assert answer.error_code == 0, answer
    sync = await client.ask(
        sync_request(answer.member_id, answer.generation_id, answer.member_id, group_id=group_id), 5
    )
    assert sync.error_code == 0
    return str(answer.member_id)


async def one_in_and_one_joining(client: NodeClient) -> tuple[str, NodeClient, str, JoinGroupRequest]:
    """Return a member of a rebalancing group `g`; another client, its member's id, and the join that it waits for."""
    await ready(client, "g")
    one = await member_of(client, "g")
    other = await NodeClient.connect(client.node)
    two = (await other.ask(join_request("g"), 9)).member_id
    joining = join_request("g", two)
    other.send(joining, 9)
    while (await client.ask(heartbeat_request(one, 1))).error_code == 0:
        pass
    return one, other, two, joining


@pytest.mark.parametrize(
    ("key", "partition"), [("", 0), ("g", 3), ("static", 38), ("simple", 26), ("polygenelubricants", 0), ("żółw", 4)]
)
def test_groups_hash_as_javas_strings_do(key: str, partition: int) -> None:
    assert coordinating_partition(key, 50) == partition


def test_the_offsets_topic_is_made_when_a_coordinator_is_first_asked_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            assert (await client.ask(ListGroupsRequest())).groups == []
            first = await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            assert first.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await ready(client, "g")
            topics = [MetadataRequestTopic(name="__consumer_offsets")]
            (topic,) = (await client.ask(MetadataRequest(topics=topics))).topics
            assert (len(topic.partitions), topic.is_internal) == (50, True)
            resource = DescribeConfigsResource(resource_type=2, resource_name="__consumer_offsets")
            (described,) = (await client.ask(DescribeConfigsRequest(resources=[resource]))).results
            found = {each.name: each.value for each in described.configs if each.config_source == 1}
            assert found == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}

    run(test)


def test_a_transactions_coordinator_is_found_by_its_own_topic(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
            while (found := (await client.ask(request)).coordinators[0]).error_code:
                assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (found.node_id, found.port) == (client.node.config.node_id, client.node.listeners[0].port)

    run(test)


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_and_members_outlive_a_restart(tmp_path: Path, clean: bool) -> None:
    async def test() -> None:
        node = await start_node(tmp_path, NO_DELAY)
        client = await NodeClient.connect(node)
        await client.create("t", 2)
        await ready(client, "g")
        member = await member_of(client, "g")
        await client.ask(commit_request(42, group_id="g", member_id=member, generation=1, partitions=(0, 1)), 9)
        client.close()
        await node.stop()
        if not clean:
            (tmp_path / ".kafka_cleanshutdown").unlink()
        async with running_node(tmp_path, NO_DELAY) as client:
            await ready(client, "g")
            assert await committed(client, "g") == {("t", 0): 42, ("t", 1): 42}
            assert (await client.ask(heartbeat_request(member, 1))).error_code == 0
            assert (await client.ask(sync_request(member, 1))).assignment == b"\x01\x02"

    run(test)


def test_a_session_that_ends_empties_the_group(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, NO_DELAY, "group.min.session.timeout.ms=1") as client:
            await ready(client, "g")
            request = join_request("g", session_ms=50)
            required = await client.ask(request, 9)
            answer = await client.ask(request.replace(member_id=required.member_id), 9)
            await client.ask(sync_request(answer.member_id, 1, answer.member_id), 5)
            while (await client.ask(ListGroupsRequest())).groups[0].group_state != "Empty":
                pass
            assert (await client.ask(heartbeat_request(answer.member_id, 1))).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(test)


def test_two_members_share_and_one_that_leaves_gives_its_part_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, NO_DELAY) as client:
            one, other, two, joining = await one_in_and_one_joining(client)
            mine = await client.ask(join_request("g", one), 9)
            theirs = await other.receive(joining, 9)
            assert (mine.generation_id, theirs.generation_id) == (2, 2)
            assert sorted(each.member_id for each in mine.members) == sorted([one, two])
            assert theirs.members == []
            waiting = sync_request(two, 2)
            other.send(waiting, 5)
            assert (await client.ask(sync_request(one, 2, one, two), 5)).assignment == b"\x01\x02"
            assert (await other.receive(waiting, 5)).assignment == b"\x01\x02"
            await other.ask(leave_request((two, None)))
            assert (await client.ask(heartbeat_request(one, 2))).error_code == ErrorCode.REBALANCE_IN_PROGRESS
            assert len((await client.ask(join_request("g", one), 9)).members) == 1
            other.close()

    run(test)


def test_a_deleted_topics_offsets_go_and_others_stay(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.create("u")
            await ready(client, "g")
            for topic in ("t", "u"):
                await client.ask(commit_request(1, group_id="g", topic=topic), 9)
            await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000))
            while len(left := await committed(client, "g")) > 1:
                pass
            assert left == {("u", 0): 1}

    run(test)


def test_who_waits_is_told_to_go_elsewhere_when_the_coordinator_stops(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "group.initial.rebalance.delay.ms=60000") as client:
            await ready(client, "g")
            member = (await client.ask(join_request("g"), 9)).member_id
            request = join_request("g", member)
            client.send(request, 9)
            other = await NodeClient.connect(client.node)
            while (await other.ask(ListGroupsRequest())).groups[0].group_state != "PreparingRebalance":
                pass
            other.close()
            parts(client.node).groups.close()
            assert (await client.receive(request, 9)).error_code == ErrorCode.NOT_COORDINATOR
            assert (await client.ask(heartbeat_request(member, 1))).error_code == ErrorCode.NOT_COORDINATOR

    run(test)


def log_records(*offsets: int, producer_id: int = -1) -> Any:
    """Return a batch that commits these offsets for `t`-0 of `g`, in a transaction where there is a producer."""
    key = encode_coordinator_key(OffsetCommitKey(group="g", topic="t", partition=0))
    records = [
        Record(timestamp=1, key=key, value=encode_coordinator_value(OffsetCommitValue(offset=each), 3))
        for each in offsets
    ]
    return build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )


def test_loading_takes_many_buffers_and_requests_are_told_to_wait(tmp_path: Path) -> None:
    async def test() -> None:
        settings = ("offsets.topic.num.partitions=1", "offsets.load.buffer.size=4096")
        node = await start_node(tmp_path, *settings)
        client = await NodeClient.connect(node)
        await client.create("t")
        await ready(client, "g")
        partition = parts(node).partitions.get("__consumer_offsets", 0)
        assert partition is not None
        for at in range(500):
            partition.append_from_coordinator(memoryview(log_records(*range(at, at + 20))), now_ms=1)
        client.close()
        await node.stop()
        async with running_node(tmp_path, *settings) as client:
            answer = (await client.ask(fetch_request(9, "g", topics=None), 9)).groups[0]
            assert answer.error_code in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            await ready(client, "g")
            assert await committed(client, "g") == {("t", 0): 518}

    run(test)


@pytest.mark.parametrize(("ends", "wanted"), [("commit", 9), ("abort", 5), ("open", 5)])
def test_transactions_in_the_log_count_by_their_markers(tmp_path: Path, ends: str, wanted: int) -> None:
    async def test() -> None:
        node = await start_node(tmp_path, "offsets.topic.num.partitions=1")
        client = await NodeClient.connect(node)
        await client.create("t")  # offsets of a topic that is not there are removed
        await ready(client, "g")
        partition = parts(node).partitions.get("__consumer_offsets", 0)
        assert partition is not None
        marker = end_transaction_marker(
            commit=ends == "commit", producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1
        )
        batches = [log_records(5), log_records(9, producer_id=7)] + ([marker] if ends != "open" else [])
        for each in batches:
            partition.append_from_coordinator(memoryview(each), now_ms=1)
        client.close()
        await node.stop()
        async with running_node(tmp_path) as client:
            await ready(client, "g")
            assert await committed(client, "g") == {("t", 0): wanted}
            asked = fetch_request(9, "g", partitions=(0,)).replace(require_stable=True)
            (found,) = (await client.ask(asked, 9)).groups[0].topics[0].partitions
            unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert found.error_code == (unstable if ends == "open" else ErrorCode.NONE)

    run(test)


def test_assignments_that_cannot_be_stored_are_refused_to_all_and_everyone_joins_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, NO_DELAY) as client:
            one, other, two, joining = await one_in_and_one_joining(client)
            await client.ask(join_request("g", one), 9)
            await other.receive(joining, 9)
            waiting = sync_request(two, 2)
            other.send(waiting, 5)
            huge = SyncGroupRequestAssignment(member_id=two, assignment=bytes(2 << 20))
            refused = await client.ask(sync_request(one, 2).replace(assignments=[huge]), 5)
            assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert (await other.receive(waiting, 5)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert (await client.ask(heartbeat_request(one, 2))).error_code == ErrorCode.REBALANCE_IN_PROGRESS
            other.close()

    run(test)


def test_texts_that_no_record_can_hold_and_retentions_without_end_harm_nobody(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, NO_DELAY) as client:
            await client.create("t")
            await ready(client, "g")
            for length, wanted in ((32_760, ErrorCode.INVALID_REQUEST), (32_730, ErrorCode.NONE)):
                joined = await client.ask(join_request("g", instance="i" * length), 9)
                assert joined.error_code == wanted
            request = commit_request(5, group_id="h").replace(retention_time_ms=(1 << 63) - 1)
            await ready(client, "h")
            answer = await client.ask(request, 4)
            assert answer.topics[0].partitions[0].error_code == 0
            assert await committed(client, "h") == {("t", 0): 5}

    run(test)


def test_a_group_that_waits_for_its_first_member_is_described_as_empty(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, NO_DELAY) as client:
            await ready(client, "g")
            required = await client.ask(join_request(), 9)
            assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
            for version in range(7):
                (group,) = (await client.ask(DescribeGroupsRequest(groups=["g"]), version)).groups
                assert (group.error_code, group.group_state, group.members) == (0, "Empty", [])

    run(test)
