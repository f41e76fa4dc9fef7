"""What befalls a simulated cluster comes to an end."""

from __future__ import annotations

import asyncio

from tests.sim.cluster.quorum_world import QuorumWorld


def test_a_node_whose_stop_outlasts_the_faults_is_started_again() -> None:
    world = QuorumWorld(1)
    host = world.hosts[1]
    stop = host.stop

    async def stop_slowly() -> None:
        host.is_running = False
        await asyncio.sleep(1.0)
        await stop()

    async def live() -> None:
        await world.begin()
        world.faults._some = lambda: host  # type: ignore[method-assign]
        host.stop = stop_slowly  # type: ignore[method-assign]
        await world.faults._stopped()
        await world.calm([])
        assert host.is_running and host.incarnation == 2

    world.loop.run_until_complete(live())
    world.loop.close()
