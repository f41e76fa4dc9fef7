"""The metadata quorum of several nodes: elections, failover, catching up."""

from __future__ import annotations

from tests.cluster.nodes import SimCluster


def test_three_controllers_elect_one_leader_and_open_the_cluster() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        leader = await cluster.led()
        await cluster.until(cluster.agreed)
        assert all(cluster.quorum(each).image.metadata_version for each in cluster.running)
        assert cluster.quorum(leader).is_leader

    SimCluster(1).run(test)
