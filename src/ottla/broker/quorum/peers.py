"""The other nodes of a quorum: how one names itself to them, where they listen, and who of them may become a voter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ottla.base import NodeId
from ottla.broker.quorum.membership import Membership, VotingQuorum
from ottla.broker.quorum.rpc import Asked, RpcLimits
from ottla.broker.quorum.transport import QuorumTransport
from ottla.client import Address
from ottla.metadata import Endpoint, Image
from ottla.net import Network
from ottla.raft import Envelope, VoterEndpoint, VoterSet

__all__ = ["QuorumNetwork", "QuorumPeers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumNetwork:
    """How the other replicas are reached: `endpoints` says where this node's controller listeners are."""

    network: Network
    cluster_id: str
    endpoints: Callable[[], tuple[Endpoint, ...]] = tuple
    bootstrap: tuple[Address, ...] = ()
    joins: bool = False
    """True where this controller may make itself a voter (`controller.quorum.auto.join.enable`)."""


class KnownQuorum(VotingQuorum, Protocol):
    """What this node knows of the quorum, by which it finds the others."""

    @property
    def image(self) -> Image:
        """The committed image, in which controllers have registered."""
        ...

    @property
    def voters(self) -> VoterSet:
        """Who votes, by the newest word of the log."""
        ...


class QuorumPeers:
    """The transport to them, and the changes of who votes."""

    def __init__(
        self,
        quorum: KnownQuorum,
        network: QuorumNetwork,
        *,
        receive: Callable[[Envelope], None],
        disconnected: Callable[[NodeId], None],
        limits: RpcLimits,
        request_timeout_ms: int,
        period_ms: int,
    ) -> None:
        self._quorum = quorum
        self._limits = limits
        self.network = network
        self.bootstrap = {NodeId(-2 - at): each for at, each in enumerate(network.bootstrap)}
        """The servers to begin with, under numbers that no node has, as Kafka counts them."""
        self.transport = QuorumTransport(
            network.network,
            asked=self._asked,
            receive=receive,
            disconnected=disconnected,
            bootstrap=self.bootstrap,
            request_timeout_ms=request_timeout_ms,
        )
        self.membership = Membership(
            quorum,
            request=self.transport.request,
            versions_of=self.transport.kraft_versions,
            endpoints=lambda: tuple(VoterEndpoint(each.name, each.host, each.port) for each in network.endpoints()),
            period_ms=period_ms,
            joins=network.joins,
        )

    def _asked(self) -> Asked:
        """Return what requests say of this node."""
        return Asked(
            node_id=self._quorum.key.id,
            cluster_id=self.network.cluster_id,
            endpoints=self.network.endpoints(),
            voters=self._quorum.voters,
            limits=self._limits,
            directory_id=self._quorum.key.directory_id,
        )

    def endpoint_of(self, node_id: NodeId) -> Endpoint | None:
        """Return where a controller listens for other nodes: as a voter, by its registration, or as it was heard."""
        if node_id == self._quorum.key.id:
            return next(iter(self.network.endpoints()), None)
        registered = self._quorum.image.controllers.get(node_id)
        voter = self._quorum.voters.get(node_id)
        if voter is not None and voter.endpoints:
            each = voter.endpoints[0]
            same = [] if registered is None else [known for known in registered.endpoints if known.name == each.name]
            return Endpoint(each.name, each.host, each.port, same[0].security_protocol if same else 0)
        if registered is not None and registered.endpoints:
            return registered.endpoints[0]
        address = self.transport.address_of(node_id)
        return None if address is None else Endpoint("CONTROLLER", address.host, address.port)
