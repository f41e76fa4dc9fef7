"""What handlers may use of the broker: the parts that `node.py` has joined."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base import Clock, NodeId, Offload, Rng
from ottla.broker.metadata_answers import MetadataAnswers
from ottla.broker.policies import Policies
from ottla.broker.replicas.batch_work import BatchWork

if TYPE_CHECKING:
    from ottla.broker.auto_creation import AutoCreation
    from ottla.broker.configuration import Configuration
    from ottla.broker.controller.channel import ControllerChannel
    from ottla.broker.controller.duties import ControllerDuties
    from ottla.broker.coordinators.group_coordinator import GroupCoordinator
    from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from ottla.broker.meters import Traffic
    from ottla.broker.metrics import Metrics
    from ottla.broker.quorum.driver import Quorum
    from ottla.broker.quotas import Quotas
    from ottla.broker.replicas.confirmation import Confirmation
    from ottla.broker.replicas.isr import IsrKeeper
    from ottla.broker.replicas.leader_lease import LeaderLease
    from ottla.broker.replicas.log_dir_moves import LogDirMoves
    from ottla.broker.replicas.partitions import Partitions
    from ottla.broker.replicas.purgatory import Purgatory
    from ottla.broker.replicas.replication import Replication
    from ottla.broker.replicas.storage import Storage
    from ottla.broker.replicas.throttles import ReplicationThrottles
    from ottla.broker.requests.answer_memory import AnswerMemory
    from ottla.broker.requests.authorizer import Authorizer
    from ottla.broker.requests.encryption import Encryption
    from ottla.broker.requests.handler import Handler
    from ottla.broker.sasl.logins import Logins
    from ottla.broker.sasl.tokens import Tokens
    from ottla.metadata import Image
    from ottla.replica import FetchSessionCache

__all__ = ["Services"]


@dataclass(slots=True, kw_only=True)
class Services:
    """The parts of one running broker, for its handlers; `handlers` is what is served, by API key."""

    node_id: NodeId
    cluster_id: str
    configuration: Configuration
    quorum: Quorum
    controller: ControllerChannel
    partitions: Partitions
    isr: IsrKeeper
    storage: Storage
    purgatory: Purgatory
    throttles: ReplicationThrottles
    moves: LogDirMoves
    sessions: FetchSessionCache
    lease: LeaderLease
    confirmation: Confirmation
    answer_memory: AnswerMemory
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    encryption: Encryption
    logins: Logins
    authorizer: Authorizer
    tokens: Tokens
    auto_creation: AutoCreation
    metrics: Metrics
    traffic: Traffic
    loop: AbstractEventLoop
    clock: Clock
    rng: Rng
    offload: Offload
    handlers: tuple[Handler[Any], ...] = ()
    replication: Replication | None = None
    """Where this node is a broker."""
    duties: ControllerDuties | None = None
    """Where this node may lead the quorum."""
    policies: Policies = field(default_factory=Policies)
    quotas: Quotas | None = None
    """Where some user or client id has a quota."""
    metadata_answers: MetadataAnswers = field(default_factory=MetadataAnswers)
    batch_work: BatchWork = field(default_factory=BatchWork)

    @property
    def image(self) -> Image:
        """The committed image of the cluster's metadata."""
        return self.quorum.image
