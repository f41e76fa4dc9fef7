"""Where stories of a broker are played: a whole node behind simulated seams, on a faulty disk, with one client.

The node has two log directories, `/a` and `/b`, and one for the metadata log, `/m`. Three topics of one partition each are
there before a story begins: `victim`, `neighbour` in the same directory, and `witness` in the other one. What a failure may
cost is decided by its kind and its path (`Scope`), and looked at: in the node that goes on, and in the next one, after a
kill or a power loss, on a disk that is well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ottla.base import ErrorCode, KafkaError, Millis, Offset, StorageError
from ottla.broker import Node
from ottla.config import BrokerConfig
from ottla.log.log_dir import CLEAN_SHUTDOWN_FILE
from ottla.log.properties import PARTITION_METADATA_FILE
from ottla.wire import APIS, Message, Record, build_batch, iter_batch_records, iter_batches
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.faults.disk import FaultyDisk, Watch
from tests.faults.said import Broken
from tests.sim.client import Connection, NoAnswer
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.network import Fabric
from tests.sim.process import Crash, Process
from tests.sim.seams import SimClock
from tests.sim.storage import Directory, Storage
from tests.sim.trace import Trace

__all__ = ["BrokerStage", "Ended"]

HOST, PORT = "broker", 9092
SETTINGS = (
    f"listeners=PLAINTEXT://{HOST}:{PORT}",
    "log.dirs=/a,/b",
    "metadata.log.dir=/m",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "log.retention.check.interval.ms=1000",
    "log.flush.offset.checkpoint.interval.ms=1500",
    "log.flush.start.offset.checkpoint.interval.ms=1500",
    "replica.high.watermark.checkpoint.interval.ms=1500",
    "log.segment.delete.delay.ms=500",
    "log.cleaner.backoff.ms=700",
    "log.index.interval.bytes=1",
    "metadata.log.max.record.bytes.between.snapshots=2500",
    "group.initial.rebalance.delay.ms=0",
)
TOPICS = ("victim", "witness", "neighbour")
"""In the order in which they are made: the first and the third come to lie in `/a`, the second in `/b`."""
TRIES, PAUSE_S = 8, 0.3
SETTLE_S = 4.0
FULL_S = 20.0
"""How long a disk stays full under a start that waits for room."""
FULL = ("ENOSPC", "short", "full")
ID = "writer"
UNDECIDED = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""What a batch is answered with that is in the leader's log."""


class Ended(Exception):
    """The node does not go on: it has said so, or its process has ended."""


class InlineOffload:
    """Off-loop work done between two moments of the loop."""

    async def thread(self, call: Callable[..., Any], /, *args: object) -> Any:
        """Run a call as if on a thread."""
        await asyncio.sleep(0.0001)
        try:
            return call(*args)
        finally:
            await asyncio.sleep(0.0001)

    process = thread
    background = thread


