"""What the cluster is: one immutable value, built by folding KRaft's metadata records.

Every field is a persistent map, so that keeping an older image, or going back to it, costs nothing. Iterating such a
map follows hashes, which differ between processes: where order is seen by anyone, sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from immutables import Map

from ottla.base import ZERO_UUID, LeaderEpoch, NodeId, Offset, ProducerId, Uuid
from ottla.metadata.acls import NO_ACLS, Acls
from ottla.security import ScramCredential

__all__ = [
    "DIRECTORY_LOST",
    "DIRECTORY_MIGRATING",
    "DIRECTORY_UNASSIGNED",
    "EMPTY_IMAGE",
    "NO_LEADER",
    "Broker",
    "ConfigResource",
    "Controller",
    "DelegationToken",
    "Endpoint",
    "Image",
    "Partition",
    "QuotaEntity",
    "ResourceType",
    "Topic",
]

NO_LEADER = NodeId(-1)
"""The leader of a partition that has none."""

DIRECTORY_MIGRATING = ZERO_UUID
"""A replica's directory that was never recorded (KIP-858)."""
DIRECTORY_UNASSIGNED = Uuid(bytes(15) + b"\x01")
"""A replica's directory that its broker has yet to choose (KIP-858)."""
DIRECTORY_LOST = Uuid(bytes(15) + b"\x02")
"""A replica's directory that is known to be offline, whichever it was (KIP-858)."""


class ResourceType(IntEnum):
    """Kinds of resource that configuration hangs on, as Kafka's `ConfigResource.Type`."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    """A thing that has configuration; the empty name of a BROKER means every broker's default."""

    type: int
    name: str


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the controller knows it: who holds it, who leads it, and its epochs."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[Uuid, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()

    def directory_of(self, broker_id: int) -> Uuid:
        """Return the log directory of a broker's replica, or UNASSIGNED where none is recorded."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return DIRECTORY_UNASSIGNED


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its name, its id, and its partitions by index."""

    name: str
    id: Uuid
    partitions: Map[int, Partition] = field(default_factory=Map)

    def in_order(self) -> Iterator[tuple[int, Partition]]:
        """Yield (index, partition) by ascending index."""
        for index in sorted(self.partitions):
            yield index, self.partitions[index]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a listener of a broker or controller is reached."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's registration; `epoch` is the offset of the record that registered it."""

    id: NodeId
    epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...] = ()
    features: Map[str, tuple[int, int]] = field(default_factory=Map)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[Uuid, ...] = ()
    cordoned_log_dirs: tuple[Uuid, ...] = ()
    is_migrating_zk_broker: bool = False

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint of a listener, or None where this broker has no such listener."""
        return next((each for each in self.endpoints if each.name == listener), None)

    @property
    def active(self) -> bool:
        """True where the broker serves: neither fenced nor shutting down."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller's registration (KIP-919)."""

    id: NodeId
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...] = ()
    features: Map[str, tuple[int, int]] = field(default_factory=Map)
    zk_migration_ready: bool = False


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Who a quota is for: sorted pairs of entity type and name, None for the type's default."""


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token's metadata (KIP-48)."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


_BEFORE_ALL, _NO_EPOCH, _FIRST_PRODUCER_ID = Offset(-1), LeaderEpoch(0), ProducerId(0)


@dataclass(frozen=True, slots=True)
class Image:
    """The cluster's metadata after the record at `offset`.

    `rollback` is the image before a metadata transaction (KIP-868) that has begun and not ended; while it is set, the
    other fields hold what nobody may see yet.
    """

    offset: Offset = _BEFORE_ALL
    epoch: LeaderEpoch = _NO_EPOCH
    topics: Map[str, Topic] = field(default_factory=Map)
    topic_names: Map[Uuid, str] = field(default_factory=Map)
    brokers: Map[int, Broker] = field(default_factory=Map)
    controllers: Map[int, Controller] = field(default_factory=Map)
    configs: Map[ConfigResource, Map[str, str]] = field(default_factory=Map)
    features: Map[str, int] = field(default_factory=Map)
    next_producer_id: ProducerId = _FIRST_PRODUCER_ID
    client_quotas: Map[QuotaEntity, Map[str, float]] = field(default_factory=Map)
    acls: Acls = NO_ACLS
    scram_credentials: Map[tuple[str, int], ScramCredential] = field(default_factory=Map)
    delegation_tokens: Map[str, DelegationToken] = field(default_factory=Map)
    rollback: Image | None = None

    @property
    def in_transaction(self) -> bool:
        """True between a BeginTransactionRecord and its end or abort."""
        return self.rollback is not None

    def topic(self, name: str) -> Topic | None:
        """Return the topic of this name."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        """Return the topic of this id."""
        name = self.topic_names.get(Uuid(bytes(topic_id)))
        return self.topics[name] if name is not None else None

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return a partition by its topic's name and its index."""
        found = self.topics.get(topic)
        return found.partitions.get(index) if found is not None else None

    def config(self, type: int, name: str) -> Mapping[str, str]:
        """Return the dynamic configuration of a resource: what was set, not what is in effect."""
        return self.configs.get(ConfigResource(type, name)) or _NO_CONFIG

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return what was set on a topic."""
        return self.config(ResourceType.TOPIC, name)

    def broker_config(self, broker_id: int) -> Mapping[str, str]:
        """Return what was set on one broker."""
        return self.config(ResourceType.BROKER, str(broker_id))

    def default_broker_config(self) -> Mapping[str, str]:
        """Return what was set on all brokers."""
        return self.config(ResourceType.BROKER, "")

    @property
    def metadata_version(self) -> int:
        """The finalized level of `metadata.version`, 0 before the first record sets it."""
        return self.features.get("metadata.version", 0)


_NO_CONFIG: Map[str, str] = Map()
EMPTY_IMAGE = Image()
"""The cluster before its first record."""
