"""A cluster as a task's clients see it, in memory: logs, idempotence, transactions, last stable offsets, groups' offsets.

`ModelClient` has the methods of `ottla.client.Client` that tasks use, and batches go in and come out as bytes, so that all
of a task's own machinery runs. A second `InitProducerId` under a transactional id fences the first, as KIP-98 has it.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, Millis, NodeId, Offset, ProducerEpoch, ProducerId, Uuid
from ottla.base import TopicPartition as Place
from ottla.client import (
    EARLIEST,
    LATEST,
    Address,
    Appended,
    Cluster,
    Fetched,
    FetchPosition,
    Isolation,
    Limits,
    ListedOffset,
    Node,
    Partition,
    Topic,
)
from ottla.connect.storage import TargetState
from ottla.connect.testing.words import Fault
from ottla.connect.testing.world import Life, World
from ottla.wire import (
    BatchHeader,
    Record,
    build_batch,
    end_transaction_marker,
    iter_records,
    read_batch_header,
    stamp_batch,
)
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["ModelClient", "ModelCluster"]

NODE = NodeId(1)
TIME = Millis(1_700_000_000_000)
IDLE_SECONDS = 0.002
"""How long a Fetch without news waits, in the model's time."""


@dataclass(eq=False)
class _Log:
    batches: list[tuple[BatchHeader, bytes]] = field(default_factory=list)
    end: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """Producers with an open transaction here, and its first offset."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer, first offset, offset of the marker."""
    sequences: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    """Per producer and epoch: the base offset of each batch by its base sequence."""

    @property
    def stable(self) -> int:
        return min(self.open.values(), default=self.end)

    def add(self, batch: bytearray) -> int:
        base = self.end
        stamp_batch(batch, 0, base, 0)
        header = read_batch_header(batch, 0)
        self.batches.append((header, bytes(batch)))
        self.end = header.next_offset
        return base


@dataclass(eq=False)
class _Transaction:
    producer_id: int
    epoch: int
    places: set[Place] = field(default_factory=set)


