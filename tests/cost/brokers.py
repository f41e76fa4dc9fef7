"""Brokers that hold much of everything, and what requests of their APIs cost them, with rights and without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.base import WireError
from ottla.broker import Node
from ottla.broker.api import produce
from ottla.broker.replicas import housekeeping
from ottla.broker.requests import slices
from ottla.broker.requests.answers import Encoded
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.handlers import all_handlers
from ottla.broker.requests.local_requests import dispatch
from ottla.security import Operation, Resource
from ottla.wire import APIS, ApiKey, Message, decode, encode_request, encode_response, read_request_header
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.node_client import batch, parts, start_node
from tests.cost.growth import Growth
from tests.cost.requests import Shape, There, shapes
from tests.cost.stretches import Stretches
from tests.cost.work import places

__all__ = ["Found", "Measured", "measured_apis"]

STRANGER = "User:stranger"
LENGTH_BYTES = 4
ANSWER_S_MAX = 60
STEPS = 16
"""Elements in a slice while this measures, so that few of them show whether there are slices at all."""
STRETCH_PER_ELEMENT, STRETCH_SHARE = 24, 3
"""Work that may be done before other connections have their turn: so little for each element, or a third of all."""
IN_ONE_PIECE: Mapping[ApiKey, str] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "a group's member is changed at one moment",
    ApiKey.FETCH: "what it reads belongs to one session and one answer's bytes",
    ApiKey.OFFSET_COMMIT: "a group's commit is decided at one moment",
    ApiKey.TXN_OFFSET_COMMIT: "a group's commit is decided at one moment",
    ApiKey.OFFSET_DELETE: "a group's deletion is decided at one moment",
    ApiKey.ADD_PARTITIONS_TO_TXN: "a transaction's partitions are added at one moment; brokers ask of many",
    ApiKey.WRITE_TXN_MARKERS: "brokers ask it of each other",
}
"""APIs for clients whose long requests hold the loop, and why."""
CHECKPOINTS = ("log.flush.offset", "log.flush.start.offset", "replica.high.watermark")
SETTINGS = (
    *AUTHORIZER,
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "share.coordinator.state.topic.num.partitions=2",
    "auto.create.topics.enable=false",
    "log.cleaner.enable=false",
    *(f"{each}.checkpoint.interval.ms=3600000" for each in CHECKPOINTS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=3600000",
    "transaction.remove.expired.transaction.cleanup.interval.ms=3600000",
)
LAST = (
    *(ApiKey.LEAVE_GROUP, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS, ApiKey.DELETE_RECORDS, ApiKey.DELETE_ACLS),
    ApiKey.DELETE_TOPICS,
)
"""What takes away that others ask for comes after them."""
PARTS_PER_REQUEST = 64
IN_ONE_PIECE_PER_ELEMENT = 1_000


@dataclass
class Measured:
    """What one shape cost a broker that holds so much."""

    work: int
    stretch: int
    places: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """One shape, asked by somebody with rights or without."""

    name: str
    growth: Growth
    stretch: int
    stretch_max: int
    places: list[tuple[str, int]]

    @property
    def is_bounded(self) -> bool:
        """Return whether others had their turn in between."""
        return self.stretch <= self.stretch_max

    def __str__(self) -> str:
        lines = "".join(f"\n    {cost:>10} {place}" for place, cost in self.places)
        return f"{self.name}: {self.growth}, {self.stretch} of it in one piece{lines}"


class _World:
    """One broker and what it holds: `size` topics, groups, transactional ids, entries, partitions and writers of a topic."""

    def __init__(self, node: Node, size: int, there: There, stretches: Stretches) -> None:
        self.node, self.size, self.there, self.stretches = node, size, there, stretches

    async def measure(self, shape: Shape, handler: Handler[Any], version: int, count: int) -> Measured | None:
        """Return what a request costs from its bytes to its answer's; None where it cannot be sent in that version."""
        request = shape.make(self.there, count)
        try:
            frame = memoryview(bytearray(encode_request(request, version, 1, "test")[LENGTH_BYTES:]))
        except (ValueError, WireError):
            return None
        connected = Connected(
            listener=self.node.listeners[0].name,
            client_host="192.0.2.1",
            principal=STRANGER,
            is_controller="broker" not in APIS[handler.api_key].listeners,
        )
        places()
        self.stretches.begin()
        with suppress(WireError):  # it closes the connection
            await asyncio.wait_for(self._answer(handler, version, frame, connected), ANSWER_S_MAX)
        await self.stretches.quiet()
        return Measured(self.stretches.total, self.stretches.longest, places())

    async def _answer(self, handler: Handler[Any], version: int, frame: memoryview, connected: Connected) -> None:
        position = read_request_header(frame)[1]
        if handler.read is not None:
            message = handler.read(frame, version, position)
        else:
            message, _ = decode(handler.request, frame, version, position)
        await asyncio.sleep(0)
        self.stretches.longest = 0  # reading and writing are quick, and in one piece
        context = RequestContext(parts(self.node), connected, handler.api_key, version, 1, "test")
        reply = await dispatch(handler, context, message)
        await asyncio.sleep(0)
        self.stretches.longest, longest = 0, self.stretches.longest
        if reply is not None and not isinstance(reply, Encoded):
            encode_response(reply, handler.api_key, version, 1)
            await asyncio.sleep(0)
        self.stretches.longest = longest


