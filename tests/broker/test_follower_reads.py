"""Reading near by (KIP-392), and what a leader may not tell yet when its epoch has only begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, NodeId
from ottla.metadata import decide
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.followers import FakeFollower, create_replicated, image_of
from tests.broker.node_client import NodeClient, batch, parts, run, running_node

RACK_AWARE = (
    "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "broker.rack=north",
)


async def fetch_in(client: NodeClient, rack: str, offset: int, *, max_wait_ms: int = 0, version: int = 18) -> Any:
    request: FetchRequest = client.fetch_request("t", offset, max_wait_ms=max_wait_ms).replace(rack_id=rack)
    return (await client.ask(request, version)).responses[0].partitions[0]


async def list_offset(client: NodeClient, timestamp: int, *, version: int = 10) -> Any:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])],
        timeout_ms=1000,
    )
    return (await client.ask(request, version)).topics[0].partitions[0]


def test_a_consumer_is_sent_to_the_replica_in_its_rack(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *RACK_AWARE) as client:
            south = await FakeFollower.register(client.node, 2, rack="south")
            await create_replicated(client, "t", 1, 2)
            await client.produce("t", batch(b"a"), acks=1)
            await south.fetch("t", 0)
            assert (await fetch_in(client, "south", 0)).preferred_read_replica == 2
            near = await fetch_in(client, "south", 0, max_wait_ms=20_000)
            assert near.preferred_read_replica == 2 and not near.records
            assert (await fetch_in(client, "south", 1)).preferred_read_replica == -1, "it has not come so far"
            await south.fetch("t", 1)
            for rack, version in (("north", 18), ("east", 18), ("", 18)):
                here = await fetch_in(client, rack, 0, version=version)
                assert here.preferred_read_replica == -1 and here.records
            await south.beat(fence=True)
            assert (await fetch_in(client, "south", 0)).preferred_read_replica == -1

    run(test)


def test_without_a_selector_the_leader_serves_every_rack(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            south = await FakeFollower.register(client.node, 2, rack="south")
            await create_replicated(client, "t", 1, 2)
            await client.produce("t", batch(b"a"), acks=1)
            await south.fetch("t", 1)
            here = await fetch_in(client, "south", 0)
            assert here.preferred_read_replica == -1 and here.records

    run(test)


async def handed_over(client: NodeClient, follower: FakeFollower) -> None:
    """Let the follower lead, so that this node follows with one record below its high watermark and one above."""
    await client.produce("t", batch(b"a"), acks=1)
    await follower.fetch("t", 1)
    await client.produce("t", batch(b"b"), acks=1)
    node = client.node
    await node.quorum.submit(lambda image: decide.fence_broker(image, NodeId(1)))
    assert image_of(node).partition("t", 0).leader == 2
    beat = decide.heartbeat
    epoch = image_of(node).brokers[1].epoch
    await node.quorum.submit(
        lambda image: beat(image, NodeId(1), epoch, caught_up=True, want_fence=False, want_shut_down=False)
    )


def test_a_follower_serves_consumers_up_to_its_high_watermark_and_old_ones_not_at_all(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            follower = await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            await handed_over(client, follower)
            found = await fetch_in(client, "", 0)
            assert found.error_code == 0 and found.records and found.high_watermark == 1
            beyond = await fetch_in(client, "", 1)
            assert beyond.error_code == 0 and not beyond.records
            assert (await fetch_in(client, "", 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await fetch_in(client, "", 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await client.fetch("t", 0, leader_epoch=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
            assert (await list_offset(client, -1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(test)


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
def test_the_end_is_not_told_before_the_high_watermark_has_reached_the_epochs_start(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            node = client.node
            follower = await FakeFollower.register(node, 2)
            await create_replicated(client, "t", 1, 2, min_insync_replicas="2")
            await client.produce("t", batch(b"a"), acks=1)
            assert (await list_offset(client, -1)).offset == 0
            held = parts(node).partitions.get("t", 0)
            state = image_of(node).partition("t", 0)
            held.replica.become(  # another had led meanwhile, and may have told that offset 1 is the end
                leader=NodeId(1), leader_epoch=2, partition_epoch=2, replicas=state.replicas, isr=state.isr, now_s=0.0
            )
            held.begin_epoch()
            assert (await list_offset(client, -1, version=version)).error_code == code
            assert (await list_offset(client, 1 << 50, version=version)).error_code == code
            assert (await list_offset(client, -2, version=version)).offset == 0
            await follower.fetch("t", 1, leader_epoch=2)
            assert (await list_offset(client, -1, version=version)).offset == 1
            assert (await list_offset(client, 1 << 50, version=version)).offset == -1

    run(test)