@dataclass
class TopicSaid:
    """What was told of one topic."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)
    """Values that were answered with an error."""
    aborted: set[bytes] = field(default_factory=set)
    committed: set[bytes] = field(default_factory=set)
    start: int = 0
    durable: bool = False
    """True where every answer waits for the device."""
    certain: bool = True
    """False from when it is being deleted."""


@dataclass(frozen=True)
class Scope:
    """What a failure may cost, for good."""

    directories: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    node: bool = False


class BrokerStage:
    """A node, its host, and one client."""

    def __init__(
        self,
        *,
        at: int = 0,
        kind: str = "",
        power: Callable[[], Random] | None = None,
        settings: tuple[str, ...] = (),
    ) -> None:
        self.settings = (*SETTINGS, *settings)
        self.loop = SimLoop()
        self.faults = Watch(at=at, kind=kind)
        self.power = power
        self.fabric = Fabric(self.loop, Random(1), Trace())
        self.network = self.fabric.host(HOST)
        self.client_host = self.fabric.host("client")
        self.storage = Storage(Random(2))
        self.clock = SimClock(self.loop)
        self.said: dict[str, TopicSaid] = {}
        self.deleted: set[str] = set()
        self.processes: list[Process] = []
        self.node: Node | None = None
        self.connection: Connection | None = None
        self.asked = HOST
        """The host that the client asks."""
        self.count = 0
        self.is_starting = False
        """True in stories of a start."""
        self.heard: list[str] = []
        """Errors that were logged."""
        self.is_new: Callable[[bytes], bool] = lambda state: True
        """Asked with what a crash has left: False where another play has judged the same."""

    # -- the node

    async def boot(self, *, faulty: bool = True) -> None:
        """Start a node; raises Ended where it does not start."""
        process = Process(self.loop, f"broker#{len(self.processes)}")
        self.processes.append(process)
        self.fabric.power_on(HOST)
        disk = SimDisk(self.storage, process, Random(3), Trace(), now_ms=self.clock.now_ms)
        watched = FaultyDisk(disk, self.faults if faulty else Watch())

        async def start() -> Node:
            node = Node(
                BrokerConfig.load(overrides=self.settings, environment={}),
                disk=watched,
                network=self.network,
                clock=self.clock,
                rng=Random(len(self.processes)),
                offload=InlineOffload(),  # type: ignore[arg-type]
            )
            await node.start()
            return node

        try:
            self.node = await self._started(asyncio.ensure_future(process.run(start())))
        except Crash:
            raise Ended("killed while it started") from None
        except TimeoutError:
            raise Broken("it does not start") from None
        except Exception as error:
            process.kill()
            if not faulty or self.faults.failed is None:
                raise
            raise Ended(f"it did not start: {error!r}") from error
        if self.is_starting:
            self._forgive_a_tear()

    def _forgive_a_tear(self) -> None:
        """Above the last fsync a recovery takes a wrong bit for a torn tail, and cuts: what waited for the device stays."""
        failed = self.faults.failed
        if failed is None or not self.faults.kind.startswith("rot") or not failed.path.endswith(".log"):
            return
        for name, said in self.said.items():
            if f"/{name}-0/" in failed.path and not said.durable:
                said.acknowledged.clear()

    async def _started(self, start: asyncio.Future[Node]) -> Node:
        """Return the node; one that waits for room has to say so, and to go on once there is some."""
        done, _ = await asyncio.wait({start}, timeout=FULL_S)
        if not done and self.faults.is_full:
            if not any("no room" in each for each in self.heard):
                raise Broken("it waits for room, and nothing says so")
            self.faults.mend()
        return await asyncio.wait_for(start, 60)

    async def stop(self) -> None:
        """Stop the node cleanly, and leave its process."""
        node, process = self.node, self.processes[-1]
        assert node is not None
        try:
            await asyncio.wait_for(process.run(node.stop()), 60)
        except Crash:
            raise Ended("killed while it stopped") from None
        except StorageError as error:
            raise Ended(f"it did not stop cleanly: {error}") from error
        except TimeoutError:
            raise Broken("it does not stop") from None
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self.connection = None
        self.node = None
        self.processes[-1].kill()

    @property
    def has_ended(self) -> bool:
        """True where the node serves no more."""
        node = self.node
        return node is None or not self.processes[-1].alive or (node.failed is not None and node.failed.done())

    # -- asking

    @contextmanager
    def asking(self, host: str) -> Iterator[None]:
        """Have the client ask another host."""
        before = self.asked, self.connection
        self.asked, self.connection = host, None
        try:
            yield
        finally:
            if self.connection is not None:
                self.connection.close()
            self.asked, self.connection = before

    async def ask(self, request: Message, cls: Any, version: int | None = None) -> Any:
        """Ask once; raises NoAnswer."""
        if self.has_ended:
            raise Ended("the node serves no more")
        if self.connection is None or not self.connection.is_open:
            self.connection = await Connection.open(self.client_host, self.asked, PORT, Random(4))
        key = request.API_KEY
        assert key is not None
        return await self.connection.ask(request, cls, APIS[key].max_version if version is None else version)

    async def tried(self, what: Callable[[], Awaitable[int]]) -> bool:
        """Do something until it is answered without an error, a few times; False where it never is."""
        for _ in range(TRIES):
            try:
                if await what() == ErrorCode.NONE:
                    return True
            except NoAnswer:
                pass
            if self.has_ended:
                raise Ended("the node serves no more")
            if self.faults.failed is not None:
                self.faults.mend()
            await asyncio.sleep(PAUSE_S)
        return False

    async def topic_id(self, name: str) -> bytes:
        """Return a topic's id; zeros where there is no such topic."""
        answer = await self.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse)
        return next((bytes(each.topic_id) for each in answer.topics if each.name == name), bytes(16))

    # -- operations, each until it is answered well

    async def create(self, name: str, **configs: str) -> bool:
        """Create a topic of one partition."""
        wanted = self.wanted(name, configs)

        async def once() -> int:
            answer = await self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=3000), CreateTopicsResponse)
            code = answer.topics[0].error_code
            return 0 if code == ErrorCode.TOPIC_ALREADY_EXISTS else code

        self.deleted.discard(name)  # from now on it may be there
        made = await self.tried(once)
        if made:
            self.said[name] = TopicSaid(durable="flush_messages" in configs)
        return made

    def wanted(self, name: str, configs: dict[str, str]) -> CreatableTopic:
        """Return what is asked of a topic of one partition."""
        return CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )

    async def delete(self, name: str) -> bool:
        """Delete a topic."""
        self.said[name].certain = False

        async def once() -> int:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=3000)
            code = (await self.ask(request, DeleteTopicsResponse)).responses[0].error_code
            return 0 if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else code

        done = await self.tried(once)
        if done:
            del self.said[name]
            self.deleted.add(name)
        return done

    async def produce(self, name: str, count: int = 1, *, identity: tuple[int, int, int] | None = None) -> bool:
        """Append a batch; each try has values of its own, or an `identity`: a producer, its epoch and a sequence."""
        said = self.said[name]
        values: list[bytes] = []

        async def once() -> int:
            self.count += 1
            if identity is None or not values:  # what has a sequence is sent again as it was
                values[:] = [b"%s %d.%d" % (name.encode(), self.count, at) for at in range(count)]
            stamp = Millis(self.clock.now_ms())
            records = [Record(timestamp=stamp, key=b"k%d" % (self.count % 3), value=value) for value in values]
            fields: dict[str, Any] = {}
            if identity is not None:
                producer_id, epoch, sequence = identity
                fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
                fields["transactional"] = True
                said.aborted |= set(values)
            data = PartitionProduceData(index=0, records=bytes(build_batch(records, **fields)))
            topic_id = await self.topic_id(name)
            request = ProduceRequest(
                transactional_id=ID if identity is not None else None,
                acks=-1,
                timeout_ms=3000,
                topic_data=[TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])],
            )
            found = (await self.ask(request, ProduceResponse)).responses[0].partition_responses[0]
            if found.error_code == ErrorCode.NONE:
                for at, value in enumerate(values):
                    if found.base_offset + at in said.acknowledged:
                        raise Broken(f"{name}: offset {found.base_offset + at} is given out twice")
                    said.acknowledged[found.base_offset + at] = value
            elif found.error_code not in UNDECIDED:
                said.refused |= set(values)
            return int(found.error_code)

        return await self.tried(once)

    async def delete_records(self, name: str, offset: int) -> bool:
        """Delete what lies before an offset."""

        async def once() -> int:
            wanted = DeleteRecordsTopic(
                name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
            answer = await self.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=3000), DeleteRecordsResponse)
            self.said[name].start = offset  # from the first try on it may be so
            return int(answer.topics[0].partitions[0].error_code)

        return await self.tried(once)

    async def look_up(self, name: str, timestamp: int) -> bool:
        """Ask for an offset by time."""

        async def once() -> int:
            wanted = ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
            answer = await self.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), ListOffsetsResponse, 7)
            return int(answer.topics[0].partitions[0].error_code)

        return await self.tried(once)

    async def move(self, name: str, path: str) -> bool:
        """Move a partition to a directory; that goes on by itself."""

        async def once() -> int:
            wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=[0])])
            answer = await self.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), AlterReplicaLogDirsResponse)
            return int(answer.results[0].partitions[0].error_code)

        return await self.tried(once)

    async def commit(self, group: str, offset: int) -> bool:
        """Commit an offset of `victim` for a group without members."""

        async def once() -> int:
            finding = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
            code = (await self.ask(finding, FindCoordinatorResponse, 4)).coordinators[0].error_code
            if code:
                return int(code)
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=Offset(offset))
            request = OffsetCommitRequest(
                group_id=group,
                topics=[OffsetCommitRequestTopic(name="victim", partitions=[partition])],
            )
            answer = await self.ask(request, OffsetCommitResponse, 8)
            return int(answer.topics[0].partitions[0].error_code)

        return await self.tried(once)

    async def transact(self, name: str, *, commit: bool) -> bool:
        """Write one batch in a transaction, and end it."""
        identity: list[int] = []

        async def begin() -> int:
            finding = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
            code = (await self.ask(finding, FindCoordinatorResponse, 4)).coordinators[0].error_code
            if code:
                return int(code)
            request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
            answer = await self.ask(request, InitProducerIdResponse, 5)
            identity[:] = [answer.producer_id, answer.producer_epoch]
            return int(answer.error_code)

        async def end() -> int:
            request = EndTxnRequest(
                transactional_id=ID, producer_id=identity[0], producer_epoch=identity[1], committed=commit
            )
            answer = await self.ask(request, EndTxnResponse, 5)
            # an answer that was lost, and the epoch has moved on: ended all the same
            return 0 if answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH else int(answer.error_code)

        if not await self.tried(begin):
            return False
        said = self.said[name]
        before = set(said.aborted)
        # sequence 0 only: a batch that failed is sent again as another one with the same sequence
        if not await self.produce(name, 2, identity=(identity[0], identity[1], 0)):
            return False
        acknowledged = (said.aborted - before) & set(said.acknowledged.values())
        if commit:
            said.aborted -= acknowledged
        if not await self.tried(end):
            return False
        if commit:
            said.committed |= acknowledged
        return True

    async def read(self, name: str, *, isolation: int = 0, offset: int = 0) -> dict[int, bytes] | None:
        """Read a topic whole, or from an offset on; None where that is refused for good."""
        rows: dict[int, bytes] = {}
        offset, code = max(offset, self.said[name].start), 0
        topic_id = await self.topic_id(name)
        tries = 0
        while True:
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(
                replica_id=-1,
                isolation_level=isolation,
                session_epoch=-1,
                max_bytes=1 << 20,
                topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=[wanted])],
            )
            found = None
            try:
                answer = await self.ask(request, FetchResponse)
                found = answer.responses[0].partitions[0] if answer.responses else None
                code = found.error_code if found is not None else answer.error_code or -1
            except NoAnswer:
                code = -1
            if code == ErrorCode.OFFSET_OUT_OF_RANGE and found is not None and tries < TRIES:
                offset, tries = max(0, int(found.log_start_offset)), tries + 1
                continue
            if found is None or code:
                tries += 1
                if tries > TRIES:
                    return None
                await asyncio.sleep(PAUSE_S)
                continue
            aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
            before = offset
            try:
                offset = _take(rows, found.records or b"", offset, aborted if isolation else [])
            except KafkaError:  # brokers hand bytes out as they are; who reads them sees the damage, and asks again
                tries += 1
                if tries > TRIES:
                    return None
                continue
            if offset == before:
                return rows

    # -- judging

    def scope(self) -> Scope:
        """Return what the failure that was had may cost for good."""
        failed, kind = self.faults.failed, self.faults.kind
        if failed is None:
            return Scope()
        top = "/" + failed.path.lstrip("/").partition("/")[0]
        if kind != "EIO" and self.is_starting:  # a start leaves out a directory whose own files it cannot take or read
            parts = failed.path.lstrip("/").split("/")
            shown = kind == "rot-stays" or (kind == "rot" and parts[-1] == PARTITION_METADATA_FILE)
            name = parts[1].rpartition("-")[0] if shown else ""
            return Scope(directories=frozenset({top}), partitions=frozenset({name} - {""}), node=top == "/m")
        if kind in FULL or kind.startswith(
            "rot"
        ):  # a metadata log that cannot be written or read ends its node, whatever the reason
            return Scope(node=top == "/m")
        inner = failed.path.lstrip("/").split("/")
        if kind == "ENOENT":
            partition = inner[1].rpartition("-")[0].split(".")[0] if len(inner) > 1 else ""
            return Scope(partitions=frozenset({partition} - {""}), node=top == "/m")
        return Scope(directories=frozenset({top}), node=top == "/m")

    async def judge(self) -> None:
        """The node goes on: look at what the failure has cost."""
        await asyncio.sleep(SETTLE_S)
        self.faults.mend()
        scope = self.scope()
        offline = self.offline()
        if self.loop.errors:
            raise Broken("an error that nobody handled: " + self.loop.errors[0])
        for name in list(self.said):
            if not self.said[name].certain:
                continue
            served = await self.produce(name)
            rows = await self.read(name) if served else None
            if rows is None:
                if not self._may_be_lost(name, scope, offline):
                    raise Broken(f"{name} is served no more, for a failure that may cost {scope}")
                if not self._is_shown(name, offline):
                    raise Broken(f"{name} is served no more, and nothing shows it")
                continue
            self.check_rows(name, rows)
            await self._check_committed(name)
        if not scope.directories and not await self.create("afterwards"):
            raise Broken("no topic can be made any more")

    def offline(self) -> set[str]:
        """Return the directories that are offline, and may be."""
        if self.has_ended:
            raise Ended("the node serves no more")
        assert self.node is not None
        offline = set(self.node._storage.offline)
        if not offline <= self.scope().directories:
            raise Broken(f"directories {sorted(offline)} are offline, for a failure that may cost {self.scope()}")
        return offline

    def _may_be_lost(self, name: str, scope: Scope, offline: set[str]) -> bool:
        elsewhere = [each for each in ("/a", "/b") if each not in offline]
        lies_elsewhere = any(self.storage.exists(f"{each}/{name}-0") for each in elsewhere)
        return name in scope.partitions or bool(offline & scope.directories and not lies_elsewhere)

    def _is_shown(self, name: str, offline: set[str]) -> bool:
        """Return whether operators are told that a partition is not served."""
        assert self.node is not None
        partitions = self.node._partitions
        held = partitions.get(name, 0)
        return (name, 0) in partitions.unopened or held is None or held.is_offline or held.log_dir.path in offline

    def check_rows(self, name: str, rows: dict[int, bytes]) -> None:
        """What was acknowledged is there; what was refused for want of room is not."""
        said = self.said[name]
        for offset, value in said.acknowledged.items():
            if offset < said.start:
                continue
            if rows.get(offset) != value:
                raise Broken(f"{name}: offset {offset} holds {rows.get(offset)!r}, {value!r} was acknowledged")
        shown = set(rows.values())
        # where an answer waits for the device, the log has the record before the answer fails
        if self.faults.kind in FULL and not said.durable and (wrong := said.refused & shown):
            raise Broken(f"{name}: shown, and was refused: {sorted(wrong)}")
        if len(shown) != len(rows):
            raise Broken(f"{name}: a value is there twice")

    async def _check_committed(self, name: str, *, lost_power: bool = False) -> None:
        said = self.said[name]
        rows = await self.read(name, isolation=1)
        if rows is None:
            raise Broken(f"{name}: committed records cannot be read")
        shown = set(rows.values())
        if wrong := said.aborted & shown:
            raise Broken(f"{name}: aborted, and shown: {sorted(wrong)}")
        if not said.committed <= shown and (said.durable or not lost_power):
            raise Broken(f"{name}: committed, and not shown: {sorted(said.committed - shown)}")

    async def end_process(self) -> bool:
        """End the process, and the power with it where that is asked for; False where what is left was judged before."""
        await self._end_as_a_server_does()
        self.kill()
        if self.power is not None:
            self.fabric.power_off(HOST)
            self.storage = self.storage.copy(self.power())
            self.storage.lose_power()
        self.faults.on = False
        return not self.faults.kind.startswith(("kill", "power")) or self.is_new(self._left())

    async def boot_well(self) -> None:
        """Start on a disk that is well."""
        await self.boot(faulty=False)
        assert self.node is not None
        if self.node._storage.offline:
            raise Broken(f"offline after a restart on a good disk: {dict(self.node._storage.offline)}")

    async def look_again(self) -> None:
        """Another process on a disk that is well: everything that was promised is there, and all is served."""
        lost_power = self.power is not None
        if not await self.end_process():
            return
        await asyncio.sleep(1.0)
        await self.boot_well()
        for name, said in list(self.said.items()):
            if not said.certain:
                continue
            if lost_power and not said.durable:
                said.acknowledged.clear()
            if not await self.produce(name):
                raise Broken(f"{name} is not served after a restart on a good disk")
            rows = await self.read(name)
            if rows is None:
                raise Broken(f"{name} cannot be read after a restart")
            self.check_rows(name, rows)
            await self._check_committed(name, lost_power=lost_power)
        for name in self.deleted:
            if any(await self.topic_id(name)):
                raise Broken(f"{name} was deleted, and is there again")
        if self.loop.errors:
            raise Broken("an error that nobody handled: " + self.loop.errors[0])
        await self.stop()

    def _left(self) -> bytes:
        """Return all that decides what the next process finds, and what it has to find."""
        files = [(path, bytes(inode.data)) for path, inode in self.storage.walk("/")]
        folders = [
            (name, sorted(self.storage.directory(f"/{top}/{name}").entries))
            for top in self.storage.directory("/").entries
            for name, entry in self.storage.directory(f"/{top}").entries.items()
            if isinstance(entry, Directory)
        ]
        said = [(name, [*vars(each).items()]) for name, each in self.said.items()]
        return repr((files, folders, said, sorted(self.deleted), self.power is None)).encode()

    async def _end_as_a_server_does(self) -> None:
        """Stop a node that has failed; no directory that has failed may pass for cleanly closed."""
        node = self.node
        if node is None or not self.processes[-1].alive or not self.has_ended:
            return
        self.faults.on = False
        with suppress(StorageError, TimeoutError):
            await asyncio.wait_for(self.processes[-1].run(node.stop()), 60)
        failed = self.faults.failed
        top = "/" + failed.path.lstrip("/").partition("/")[0] if failed is not None else ""
        if top and self.scope().node and self.storage.exists(f"{top}/{CLEAN_SHUTDOWN_FILE}"):
            raise Broken(f"{top} has failed, and is marked as closed cleanly")

    def bury(self) -> None:
        """End what is left without letting it say anything."""
        for process in self.processes:
            process.kill()
            process.bury()
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.set_exception_handler(lambda loop, context: None)
        self.loop.close()


def _take(rows: dict[int, bytes], data: bytes, offset: int, aborted: list[tuple[int, int]]) -> int:
    """Take the records from an offset on as a consumer does; return where the next fetch goes on."""
    open_ids: set[int] = set()
    waiting = sorted(aborted, key=lambda each: each[1])
    for header, at in iter_batches(data):
        while waiting and waiting[0][1] <= header.last_offset:
            open_ids.add(waiting.pop(0)[0])
        if header.is_control:
            open_ids.discard(header.producer_id)
        elif header.producer_id < 0 or header.producer_id not in open_ids:
            for record in iter_batch_records(data, at, header):
                if record.offset >= offset:
                    rows[int(record.offset)] = bytes(record.value or b"")
        offset = max(offset, int(header.next_offset))
    return offset