async def _until_done(ask: Any, request: Message, version: int | None, result: Callable[[Any], int]) -> Any:
    for _ in range(2000):
        answer = await ask(request, version)
        if result(answer) == 0:
            return answer
        await asyncio.sleep(0.01)
    raise AssertionError(f"{type(request).__name__} is answered {answer}")


def _in_parts(size: int) -> Iterator[range]:
    for at in range(0, size, PARTS_PER_REQUEST):
        yield range(at, min(size, at + PARTS_PER_REQUEST))


@asynccontextmanager
async def _world(folder: Path, size: int, stretches: Stretches) -> AsyncIterator[_World]:
    node = await start_node(folder, *SETTINGS)
    try:
        admin = Asker(node, ADMIN)
        ids: dict[int, bytes] = {}
        for some in _in_parts(size):
            topics = [
                CreatableTopic(name=f"t_{at}", num_partitions=1 if at else size, replication_factor=1) for at in some
            ]
            answer = await admin.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
            assert not any(each.error_code for each in answer.topics), answer
            ids.update(zip(some, (bytes(each.topic_id) for each in answer.topics), strict=True))
        for kind, key in ((0, "g0"), (1, "x0"), (2, "g0:AAAAAAAAAAAAAAAAAAAAAQ:0")):
            await _until_done(
                admin.ask,
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]),
                6,
                lambda answer: answer.coordinators[0].error_code,
            )
        await _fill(admin, size)
        yield _World(node, size, There(ids), stretches)
    finally:
        await node.stop()


async def _fill(admin: Asker, size: int) -> None:
    """Have groups commit, producers begin transactions and write, and make entries about all of it."""
    for at in range(size):
        commit = OffsetCommitRequest(
            group_id=f"g{at}",
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name="t_0",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=0)
                        for index in range(1 if at else size)
                    ],
                )
            ],
        )
        await _until_done(admin.ask, commit, 9, lambda answer: answer.topics[0].partitions[0].error_code)
        begin = InitProducerIdRequest(transactional_id=f"x{at}", transaction_timeout_ms=60_000)
        begun = await _until_done(admin.ask, begin, 4, lambda answer: answer.error_code)
        records = batch(b"x", producer_id=begun.producer_id + 1_000_000, producer_epoch=0, base_sequence=0)
        partition = PartitionProduceData(index=0, records=records)
        produce = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t_0", partition_data=[partition])]
        )
        await _until_done(admin.ask, produce, 12, lambda answer: answer.responses[0].partition_responses[0].error_code)
    for some in _in_parts(size):
        await grant(admin.node, *(allowed(f"User:u{at}", Operation.READ, Resource.TOPIC, f"t_{at}") for at in some))


