"""How topics are named on the cluster that mirrors them, and which are MirrorMaker's own (KIP-382, KIP-690).

A remote topic's name says where it comes from, so that two clusters may mirror each other without a record going round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.base import ConfigError

__all__ = [
    "POLICIES",
    "DefaultReplicationPolicy",
    "IdentityReplicationPolicy",
    "ReplicationPolicy",
    "is_cycle",
    "policy_of",
]

HEARTBEATS = "heartbeats"
CHECKPOINTS, OFFSET_SYNCS = "checkpoints", "mm2-offset-syncs"
PACKAGE = "org.apache.kafka.connect.mirror."


class ReplicationPolicy(Protocol):
    """Which name a topic has elsewhere (`ReplicationPolicy` of Kafka's)."""

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the name of cluster `source`'s topic on the target."""
        ...

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was mirrored from; None for one that was not."""
        ...

    def upstream_topic(self, topic: str) -> str | None:
        """Return a mirrored topic's name on that cluster; None for one that was not."""
        ...

    def original_topic(self, topic: str) -> str:
        """Return the name on the first cluster of all."""
        ...

    def offset_syncs_topic(self, alias: str) -> str:
        """Return where offset syncs are kept for the cluster of an alias."""
        ...

    def checkpoints_topic(self, alias: str) -> str:
        """Return where checkpoints of the cluster of an alias are kept."""
        ...

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether a topic holds checkpoints."""
        ...

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether a topic holds heartbeats, of this cluster or mirrored."""
        ...

    def is_internal_topic(self, topic: str) -> bool:
        """Whether a topic is never mirrored: Kafka's own, and MirrorMaker's."""
        ...


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """`orders` of cluster `east` is `east.orders` elsewhere.

    A topic whose own name has the separator looks as if it came from a cluster of its first part.
    """

    separator: str = "."
    internal_with_separator: bool = True
    """Whether the separator is in the names of internal topics, too; else they have dots."""

    def remote_topic(self, source: str, topic: str) -> str:
        """See `ReplicationPolicy`."""
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        alias, found, rest = topic.partition(self.separator)
        return alias if found and rest.strip(self.separator if len(self.separator) == 1 else "") else None

    def upstream_topic(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """See `ReplicationPolicy`."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    @property
    def _internal(self) -> str:
        return self.separator if self.internal_with_separator else "."

    def offset_syncs_topic(self, alias: str) -> str:
        """See `ReplicationPolicy`."""
        return f"{OFFSET_SYNCS}{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, alias: str) -> str:
        """See `ReplicationPolicy`."""
        return f"{alias}{self._internal}{CHECKPOINTS}{self._internal}internal"

    def is_checkpoints_topic(self, topic: str) -> bool:
        """See `ReplicationPolicy`."""
        own = f"{self._internal}{CHECKPOINTS}{self._internal}internal"
        return topic.endswith((own, ".checkpoints.internal"))

    def is_heartbeats_topic(self, topic: str) -> bool:
        """See `ReplicationPolicy`."""
        return self.original_topic(topic) == HEARTBEATS

    def is_internal_topic(self, topic: str) -> bool:
        """See `ReplicationPolicy`."""
        if topic.startswith(("__", ".")) or self.is_checkpoints_topic(topic):
            return True
        return topic.startswith("mm2") and topic.endswith((f"{self._internal}internal", ".internal"))


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """A topic keeps its name everywhere, but for heartbeats; clusters that mirror each other so go round for ever."""

    source_alias: str = ""

    def remote_topic(self, source: str, topic: str) -> str:
        """See `ReplicationPolicy`."""
        return DefaultReplicationPolicy.remote_topic(self, source, topic) if topic.endswith(HEARTBEATS) else topic

    def topic_source(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        return DefaultReplicationPolicy.topic_source(self, topic) if topic.endswith(HEARTBEATS) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        if not topic.endswith(HEARTBEATS):
            return topic
        source = DefaultReplicationPolicy.topic_source(self, topic)
        return None if source is None else topic[len(source) + len(self.separator) :]


POLICIES = (f"{PACKAGE}DefaultReplicationPolicy", f"{PACKAGE}IdentityReplicationPolicy")


def policy_of(settings: Mapping[str, Any]) -> ReplicationPolicy:
    """Return the policy that `replication.policy.…` say; raises ConfigError for a class that is not here."""
    name = str(settings["replication.policy.class"])
    separator = str(settings["replication.policy.separator"])
    with_separator = bool(settings["replication.policy.internal.topic.separator.enabled"])
    if name in (POLICIES[0], "DefaultReplicationPolicy"):
        return DefaultReplicationPolicy(separator, with_separator)
    if name in (POLICIES[1], "IdentityReplicationPolicy"):
        return IdentityReplicationPolicy(separator, with_separator, str(settings.get("source.cluster.alias") or ""))
    raise ConfigError("replication.policy.class", name, f"one of {', '.join(POLICIES)}")


def is_cycle(policy: ReplicationPolicy, topic: str, target: str) -> bool:
    """Whether a topic, or one that it was mirrored from, comes from cluster `target`."""
    while (source := policy.topic_source(topic)) is not None:
        if source == target:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream
    return False
