"""The metadata quorum of several nodes on the simulated network: elections, failover, catching up."""

from __future__ import annotations

import logging

import pytest

from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.metadata import Image, ResourceType, decide
from ottla.wire.messages.config_record import ConfigRecord
from tests.cluster.nodes import SimCluster

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""What a process leaves behind when it is killed."""

SEEDS = (1, 2, 3, 4, 5)
TOPIC = int(ResourceType.TOPIC)


def noting(name: str, value: str):
    """Return a decision that writes one value, for tests to find again."""

    def decision(image: Image) -> decide.Decision[None]:
        return decide.Decision((ConfigRecord(resource_type=TOPIC, resource_name=name, name="k", value=value),), None)

    return decision


async def note(cluster: SimCluster, node: int, name: str, value: str = "v") -> None:
    await cluster.on(node, cluster.quorum(node).submit(noting(name, value)))


def noted(cluster: SimCluster, node: int, name: str) -> str | None:
    return cluster.quorum(node).image.topic_config(name).get("k")


async def known_everywhere(cluster: SimCluster, name: str, value: str = "v") -> None:
    await cluster.until(lambda: all(noted(cluster, each, name) == value for each in cluster.running))


async def elected(cluster: SimCluster, among: list[int]) -> int:
    """Wait until these nodes know a leader among themselves."""
    await cluster.until(lambda: cluster.leader(among=among) in among)
    return await cluster.led(among=among)


@pytest.mark.parametrize("seed", SEEDS)
def test_three_controllers_elect_one_leader_and_open_the_cluster(seed: int) -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        await note(cluster, leader, "first")
        await known_everywhere(cluster, "first")
        assert all(cluster.quorum(each).image.metadata_version for each in cluster.running)

    SimCluster(seed).run(test)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_quorum_goes_on_within_two_seconds_after_its_leader_was_killed(seed: int) -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        await note(cluster, leader, "before")
        killed_at = cluster.loop.time()
        cluster.kill(leader)
        successor = await cluster.led()
        await note(cluster, successor, "after")
        assert cluster.loop.time() - killed_at < 2
        await known_everywhere(cluster, "before")
        await cluster.start(leader)
        await known_everywhere(cluster, "after")
        assert await cluster.led() == successor, "whoever comes back does not disturb the leader"

    SimCluster(seed).run(test)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_quorum_goes_on_within_five_seconds_after_its_leader_was_cut_off(seed: int) -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        others = [each for each in cluster.running if each != leader]
        cut_at = cluster.loop.time()
        cluster.isolate(leader)
        successor = await elected(cluster, others)
        await note(cluster, successor, "after")
        assert cluster.loop.time() - cut_at < 5
        await cluster.until(lambda: not cluster.quorum(leader).is_leader)
        cluster.heal(leader)
        await known_everywhere(cluster, "after")
        assert await cluster.led() == successor

    SimCluster(seed).run(test)


def test_what_a_deposed_leader_had_in_flight_is_not_answered_with_success() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        others = [each for each in cluster.running if each != leader]
        cluster.isolate(leader)
        with pytest.raises(KafkaError) as caught:
            await note(cluster, leader, "lost", "old")
        assert caught.value.code == ErrorCode.NOT_CONTROLLER
        assert noted(cluster, leader, "lost") is None, "what was not committed is seen by nobody"
        successor = await elected(cluster, others)
        await note(cluster, successor, "lost", "new")
        cluster.heal(leader)
        await known_everywhere(cluster, "lost", "new")
        await note(cluster, successor, "later")
        await known_everywhere(cluster, "later")

    SimCluster(7).run(test)


def test_a_leader_that_stops_hands_over_at_once() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        stopped_at = cluster.loop.time()
        await cluster.stop(leader)
        await note(cluster, await cluster.led(), "after")
        assert cluster.loop.time() - stopped_at < 0.5

    SimCluster(8).run(test)


def test_without_a_majority_nothing_is_committed_and_with_it_again_everything_goes_on() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        others = [each for each in cluster.running if each != leader]
        for each in others:
            cluster.lose_power(each)
        with pytest.raises(KafkaError):
            await note(cluster, leader, "alone")
        for each in others:
            cluster.give_power(each)
        await cluster.start(*others)
        await note(cluster, await cluster.led(), "together")
        await known_everywhere(cluster, "together")

    SimCluster(9).run(test)


def test_a_late_joiner_loads_a_snapshot_in_pieces() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(
            3,
            roles="controller",
            settings=[
                "metadata.log.max.record.bytes.between.snapshots=2000",
                "metadata.max.retention.bytes=4000",
                "internal.metadata.log.segment.bytes=2000",
                "controller.quorum.fetch.snapshot.max.bytes=700",
            ],
        )
        await cluster.start(1, 2)
        leader = await cluster.led()
        for at in range(60):
            await note(cluster, leader, f"topic-{at}", "v" * 50)
        await cluster.until(lambda: cluster.quorum(leader).log_start_offset > 0)
        await cluster.start(3)
        await known_everywhere(cluster, "topic-0", "v" * 50)
        assert cluster.quorum(3).log_start_offset > 0
        await note(cluster, leader, "after")
        await known_everywhere(cluster, "after")
        cluster.kill(leader)
        await note(cluster, await cluster.led(), "then")
        await known_everywhere(cluster, "then")

    SimCluster(10).run(test)


def test_every_node_hears_who_leads() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        heard: dict[int, list[tuple[NodeId | None, int, bool]]] = {}
        for each in cluster.running:
            heard[each] = []
            cluster.quorum(each).subscribe_leadership(lambda *what, to=heard[each]: to.append(what))
            epoch = cluster.quorum(each).status.leader_epoch
            assert heard[each] == [(leader, epoch, each == leader)]
        cluster.kill(leader)
        successor = await cluster.led()
        assert all(
            heard[each][-1] == (successor, cluster.quorum(each).status.leader_epoch, each == successor)
            for each in cluster.running
        )
        endpoint = cluster.quorum(successor).controller_endpoint(NodeId(successor))
        assert endpoint is not None and f"{endpoint.host}:{endpoint.port}" == cluster.controller_address(successor)

    SimCluster(11).run(test)


def test_a_node_of_another_cluster_takes_no_part() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        cluster.hosts[3].cluster_id = "another-cluster-000000"
        await cluster.start(1, 2)
        await cluster.start(3, wait=False)
        leader = await cluster.led(among=(1, 2))
        await note(cluster, leader, "a")
        await cluster.until(lambda: cluster.loop.time() > 20)
        assert cluster.quorum(3).leader[0] is None and cluster.quorum(3).status.log_end_offset == 0
        assert await cluster.led(among=(1, 2)) == leader, "what it asks disturbs nobody"

    SimCluster(12).run(test)


@pytest.mark.parametrize("seed", SEEDS)
def test_five_controllers_lose_two_leaders_one_after_the_other(seed: int) -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(5, roles="controller")
        await cluster.start()
        for name in ("a", "b"):
            killed_at = cluster.loop.time()
            cluster.kill(await cluster.led())
            await note(cluster, await cluster.led(), name)
            assert cluster.loop.time() - killed_at < 2
        await known_everywhere(cluster, "b")

    SimCluster(seed).run(test)


@pytest.mark.parametrize("by", ["voters", "bootstrap"])
def test_a_node_of_another_cluster_says_itself_why_it_waits_and_where_it_asks(
    by: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(2)
        quorum = cluster.bootstrap(1) if by == "bootstrap" else cluster.static_voters((1, 2))
        cluster.add(3, roles="broker", quorum=quorum).cluster_id = "NkU3OEVBNTcwNTJENDM2Qg"
        await cluster.start(1, 2)
        await cluster.start(3, wait=False)
        waiting = "Waiting for the metadata quorum since 10 s"
        await cluster.until(lambda: any(waiting in each.getMessage() for each in caplog.records))
        told = [each.getMessage() for each in caplog.records]
        (last,) = [each for each in told if waiting in each]
        own = "this node's folders are formatted with cluster.id NkU3OEVBNTcwNTJENDM2Qg (meta.properties), and its are not"
        assert f"at {cluster.controller_address(1)} refuses it: INCONSISTENT_CLUSTER_ID: {own}" in last
        assert f"The metadata quorum is asked at {cluster.controller_address(1)}" in "\n".join(told)
        assert any("is formatted with cluster.id 'NkU3OEVBNTcwNTJENDM2Qg'; this one's is" in each for each in told)
        cluster.kill(3)

    with caplog.at_level(logging.INFO):
        SimCluster(1).run(test)
