"""In-sync replicas: who lags leaves, who has caught up comes back, and what clients and metrics see of it."""

from __future__ import annotations

from pathlib import Path

from ottla.base import ErrorCode
from ottla.broker import Node
from ottla.metadata import Partition
from tests.broker.followers import FakeFollower, create_replicated, image_of
from tests.broker.node_client import batch, parts, run, running_node
from tests.waiting import until_async

QUICK = ("replica.lag.time.max.ms=600", "replica.fetch.wait.max.ms=100")


def partition(node: Node, topic: str = "t") -> Partition:
    found = image_of(node).partition(topic, 0)
    assert found is not None
    return found


def counted(node: Node, name: str) -> int:
    return parts(node).metrics.counter(f"ReplicaManager.{name}").value


def test_a_follower_that_lags_leaves_and_one_that_has_caught_up_returns(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *QUICK) as client:
            node = client.node
            follower = await FakeFollower.register(node, 2)
            await create_replicated(client, "t", 1, 2)
            await client.produce("t", batch(b"a"), acks=1)
            held = parts(node).partitions.get("t", 0)
            assert held.replica.high_watermark == 0
            await until_async(lambda: partition(node).isr == (1,))
            assert held.replica.high_watermark == 1, "alone, the leader has what is replicated"
            await until_async(lambda: counted(node, "IsrShrinksPerSec") == 1)
            await follower.fetch("t", 0)
            assert partition(node).isr == (1,)
            await follower.fetch("t", 1)
            await until_async(lambda: partition(node).isr == (1, 2))
            assert partition(node).leader_epoch == 0
            await until_async(lambda: counted(node, "IsrExpandsPerSec") == 1)
            assert counted(node, "FailedIsrUpdatesPerSec") == 0

    run(test)


def test_too_few_in_sync_refuse_acks_all_and_hold_the_high_watermark(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *QUICK) as client:
            node = client.node
            follower = await FakeFollower.register(node, 2)
            await create_replicated(client, "t", 1, 2, min_insync_replicas="2")
            await client.produce("t", batch(b"a"), acks=1)
            await until_async(lambda: partition(node).isr == (1,))
            assert partition(node).eligible_leader_replicas == (2,), "it has everything that was acknowledged"
            refused = await client.produce("t", batch(b"b"))
            assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            held = parts(node).partitions.get("t", 0)
            assert held.replica.high_watermark == 0
            await follower.fetch("t", 1)
            await until_async(lambda: partition(node).isr == (1, 2))
            assert held.replica.high_watermark == 1
            assert partition(node).eligible_leader_replicas == ()

    run(test)


def test_a_write_whose_followers_left_is_answered_when_the_isr_has_shrunk(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *QUICK) as client:
            await FakeFollower.register(client.node, 2)
            await create_replicated(client, "t", 1, 2)
            answer = await client.produce("t", batch(b"a"))
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert partition(client.node).isr == (1,)

    run(test)


def test_a_fenced_follower_is_not_taken_in(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            node = client.node
            follower = await FakeFollower.register(node, 2)
            await create_replicated(client, "t", 1, 2)
            await client.produce("t", batch(b"a"), acks=1)
            await follower.beat(fence=True)
            assert partition(node).isr == (1,)
            await follower.fetch("t", 1)
            assert parts(node).partitions.get("t", 0).replica.proposal is None
            await follower.beat()
            assert partition(node).isr == (1,), "to be unfenced is not yet to be in sync"
            await follower.fetch("t", 1)
            await until_async(lambda: partition(node).isr == (1, 2))

    run(test)


def test_what_the_controller_refuses_is_given_up_and_proposed_anew(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            node = client.node
            follower = await FakeFollower.register(node, 2)
            await create_replicated(client, "t", 1, 2)
            await follower.beat(fence=True)
            await follower.beat()
            held = parts(node).partitions.get("t", 0)
            # The leader believes in a broker epoch that the controller has never heard of.
            held.fetched_by(2, fetch_offset=0, log_start_offset=0, now_s=0.0, broker_epoch=7, is_eligible=True)
            parts(node).isr.fetched(held, 2)
            assert held.replica.proposal is not None
            await until_async(lambda: held.replica.proposal is None)
            assert partition(node).isr == (1,) and counted(node, "FailedIsrUpdatesPerSec") == 1
            await follower.fetch("t", 0)
            await until_async(lambda: partition(node).isr == (1, 2))

    run(test)


def test_a_leader_that_was_held_up_blames_nobody(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *QUICK) as client:
            node = client.node
            await FakeFollower.register(node, 2)
            await create_replicated(client, "t", 1, 2)
            await client.produce("t", batch(b"a"), acks=1)
            keeper = parts(node).isr
            held = parts(node).partitions.get("t", 0)
            keeper._timer.cancel()
            held.replica.lag_max_s = -1.0  # it lags by any measure
            keeper._due_s = parts(node).loop.time() - 5
            keeper._look()
            assert held.replica.proposal is None
            keeper._due_s = parts(node).loop.time()
            keeper._look()
            assert held.replica.proposal is not None

    run(test)
