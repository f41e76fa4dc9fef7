"""Voters that come, go and move (KIP-853), on the simulated network."""

from __future__ import annotations

import pytest

from ottla.base import ErrorCode, KafkaError, NodeId, Uuid
from ottla.raft import ReplicaKey, Voter, VoterEndpoint, VoterSet
from tests.cluster.nodes import CONTROLLER_PORT, SimCluster
from tests.cluster.test_quorum import known_everywhere, note

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NOBODY = VoterSet()


def voter(node_id: int, generation: int = 1) -> Voter:
    key = ReplicaKey(NodeId(node_id), Uuid(bytes([generation]) * 15 + bytes([node_id])))
    return Voter(key, (VoterEndpoint("CONTROLLER", f"n{node_id}", CONTROLLER_PORT),))


def dynamic(cluster: SimCluster, count: int, *others: int, settings: tuple[str, ...] = ()) -> None:
    """Set up controllers 1 to count as initial voters, and others that only know where to ask."""
    initial = VoterSet.of(voter(each) for each in range(1, count + 1))
    asked = cluster.bootstrap(*range(1, count + 1))
    for node_id in range(1, count + 1):
        cluster.add(node_id, roles="controller", quorum=asked, voters=initial, settings=settings)
    for node_id in others:
        cluster.add(node_id, roles="controller", quorum=asked, voters=NOBODY, settings=settings)


def voters_of(cluster: SimCluster, node_id: int) -> tuple[int, ...]:
    return tuple(cluster.quorum(node_id).status.voters.ids)


async def agreed_voters(cluster: SimCluster, *ids: int) -> None:
    await cluster.until(lambda: all(voters_of(cluster, each) == ids for each in cluster.running))


async def add(cluster: SimCluster, node_id: int) -> None:
    leader = await cluster.led()
    key, endpoints = cluster.quorum(node_id).key, voter(node_id).endpoints
    work = cluster.quorum(leader).membership.add(key, endpoints, timeout_ms=5000, until_committed=True)
    await cluster.on(leader, work)


async def remove(cluster: SimCluster, node_id: int) -> None:
    leader = await cluster.led()
    found = cluster.quorum(leader).status.voters.get(node_id)
    assert found is not None
    await cluster.on(leader, cluster.quorum(leader).membership.remove(found.key, timeout_ms=5000))


def test_initial_controllers_are_a_quorum_without_any_voter_in_their_settings() -> None:
    async def test(cluster: SimCluster) -> None:
        dynamic(cluster, 3)
        await cluster.start()
        leader = await cluster.led()
        assert cluster.quorum(leader).kraft_version == 1
        await note(cluster, leader, "a")
        cluster.kill(leader)
        await note(cluster, await cluster.led(), "b")
        await cluster.start(leader)
        await known_everywhere(cluster, "b")
        assert all(voters_of(cluster, each) == (1, 2, 3) for each in cluster.running)

    SimCluster(21).run(test)


def test_controllers_join_by_themselves_where_they_may_and_the_quorum_survives_its_first_voter() -> None:
    async def test(cluster: SimCluster) -> None:
        settings = ("controller.quorum.auto.join.enable=true",)
        cluster.add(1, roles="controller", voters=VoterSet.of([voter(1)]))
        for node_id in (2, 3):
            quorum = cluster.bootstrap(1)
            cluster.add(node_id, roles="controller", quorum=quorum, voters=NOBODY, settings=settings)
        await cluster.start()
        await agreed_voters(cluster, 1, 2, 3)
        await note(cluster, await cluster.led(), "a")
        cluster.kill(1)
        await note(cluster, await cluster.led(), "b")
        await known_everywhere(cluster, "b")

    SimCluster(22).run(test)


