"""The quorum's messages on the network: one connection for each peer, and the requests of others until they are answered.

What the core sends leaves as a request of Kafka's and comes back as a message; what it answers goes to the handler that
waits for it. A connection that closes, or cannot be opened, is told to the core at once: with that a dead leader is
noticed within milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla import __version__
from ottla.background import awaited, supervise
from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.broker.quorum.rpc import Asked, Refused, api_of, lowest_version, reply_of, request_of
from ottla.broker.requests.answers import Deferred
from ottla.client import Address, Connection
from ottla.net import Network
from ottla.raft import (
    Envelope,
    EpochRefused,
    Fetch,
    FetchReply,
    Message,
    SnapshotChunk,
    Vote,
    VoteReply,
)
from ottla.wire import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest

__all__ = ["QuorumTransport"]

log = logging.getLogger(__name__)

IN_FLIGHT_MAX = 16
"""Requests of ours that one peer may still have to answer; the core asks again for what is dropped beyond that."""
OPEN_REQUESTS_MAX = 10_000
"""Requests of others that wait for the core's answer: more than a cluster has nodes."""
ADDRESSES_MAX = 1000
"""Addresses that answers may teach this node."""


@dataclass
class _Peer:
    """Another node of the quorum: its connection, while there is one, and how many requests wait for answers."""

    connection: Connection | None = None
    opening: asyncio.Task[Connection] | None = None
    address: Address | None = None
    in_flight: int = 0
    unreachable: bool = False
    refusal: int = 0
    """The error that it last refused a request with, 0 where it did not."""
    told: tuple[Address | None, str] = (None, "")
    """Which address the log names, and what that stood for."""


