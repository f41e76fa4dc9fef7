"""A distributed worker's settings: its group, its three topics, and how workers sign what they ask of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.base import ConfigError
from ottla.connect.assignment import GroupProtocol
from ottla.connect.decisions.signature import ALGORITHMS

__all__ = ["REBALANCE_DELAY_MS", "DistributedSettings", "StorageTopic"]

REBALANCE_DELAY_MS = 3_000
"""How long lost work waits for its worker. Kafka's default is 300,000: a worker that dies leaves its tasks idle so long."""
_KEY_BITS = {"HmacSHA1": 512, "HmacSHA224": 224, "HmacSHA256": 256, "HmacSHA384": 384, "HmacSHA512": 512}
"""The sizes of keys that Java's generators make."""
_OWN = ("topic", "partitions", "replication.factor", "cleanup.policy")
_SUPPORT = ("disabled", "preparing", "enabled")


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """A topic in which workers keep what they share, and how it is made where it does not exist."""

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
    setting: str = ""
    """The setting that names it, for errors."""

    purpose: str = ""


@dataclass(frozen=True, slots=True)
class DistributedSettings:
    """The settings, with Kafka's defaults but for `rebalance_delay_ms`; times are in ms."""

    group_id: str
    config_topic: StorageTopic
    offset_topic: StorageTopic
    status_topic: StorageTopic
    protocols: Sequence[GroupProtocol] = tuple(sorted(GroupProtocol, reverse=True))
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    rebalance_delay_ms: int = REBALANCE_DELAY_MS
    sync_timeout_ms: int = 3_000
    unsync_backoff_ms: int = 300_000
    exactly_once: str = "disabled"
    key_algorithm: str = "HmacSHA256"
    key_bits: int = 256
    key_ttl_ms: int = 3_600_000
    signature_algorithm: str = "HmacSHA256"
    verification_algorithms: tuple[str, ...] = ("HmacSHA256",)
    topic_tracking: bool = True
    offset_flush_timeout_ms: int = 5_000

    @property
    def exactly_once_sources(self) -> bool:
        """Whether source tasks write in transactions."""
        return self.exactly_once == "enabled"

    @property
    def transactional_leader(self) -> bool:
        """Whether the leader writes configurations in transactions, so that one that was leader before cannot."""
        return self.exactly_once != "disabled"

    @property
    def leader_transactional_id(self) -> str:
        """The transactional id of whoever leads."""
        return f"connect-cluster-{self.group_id}"

    def task_transactional_id(self, connector: str, task: int) -> str:
        """Return the transactional id of a source task under exactly once."""
        return f"{self.group_id}-{connector}-{task}"

    @classmethod
    def of(cls, properties: Mapping[str, str], values: Mapping[str, Any]) -> DistributedSettings:
        """Return the settings of a worker's properties; `values` are the same, typed. Raises ConfigError."""
        support = str(values["exactly.once.source.support"]).lower()
        if support not in _SUPPORT:
            raise ConfigError("exactly.once.source.support", support, f"one of {', '.join(_SUPPORT)}")
        key = values["inter.worker.key.generation.algorithm"]
        verified = tuple(each.strip() for each in values["inter.worker.verification.algorithms"])
        signature = values["inter.worker.signature.algorithm"]
        for name, found in (("key.generation.algorithm", key), ("signature.algorithm", signature)):
            if found not in ALGORITHMS:
                raise ConfigError(f"inter.worker.{name}", found, f"one of {', '.join(ALGORITHMS)}")
        if not set(verified) <= set(ALGORITHMS):
            raise ConfigError("inter.worker.verification.algorithms", ",".join(verified), f"some of {list(ALGORITHMS)}")
        if signature not in verified:
            raise ConfigError(
                *("inter.worker.signature.algorithm", signature),
                "Signature algorithm must be present in inter.worker.verification.algorithms list",
            )
        return cls(
            group_id=_named(properties, "group.id"),
            config_topic=_topic(properties, values, "config", "connector configurations"),
            offset_topic=_topic(properties, values, "offset", "source connector offsets"),
            status_topic=_topic(properties, values, "status", "connector and task statuses"),
            protocols=tuple(GroupProtocol.offered(values["connect.protocol"])),
            session_timeout_ms=values["session.timeout.ms"],
            heartbeat_interval_ms=values["heartbeat.interval.ms"],
            rebalance_timeout_ms=values["rebalance.timeout.ms"],
            rebalance_delay_ms=int(properties.get("scheduled.rebalance.max.delay.ms", REBALANCE_DELAY_MS)),
            sync_timeout_ms=values["worker.sync.timeout.ms"],
            unsync_backoff_ms=values["worker.unsync.backoff.ms"],
            exactly_once=support,
            key_algorithm=key,
            key_bits=values["inter.worker.key.size"] or _KEY_BITS[key],
            key_ttl_ms=values["inter.worker.key.ttl.ms"],
            signature_algorithm=signature,
            verification_algorithms=verified,
            topic_tracking=bool(values.get("topic.tracking.enable", True)),
            offset_flush_timeout_ms=values.get("offset.flush.timeout.ms", 5_000),
        )


def _named(properties: Mapping[str, str], key: str) -> str:
    value = properties.get(key, "").strip()
    if not value:
        raise ConfigError(key, None, "", f'Missing required configuration "{key}" which has no default value.')
    return value


def _topic(properties: Mapping[str, str], values: Mapping[str, Any], kind: str, purpose: str) -> StorageTopic:
    prefix = f"{kind}.storage."
    own = {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
    return StorageTopic(
        name=_named(properties, f"{prefix}topic"),
        partitions=1 if kind == "config" else values[f"{prefix}partitions"],
        replication_factor=values[f"{prefix}replication.factor"],
        config={key: value for key, value in own.items() if key not in _OWN},
        setting=f"{prefix}topic",
        purpose=purpose,
    )
