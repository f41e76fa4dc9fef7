"""How topics are named on the cluster that mirrors them, and which are MirrorMaker's own (KIP-382, KIP-690).

A remote topic's name says where it comes from, so that two clusters may mirror each other without a record going round.
`ReplicationPolicy` is what a policy of one's own inherits from; `own_classes` finds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

__all__ = [
    "POLICIES",
    "DefaultReplicationPolicy",
    "IdentityReplicationPolicy",
    "ReplicationPolicy",
    "is_cycle",
]

HEARTBEATS = "heartbeats"
CHECKPOINTS, OFFSET_SYNCS = "checkpoints", "mm2-offset-syncs"
PACKAGE = "org.apache.kafka.connect.mirror."
HOPS_MAX = 256
"""So many clusters a topic has come through at most; a topic's name has no room for more."""


class ReplicationPolicy(ABC):
    """Which name a topic has elsewhere: Kafka's interface of this name, with its methods in Python's spelling.

    A policy of one's own says the three abstract ones, and gives the same answers wherever it is asked: connectors, their
    tasks and other nodes have one each. It needs a constructor without arguments.
    """

    def configure(self, props: Mapping[str, str]) -> None:  # noqa: B027 - a policy may have no settings
        """Take the connector's properties, before anything is asked; a ConfigError is told to who configures it."""

    @abstractmethod
    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        """Return the name of a cluster's topic on the target."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was mirrored from; None for one that was not."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return a mirrored topic's name on that cluster; None for one that was not."""

    def original_topic(self, topic: str) -> str:
        """Return the name on the first cluster of all; raises ValueError where there is always one before."""
        at = topic
        for _ in range(HOPS_MAX):
            upstream = self.upstream_topic(at)
            if upstream is None or upstream == at:
                return at
            at = upstream
        raise endless(self, topic)

    def heartbeats_topic(self) -> str:
        """Return where heartbeats are kept."""
        return HEARTBEATS

    def offset_syncs_topic(self, cluster_alias: str) -> str:
        """Return where offset syncs are kept for the cluster of an alias."""
        return f"{OFFSET_SYNCS}.{cluster_alias}.internal"

    def checkpoints_topic(self, cluster_alias: str) -> str:
        """Return where checkpoints of the cluster of an alias are kept."""
        return f"{cluster_alias}.{CHECKPOINTS}.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether a topic holds heartbeats, of this cluster or mirrored."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether a topic holds checkpoints."""
        return topic.endswith(f".{CHECKPOINTS}.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Whether a topic is one of MirrorMaker's own."""
        return (topic.startswith("mm2") and topic.endswith(".internal")) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Whether a topic is never mirrored: Kafka's own, and MirrorMaker's."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)


class DefaultReplicationPolicy(ReplicationPolicy):
    """`orders` of cluster `east` is `east.orders` elsewhere.

    A topic whose own name has the separator looks as if it came from a cluster of its first part.
    """

    def __init__(self, separator: str = ".", internal_with_separator: bool = True) -> None:
        """`internal_with_separator`: whether it is in the names of internal topics, too; else they have dots."""
        self.separator, self.internal_with_separator = separator, internal_with_separator

    def configure(self, props: Mapping[str, str]) -> None:
        """Take `replication.policy.separator` and `replication.policy.internal.topic.separator.enabled`."""
        self.separator = props.get("replication.policy.separator", self.separator)
        enabled = props.get("replication.policy.internal.topic.separator.enabled", "true")
        self.internal_with_separator = enabled.strip().lower() == "true"

    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        """See `ReplicationPolicy`."""
        return f"{source_cluster_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        alias, found, rest = topic.partition(self.separator)
        return alias if found and rest.strip(self.separator if len(self.separator) == 1 else "") else None

    def upstream_topic(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    @property
    def _internal(self) -> str:
        return self.separator if self.internal_with_separator else "."

    def offset_syncs_topic(self, cluster_alias: str) -> str:
        """See `ReplicationPolicy`."""
        return f"{OFFSET_SYNCS}{self._internal}{cluster_alias}{self._internal}internal"

    def checkpoints_topic(self, cluster_alias: str) -> str:
        """See `ReplicationPolicy`."""
        return f"{cluster_alias}{self._internal}{CHECKPOINTS}{self._internal}internal"

    def is_checkpoints_topic(self, topic: str) -> bool:
        """See `ReplicationPolicy`."""
        own = f"{self._internal}{CHECKPOINTS}{self._internal}internal"
        return topic.endswith((own, f".{CHECKPOINTS}.internal"))

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """See `ReplicationPolicy`."""
        own = topic.startswith("mm2") and topic.endswith((f"{self._internal}internal", ".internal"))
        return own or self.is_checkpoints_topic(topic)


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """A topic keeps its name everywhere, but for heartbeats; clusters that mirror each other so go round for ever."""

    def __init__(self, separator: str = ".", internal_with_separator: bool = True, source_alias: str = "") -> None:
        """`source_alias`: the cluster that every topic is taken to come from."""
        super().__init__(separator, internal_with_separator)
        self.source_alias = source_alias

    def configure(self, props: Mapping[str, str]) -> None:
        """Take `source.cluster.alias`, too."""
        super().configure(props)
        self.source_alias = props.get("source.cluster.alias", self.source_alias)

    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        """See `ReplicationPolicy`."""
        return super().format_remote_topic(source_cluster_alias, topic) if topic.endswith(HEARTBEATS) else topic

    def topic_source(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        return super().topic_source(topic) if topic.endswith(HEARTBEATS) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        if not topic.endswith(HEARTBEATS):
            return topic
        source = super().topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]


POLICIES = {
    f"{PACKAGE}DefaultReplicationPolicy": DefaultReplicationPolicy,
    f"{PACKAGE}IdentityReplicationPolicy": IdentityReplicationPolicy,
}
"""Kafka's own, by their class names."""


def is_cycle(policy: ReplicationPolicy, topic: str, target: str) -> bool:
    """Whether a topic, or one that it was mirrored from, comes from cluster `target`."""
    at = topic
    for _ in range(HOPS_MAX):
        source = policy.topic_source(at)
        if source is None or source == target:
            return source is not None
        upstream = policy.upstream_topic(at)
        if upstream is None or upstream == at:
            return False
        at = upstream
    raise endless(policy, topic)


def endless(policy: ReplicationPolicy, topic: str) -> ValueError:
    """Return what is wrong with a policy that names a topic before each one."""
    return ValueError(f"{type(policy).__name__}.upstream_topic leads from {topic} on and on")
