"""The internal topics of an application: which there have to be, each with Kafka's configuration, and how they are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.base import ErrorCode, KafkaError
from ottla.client import BlockingClient, NewTopic, create_topics
from ottla.streams import PartitionPlan, StoreSpec, StreamsSettings, Topology

__all__ = ["InternalTopic", "changelog_topic", "internal_topics", "make_topics", "repartition_topic"]

SEGMENT_BYTES = 50 << 20
"""Kafka Streams' segment size of repartition topics, small so that what was read can be deleted soon."""
VERSIONED_LAG_MS = 24 * 3_600_000
"""What Kafka Streams adds to a versioned store's history before compaction may touch it."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that belongs to an application; `store` is set for a changelog."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    store: str | None = None


def changelog_topic(application_id: str, store: str) -> str:
    """Return the name of a store's changelog."""
    return f"{application_id}-{store}-changelog"


def repartition_topic(application_id: str, topic: str) -> str:
    """Return the full name of a repartition topic that the topology knows without the application's id."""
    return f"{application_id}-{topic}"


def internal_topics(
    topology: Topology, plan: PartitionPlan, settings: StreamsSettings, *, repartition: Iterable[str] | None = None
) -> list[InternalTopic]:
    """Return the internal topics that a topology needs.

    `repartition` names those repartition topics that are real ones; the others are shuffles inside a query. None: all.
    """
    wanted = set(topology.repartition_topics if repartition is None else repartition)
    application = settings.application_id
    found = [
        InternalTopic(
            repartition_topic(application, name),
            plan.topics[name],
            _config({"cleanup.policy": "delete", "segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}, settings),
        )
        for name in topology.repartition_topics
        if name in wanted
    ]
    additional_ms = int(settings["windowstore.changelog.additional.retention.ms"])
    for store in topology.stores.values():
        if store.logged and not store.is_global and store.source_topic is None and store.name in plan.stores:
            config = _config(_changelog_config(store, additional_ms), settings, store.changelog_config)
            name = changelog_topic(application, store.name)
            found.append(InternalTopic(name, plan.stores[store.name], config, store.name))
    return found


def _config(
    own: Mapping[str, str], settings: StreamsSettings, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Lay `topic.…` settings and the store's own configuration over a kind's, as Kafka Streams does."""
    return {**own, "message.timestamp.type": "CreateTime", **settings.topic_config(), **(given or {})}


def _changelog_config(store: StoreSpec, additional_ms: int) -> dict[str, str]:
    if store.kind == "versioned":
        return {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": str(max(0, store.retention_ms) + VERSIONED_LAG_MS),
        }
    if store.retention_ms >= 0:
        return {"cleanup.policy": "compact,delete", "retention.ms": str(store.retention_ms + additional_ms)}
    return {"cleanup.policy": "compact"}


def make_topics(client: BlockingClient, topics: Iterable[InternalTopic], replication_factor: int) -> list[str]:
    """Create those that are not there; returns their names. Raises KafkaError for one of another number of partitions."""
    wanted = {topic.name: topic for topic in topics}
    if not wanted:
        return []
    cluster = client.metadata(wanted)
    missing = []
    for name, topic in wanted.items():
        actual = len(cluster.partitions_of(name))
        if not actual:
            missing.append(topic)
        elif actual != topic.partitions:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"Existing internal topic {name} has invalid partitions: expected: {topic.partitions}; actual: {actual}. "
                "Use 'org.apache.kafka.tools.StreamsResetter' tool (kafka-streams-application-reset) to clean up "
                "invalid topics before processing.",
            )
    if missing:
        _create(client, missing, replication_factor)
    return [topic.name for topic in missing]


def _create(client: BlockingClient, topics: list[InternalTopic], replication_factor: int) -> None:
    wanted = [NewTopic(each.name, each.partitions, replication_factor, each.config) for each in topics]
    for name, error in client.run(create_topics(client.client, wanted)).items():
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(error.code, f"Could not create topic {name}: {error}")
    client.metadata([topic.name for topic in topics])
