"""The parts of a broker that handlers and monitoring use, by family: a signature says which of them it sees.

`RequestContext[GroupParts]` is the context of a handler that may touch the group coordinator, the image and a few things
besides, and nothing else: the type checker holds it to that. `Services` has all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.requests.handler import AccessParts

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from ottla.base import NodeId, Offload, Rng
    from ottla.broker.auto_creation import AutoCreation
    from ottla.broker.configuration import Configuration
    from ottla.broker.controller.channel import ControllerChannel
    from ottla.broker.controller.duties import ControllerDuties
    from ottla.broker.coordinators.group_coordinator import GroupCoordinator
    from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from ottla.broker.metadata_answers import MetadataAnswers
    from ottla.broker.meters import Traffic
    from ottla.broker.metrics import Metrics
    from ottla.broker.policies import Policies
    from ottla.broker.quorum.driver import Quorum
    from ottla.broker.quotas import Quotas
    from ottla.broker.replicas.batch_work import BatchWork
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
    from ottla.broker.services import Services
    from ottla.metadata import Image
    from ottla.replica import FetchSessionCache

__all__ = [
    "AnswerParts",
    "ControllerParts",
    "FetchParts",
    "GroupParts",
    "HealthParts",
    "ImageParts",
    "LogParts",
    "MetadataParts",
    "ProduceParts",
    "QuorumParts",
    "ReportParts",
    "ServedParts",
    "TokenParts",
    "TrafficParts",
    "TransactionParts",
]


class ImageParts(AccessParts, Protocol):
    """For what reads the cluster's metadata, and nothing else."""

    @property
    def image(self) -> Image:
        """The committed image."""
        ...


class AnswerParts(AccessParts, Protocol):
    """For answers that may be large."""

    answer_memory: AnswerMemory


class MetadataParts(ImageParts, AnswerParts, Protocol):
    """For what tells clients of brokers, topics and configurations."""

    node_id: NodeId
    cluster_id: str
    configuration: Configuration
    rng: Rng
    auto_creation: AutoCreation
    metadata_answers: MetadataAnswers


class GroupParts(ImageParts, AnswerParts, Protocol):
    """For groups and their offsets."""

    groups: GroupCoordinator
    configuration: Configuration


class TransactionParts(ImageParts, Protocol):
    """For transactions, and the partitions and groups that they write to."""

    node_id: NodeId
    transactions: TransactionCoordinator
    groups: GroupCoordinator
    partitions: Partitions
    configuration: Configuration
    loop: AbstractEventLoop


class QuorumParts(AccessParts, Protocol):
    """For what the nodes of the metadata quorum say to each other."""

    cluster_id: str
    configuration: Configuration
    quorum: Quorum
    duties: ControllerDuties | None


class ProduceParts(TransactionParts, Protocol):
    """For appending what clients send."""

    quorum: Quorum
    purgatory: Purgatory
    offload: Offload
    batch_work: BatchWork
    quotas: Quotas | None
    metrics: Metrics
    traffic: Traffic


class TrafficParts(AccessParts, Protocol):
    """For what tells who writes and reads."""

    traffic: Traffic


class FetchParts(ImageParts, AnswerParts, QuorumParts, Protocol):
    """For reading logs, the metadata's among them, and following what followers say of theirs."""

    node_id: NodeId
    partitions: Partitions
    isr: IsrKeeper
    lease: LeaderLease
    confirmation: Confirmation
    sessions: FetchSessionCache
    throttles: ReplicationThrottles
    purgatory: Purgatory
    quotas: Quotas | None
    metrics: Metrics
    traffic: Traffic
    loop: AbstractEventLoop


class LogParts(ImageParts, Protocol):
    """For the logs of this broker: where they begin and end, and which directory holds them."""

    node_id: NodeId
    partitions: Partitions
    storage: Storage
    moves: LogDirMoves
    purgatory: Purgatory
    offload: Offload
    loop: AbstractEventLoop


class ControllerParts(ImageParts, QuorumParts, Protocol):
    """For what the active controller decides, here or where it is asked."""

    node_id: NodeId
    controller: ControllerChannel
    encryption: Encryption
    logins: Logins
    policies: Policies
    quotas: Quotas | None
    rng: Rng


class TokenParts(ControllerParts, Protocol):
    """For delegation tokens."""

    tokens: Tokens


class ServedParts(ImageParts, Protocol):
    """For saying what this node serves."""

    quorum: Quorum
    handlers: tuple[Handler[Any], ...]


if TYPE_CHECKING:

    def has_each(
        services: Services,
    ) -> tuple[MetadataParts, GroupParts, ProduceParts, FetchParts, LogParts, ControllerParts, ServedParts, TokenParts]:
        """Let the type checker see that a broker has the parts of every family."""
        return (services,) * 8


class HealthParts(Protocol):
    """For judging whether the node is ready, and well."""

    configuration: Configuration
    quorum: Quorum
    partitions: Partitions
    storage: Storage
    groups: GroupCoordinator
    transactions: TransactionCoordinator


class ReportParts(Protocol):
    """For the page of metrics."""

    node_id: NodeId
    quorum: Quorum
    partitions: Partitions
    storage: Storage
    groups: GroupCoordinator
    answer_memory: AnswerMemory
    authorizer: Authorizer
    encryption: Encryption
    metrics: Metrics
    traffic: Traffic
    replication: Replication | None
    duties: ControllerDuties | None
