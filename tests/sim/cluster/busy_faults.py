"""Faults of the second generation: closer together, in single calls of a disk, and behind the backs of clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.sim.cluster.faults import Faults
from tests.sim.cluster.host import Host
from tests.sim.disk import CallFailure, SimDisk

if TYPE_CHECKING:
    from tests.sim.cluster.world import ClusterWorld

__all__ = ["BusyFaults"]

STORMS_MIN, STORMS_SPREAD = 4, 3
FAULTS_MIN, FAULTS_SPREAD = 10, 20
"""Of one storm."""
PAUSE_S_MIN, PAUSE_S = 0.02, 0.25
"""Between two faults of a storm, which are often over later than that."""
LASTING = 0.4
"""Of what the first generation's faults last."""
TURNS_CHANCE = 0.15
"""How often a leader is deposed and returns between two storms."""
REST_CHANCE = 0.5
"""How often the cluster is let to become whole between two storms, so that a disk may forget again."""
REST_S_MAX, SHORT_REST_S = 3.0, 0.5
CALLS_AHEAD_MAX = 30
SPELL_CHANCE = 0.7
"""How often another call of a disk fails after one did."""
DROPPING_CHANCE = 0.3
"""How often a failing fsync drops the pages, as Linux does; then no other broker may lose anything meanwhile."""
WRITER = "idempotent-1"
WRITTEN = ("flushed", 0)
"""A partition and the one who writes to it."""
TURN_S_MAX = 8.0


class BusyFaults(Faults):
    """More of them in less time: storms of faults, and rests between."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self.pause_s_min, self.pause_s, self.lasting = PAUSE_S_MIN, PAUSE_S, LASTING
        self.storms = STORMS_MIN + self.rng.randrange(STORMS_SPREAD)
        self.turns_chance = TURNS_CHANCE
        self.kinds += (self.calls_fail,) * 10 + (self._reset,) * 2
        self._unsettled: list[Host] = []
        """Hosts of which a call fails, or has failed a moment ago: what comes of it is not to be seen yet."""

    async def befall(self, tasks: list[asyncio.Task[None]]) -> None:
        """Storm after storm; between two a leader may be deposed and return, or the cluster become whole."""
        for _ in range(self.storms):
            self.count = FAULTS_MIN + self.rng.randrange(FAULTS_SPREAD)
            await super().befall(tasks)
            if self.rng.random() < self.turns_chance:
                await self._rest(tasks, REST_S_MAX)
                await self.returns()
            await self._rest(tasks, REST_S_MAX if self.rng.random() < REST_CHANCE else SHORT_REST_S)

    async def _rest(self, tasks: list[asyncio.Task[None]], seconds: float) -> None:
        """Let the cluster become whole, for so long at most."""
        until = self.world.loop.time() + seconds
        while not self.world.is_whole() and self.world.loop.time() < until:
            await self._pass(tasks, 0.1)
        self._forget_if_whole()

    def _forget_if_whole(self) -> None:
        """As ever, but a host whose disk may still fail, or has just failed, may end at any moment and lack something."""
        fragile = self._fragile
        super()._forget_if_whole()
        for host in self._unsettled:
            self._unclean[host.name] = None
            if host is fragile:
                self._fragile = host

    def calls_fail(self) -> None:
        """One call of one disk fails, and then perhaps another.

        Some nodes are restarted after it and some go on with what they have made of it.
        """
        host = self._some()
        if host.disk is None or not host.is_running or host.disk.fail_in is not None or not self._may_kill(host):
            return
        disk, process = host.disk, host.process
        host.disk_failed = True
        disk.failed_syncs_drop = False
        self._unclean[host.name] = None
        self._unsettled.append(host)
        if self.rng.random() < DROPPING_CHANCE and self._may_lose_data(host):
            self._fragile, disk.failed_syncs_drop = host, True
        goes_on = self.rng.random() < 0.5
        self._arm(host, disk)

        def settle() -> None:
            disk.fail_in, disk.at_failure = None, None
            self._unsettled.remove(host)
            if host.process is process and (disk.sync_failed or not host.is_alive or not goes_on):
                self._fall(host)
                self._up(host)

        self._later(0.3 + 1.5 * self.rng.random(), settle)

    def _arm(self, host: Host, disk: SimDisk) -> None:
        """Let a call of a disk fail; it counts as a fault when it does."""

        def failed(failure: CallFailure) -> None:
            self._note(f"one call fails {host.name}")
            self.world.trace.note(f"it is {failure.value}")
            if self.rng.random() < SPELL_CHANCE:
                self._arm(host, disk)

        disk.at_failure = failed
        disk.fail_in = (self.rng.randrange(CALLS_AHEAD_MAX), self.rng.choice(list(CallFailure)))

    def _fall(self, host: Host) -> None:
        """As ever, but after a failed fsync the machine is restarted: nobody knows what the device has."""
        if host.is_alive and host.disk is not None and host.disk.sync_failed:
            self._lose_power(host, data=host.disk.failed_syncs_drop)
        super()._fall(host)

    def _up(self, host: Host) -> None:
        """As ever; a machine whose fsync has failed is restarted with its process, however that came to end."""
        disk = host.disk
        if not host.is_alive and disk is not None and disk.sync_failed:
            disk.sync_failed = False
            host.lose_power(data=disk.failed_syncs_drop, metadata=True)
        super()._up(host)

    async def end(self) -> None:
        """No call fails any more, and then as ever."""
        for host in self.world.hosts.values():
            if host.disk is not None:
                host.disk.fail_in, host.disk.at_failure = None, None
        await super().end()

    async def returns(self) -> None:
        """A leader is cut off until another leads, comes back in sync and leads again, while a producer misses all of it.

        What the first had appended and nobody else had was cut away in between; the producer sends it again.
        """
        world, inspection = self.world, self.world.inspection
        newest = inspection.newest(*WRITTEN)
        first = None if newest is None else world.hosts.get(newest[1])
        if first is None or not first.is_running or self._fragile is not None:
            return
        self._note(f"returns {first.name}")
        others = [each.name for each in world.hosts.values() if each is not first]
        ways = [way for other in others for way in ((first.name, other), (other, first.name))]
        for way in ways:
            world.fabric.block(*way)
        second = await self._other_leader(first)
        cut = [] if second is None else [(WRITER, second.name), (second.name, WRITER)]
        for way in cut:
            world.fabric.block(*way)
        for way in ways:
            world.fabric.heal(*way)
        if second is not None and await self._in_sync(first):
            self._kill(second)

        def heal() -> None:
            for way in cut:
                world.fabric.heal(*way)

        self._later(1.0 + 2.0 * self.rng.random(), heal)

    async def _other_leader(self, first: Host) -> Host | None:
        """Wait until another leads what is written to."""
        until = self.world.loop.time() + TURN_S_MAX
        while self.world.loop.time() < until:
            newest = self.world.inspection.newest(*WRITTEN)
            if newest is not None and newest[1] != first.node_id:
                return self.world.hosts.get(newest[1])
            await asyncio.sleep(0.02)
        return None

    async def _in_sync(self, host: Host) -> bool:
        """Wait until a host's copy is in sync again."""
        until = self.world.loop.time() + TURN_S_MAX
        while self.world.loop.time() < until:
            controller = self.world.active_controller()
            if controller is not None and controller.node is not None:
                topic = controller.node.quorum.image.topics.get(WRITTEN[0])
                partition = None if topic is None else topic.partitions.get(WRITTEN[1])
                if partition is not None and host.node_id in partition.isr and partition.leader != host.node_id:
                    return True
            await asyncio.sleep(0.05)
        return False
