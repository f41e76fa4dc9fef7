"""What befalls a simulated cluster, one after the other and together, and what mends it.

Bytes that were not fsynced are lost on the metadata disks of any nodes, all of them too; on a data disk of one broker at a
time only, when every replica is in sync and until it is so again: with `min.insync.replicas` 2 that is what a cluster must
survive. Everything else may happen to anyone at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.sim.cluster.host import Host

if TYPE_CHECKING:
    from tests.sim.cluster.world import ClusterWorld

__all__ = ["Faults"]

HOUR_MS = 3_600_000
ROOM_BYTES = 1 << 40
FAULTS_MAX = 5
DOWN_S_MAX = 5.0


class Faults:
    """The faults of one world."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self.rng = world.rng
        self.log: list[str] = []
        self._fragile: Host | None = None
        """The broker whose data disk has forgotten something, until everything is in sync again."""
        self._unclean: dict[str, None] = {}
        """Brokers whose process ended at once since everything was in sync: what they had acknowledged, nobody can tell."""
        self._due: list[tuple[float, Callable[[], None]]] = []
        self.pause_s = 4.0
        """The longest pause between two faults."""
        self.pause_s_min = 0.2
        self.lasting = 1.0
        """By how much what lasts (a cut, a pause, the time that a host is down) is longer or shorter than drawn."""
        self.count = 2 + self.rng.randrange(FAULTS_MAX - 1)
        self.kinds: tuple[Callable[[], Awaitable[None] | None], ...] = (
            *(self._killed, self._killed, self._killed_in_a_write, self._leader_killed, self._leader_killed),
            *(self._stopped, self._paused, self._paused, self._leader_paused),
            *(self._isolated, self._isolated, self.leader_isolated, self._one_way, self._bridged, self._reset),
            *(self._power_lost, self._power_lost, self.all_metadata_lost, self._clock_jumps, self._disk_fails),
            *(self._disk_full, self._all_killed, self.deserted, self.left_alone),
        )
        """What may happen, the likely several times."""

    # ---------------------------------------------------------------- a course of faults

    async def befall(self, tasks: list[asyncio.Task[None]]) -> None:
        """Several faults with pauses between, some of which are shorter than what the fault takes."""
        for _ in range(self.count):
            kind = self.rng.choice(self.kinds)
            name = kind.__name__.strip("_").replace("_", " ")
            self.world.trace.note(f"{self.world.loop.time():.6f} fault {name}")
            result = kind()
            if result is not None:
                await result
            await self._pass(tasks, self.pause_s_min + self.pause_s * self.rng.random())
            self._forget_if_whole()

    def _forget_if_whole(self) -> None:
        """Where every copy is in sync nothing is lacking any more, and everyone can prove what it has."""
        if self.world.is_whole():
            self._fragile = None
            self._unclean.clear()

    async def _pass(self, tasks: list[asyncio.Task[None]], seconds: float) -> None:
        until = self.world.loop.time() + seconds
        while (left := until - self.world.loop.time()) > 0:
            await self.world.watch(tasks, min(left, 0.25))
            self.tend()

    def _note(self, text: str) -> None:
        self.log.append(text)
        self.world.trace.note(f"{self.world.loop.time():.6f} {text}")

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._due.append((self.world.loop.time() + seconds, act))

    def _do_what_is_due(self, *, all_of_it: bool = False) -> None:
        now = self.world.loop.time()
        due = [each for each in self._due if all_of_it or each[0] <= now]
        self._due = [each for each in self._due if each not in due]
        for _, act in sorted(due, key=lambda each: each[0]):
            act()

    def tend(self) -> None:
        """Start what is to be started by now, and a node that says it can no longer serve, as whoever runs them has to.

        A stop may last longer than all faults, so this has to go on until everyone is up.
        """
        self._do_what_is_due()
        for host in self.world.hosts.values():
            node = host.node
            if (
                host.is_alive
                and host.disk_failed
                and node is not None
                and node.failed is not None
                and node.failed.done()
            ):
                self._note(f"end of a broken {host.name}")
                self._fall(host)
                self._later(0.3, lambda host=host: self._up(host))  # type: ignore[misc]

    async def end(self) -> None:
        """Undo what can be undone, and let every node run."""
        self._do_what_is_due(all_of_it=True)
        fabric = self.world.fabric
        for source, target in list(fabric._blocked):
            fabric.heal(source, target)
        for host in self.world.hosts.values():
            host.storage.room_bytes = ROOM_BYTES
            if host.process is not None:
                host.process.resume()
            if host.disk is not None:
                host.disk.crash_at = None
                host.disk.failing_writes = host.disk.failing_syncs = 0
            if host.disk_failed:
                self._fall(host)
        await asyncio.sleep(0.2)
        for host in self.world.hosts.values():
            self._up(host)

    # ---------------------------------------------------------------- means

    def _some(self) -> Host:
        return self.rng.choice(list(self.world.hosts.values()))

    def _some_leader(self) -> Host:
        """The active controller, or the leader of a partition that is written to."""
        controller = self.world.active_controller()
        if controller is not None and self.rng.random() < 0.5:
            return controller
        return self._some_partition_leader()

    def _some_partition_leader(self) -> Host:
        newest = self.world.inspection.newest(*self.rng.choice((("flushed", 0), ("moved", 0), ("txn", 0))))
        return self.world.hosts[newest[1]] if newest is not None and newest[1] in self.world.hosts else self._some()

    def _fall(self, host: Host) -> None:
        self.world.inspection.look()
        self._unclean[host.name] = None
        host.kill()

    def _up(self, host: Host) -> None:
        host.power_on()
        if host.process is not None and host.process.is_paused:
            return
        if not host.is_alive:
            host.start()

    def _down_s(self) -> float:
        return self.lasting * self.rng.choice((0.05, 0.5, 0.5, DOWN_S_MAX)) * self.rng.random()

    def _kill(self, host: Host) -> None:
        if not host.is_alive or not self._may_kill(host):
            return
        self._note(f"kill {host.name}")
        self._fall(host)
        self._later(self._down_s(), lambda: self._up(host))

    def _may_kill(self, host: Host) -> bool:
        """While one broker's data disk lacks something, the others' processes live until they lead in its place.

        Where all end at once, the last leader is elected when it returns (KIP-966), for nobody knows better.
        """
        fragile = self._fragile
        if fragile in (None, host) or "broker" not in host.roles:
            return True
        controller = self.world.active_controller()
        if controller is None or controller.node is None:
            return False
        partitions = [
            partition
            for topic in controller.node.quorum.image.topics.values()
            for partition in topic.partitions.values()
            if fragile.node_id in partition.replicas
        ]
        return all(each.leader != -1 and fragile.node_id not in (each.leader, *each.isr) for each in partitions)

    def _may_lose_data(self, host: Host) -> bool:
        """True where every other broker has what it had when everything was in sync, and can prove it.

        One whose disk fails cannot: it is restarted a little later, and the copy that lost nothing ends unclean with it.
        """
        if "broker" not in host.roles or self._fragile is not None or self._unclean.keys() - {host.name}:
            return False
        return not any(each.disk_failed for each in self.world.hosts.values() if each is not host)

    # ---------------------------------------------------------------- processes

    def _killed(self) -> None:
        self._kill(self._some())

    def _leader_killed(self) -> None:
        self._kill(self._some_leader())

    def _killed_in_a_write(self) -> None:
        host = self._some()
        if host.disk is None or not host.is_running or not self._may_kill(host):
            return
        self._unclean[host.name] = None
        host.disk.crash_at = host.disk.changes + 1 + self.rng.randrange(20)
        self._note(f"kill in a write {host.name}")
        process, disk = host.process, host.disk

        def disarm() -> None:
            disk.crash_at = None
            if host.process is process and not host.is_alive:
                self._up(host)

        self._later(2.0, disarm)

    def _all_killed(self) -> None:
        """Everyone at once; some take longer to come back."""
        if self._fragile is None:
            for host in self.world.hosts.values():
                self._kill(host)

    async def _stopped(self) -> None:
        host = self._some()
        if not host.is_running or (host.process is not None and host.process.is_paused) or not self._may_kill(host):
            return
        self._note(f"stop {host.name}")
        task = self.world.loop.create_task(host.stop())

        def stopped(done: asyncio.Task[None]) -> None:
            if not done.cancelled():
                if (error := done.exception()) is not None:
                    self.world.inspection.failed = self.world.inspection.failed or error  # type: ignore[assignment]
                self._later(self._down_s(), lambda: self._up(host))

        task.add_done_callback(stopped)

    def _pause(self, host: Host, seconds: float | None = None) -> None:
        process = host.process
        if process is None or not process.alive or process.is_paused:
            return
        self._note(f"pause {host.name}")
        process.pause()
        drawn = self.lasting * self.rng.choice((0.3, 2.0, 6.0)) * self.rng.random()
        self._later(drawn if seconds is None else seconds, process.resume)

    def _paused(self) -> None:
        self._pause(self._some())

    def _leader_paused(self) -> None:
        self._pause(self._some_leader())

    # ---------------------------------------------------------------- network

    def _cut(self, ways: list[tuple[str, str]], seconds: float) -> None:
        fabric = self.world.fabric
        for way in ways:
            fabric.block(*way)

        def heal() -> None:
            for way in ways:
                fabric.heal(*way)

        self._later(seconds, heal)

    def _cut_off(self, host: Host) -> None:
        """Cut a node off from its peers, and not from the clients."""
        others = [each.name for each in self.world.hosts.values() if each is not host]
        ways = [way for other in others for way in ((host.name, other), (other, host.name))]
        self._note(f"isolate {host.name}")
        self._cut(ways, self.lasting * (0.5 + 7.0 * self.rng.random()))

    def _isolated(self) -> None:
        self._cut_off(self._some())

    def leader_isolated(self) -> None:
        self._cut_off(self._some_leader())

    def _one_way(self) -> None:
        """What a node sends, or what is sent to it, does not come."""
        host = self._some_leader() if self.rng.random() < 0.5 else self._some()
        others = [each.name for each in self.world.hosts.values() if each is not host]
        self.rng.shuffle(others)
        others = others[: 1 + self.rng.randrange(len(others))]
        outward = self.rng.random() < 0.5
        self._note(f"one way {'from' if outward else 'to'} {host.name}")
        ways = [(host.name, each) if outward else (each, host.name) for each in others]
        self._cut(ways, self.lasting * (0.5 + 6.0 * self.rng.random()))

    def _bridged(self) -> None:
        """Two nodes do not reach each other; others reach both."""
        names = [each.name for each in self.world.hosts.values()]
        self.rng.shuffle(names)
        one, other = names[:2]
        self._note(f"bridge {one} {other}")
        self._cut([(one, other), (other, one)], self.lasting * (0.5 + 6.0 * self.rng.random()))

    async def _reset(self) -> None:
        self._note("reset of connections")
        for _ in range(1 + self.rng.randrange(6)):
            self.world.fabric.reset_one()
            await asyncio.sleep(0.1 * self.rng.random())

    # ---------------------------------------------------------------- several together

    def deserted(self) -> None:
        """A leader and a follower do not reach each other for longer than a follower may lag; then the leader dies."""
        leader = self._some_leader()
        others = [each for each in self.world.hosts.values() if each is not leader and "broker" in each.roles]
        if not others:
            return
        other = self.rng.choice(others)
        seconds = 2.0 + 4.0 * self.rng.random()
        self._note(f"bridge {leader.name} {other.name}")
        self._cut([(leader.name, other.name), (other.name, leader.name)], seconds)
        self._later(seconds * (0.5 + 0.6 * self.rng.random()), lambda: self._kill(leader))

    def left_alone(self) -> None:
        """All brokers but one pause until they are fenced; then the one that is left forgets what it had."""
        leader = self._some_partition_leader()
        others = [each for each in self.world.hosts.values() if each is not leader and "broker" in each.roles]
        controllers = self.world.shape.controllers
        left = [each for each in controllers if each not in {host.node_id for host in others}]
        if "broker" not in leader.roles or 2 * len(left) <= len(controllers) or not leader.is_running:
            return
        seconds = 4.0 + 3.0 * self.rng.random()
        for each in others:
            self._pause(each, seconds)

        def lose() -> None:
            if self._may_lose_data(leader):
                self._lose_power(leader, data=True)

        self._later(seconds * (0.7 + 0.4 * self.rng.random()), lose)

    # ---------------------------------------------------------------- disks and clocks

    def _power_lost(self) -> None:
        """One host's power: its disks forget, the data disk only where every replica is in sync."""
        host = self._some()
        if not self._may_kill(host):
            return
        self._lose_power(host, data=self._may_lose_data(host))

    def _lose_power(self, host: Host, *, data: bool) -> None:
        self._note(f"power loss {'with data ' if data else ''}{host.name}")
        if data:
            self._fragile = host
        self.world.inspection.look()
        self._unclean[host.name] = None
        host.lose_power(data=data, metadata=True)
        self._later(0.2 * self.lasting + self._down_s(), lambda: self._up(host))

    def all_metadata_lost(self) -> None:
        """Every host's power at once, where the data disks have a battery."""
        if self._fragile is not None:
            return
        self.world.inspection.look()
        for host in self.world.hosts.values():
            self._note(f"power loss {host.name}")
            self._unclean[host.name] = None
            host.lose_power(data=False, metadata=True)
            self._later(0.2 * self.lasting + self._down_s(), lambda host=host: self._up(host))  # type: ignore[misc]

    async def _clock_jumps(self) -> None:
        for _ in range(1 + self.rng.randrange(3)):
            host = self._some()
            self._note(f"clock jump {host.name}")
            host.clock.skew_ms += self.rng.choice((-1, 1)) * self.rng.randrange(HOUR_MS)
            await asyncio.sleep(0.2 * self.rng.random())

    def _disk_fails(self) -> None:
        """Writes fail with EIO for a while; what the node does not survive, its restart does."""
        host = self._some()
        if host.disk is None or not host.is_running or not self._may_kill(host):
            return
        self._note(f"write errors {host.name}")
        host.disk_failed = True
        host.disk.failing_writes = 1 + self.rng.randrange(2)
        process = host.process

        def restart() -> None:
            if host.process is process:
                self._fall(host)
            self._up(host)

        self._later(self.lasting * (1.0 + 3.0 * self.rng.random()), restart)

    def _disk_full(self) -> None:
        host = self._some()
        if not host.is_running or not self._may_kill(host):
            return
        self._note(f"disk full {host.name}")
        host.disk_failed = True
        host.storage.room_bytes = self.rng.randrange(3000)
        process = host.process

        def restart() -> None:
            host.storage.room_bytes = ROOM_BYTES
            if host.process is process:
                self._fall(host)
            self._up(host)

        self._later(self.lasting * (0.5 + 3.0 * self.rng.random()), restart)
