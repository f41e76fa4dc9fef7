"""A metadata quorum of several nodes where disks are full: who has room goes on, who has none says nothing untrue."""

from __future__ import annotations

import asyncio

import pytest

from ottla.base import ErrorCode, KafkaError
from tests.cluster.nodes import SimCluster
from tests.cluster.test_quorum import elected, known_everywhere, note, noted

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""What a process leaves behind when it is killed."""

SEEDS = (1, 2, 3)
PLENTY = 1 << 40


def fill(cluster: SimCluster, *nodes: int) -> None:
    for each in nodes:
        cluster.storages[each].room_bytes = 0


def make_room(cluster: SimCluster, *nodes: int) -> None:
    for each in nodes:
        cluster.storages[each].room_bytes = PLENTY


async def three(cluster: SimCluster) -> tuple[int, list[int]]:
    """Start three controllers; return the leader, which has led for some time, and the others."""
    cluster.static(3, roles="controller")
    await cluster.start()
    leader = await cluster.led()
    await note(cluster, leader, "first")
    await known_everywhere(cluster, "first")
    await asyncio.sleep(10)
    return leader, [each for each in (1, 2, 3) if each != leader]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_without_room_keeps_what_it_has_and_catches_up_when_it_has_some(seed: int) -> None:
    async def test(cluster: SimCluster) -> None:
        leader, (full, _) = await three(cluster)
        end = cluster.quorum(full).status.log_end_offset
        epoch = cluster.quorum(leader).status.leader_epoch
        fill(cluster, full)
        for name in "abc":
            await note(cluster, leader, name)
        await asyncio.sleep(30)
        assert cluster.quorum(full).status.log_end_offset == end
        progress = cluster.quorum(leader).status.replicas[full]
        assert progress.end_offset == end, "it acknowledges what is on its disk"
        assert noted(cluster, full, "a") is None
        make_room(cluster, full)
        await known_everywhere(cluster, "c")
        assert cluster.quorum(full).status.leader_epoch == epoch, "it has disturbed nobody"

    SimCluster(seed).run(test)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_leader_without_room_lets_another_lead_and_follows_when_it_has_some(seed: int) -> None:
    async def test(cluster: SimCluster) -> None:
        full, others = await three(cluster)
        fill(cluster, full)
        with pytest.raises(KafkaError) as caught:
            await note(cluster, full, "refused")
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        successor = await elected(cluster, others)
        await note(cluster, successor, "second")
        await asyncio.sleep(30)
        assert await elected(cluster, others) == successor, "who has no room disturbs nobody"
        assert not cluster.quorum(full).is_leader and noted(cluster, full, "second") is None
        make_room(cluster, full)
        await known_everywhere(cluster, "second")
        assert noted(cluster, full, "refused") is None

    SimCluster(seed).run(test)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_vote_is_given_without_room_for_it(seed: int) -> None:
    async def test(cluster: SimCluster) -> None:
        leader, (full, other) = await three(cluster)
        fill(cluster, full)
        cluster.kill(leader)
        await asyncio.sleep(30)
        assert not cluster.quorum(full).is_leader and not cluster.quorum(other).is_leader
        make_room(cluster, full)
        successor = await elected(cluster, [full, other])
        await note(cluster, successor, "second")
        await cluster.start(leader)
        await known_everywhere(cluster, "second")

    SimCluster(seed).run(test)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_quorum_whose_disks_are_all_full_decides_again_when_they_have_room(seed: int) -> None:
    async def test(cluster: SimCluster) -> None:
        leader, others = await three(cluster)
        fill(cluster, leader, *others)
        for _ in range(5):
            with pytest.raises(KafkaError):
                await note(cluster, leader, "refused")
            await asyncio.sleep(2)
        make_room(cluster, leader, *others)
        successor = await elected(cluster, [1, 2, 3])
        await note(cluster, successor, "second")
        await known_everywhere(cluster, "second")

    SimCluster(seed).run(test)
