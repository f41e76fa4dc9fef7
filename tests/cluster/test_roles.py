"""Nodes that are controllers, brokers, or both."""

from __future__ import annotations

import pytest

from ottla.raft import VoterSet
from tests.cluster.nodes import SimCluster
from tests.cluster.test_quorum import known_everywhere, note
from tests.cluster.test_voters import voter

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def registered(cluster: SimCluster, *brokers: int) -> None:
    """Wait until every running node knows these brokers, and no others, as alive."""

    def alive(node_id: int) -> tuple[int, ...]:
        found = cluster.quorum(node_id).image.brokers.values()
        return tuple(sorted(int(each.id) for each in found if not each.fenced))

    await cluster.until(lambda: all(alive(each) == brokers for each in cluster.running))


def test_three_nodes_of_both_roles_become_a_cluster_and_lose_one() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        await registered(cluster, 1, 2, 3)
        leader = await cluster.led()
        cluster.kill(leader)
        await note(cluster, await cluster.led(), "a")
        await registered(cluster, *cluster.running)
        await cluster.start(leader)
        await registered(cluster, 1, 2, 3)
        await known_everywhere(cluster, "a")

    SimCluster(31).run(test)


def test_brokers_alone_follow_controllers_and_never_vote() -> None:
    async def test(cluster: SimCluster) -> None:
        voters = cluster.static_voters((1, 2, 3))
        for node_id in (1, 2, 3):
            cluster.add(node_id, roles="controller", quorum=voters)
        for node_id in (4, 5):
            cluster.add(node_id, roles="broker", quorum=voters)
        await cluster.start()
        await registered(cluster, 4, 5)
        leader = await cluster.led()
        await note(cluster, leader, "a")
        cluster.kill(leader)
        successor = await cluster.led()
        assert successor in (1, 2, 3)
        await note(cluster, successor, "b")
        await known_everywhere(cluster, "b")
        assert cluster.quorum(4).status.voters.ids == (1, 2, 3)
        assert set(cluster.quorum(successor).status.replicas) >= {4, 5}

    SimCluster(32).run(test)


def test_a_broker_finds_a_dynamic_quorum_by_its_servers_and_follows_it_when_they_have_changed() -> None:
    async def test(cluster: SimCluster) -> None:
        initial = VoterSet.of(voter(each) for each in (1, 2, 3))
        asked = cluster.bootstrap(1, 2)
        for node_id in (1, 2, 3):
            cluster.add(node_id, roles="controller", quorum=asked, voters=initial)
        cluster.add(4, roles="broker", quorum=asked)
        await cluster.start()
        await registered(cluster, 4)
        assert cluster.quorum(4).status.voters.ids == (1, 2, 3)
        cluster.kill(1)
        await note(cluster, await cluster.led(), "a")
        await known_everywhere(cluster, "a")
        cluster.kill(4)
        await cluster.start(4)
        await known_everywhere(cluster, "a")

    SimCluster(33).run(test)


def test_a_node_waits_for_a_majority_and_goes_on_when_it_is_there() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start(1, wait=False)
        await cluster.until(lambda: cluster.loop.time() > 30)
        assert not cluster.hosts[1].starting.done()  # type: ignore[union-attr]
        await cluster.start(2, 3)
        await registered(cluster, 1, 2, 3)

    SimCluster(34).run(test)
