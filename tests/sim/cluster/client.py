"""A client of a simulated cluster: it learns leaders from Metadata, keeps one connection per broker, and tries again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from ottla.base import ErrorCode
from ottla.wire import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.sim.batches import Style
from tests.sim.client import Connection, NoAnswer
from tests.sim.cluster.ledger import ClusterLedger
from tests.sim.trace import Trace

__all__ = ["MOVING", "Application", "Clients", "Link"]

M = TypeVar("M", bound=Message)
METADATA_VERSION, FIND_VERSION = 12, 4
MOVING = {
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION,
}
"""What Kafka's clients hear while leaders move and brokers come and go, and answer by trying again."""


@dataclass(frozen=True)
class Link:
    """A broker that an answer came from, and the connection to it."""

    node: int
    connection: Connection


@dataclass(frozen=True)
class Clients:
    """What every client needs of its world."""

    dial: Callable[[str, str, int], Coroutine[Any, Any, Connection]]
    """Opens a connection for a client to a host's port; raises NoAnswer."""
    bootstrap: tuple[tuple[str, int], ...]
    now_ms: Callable[[], int]
    ledger: ClusterLedger
    trace: Trace
    rng: Random
    newest: Callable[[str, int], tuple[int, int, int] | None]
    """(epoch, node, high watermark) of a partition's newest leader, as nobody but the simulation can know."""
    leads: Callable[[int, str, int], int]
    """The epoch in which a node takes itself for a partition's leader, or -1."""
    cannot_place: Callable[[int, str, int, bytes], bool]
    """Whether a node has to refuse a batch as one out of order, by what its log of the partition has."""
    producer_ids: dict[int, str] = field(default_factory=dict)
    """Who was given which."""
    style: Style = field(default_factory=Style)

    lands_late = True

    async def connect(self, name: str) -> Connection:
        """Open a connection to any broker."""
        host, port = self.bootstrap[self.rng.randrange(len(self.bootstrap))]
        return await self.dial(name, host, port)

    async def connect_at(self, name: str, connection: Connection, host: str, port: int) -> Connection:
        """Open a connection to the broker at an address, and close the one that the address was learnt from."""
        connection.close()
        return await self.dial(name, host, port)


class Application:
    """One program: its view of the cluster and its connections."""

    def __init__(self, clients: Clients, name: str) -> None:
        self.clients = clients
        self.name = name
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._links: dict[int, Connection] = {}
        self._any: Connection | None = None

    # ---------------------------------------------------------------- connections

    async def anyone(self) -> Connection:
        """Return a connection to some broker."""
        if self._any is None or not self._any.is_open:
            self._any = await self.clients.connect(self.name)
        return self._any

    async def node(self, node: int) -> Link:
        """Return a connection to one broker."""
        connection = self._links.get(node)
        if connection is None or not connection.is_open:
            address = self._brokers.get(node)
            if address is None:
                await self.refresh()
                address = self._brokers.get(node)
            if address is None:
                raise NoAnswer(f"nobody knows broker {node}")
            connection = self._links[node] = await self.clients.dial(self.name, *address)
        return Link(node, connection)

    async def leader(self, topic: str, index: int) -> Link:
        """Return a connection to a partition's leader, as far as this client knows."""
        if (topic, index) not in self._leaders:
            await self.refresh(topic)
        node = self._leaders.get((topic, index), -1)
        if node < 0:
            self._leaders.pop((topic, index), None)
            raise NoAnswer(f"{topic}-{index} has no leader")
        try:
            return await self.node(node)
        except NoAnswer:
            self.forget(topic, index)
            raise

    async def coordinator(self, key: str, *, kind: int) -> Link:
        """Return a connection to what coordinates a group (0) or a transactional id (1)."""
        connection = await self.anyone()
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        found = (await self.ask(connection, request, FindCoordinatorResponse, FIND_VERSION)).coordinators[0]
        if found.error_code:
            self.leave_any()
            raise NoAnswer(f"no coordinator: {ErrorCode(found.error_code).name}")
        self._brokers[found.node_id] = (found.host, found.port)
        return await self.node(found.node_id)

    def forget(self, topic: str, index: int) -> None:
        """What was known of a leader is no longer true."""
        self._leaders.pop((topic, index), None)

    def leave_any(self) -> None:
        """Ask another broker the next time."""
        if self._any is not None:
            self._any.close()
            self._any = None

    def close(self) -> None:
        """Hang up on everyone."""
        self.leave_any()
        for connection in self._links.values():
            connection.close()
        self._links.clear()

    # ---------------------------------------------------------------- asking

    async def ask(self, connection: Connection, request: Message, cls: type[M], version: int | None = None) -> M:
        """Ask on a connection; it is closed where no answer comes."""
        try:
            return await connection.ask(request, cls, version)
        except NoAnswer:
            if connection is self._any:
                self.leave_any()
            raise

    async def refresh(self, *topics: str) -> MetadataResponse:
        """Learn who is there and who leads these topics."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=each) for each in topics], allow_auto_topic_creation=False
        )
        answer = await self.ask(await self.anyone(), request, MetadataResponse, METADATA_VERSION)
        for broker in answer.brokers:
            self._brokers[broker.node_id] = (broker.host, broker.port)
        for topic in answer.topics:
            for partition in topic.partitions:
                assert topic.name is not None
                self._leaders[topic.name, partition.partition_index] = partition.leader_id
        if self.clients.rng.random() < 0.3:  # another one's view the next time
            self.leave_any()
        return answer
