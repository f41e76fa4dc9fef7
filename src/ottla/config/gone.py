"""Settings of brokers that Kafka had before 4.0 and has no more, and what does their work now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["gone", "gone_lines"]

_METADATA = "the cluster's metadata.version takes its place (`ottla features`)"
_LISTENERS = "listeners says where the broker listens, and advertised.listeners where clients find it"
_QUOTAS = "default quotas are set with `ottla configs --entity-type clients --entity-default`"
_NODE_ID = "node.id names the node"
_FORMAT = "records are kept in one format, that of Kafka since 0.11"

GONE: Mapping[str, str] = {
    "zookeeper.": (
        "there is no ZooKeeper; brokers keep the cluster's metadata themselves (KRaft), those that controller.quorum.voters "
        "names; without it this broker is a cluster of its own"
    ),
    "inter.broker.protocol.version": _METADATA,
    "log.message.format.version": _FORMAT,
    "message.format.version": _FORMAT,
    "log.message.downconversion.enable": _FORMAT,
    "log.message.timestamp.difference.max.ms": (
        "log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms take its place"
    ),
    "advertised.host.name": _LISTENERS,
    "advertised.port": _LISTENERS,
    "host.name": _LISTENERS,
    "port": _LISTENERS,
    "control.plane.listener.name": "controllers listen where controller.listener.names says",
    "broker.id.generation.enable": _NODE_ID,
    "reserved.broker.max.id": _NODE_ID,
    "password.encoder.": "passwords are kept in the metadata log as they are, and not encrypted",
    "delegation.token.master.key": "delegation.token.secret.key is its name now",
    "offsets.commit.required.acks": "commits of offsets wait for every copy in sync",
    "leader.imbalance.per.broker.percentage": "auto.leader.rebalance.enable moves leaders back whenever any is elsewhere",
    "quota.producer.default": _QUOTAS,
    "quota.consumer.default": _QUOTAS,
    "replica.lag.max.messages": "replica.lag.time.max.ms alone says which copies are in sync",
    "group.coordinator.new.enable": "group.coordinator.rebalance.protocols names the protocols of groups",
    "auto.include.jmx.reporter": "metrics are served over HTTP (http.listeners)",
}
"""A key, or how keys begin where it ends with a dot, and the sentence that helps."""

IN_CONTAINERS = frozenset({"port", "host.name"})
"""Names that an orchestrator sets by itself as `KAFKA_…`, for a service that is called kafka."""


def gone(name: str, *, in_environment: bool = False) -> str | None:
    """Return what to say of a key that Kafka has no more, or None."""
    if in_environment and name in IN_CONTAINERS:
        return None
    return next(
        (words for key, words in GONE.items() if name == key or (key[-1] == "." and name.startswith(key))), None
    )


def gone_lines(names: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each reason, from keys as they are and as they were written."""
    found: dict[str, list[str]] = {}
    for name, shown in names:
        words = gone(name, in_environment=name != shown)
        if words is not None:
            found.setdefault(words, []).append(shown)
    return [f"gone from Kafka and ignored: {', '.join(shown)} ({words})" for words, shown in found.items()]
