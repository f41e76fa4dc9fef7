"""One world from one seed: a broker, its clients, and faults; every promise is checked at each start and at the end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from traceback import format_exc
from typing import Any, NoReturn

from ottla.base import METADATA_TOPIC, StorageError
from ottla.broker import Node
from ottla.config import BrokerConfig
from ottla.wire import Codec, iter_batches, read_batch_header
from tests.schedules import Schedule
from tests.sim.batches import Style
from tests.sim.client import Connection, NoAnswer
from tests.sim.consumers import SETTINGS as CONSUMER_SETTINGS
from tests.sim.consumers import Holdings, consume_in_group
from tests.sim.course import Outcome, run_to_its_end
from tests.sim.disk import SimDisk
from tests.sim.groups import Membership, commit_alone, take_part
from tests.sim.ledger import Ledger, Tally, Violation
from tests.sim.loop import SimLoop
from tests.sim.network import Fabric, Weather
from tests.sim.process import Crash, Process
from tests.sim.seams import SimClock, SimOffload
from tests.sim.session_reader import read_in_sessions
from tests.sim.storage import Storage
from tests.sim.trace import Trace
from tests.sim.transactions import Book, transact
from tests.sim.vandal import vandalise
from tests.sim.workload import Clients, read_everything

__all__ = ["BROKER", "World", "run_seed"]

BROKER, PORT = "broker", 9092
DATA = "/data"
SETTINGS = (
    f"listeners=PLAINTEXT://{BROKER}:{PORT}",
    f"log.dirs={DATA}",
    "log.message.timestamp.after.max.ms=9223372036854775807",  # clocks jump here
    "log.retention.check.interval.ms=3000",
    "log.flush.offset.checkpoint.interval.ms=2000",
    "log.flush.start.offset.checkpoint.interval.ms=2000",
    "log.segment.delete.delay.ms=1000",
    "log.index.interval.bytes=300",
    "log.index.size.max.bytes=4096",
    "metadata.log.max.record.bytes.between.snapshots=4000",
    "ottla.metadata.reserve.bytes=65536",  # a piece: each sector of it is drawn at a power loss
    "offsets.topic.num.partitions=3",
    "offsets.load.buffer.size=500",
    "transaction.state.log.num.partitions=2",
    "group.initial.rebalance.delay.ms=500",
    *CONSUMER_SETTINGS,
)
CORE_TOPICS: tuple[tuple[str, int, dict[str, str]], ...] = (
    ("flushed", 2, {"flush.messages": "1", "internal.segment.bytes": "6000", "segment.index.bytes": "1024"}),
    ("plain", 1, {"internal.segment.bytes": "6000", "segment.index.bytes": "1024"}),
    ("bounded", 1, {"internal.segment.bytes": "5500", "retention.bytes": "16000", "file.delete.delay.ms": "500"}),
    ("stamped", 1, {"message.timestamp.type": "LogAppendTime", "compression.type": "lz4"}),
)
"""The fourth is left out of some worlds."""
BATCH_RECORDS_MAX = 6
SIZES = (0, 10, 100, 600)
CODECS = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP, Codec.SNAPPY)
START_SECONDS_MAX = 60.0
STARTS_MAX = 6
"""Crashes in a row during recovery; then a start is left in peace, because recovery must end."""
EPHEMERAL = (".deleted", ".tmp", ".part", ".snapshot", ".index", ".timeindex", "/flush-mark", "/metadata-reserve")
"""Files that may be torn after a power loss although the stop was clean: each is checked, or searched so that zeros only
cost time, and is built again; or it holds nothing."""
HOUR_MS = 3_600_000
FSYNC_FAILS = 1


class World:
    """A broker's host, its disk, its clients and what befalls them."""

    core_topics = CORE_TOPICS
    faults_min, faults_spread = 2, 3
    pause_s_min, pause_s = 0.3, 2.5
    """Between two faults."""
    lasting = 1.0
    """By how much faults last longer or shorter than drawn."""
    counted_by_themselves: frozenset[str] = frozenset()
    """Kinds of fault that say when they come to something."""
    rebirth_chance = 0.0
    """How often a topic that was deleted is created again at once."""
    kept_apart: frozenset[str] = frozenset()
    """Topics that only those write to who name them."""

    def __init__(self, seed: int, *, fsync_lies: bool = False) -> None:
        self.loop = SimLoop(self.schedule(seed))
        self.trace = Trace()
        self.rng = Random(f"{seed} faults")
        self.fabric = Fabric(self.loop, Random(f"{seed} network"), self.trace, _weather(self.rng))
        self.network = self.fabric.host(BROKER)
        self.storage = Storage(Random(f"{seed} storage"))
        self.storage.fsync_lies = fsync_lies
        self.clock = SimClock(self.loop)
        self.ledger = Ledger()
        self.faults: list[str] = []
        self.disk: SimDisk | None = None
        self.process: Process | None = None
        self.processes: list[Process] = []
        self.node: Node | None = None
        self.disk_failed = False
        self.is_recovering = False
        """True while a start may be disturbed."""
        self.seed = seed
        self._open = asyncio.Event()
        self._hosts: dict[str, object] = {}
        self._incarnation = 0
        self._snapshots: dict[str, int] = {}
        """By partition, the newest snapshot of its producers when the broker was started the last time."""
        self.clients = Clients(
            self.connect,
            self.clock.now_ms,
            self.ledger,
            self.trace,
            Random(f"{seed} clients"),
            lambda: self.disk_failed,
            self._was_forgotten,
            self.style(),
            self.rebirth_chance,
            self.kept_apart,
        )

    def schedule(self, seed: int) -> Schedule | None:
        """Draw when what is ready runs; None for the order in which it became so."""
        return None

    def style(self) -> Style:
        """How this world's clients write."""
        return Style(records_max=BATCH_RECORDS_MAX, thinking_s=0.2, sizes=SIZES, codecs=CODECS)

    @property
    def befallen(self) -> list[str]:
        """The faults that there were."""
        return self.faults

    @property
    def tally(self) -> Tally:
        """What was promised."""
        return self.ledger.tally

    def all_processes(self) -> Iterator[Process]:
        """Yield every process that there ever was."""
        yield from self.processes

    # ---------------------------------------------------------------- the broker

    async def boot(self, *, crash_after: int | None = None) -> None:
        """Start the broker once; raises Crash where it is killed on its way."""
        self._incarnation += 1
        name = f"broker#{self._incarnation}"
        self.trace.note(f"{self.loop.time():.6f} start {name}")
        process = Process(self.loop, name)
        rng = Random(f"{self.seed} {name}")
        disk = SimDisk(
            self.storage,
            process,
            Random(f"{self.seed} {name} disk"),
            self.trace,
            crash_at=crash_after,
            now_ms=self.clock.now_ms,
        )
        self.process, self.disk, self.disk_failed = process, disk, False
        self.prepare(disk)
        self._snapshots = self._newest_snapshots()
        self.processes.append(process)

        async def start() -> Node:
            node = Node(
                BrokerConfig.load(overrides=SETTINGS),
                disk=disk,
                network=self.network,
                clock=self.clock,
                rng=rng,
                offload=SimOffload(rng),
            )
            await node.start()
            return node

        try:
            self.node = await asyncio.wait_for(process.run(start()), START_SECONDS_MAX)
        except Crash:
            raise
        except StorageError:
            if not disk.failed:
                raise Violation(f"{name} did not start: {format_exc()}") from None
            self.fail_in_start()
        except TimeoutError:
            raise Violation(f"{name} did not start in {START_SECONDS_MAX} s") from None
        except Exception as error:
            raise Violation(f"{name} did not start: {format_exc()}") from error
        if disk.failed:  # it may do without what it could not read
            self.fail_in_start()
        disk.fail_in = None

    def prepare(self, disk: SimDisk) -> None:
        """Have a say in what a starting process's disk does."""

    def fail_in_start(self) -> NoReturn:
        """End a process one of whose calls failed while it started; raises Crash."""
        assert self.process is not None and self.disk is not None
        self.crash()
        raise Crash(self.process.name)

    def open(self) -> None:
        """Let clients connect."""
        self._open.set()

    def crash(self) -> None:
        """Kill the broker's process, if it lives."""
        self._open.clear()
        if self.process is not None and self.process.alive:
            self.trace.note(f"{self.loop.time():.6f} kill {self.process.name}")
            self.process.kill()

    def lose_power(self) -> None:
        """Take the host's power: the process ends and the disk forgets what was not made durable."""
        self.crash()
        self.fabric.power_off(BROKER)
        self.storage.lose_power()

    async def come_back(self, *, lost_power: bool) -> None:
        """Start the broker again, perhaps crashing on the way, until it runs and everything promised has been found."""
        self._open.clear()
        await asyncio.sleep(0.5 + self.rng.random())
        self.fabric.power_on(BROKER)
        for attempt in range(STARTS_MAX):
            crash_after = None
            self.is_recovering = attempt < STARTS_MAX - 1
            if attempt < STARTS_MAX - 1 and self.rng.random() < 0.35:
                crash_after = 1 + self.rng.randrange(40)
            try:
                await self.boot(crash_after=crash_after)
                if self.rng.random() < 0.25:
                    await self._recover_again()
                await self._verify(lost_power=lost_power)
                assert self.disk is not None
                self.disk.crash_at = None
                self._open.set()
                return
            except Crash:
                assert self.disk is not None
                self.faults.append("failed call in recovery" if self.disk.failed else "crash in recovery")
                if self.disk.sync_failed or self.rng.random() < 0.3:
                    self.faults.append("power loss in recovery")
                    lost_power = True
                    self.lose_power()
                    self.fabric.power_on(BROKER)
                await asyncio.sleep(0.5)
        raise Violation("a start that was not disturbed did not come to its end")

    async def _recover_again(self) -> None:
        """A recovery after a recovery finds nothing to change in any partition's records."""
        before = self._records()
        self.crash()
        await asyncio.sleep(0.5)
        await self.boot()
        after = self._records()
        if before != after:
            changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
            raise Violation(f"a second recovery changed {changed}")

    def _records(self) -> dict[str, bytes]:
        """Content of every log file of the topics, but for those into which a coordinator writes on with each start."""
        if not self.storage.exists(DATA):
            return {}
        return {
            path: bytes(inode.data)
            for path, inode in self.storage.walk(DATA)
            if path.endswith(".log")
            and not any(each in path for each in ("__cluster_metadata", "__transaction_state", "/txn-"))
        }

    def _newest_snapshots(self) -> dict[str, int]:
        """Return by partition the offset of the newest snapshot of its producers."""
        found: dict[str, int] = {}
        for path, _ in self.storage.walk(DATA) if self.storage.exists(DATA) else ():
            folder, _, name = path.rpartition("/")
            offset, _, suffix = name.partition(".")
            if suffix == "snapshot" and offset.isdigit():
                partition = folder.rpartition("/")[2]
                found[partition] = max(int(offset), found.get(partition, 0))
        return found

    def _was_forgotten(self, topic: str, index: int, batch: bytearray) -> bool:
        """Say whether a batch is in the log before the snapshot that the broker began with, and not its producer's last."""
        partition, sent = f"{topic}-{index}", read_batch_header(batch)
        before = [
            header.base_sequence
            for path, inode in self.storage.walk(f"{DATA}/{partition}")
            if path.endswith(".log")
            for header, _ in iter_batches(bytes(inode.data))
            if header.producer_id == sent.producer_id and header.last_offset < self._snapshots.get(partition, 0)
        ]
        return sent.base_sequence in before[:-1]

    async def _verify(self, *, lost_power: bool) -> None:
        for _ in range(20):
            try:
                connection = await self._dial("verifier")
                await read_everything(connection, self.ledger, lost_power=lost_power)
                connection.close()
                return
            except NoAnswer:
                assert self.process is not None
                self.process.check()
                self.fabric.power_on(BROKER)
                await asyncio.sleep(0.2)
        raise Violation("the broker started and then did not answer")

    # ---------------------------------------------------------------- the clients' way to it

    async def connect(self, name: str) -> Connection:
        """Open a connection for a client once the broker may be used."""
        await self._open.wait()
        connection = await self._dial(name)
        if not self._open.is_set():  # it reached a broker that has not been looked over yet
            connection.close()
            raise NoAnswer("too early")
        return connection

    async def _dial(self, name: str) -> Connection:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = self.fabric.host(name)
        return await Connection.open(host, BROKER, PORT, self.clients.rng)  # type: ignore[arg-type]

    # ---------------------------------------------------------------- a life

    async def live(self) -> None:
        """The whole of it."""
        await self.boot()
        self._open.set()
        admin = await self.connect("admin")
        count = len(self.core_topics) if self.rng.random() < 0.3 else len(self.core_topics) - 1
        for name, partitions, configs in self.core_topics[:count]:
            await self.clients.create_topic(admin, name, partitions, configs)
        admin.close()
        stop = asyncio.Event()
        tasks = [self.loop.create_task(each) for each in self._work(stop)]
        try:
            for _ in range(self.faults_min + self.rng.randrange(self.faults_spread)):
                await self._watch(tasks, self.pause_s_min + self.pause_s * self.rng.random())
                await self._befall()
            await self._watch(tasks, 1.0)
            await self.settle()
            stop.set()
            await self._finish(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._last_look()

    def _work(self, stop: asyncio.Event):  # type: ignore[no-untyped-def]
        clients = self.clients
        yield clients.idempotent_producer("idempotent-1", "flushed", stop)
        yield clients.idempotent_producer("idempotent-2", self.rng.choice(("plain", "bounded")), stop)
        yield clients.plain_producer("plain-1", 1, stop)
        yield clients.plain_producer("plain-2", self.rng.choice((-1, 0)), stop)
        yield clients.reader("reader-1", stop)
        yield read_in_sessions(clients, [name for name, _, _ in self.core_topics[:3]], stop)
        yield clients.administrator(stop)
        yield commit_alone(clients, "committer", stop)
        group = Membership("members")
        for number in range(2):
            yield take_part(clients, f"member-{number}", group, stop)
        holdings = Holdings("consumers")
        yield consume_in_group(clients, "consumer-0", holdings, stop)
        yield consume_in_group(clients, "consumer-1", holdings, stop, regex="[a-z].*")
        book = Book(producers=2)
        for number in range(2):
            yield transact(clients, f"transactional-{number}", "shared", book, stop)
        if self.rng.random() < 0.4:
            yield vandalise(clients, stop)

    async def _watch(self, tasks: list[asyncio.Task[None]], seconds: float) -> None:
        """Let time pass; a client that found a promise broken ends the world."""
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        if self.loop.errors:
            raise Violation("an error that nobody handled:\n" + "\n".join(self.loop.errors))

    async def _finish(self, tasks: list[asyncio.Task[None]]) -> None:
        """Every client comes to its end once the faults are over: nothing hangs."""
        deadline = self.loop.time() + 120
        while any(not task.done() for task in tasks):
            if self.loop.time() > deadline:
                raise Violation("clients hang although nothing disturbs them")
            assert self.process is not None
            if not self.process.alive:  # a crash that was armed came late
                await self.come_back(lost_power=False)
            await self._watch([task for task in tasks if not task.done()], 1.0)
        await self._watch(tasks, 0.1)

    async def _last_look(self) -> None:
        """Stop cleanly, lose power, start: everything that was promised before is there."""
        await self.stop_cleanly()
        self.lose_power()
        await self.come_back(lost_power=True)
        await self.stop_cleanly()
        gc.collect(0)
        if self.loop.errors:
            raise Violation("an error that nobody handled:\n" + "\n".join(self.loop.errors))

    async def stop_cleanly(self) -> None:
        """Stop the broker as SIGTERM does, and look that nothing is left to be lost."""
        self._open.clear()
        assert self.process is not None and self.node is not None
        if not self.process.alive:
            await self.come_back(lost_power=False)
            self._open.clear()
        self.trace.note(f"{self.loop.time():.6f} stop {self.process.name}")
        held = {str(each.key) for each in self.node._partitions} | {f"{METADATA_TOPIC}-0"}
        try:
            await asyncio.wait_for(self.process.run(self.node.stop()), START_SECONDS_MAX)
        except TimeoutError:
            raise Violation("the broker did not stop") from None
        dirty = [path for path, inode in self.storage.walk(DATA) if inode.is_dirty and not path.endswith(".lock")]
        dirty = [path for path in dirty if "-delete/" not in path and not path.endswith(EPHEMERAL)]
        # A topic that was deleted in the instant of a crash, or while its folder could not be renamed, leaves that, also
        # where one of its name has fewer partitions now: no broker touches it again.
        dirty = [path for path in dirty if path.count("/") < 3 or path.split("/")[2] in held]
        if dirty and not self.disk_failed:
            raise Violation(f"after a clean stop these are not durable: {dirty}")
        for facts in self.ledger.partitions.values():
            facts.stopped_cleanly()
        self.process.kill()

    # ---------------------------------------------------------------- faults

    def kinds(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """What may happen, the likely several times."""
        return (
            *(self.killed, self._killed_in_a_write, self._killed_in_a_write, self.power_lost, self.power_lost),
            *(self.stopped, self._clock_jumps, self._connections_reset, self._partitioned, self._disk_fails),
        )

    async def settle(self) -> None:
        """Mend what faults have left behind: nothing, here."""

    async def _befall(self) -> None:
        """One fault of the seed's choice."""
        assert self.process is not None
        faults = self.kinds()
        fault = faults[self.rng.randrange(len(faults))]
        name = fault.__name__.strip("_").replace("_", " ")
        if name not in self.counted_by_themselves:
            self.faults.append(name)
        self.trace.note(f"{self.loop.time():.6f} fault {name}")
        if not self.process.alive:
            await self.come_back(lost_power=False)
        await fault()

    async def killed(self) -> None:
        self.crash()
        await self.come_back(lost_power=False)

    async def _killed_in_a_write(self) -> None:
        assert self.disk is not None and self.process is not None
        self.disk.crash_at = self.disk.changes + 1 + self.rng.randrange(30)
        await asyncio.wait((self.process.died,), timeout=4 * self.lasting)
        self.crash()
        lost_power = self.rng.random() < 0.4
        if lost_power:
            self.lose_power()
        await self.come_back(lost_power=lost_power)

    async def power_lost(self) -> None:
        self.lose_power()
        await self.come_back(lost_power=True)

    async def stopped(self) -> None:
        await self.stop_cleanly()
        lost_power = self.rng.random() < 0.5
        if lost_power:
            self.lose_power()
        await self.come_back(lost_power=lost_power)

    async def _clock_jumps(self) -> None:
        for _ in range(1 + self.rng.randrange(3)):
            self.clock.skew_ms += self.rng.choice((-1, 1)) * self.rng.randrange(HOUR_MS)
            await asyncio.sleep(0.5 * self.rng.random())

    async def _connections_reset(self) -> None:
        for _ in range(1 + self.rng.randrange(4)):
            self.fabric.reset_one()
            await asyncio.sleep(0.2 * self.rng.random())

    async def _partitioned(self) -> None:
        names = list(self._hosts)
        chosen = names[self.rng.randrange(len(names))]
        ways = self.rng.choice(([(chosen, BROKER)], [(BROKER, chosen)], [(chosen, BROKER), (BROKER, chosen)]))
        for way in ways:
            self.fabric.block(*way)
        await asyncio.sleep(6 * self.lasting * self.rng.random())
        for way in ways:
            self.fabric.heal(*way)

    async def _disk_fails(self) -> None:
        """The disk refuses for a while: what was acknowledged stays; a restart on a good disk is well again."""
        assert self.disk is not None
        self.disk_failed = True
        kind = self.rng.randrange(3)
        match kind:
            case 0:
                self.disk.failing_writes = 1 + self.rng.randrange(3)
            case 1:  # FSYNC_FAILS
                self.disk.failing_syncs = 1
            case _:
                self.storage.room_bytes = self.rng.randrange(2000)
        await asyncio.sleep(2 * self.lasting * self.rng.random())
        self.storage.room_bytes = 1 << 40
        self.crash()
        # After a failed fsync the page cache shows what the device does not have: one restarts the machine, not the process.
        lost_power = kind == FSYNC_FAILS or self.rng.random() < 0.5
        if lost_power:
            self.lose_power()
        await self.come_back(lost_power=lost_power)


def _weather(rng: Random) -> Weather:
    return Weather(
        latency_ms=rng.choice(((0.05, 0.3), (0.1, 5.0), (1.0, 20.0))),
        spike_chance=rng.choice((0.0, 0.0, 0.02)),
        chunk_bytes_max=rng.choice((400, 1500, 65_536)),
        read_bytes_max=rng.choice((301, 4096, 262_144)),
    )


def run_seed(seed: int, *, fsync_lies: bool = False, kind: type[World] = World) -> Outcome:
    """Run one world to its end; on a disk whose fsync lies every world must fail."""
    return run_to_its_end(kind(seed, fsync_lies=fsync_lies))