class ModelCluster:
    """The cluster; any thread may use it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.logs: dict[Place, _Log] = {}
        self.topics: dict[str, tuple[Uuid, int]] = {}
        self.groups: dict[Place, int] = {}
        """What the sink's group has committed."""
        self.roles: dict[str, str] = {}
        """What a topic is in the names of steps; `topic` where nothing is said."""
        self.is_slow = False
        """Whether answers come while the task does other things, not before it looks up again."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called when a Fetch found nothing."""
        self.lock = threading.RLock()
        self._ids = iter(range(1000, 1 << 30))
        self._transactions: dict[str, _Transaction] = {}
        self._neighbour: tuple[str, int] | None = None
        self._views: dict[frozenset[str] | None, Cluster] = {}
        """What Metadata says, until a topic is made."""
        world.on_fenced = self.fence

    # -- of the machine

    def add_topic(self, name: str, partitions: int = 1) -> bool:
        """Make a topic; returns False where it exists."""
        with self.lock:
            if name in self.topics:
                return False
            self._views.clear()
            self.topics[name] = Uuid(uuid.uuid4().bytes), partitions
            self.logs.update({Place(name, number): _Log() for number in range(partitions)})
            return True

    def remove_topic(self, name: str) -> None:
        """Delete a topic, and a group's offsets of it, as brokers do."""
        with self.lock:
            self._views.clear()
            _, partitions = self.topics.pop(name)
            for number in range(partitions):
                self.groups.pop(Place(name, number), None)

    def write(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        """Append one record for each value, one batch."""
        self.write_records(topic, [Record(timestamp=TIME, key=None, value=each) for each in values], partition)

    def write_records(self, topic: str, records: Iterable[Record], partition: int = 0) -> None:
        """Append records, one batch."""
        with self.lock:
            self.logs[Place(topic, partition)].add(build_batch(records))

    def committed(self, topic: str) -> list[bytes | None]:
        """Return the values that a reader with `read_committed` sees, by partition and offset."""
        return [None if each.value is None else bytes(each.value) for each in self._committed_records(topic)]

    def _committed_records(self, topic: str) -> Iterator[Record]:
        with self.lock:
            for place, log in self.logs.items():
                if place.topic != topic:
                    continue
                for header, data in log.batches:
                    if header.is_control or header.base_offset >= log.stable:
                        continue
                    is_aborted = header.is_transactional and any(
                        header.producer_id == producer and first <= header.base_offset < last
                        for producer, first, last in log.aborted
                    )
                    if not is_aborted:
                        yield from iter_records(data)

    def state(self) -> str:
        """Return in words what a task's start can depend on: neither times nor the ids of producers."""
        with self.lock:
            topics = {
                topic: [(each.key and bytes(each.key), each.value and bytes(each.value)) for each in records]
                for topic in sorted(self.topics)
                for records in [self._committed_records(topic)]
            }
            left_open = {name: sorted(found.places) for name, found in self._transactions.items() if found.places}
            groups = sorted(self.groups.items())
            return f"{topics} {sorted(left_open.items())} {groups} {self._neighbour}"

    def fence(self) -> None:
        """Take every transactional id over, as another worker's task would."""
        with self.lock:
            for name in list(self._transactions):
                self.take_over(name)

    def take_over(self, transactional_id: str) -> _Transaction:
        """Give out a producer's id and epoch; what was left open is aborted."""
        with self.lock:
            found = self._transactions.get(transactional_id)
            if found is None:
                found = self._transactions[transactional_id] = _Transaction(next(self._ids), 0)
            else:
                found.epoch += 1
                self._end(found, commit=False)
            return found

    def open_neighbour(self, topic: str, fetches: int = 3) -> None:
        """Begin a neighbour's transaction in every partition of a topic; it ends once that is fetched some times."""
        with self.lock:
            other = self._transactions["a neighbour"] = _Transaction(next(self._ids), 0)
            for place in [each for each in self.logs if each.topic == topic]:
                record = Record(timestamp=TIME, key=b'["a neighbour",{}]', value=b"{}")
                batch = build_batch(
                    [record], producer_id=other.producer_id, producer_epoch=0, base_sequence=0, transactional=True
                )
                self.append(place, batch)
            self._neighbour = topic, fetches

    # -- of brokers

    def append(self, place: Place, batch: bytearray) -> Appended:
        """Append a producer's batch."""
        with self.lock:
            if place not in self.logs:
                return Appended(place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            log, header = self.logs[place], read_batch_header(batch, 0)
            owner = next((each for each in self._transactions.values() if each.producer_id == header.producer_id), None)
            if header.is_transactional and (owner is None or header.producer_epoch != owner.epoch):
                return Appended(place, ErrorCode.INVALID_PRODUCER_EPOCH)
            if header.producer_id >= 0:
                known = log.sequences.setdefault((header.producer_id, header.producer_epoch), {})
                if header.base_sequence in known:
                    return Appended(place, base_offset=Offset(known[header.base_sequence]))
                expected = 0 if not known else max(known) + self._count_at(log, known[max(known)])
                if header.base_sequence != expected:
                    return Appended(place, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
                known[header.base_sequence] = log.end
            if header.is_transactional and owner is not None:
                owner.places.add(place)
                log.open.setdefault(header.producer_id, log.end)
            return Appended(place, base_offset=Offset(log.add(batch)))

    def _count_at(self, log: _Log, base: int) -> int:
        return next(header.record_count for header, _ in reversed(log.batches) if header.base_offset == base)

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> EndTxnResponse:
        """End a transaction; the next has another epoch (KIP-890)."""
        with self.lock:
            found = self._transactions[transactional_id]
            if (found.producer_id, found.epoch) != (producer_id, epoch):
                return EndTxnResponse(error_code=int(ErrorCode.PRODUCER_FENCED))
            self._end(found, commit=commit)
            found.epoch += 1
            return EndTxnResponse(error_code=0, producer_id=found.producer_id, producer_epoch=found.epoch)

    def _end(self, transaction: _Transaction, *, commit: bool) -> None:
        for place in transaction.places:
            log = self.logs[place]
            marker = end_transaction_marker(
                commit=commit,
                producer_id=ProducerId(transaction.producer_id),
                producer_epoch=ProducerEpoch(transaction.epoch),
                coordinator_epoch=0,
                timestamp=TIME,
            )
            at, first = log.add(marker), log.open.pop(transaction.producer_id)
            if not commit:
                log.aborted.append((transaction.producer_id, first, at))
        transaction.places.clear()

    def fetch(self, position: FetchPosition, isolation: Isolation) -> Fetched:
        """Return everything from an offset on that a reader may see."""
        with self.lock:
            place = position.partition
            log = self.logs[place]
            if self._neighbour is not None and self._neighbour[0] == place.topic:
                topic, left = self._neighbour
                self._neighbour = topic, left - 1
                if left <= 1:
                    self._neighbour = None
                    self._end(self._transactions["a neighbour"], commit=False)
            end = log.stable if isolation is Isolation.READ_COMMITTED else log.end
            shown = [
                (header, data)
                for header, data in log.batches
                if header.next_offset > position.offset and header.base_offset < end
            ]
            aborted = tuple(
                (ProducerId(producer), Offset(first))
                for producer, first, last in log.aborted
                if last >= position.offset
            )
            records = memoryview(b"".join(data for _, data in shown))
            return Fetched(
                place,
                position.offset,
                ErrorCode.NONE,
                Offset(log.end),
                Offset(log.stable),
                Offset(0),
                aborted if isolation is Isolation.READ_COMMITTED else (),
                records,
            )

    def view(self, names: Iterable[str] | None = None) -> Cluster:
        """Return what Metadata says of some topics."""
        wanted = None if names is None else frozenset(names)
        with self.lock:
            if wanted not in self._views:
                topics = {
                    name: Topic(
                        name,
                        found[0],
                        {n: Partition(n, NODE, LeaderEpoch(0), (NODE,), (NODE,)) for n in range(found[1])},
                    )
                    for name, found in self.topics.items()
                    if wanted is None or name in wanted
                }
                self._views[wanted] = Cluster({NODE: Node(NODE, Address("model", 1))}, topics, "model", NODE)
            return self._views[wanted]


_STORED = frozenset({Fault.RETRIABLE, Fault.FATAL, Fault.TIMEOUT, Fault.STOP, Fault.KILL_BEFORE, Fault.KILL_AFTER})
_FAULTS: dict[str, frozenset[Fault]] = {
    "produce": _STORED | {Fault.REFUSED, Fault.FENCED, Fault.NEIGHBOUR},
    "end": _STORED | {Fault.FENCED, Fault.NEIGHBOUR},
    "take over": frozenset({Fault.FATAL, Fault.KILL_BEFORE, Fault.KILL_AFTER}),
    "create": _STORED,
}


class ModelClient:
    """One task's client of the model, for one event loop; see `Client` for the methods."""

    def __init__(self, cluster: ModelCluster, life: Life) -> None:
        self._model, self._life = cluster, life
        self.limits = Limits()
        self.cluster = cluster.view()

    async def close(self) -> None:
        """See `Client`."""

    def _step(self, kind: str, name: str) -> Fault | None:
        """Take a step; raises what fails before anything is done."""
        if self._life.dead:
            raise self._life.client_error()
        found = self._model.world.step(name, self._life, kinds=_FAULTS[kind])
        if found is Fault.RETRIABLE:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"injected at {name}")
        if found is Fault.FATAL:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"injected at {name}")
        if found is Fault.KILL_BEFORE:
            self._life.kill()
            raise self._life.client_error()
        if found is Fault.NEIGHBOUR:
            for topic in [topic for topic, role in self._model.roles.items() if role == "offsets"]:
                self._model.open_neighbour(topic)
            self._life.want(TargetState.STOPPED)
        return found

    def _done(self, found: Fault | None, name: str) -> None:
        """Raise what fails once it is done."""
        if found is Fault.TIMEOUT:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"injected at {name}")
        if found is Fault.KILL_AFTER:
            self._life.kill()
            raise self._life.client_error()

    async def features(self) -> dict[str, int]:
        """See `Client`."""
        return {"transaction.version": 2}

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> Cluster:
        """See `Client`."""
        names = None if topics is None else list(topics)
        if allow_auto_topic_creation and not self._life.dead:
            for each in names or ():
                self._model.add_topic(each)
        self.cluster = self._model.view()
        return self._model.view(names)

    async def request(self, message: Any, **_options: Any) -> Any:
        """See `Client`; what tasks ask for besides batches."""
        if isinstance(message, CreateTopicsRequest):
            found = self._step("create", "create a topic")
            made = [self._model.add_topic(each.name, max(each.num_partitions, 1)) for each in message.topics]
            self._done(found, "create a topic")
            codes = [0 if each else int(ErrorCode.TOPIC_ALREADY_EXISTS) for each in made]
            results = [
                CreatableTopicResult(name=topic.name, error_code=code)
                for topic, code in zip(message.topics, codes, strict=True)
            ]
            return CreateTopicsResponse(topics=results)
        if isinstance(message, InitProducerIdRequest):
            found = self._step("take over", "take a producer id")
            name = message.transactional_id
            transaction = self._model.take_over(name if name is not None else f"idempotent {uuid.uuid4()}")
            self._done(found, "take a producer id")
            return InitProducerIdResponse(
                error_code=0, producer_id=transaction.producer_id, producer_epoch=transaction.epoch
            )
        assert isinstance(message, EndTxnRequest), f"the model knows no {type(message).__name__}"
        step = "commit a transaction" if message.committed else "abort a transaction"
        found = self._step("end", step)
        answer = self._model.end(
            message.transactional_id, message.producer_id, message.producer_epoch, commit=message.committed
        )
        if found is Fault.TIMEOUT:
            return answer  # a client asks again, and the coordinator knows how to take that
        self._done(found, step)
        return answer

    async def append(self, batches: Mapping[Place, Any], **_options: Any) -> list[Appended]:
        """See `Client`."""
        found: list[Appended] = []
        for place, batch in batches.items():
            step = f"produce {self._model.roles.get(place.topic, 'topic')}"
            fault = self._step("produce", step)
            if fault is Fault.REFUSED:
                found.append(Appended(place, ErrorCode.INVALID_RECORD, message="injected"))
                continue
            appended = self._model.append(place, bytearray(batch))
            self._done(fault, step)
            found.append(appended)
        return found

    async def produce(self, batches: Mapping[Place, Any], **options: Any) -> list[Appended]:
        """See `Client`."""
        return [each.check() for each in await self.append(batches, **options)]

    async def list_offsets(
        self, wanted: Mapping[Place, Millis], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[Place, ListedOffset]:
        """See `Client`."""
        found = {}
        for place, moment in wanted.items():
            assert moment in (EARLIEST, LATEST)
            if place.topic not in self._model.topics:
                self._model.add_topic(place.topic)
            self.cluster = self._model.view()
            log = self._model.logs[place]
            end = log.stable if isolation is Isolation.READ_COMMITTED else log.end
            offset = Offset(0 if moment == EARLIEST else end)
            found[place] = ListedOffset(place, offset, Millis(-1), LeaderEpoch(0))
        return found

    async def fetch(
        self,
        positions: Sequence[FetchPosition],
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        **_options: Any,
    ) -> list[Fetched]:
        """See `Client`."""
        if self._life.dead:
            raise self._life.client_error()
        self.cluster = self._model.view()
        found = [self._model.fetch(each, isolation) for each in positions]
        if not any(len(each.records) for each in found):
            self._model.on_idle()
            await asyncio.sleep(IDLE_SECONDS)
        return found