RESOURCES = (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID, Resource.DELEGATION_TOKEN, Resource.USER)


async def _grant_all(node: Node) -> None:
    everything = [allowed(STRANGER, Operation.ALL, kind, "*") for kind in RESOURCES]
    await grant(node, *everything, allowed(STRANGER, Operation.ALL, Resource.CLUSTER, "kafka-cluster"))


def _rank(handler: Handler[Any]) -> tuple[int, int]:
    key = ApiKey(handler.api_key)
    return (LAST.index(key) + 1 if key in LAST else 0, handler.api_key)


def _asked(all_versions: bool, only: str) -> list[tuple[Handler[Any], int]]:
    return [
        (handler, version)
        for handler in sorted(all_handlers(), key=_rank)
        if only in ApiKey(handler.api_key).name
        for version in range(handler.versions[0] if all_versions else handler.versions[1], handler.versions[1] + 1)
    ]


async def measured_apis(
    folder: Path, n: int, *, all_versions: bool = False, only: str = "", tell: Callable[[str], None] = lambda text: None
) -> list[Found]:
    """Return what each shape of each API's requests costs with `n` elements and with four times as many."""
    stretches = Stretches()
    slices.SLICE_STEPS = STEPS
    housekeeping.FLUSH_CHECK_MS_MAX = housekeeping.DELETION_CHECK_MS = 3_600_000  # no round of its own is counted
    produce.PARTITIONS_AT_ONCE_MAX = produce.PARTITIONS_PER_STEP = STEPS  # type: ignore[misc]
    costs: list[dict[str, tuple[Measured, Measured]]] = []
    for size in (n, 4 * n):
        costs.append({})
        async with _world(folder / str(size), size, stretches) as world:
            tell(f"a broker with {size} of everything runs")
            for rights in ("without rights", "with rights"):
                if rights == "with rights":
                    await _grant_all(world.node)
                async for name, measured in _measure(world, _asked(all_versions, only)):
                    costs[-1][f"{name} {rights}"] = measured
    found = []
    for name, (one, many) in costs[0].items():
        if name not in costs[1]:
            continue
        base, most = costs[1][name]
        growth = Growth(many.work - one.work, most.work - base.work, 4 * n)
        stretch_max = max(_stretch_max(name) * 4 * n, most.work // STRETCH_SHARE)
        found.append(Found(name, growth, most.stretch, stretch_max, most.places))
    return found


def _stretch_max(name: str) -> int:
    """Return how much may be done in one piece for each element.

    What the controller decides sees one moment, and is bounded by how much it may be; brokers trust each other.
    """
    key = ApiKey[name.partition(" ")[0]]
    handler = next(each for each in all_handlers() if each.api_key == key)
    is_decided = handler.forwards and (not handler.splits or name.endswith("with rights"))
    is_internal = handler.needs.operation is Operation.CLUSTER_ACTION or "broker" not in APIS[key].listeners
    if is_decided or is_internal or key in IN_ONE_PIECE:
        return IN_ONE_PIECE_PER_ELEMENT
    return STRETCH_PER_ELEMENT


async def _measure(
    world: _World, asked: Iterable[tuple[Handler[Any], int]]
) -> AsyncIterator[tuple[str, tuple[Measured, Measured]]]:
    for handler, version in asked:
        for shape in shapes(handler, version):
            one = await world.measure(shape, handler, version, 1)
            one = await world.measure(shape, handler, version, 1)
            many = await world.measure(shape, handler, version, world.size)
            if one is not None and many is not None:
                yield shape.name, (one, many)