def test_a_controller_that_follows_is_made_a_voter_and_the_removed_leader_hands_over() -> None:
    async def test(cluster: SimCluster) -> None:
        dynamic(cluster, 3, 4)
        await cluster.start()
        leader = await cluster.led()
        await note(cluster, leader, "a")
        await add(cluster, 4)
        await agreed_voters(cluster, 1, 2, 3, 4)
        await remove(cluster, leader)
        rest = tuple(sorted({1, 2, 3, 4} - {leader}))
        await cluster.until(lambda: cluster.leader() not in (None, leader))
        await agreed_voters(cluster, *rest)
        await note(cluster, await cluster.led(), "b")
        await known_everywhere(cluster, "b")

    SimCluster(23).run(test)


def test_what_the_leader_refuses() -> None:
    async def refused(work, code: ErrorCode) -> None:
        with pytest.raises(KafkaError) as caught:
            await work
        assert caught.value.code == code

    async def test(cluster: SimCluster) -> None:
        dynamic(cluster, 1)
        await cluster.start()
        await cluster.led()
        membership = cluster.quorum(1).membership
        other = ReplicaKey(NodeId(1), Uuid(b"x" * 16))
        nowhere = voter(9)
        await refused(
            cluster.on(1, membership.add(other, voter(1).endpoints, timeout_ms=100, until_committed=True)),
            ErrorCode.DUPLICATE_VOTER,
        )
        await refused(
            cluster.on(1, membership.add(nowhere.key, nowhere.endpoints, timeout_ms=100, until_committed=True)),
            ErrorCode.REQUEST_TIMED_OUT,
        )
        await refused(cluster.on(1, membership.remove(other, timeout_ms=100)), ErrorCode.VOTER_NOT_FOUND)
        await refused(cluster.on(1, membership.remove(voter(1).key, timeout_ms=100)), ErrorCode.INVALID_REQUEST)

    SimCluster(24).run(test)


def test_static_voters_do_not_change_until_they_are_records() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        membership = cluster.quorum(leader).membership
        with pytest.raises(KafkaError) as caught:
            await cluster.on(leader, membership.remove(cluster.quorum(1).key, timeout_ms=100))
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
        await cluster.until(lambda: len(membership.known) == 2)
        await cluster.on(leader, membership.record(1))
        await cluster.until(lambda: all(cluster.quorum(each).kraft_version == 1 for each in cluster.running))
        await remove(cluster, leader)
        await cluster.until(lambda: cluster.leader() not in (None, leader))
        await agreed_voters(cluster, *sorted({1, 2, 3} - {leader}))

    SimCluster(25).run(test)


def test_a_voter_that_listens_elsewhere_tells_so() -> None:
    async def test(cluster: SimCluster) -> None:
        dynamic(cluster, 3)
        await cluster.start()
        leader = await cluster.led()
        moved = next(each for each in cluster.running if each != leader)
        await cluster.stop(moved)
        host = cluster.hosts[moved]
        host.overrides = tuple(each.replace(f"n{moved}:{CONTROLLER_PORT}", f"n{moved}:9999") for each in host.overrides)
        await cluster.start(moved)

        def port(node_id: int) -> int:
            found = cluster.quorum(node_id).status.voters.get(moved)
            assert found is not None
            return found.endpoints[0].port

        await cluster.until(lambda: all(port(each) == 9999 for each in cluster.running))
        cluster.kill(await cluster.led())
        await note(cluster, await cluster.led(), "after")

    SimCluster(26).run(test)


def test_a_disk_that_is_replaced_joins_again_in_place_of_the_old_one() -> None:
    async def test(cluster: SimCluster) -> None:
        dynamic(cluster, 3, settings=("controller.quorum.auto.join.enable=true",))
        await cluster.start()
        leader = await cluster.led()
        await note(cluster, leader, "a")
        lost = next(each for each in cluster.running if each != leader)
        old = cluster.quorum(lost).key
        cluster.lose_power(lost)
        cluster.made(cluster.hosts[lost])
        cluster.hosts[lost].voters = NOBODY
        await cluster.start(lost)
        await cluster.until(
            lambda: all(
                (found := cluster.quorum(each).status.voters.get(lost)) is not None and found.key != old
                for each in cluster.running
            )
        )
        await known_everywhere(cluster, "a")

    SimCluster(27).run(test)