@dataclass
class QuorumTransport:
    """Sends the core's messages and brings back the answers, by `receive` and `disconnected`.

    `asked` says what every request tells of this node, `voter_address` where a voter listens.
    """

    network: Network
    asked: Callable[[], Asked]
    receive: Callable[[Envelope], None]
    disconnected: Callable[[NodeId], None]
    bootstrap: Mapping[NodeId, Address] = field(default_factory=dict)
    request_timeout_ms: int = 2000
    _peers: dict[NodeId, _Peer] = field(default_factory=dict)
    _learned: dict[NodeId, Address] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _open: dict[int, tuple[NodeId, bool, Deferred[Message]]] = field(default_factory=dict)
    _count: int = 0
    _closed: bool = False

    # What others ask

    def ask_core(self, source: NodeId, message: Message) -> Deferred[Message]:
        """Take in another node's request; the answer is the core's message, EpochRefused where it has none to give."""
        own = self.asked().node_id
        deferred: Deferred[Message] = Deferred()
        if len(self._open) >= OPEN_REQUESTS_MAX:
            deferred.fail(KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many requests of the quorum wait"))
            return deferred
        self._count += 1
        if isinstance(message, Fetch):
            self._supersede(source)
        self._open[self._count] = (source, isinstance(message, Fetch), deferred)
        self.receive(Envelope(source, own, message, self._count))
        return deferred

    def _supersede(self, source: NodeId) -> None:
        """Give up a replica's earlier fetch: it asks anew, so it does not wait for that any more."""
        for number in [each for each, (node, is_fetch, _) in self._open.items() if node == source and is_fetch]:
            self._open.pop(number)[-1].fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the replica has asked again"))

    def give_up(self, refusal: EpochRefused) -> None:
        """Answer everything that waits: this node does not lead any more, or stops."""
        waiting, self._open = self._open, {}
        for *_, deferred in waiting.values():
            deferred.resolve(refusal)

    # What the core sends

    def send(self, envelope: Envelope) -> None:
        """Send a request to its peer, or hand an answer to who waits for it."""
        if isinstance(envelope.message, VoteReply | EpochRefused | FetchReply | SnapshotChunk):
            waiting = self._open.pop(envelope.request, None)
            if waiting is not None:
                waiting[-1].resolve(envelope.message)
            return
        peer = self._peers.setdefault(envelope.to, _Peer())
        if self._closed or peer.in_flight >= IN_FLIGHT_MAX:
            return
        peer.in_flight += 1
        # where one fails by a mistake of ours its peer's is lost, too, and is sent again as any that is lost
        name = f"send {type(envelope.message).__name__}"
        task = supervise(self._exchange(peer, envelope), name=name, serves="the metadata quorum")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, peer: _Peer, envelope: Envelope) -> None:
        to, message = envelope.to, envelope.message
        try:
            reply, source = await self._ask(peer, to, message)
        except KafkaError as error:
            self._failed(peer, to, message, error)
            return
        except Refused as refused:
            if peer.refusal != refused.code:  # once, and not at every try
                log.warning(
                    "Node %s at %s refused %s: %s", to, peer.address, type(message).__name__, self._why(refused)
                )
            peer.refusal = refused.code
            return
        finally:
            peer.in_flight -= 1
        peer.refusal = 0
        if reply is not None and not self._closed:
            self.receive(Envelope(to if source is None else source, envelope.source, reply))

    def _why(self, refused: Refused) -> str:
        """Return what a refusal means for whoever operates this node."""
        if refused.code != ErrorCode.INCONSISTENT_CLUSTER_ID:
            return str(refused)
        own = self.asked().cluster_id
        return f"{refused}: this node's folders are formatted with cluster.id {own} (meta.properties), and its are not"

    def obstacles(self) -> list[str]:
        """Return for each other node that refuses this one, or cannot be reached, where it is asked and what it says."""
        return [
            f"node {to} at {peer.address} refuses it: {self._why(Refused(peer.refusal))}"
            if peer.refusal
            else f"node {to} at {peer.address} cannot be reached"
            for to, peer in self._peers.items()
            if peer.refusal or peer.unreachable
        ]

    async def _ask(self, peer: _Peer, to: NodeId, message: Message) -> tuple[Message | None, NodeId | None]:
        """Return the answer of a peer as a message, and who really gave it where the peer was only an address."""
        connection = await self._connected(peer, to)
        asked = self.asked()
        timeout_s = self.request_timeout_ms / 1000
        version = connection.version_for(api_of(message), lowest=lowest_version(message))
        response = await connection.request(request_of(message, version, to, asked), version, timeout_s=timeout_s)
        self._learn(getattr(response, "node_endpoints", ()))
        reply = reply_of(message, response)
        leader = reply_source(response) if isinstance(reply, FetchReply) else None
        return reply, leader

    def _failed(self, peer: _Peer, to: NodeId, message: Message, error: KafkaError) -> None:
        """Tell the core that a peer cannot be reached; a peer without pre-votes is taken to grant one."""
        if self._closed:
            return
        if error.code is ErrorCode.UNSUPPORTED_VERSION and isinstance(message, Vote):
            self.receive(Envelope(to, self.asked().node_id, VoteReply(message.epoch, None, True, True)))
            return
        if not peer.unreachable:
            log.info("Lost node %s of the metadata quorum: %s", to, error.message)
            peer.unreachable = True
        self.disconnected(to)

    async def request(self, to: NodeId, message: Any) -> Any:
        """Ask a peer anything, and return its answer; raises KafkaError."""
        connection = await self._connected(self._peers.setdefault(to, _Peer()), to)
        version = connection.version_for(message.API_KEY)
        return await connection.request(message, version, timeout_s=self.request_timeout_ms / 1000)

    async def kraft_versions(self, address: Address) -> tuple[int, int]:
        """Return the `kraft.version` levels that the controller at an address understands; raises KafkaError."""
        connection = await self._open_connection(address)
        try:
            request = ApiVersionsRequest(client_software_name="ottla", client_software_version="ottla")
            version = connection.version_for(ApiKey.API_VERSIONS)
            answer = await connection.request(request, version, timeout_s=self.request_timeout_ms / 1000)
        finally:
            connection.close()
        found = [each for each in answer.supported_features if each.name == "kraft.version"]
        return (found[0].min_version, found[0].max_version) if found else (0, 0)

    # Connections

    async def _connected(self, peer: _Peer, to: NodeId) -> Connection:
        """Return the open connection to a peer; raises KafkaError (NETWORK_EXCEPTION)."""
        address = self.address_of(to)
        if address is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"where node {to} listens is not known")
        if peer.connection is not None and (peer.connection.closed or peer.address != address):
            peer.connection.close()
            peer.connection = None
        if peer.connection is not None:
            return peer.connection
        if peer.opening is None:
            peer.address = address
            peer.opening = awaited(self._dial(peer, address))
        return await asyncio.shield(peer.opening)

    async def _dial(self, peer: _Peer, address: Address) -> Connection:
        try:
            connection = await self._open_connection(address)
        finally:
            peer.opening = None
        if (address, connection.reached) != peer.told:
            peer.told = address, connection.reached
            log.info("The metadata quorum is asked at %s%s", address, _resolved(address, connection.reached))
        peer.connection = connection
        peer.unreachable = False
        if self._closed:
            connection.close()
        return connection

    async def _open_connection(self, address: Address) -> Connection:
        return await Connection.open(
            self.network,
            address,
            client_id=f"raft-client-{self.asked().node_id}",
            software_version=__version__,
            timeout_s=self.request_timeout_ms / 1000,
        )

    def address_of(self, node_id: NodeId) -> Address | None:
        """Return where a node's controller listener is reached: as the voters say, as answers said, or as configured."""
        found = self.bootstrap.get(node_id)
        if found is not None:
            return found
        voter = self.asked().voters.get(node_id)
        if voter is not None and voter.endpoints:
            return Address(voter.endpoints[0].host, voter.endpoints[0].port)
        return self._learned.get(node_id)

    def learn(self, node_id: NodeId, host: str, port: int) -> None:
        """Remember where a node listens that has said so."""
        if node_id in self._learned or len(self._learned) < ADDRESSES_MAX:
            self._learned[node_id] = Address(host, port)

    def _learn(self, endpoints: object) -> None:
        for each in endpoints:  # type: ignore[attr-defined]
            self.learn(NodeId(each.node_id), each.host, each.port)

    async def close(self, *, linger_s: float = 0.0) -> None:
        """Let what is on its way arrive for so long, then hang up on everyone."""
        if linger_s and self._tasks:
            await asyncio.wait(self._tasks, timeout=linger_s)
        self.abandon()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def abandon(self) -> None:
        """Hang up on everyone at once."""
        self._closed = True
        for peer in self._peers.values():
            if peer.opening is not None:
                peer.opening.cancel()
            if peer.connection is not None:
                peer.connection.close()
        for task in list(self._tasks):
            task.cancel()


def _resolved(address: Address, reached: str) -> str:
    """Return which of the addresses of a name was taken, nothing where it is one itself."""
    return f", which is {reached} now" if reached and reached != address.host else ""


def reply_source(response: object) -> NodeId | None:
    """Return the leader that answers a fetch by its own word."""
    leader_id = response.responses[0].partitions[0].current_leader.leader_id  # type: ignore[attr-defined]
    return NodeId(leader_id) if leader_id >= 0 else None
