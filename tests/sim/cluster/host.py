"""One machine of a simulated cluster: its disks, its clock, and the process that runs a whole node on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random
from traceback import format_exc, format_exception

from ottla.base import Uuid, uuid_text
from ottla.broker import Node, format_directory
from ottla.config import BrokerConfig
from ottla.log import LogDir
from ottla.raft import VoterSet
from tests.sim.disk import SimDisk
from tests.sim.ledger import Violation
from tests.sim.loop import SimLoop
from tests.sim.network import Fabric
from tests.sim.process import Crash, Process
from tests.sim.seams import SimClock, SimOffload
from tests.sim.storage import Directory, Storage
from tests.sim.trace import Trace

__all__ = ["CONTROLLER_PORT", "DATA", "METADATA", "PORT", "Host"]

DATA, METADATA = "/data", "/meta"
"""Records and cluster metadata are on disks of their own: a power loss may take from either what was not fsynced."""
PORT, CONTROLLER_PORT = 9092, 9093
ROOMY_BYTES = 1 << 30
STOP_SECONDS_MAX = 60.0
CLUSTER_ID = uuid_text(Uuid(b"ottla simulation"))


class Host:
    """A node's machine; `process` is its present or last incarnation."""

    def __init__(
        self,
        node_id: int,
        roles: str,
        settings: Sequence[str],
        *,
        seed: int,
        loop: SimLoop,
        fabric: Fabric,
        trace: Trace,
        watch: Callable[[Host, Node], None],
        died: Callable[[Host], None],
        offload_s: float = 0.004,
        data_dirs: Sequence[str] = (DATA,),
    ) -> None:
        self.data_dirs = tuple(data_dirs)
        self.node_id = node_id
        self.roles = roles
        self.name = f"n{node_id}"
        self.storage = Storage(Random(f"{seed} storage {node_id}"))
        self.clock = SimClock(loop)
        self.network = fabric.host(self.name)
        self.process: Process | None = None
        self.processes: list[Process] = []
        self.disk: SimDisk | None = None
        self.node: Node | None = None
        self.is_running = False
        """True between the end of a start and the process's end."""
        self.disk_failed = False
        self.incarnation = 0
        self._starting: asyncio.Task[None] | None = None
        self._settings = settings
        self._seed = seed
        self._loop = loop
        self._fabric = fabric
        self._trace = trace
        self._watch = watch
        self._tell_died = died
        self._offload_s = offload_s

    @property
    def is_alive(self) -> bool:
        """True while a process runs here, paused or not, started or starting."""
        return self.process is not None and self.process.alive

    def take_ran(self) -> bool:
        """Return whether anything of the process has run since this was asked last."""
        if self.process is None or not self.process.has_run:
            return False
        self.process.has_run = False
        return True

    @cached_property
    def config(self) -> BrokerConfig:
        """The node's configuration."""
        return BrokerConfig.load(overrides=self._settings)

    def format(self, rng: Random, voters: VoterSet | None = None) -> None:
        """Give the folders their identity, as `ottla storage format` does."""
        process = Process(self._loop, f"{self.name} format")
        disk = SimDisk(self.storage, process, rng, self._trace, now_ms=self.clock.now_ms)
        folders = (*self.data_dirs, METADATA)
        for path in folders:
            disk.mkdir(path)
            log_dir = LogDir.open(disk, path)
            now_ms = self.clock.now_ms()
            format_directory(self.config, log_dir, cluster_id=CLUSTER_ID, rng=rng, now_ms=now_ms, voters=voters)
            log_dir.release()
        for path in (*folders, "/"):
            disk.fsync_dir(path)
        process.kill()

    # ---------------------------------------------------------------- beginning

    async def boot(self, *, crash_after: int | None = None) -> None:
        """Start the node; raises Crash where its process is killed on the way."""
        assert not self.is_alive
        self.incarnation += 1
        name = f"{self.name}#{self.incarnation}"
        self._trace.note(f"{self._loop.time():.6f} start {name}")
        process = self.process = Process(self._loop, name)
        self.processes.append(process)
        rng = Random(f"{self._seed} {name}")
        disk = self.disk = SimDisk(
            self.storage,
            process,
            Random(f"{self._seed} {name} disk"),
            self._trace,
            crash_at=crash_after,
            now_ms=self.clock.now_ms,
        )
        self.disk_failed = self.storage.room_bytes < ROOMY_BYTES
        self.node = node = Node(
            self.config,
            disk=disk,
            network=self.network,
            clock=self.clock,
            rng=rng,
            offload=SimOffload(rng, seconds_max=self._offload_s),
        )
        process.at_death.append(self._died)
        await process.run(self._start(node))
        self.is_running = True
        self._trace.note(f"{self._loop.time():.6f} started {name}")

    async def _start(self, node: Node) -> None:
        starting = asyncio.ensure_future(node.start())
        while not starting.done():  # the quorum is made inside; it is watched from its first image on
            if hasattr(node, "_quorum"):
                self._watch(self, node)
                break
            await asyncio.sleep(0.001)
        await starting
        self._watch(self, node)

    def start(self, *, crash_after: int | None = None) -> None:
        """Start the node in the background; whether it came up is seen by `is_running`, and failures by `check`."""
        if self._starting is None or self._starting.done():
            self._starting = self._loop.create_task(self._boot_quietly(crash_after))

    async def _boot_quietly(self, crash_after: int | None) -> None:
        try:
            await self.boot(crash_after=crash_after)
        except Crash:
            return

    def check(self) -> None:
        """Raise Violation where a start failed that no fault explains."""
        task = self._starting
        if task is None or not task.done() or task.cancelled():
            return
        error = task.exception()
        self._starting = None
        if error is not None and not self.disk_failed:
            text = "".join(format_exception(error))
            raise Violation(f"{self.name} did not start: {text}")
        if error is not None and self.process is not None:
            self.process.kill()

    def _died(self) -> None:
        self.is_running = False
        self._tell_died(self)

    # ---------------------------------------------------------------- end

    def kill(self) -> None:
        """End the process as SIGKILL does."""
        if self.process is not None and self.process.alive:
            self._trace.note(f"{self._loop.time():.6f} kill {self.process.name}")
            self.process.kill()

    def lose_power(self, *, data: bool, metadata: bool) -> None:
        """Take the host's power: the process ends, and these disks forget what was not made durable."""
        self.kill()
        self._fabric.power_off(self.name)
        for path, forgets in (*((each, data) for each in self.data_dirs), (METADATA, metadata)):
            if self.storage.exists(path) and not forgets:
                _make_durable(self.storage.directory(path))
        self.storage.lose_power()
        self._trace.note(f"{self._loop.time():.6f} {self.name} lost power, data {data}, metadata {metadata}")

    def power_on(self) -> None:
        """Let the host be reached again."""
        self._fabric.power_on(self.name)

    async def stop(self) -> None:
        """Stop the node as SIGTERM does; a stop that takes longer than its bound is a kill, as service managers do it."""
        if not self.is_running or self.process is None or self.node is None:
            self.kill()
            return
        self._trace.note(f"{self._loop.time():.6f} stop {self.process.name}")
        try:
            await asyncio.wait_for(self.process.run(self.node.stop()), STOP_SECONDS_MAX)
        except (Crash, TimeoutError):
            self.kill()
            return
        except Exception as error:
            if not self.disk_failed:
                raise Violation(f"{self.name} did not stop: {format_exc()}") from error
        self._trace.note(f"{self._loop.time():.6f} stopped {self.process.name}")
        self.process.kill()


def _make_durable(folder: Directory) -> None:
    """Fsync everything below a folder, as if a battery had held its disk's cache."""
    folder.sync()
    for _, entry in sorted(folder.entries.items()):
        if isinstance(entry, Directory):
            _make_durable(entry)
        else:
            entry.sync()
