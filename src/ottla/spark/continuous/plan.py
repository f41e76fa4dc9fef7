"""An application as its hosts get it: a value that is pickled and travels over the control channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ottla.base import TopicPartition
from ottla.spark.source.options import write_options
from ottla.spark.streams.internal_topics import changelog_topic, repartition_topic
from ottla.spark.streams.lowering.record_times import extractor_of
from ottla.streams import (
    AGE_MS_MAX,
    COLUMN_ROWS_MIN,
    EngineSettings,
    ExceptionPolicy,
    FailOnInvalidTimestamp,
    PartitionPlan,
    SourceNode,
    StreamsSettings,
    StreamsWork,
    TaskGroup,
    Topology,
    WorkIdentity,
    evaluated,
    state_shape,
    task_groups,
    tasks_of,
)
from ottla.wire import Codec

__all__ = ["ApplicationPlan", "CheckpointPlan", "GroupPlan", "application_plan", "replicas_of", "works_of"]

TRANSACTION_TIMEOUT_MS_DEFAULT = 10_000
"""Kafka Streams' own default of `transaction.timeout.ms`: how long readers wait for a host that is gone for good."""
FETCH_BYTES_DEFAULT = 1 << 20
NO_IDLING = -1
"""`max.task.idle.ms` that waits for no partition."""
_FAIL = ExceptionPolicy("fail")


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """Where and how often hosts save state; `folder` None: they do not."""

    folder: str | None = None
    interval_ms: int = 0
    age_ms_max: int = AGE_MS_MAX
    """Older ones are not used."""
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What each task of a sub-topology does."""

    group: TaskGroup
    tasks: int
    topics: Mapping[str, str]
    """By full name of a topic that is read by partition, the source that it belongs to."""
    global_topics: Mapping[str, str]
    """The same of topics that every task reads whole."""
    changelogs: Mapping[str, str]
    """By store, the topic that its changes are written to."""
    restored: Mapping[str, str]
    """By store, the topic that it is restored from: its changelog, or the source topic that serves as one."""

    def partitions(self, task: int, counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
        """Return the partitions that a task reads and commits, in order."""
        return tuple(TopicPartition(topic, task) for topic in sorted(self.topics) if task < counts[topic])

    def global_partitions(self, counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
        """Return the partitions that every task reads."""
        return tuple(TopicPartition(each, part) for each in sorted(self.global_topics) for part in range(counts[each]))


@dataclass(frozen=True, slots=True)
class ApplicationPlan:
    """Everything that a host has to know of an application."""

    application_id: str
    bootstrap: str
    security: tuple[tuple[str, str], ...]
    """Kafka's `security.protocol`, `ssl.…` and `sasl.…`: each application has its own principal."""
    client_id: str
    topology: Topology
    groups: tuple[GroupPlan, ...]
    counts: Mapping[str, int]
    """Partitions of the topics that are read or written, by full name."""
    engine: EngineSettings
    exactly_once: bool
    commit_interval_ms: int
    transaction_timeout_ms: int
    idle_ms: int
    """`max.task.idle.ms`: whether a partition that has more is waited for; -1 never."""
    acks: int
    codec: Codec
    fetch_bytes: int
    production: ExceptionPolicy = _FAIL
    """What is done about records that no broker takes."""
    checkpoints: CheckpointPlan = CheckpointPlan()
    standby_replicas: int = 0
    """How many hosts beside a work's own keep a copy of its state."""
    recovery_lag_max: int = 0
    """`acceptable.recovery.lag`: records that a copy may lack where a work is to move to it."""

    @property
    def repartition_topics(self) -> frozenset[str]:
        """The topics, by full name, that its sub-topologies write for one another."""
        return frozenset(repartition_topic(self.application_id, each) for each in self.topology.repartition_topics)

    def of_group(self, number: int) -> GroupPlan:
        """Return a sub-topology; raises KeyError."""
        for each in self.groups:
            if each.group.number == number:
                return each
        raise KeyError(number)

    def identity(self, name: StreamsWork) -> WorkIdentity:
        """Return whose state a checkpoint of a work is."""
        group = self.of_group(name.sub_topology).group
        stores = [self.topology.stores[each] for each in group.stores]
        return WorkIdentity(self.checkpoints.cluster_id, name, state_shape(group.nodes, stores))

    @property
    def lane(self) -> tuple[Any, ...]:
        """What works must have in common to share clients, transactions and commits."""
        sending = (self.acks, self.codec, self.fetch_bytes, self.transaction_timeout_ms)
        return (self.bootstrap, self.security, self.exactly_once, self.commit_interval_ms, *sending)


def application_plan(
    topology: Topology,
    settings: StreamsSettings,
    partitions: PartitionPlan,
    counts: Mapping[str, int],
    checkpoints: CheckpointPlan | None = None,
) -> ApplicationPlan:
    """Return what hosts do of a topology; `counts` are all topics' partitions.

    Raises Refused for a column expression that cannot be evaluated without Spark (`why_not_continuous` says so before).
    """
    consumer = {**settings.clients.get("", {}), **settings.clients.get("consumer", {})}
    consumer |= settings.clients.get("main.consumer", {})
    producer = {**settings.clients.get("", {}), **settings.clients.get("producer", {})}
    names = ("acks", "compression.type")
    given = {f"kafka.{name}": producer[name] for name in names if name in producer}
    writing = write_options({"kafka.bootstrap.servers": settings.bootstrap_servers, **given})
    timed = _timed(evaluated(topology), settings)
    groups = tuple(_groups(timed, settings.application_id, partitions, counts))
    return ApplicationPlan(
        application_id=settings.application_id,
        bootstrap=settings.bootstrap_servers,
        security=tuple(sorted(settings.security.items())),
        client_id=settings["client.id"] or settings.application_id,
        topology=timed,
        groups=groups,
        counts=dict(counts),
        engine=EngineSettings(
            cache=settings.cache,
            skip_undecodable=settings.deserialization.action == "continue",
            skip_failing=settings.processing.action == "continue",
            decide_undecodable=settings.deserialization.decide,
            decide_failing=settings.processing.decide,
            skip_unwritable=settings.production.action == "continue",
            decide_unwritable=settings.production.decide,
            dead_letter_topic=settings.processing.dead_letter_topic,
            column_rows_min=COLUMN_ROWS_MIN,
            partition_counts=dict(counts),
        ),
        exactly_once=settings.exactly_once,
        commit_interval_ms=settings.commit_interval_ms,
        transaction_timeout_ms=int(producer.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS_DEFAULT)),
        idle_ms=int(settings["max.task.idle.ms"]),
        acks=-1 if settings.exactly_once else writing.acks,
        codec=writing.codec,
        fetch_bytes=int(consumer.get("max.partition.fetch.bytes", FETCH_BYTES_DEFAULT)),
        production=settings.production,
        checkpoints=checkpoints or CheckpointPlan(),
        standby_replicas=int(settings["num.standby.replicas"]),
        recovery_lag_max=int(settings["acceptable.recovery.lag"]),
    )


def _timed(topology: Topology, settings: StreamsSettings) -> Topology:
    """Return the topology with the application's timestamp extractor at sources that have none of their own.

    Kafka's default is left out: whoever fetches refuses a negative time, and records need not be looked at one by one.
    """
    nodes = dict(topology.nodes)
    for name, node in topology.nodes.items():
        if isinstance(node, SourceNode):
            found = extractor_of(node, topology, settings)
            nodes[name] = replace(node, extractor=None if isinstance(found, FailOnInvalidTimestamp) else found)
    return replace(topology, nodes=nodes)


def _groups(
    topology: Topology, application: str, partitions: PartitionPlan, counts: Mapping[str, int]
) -> Iterator[GroupPlan]:
    for group in task_groups(topology):
        stores = {name: topology.stores[name] for name in group.stores}
        changelogs = {
            name: changelog_topic(application, name)
            for name, each in stores.items()
            if each.logged and each.source_topic is None
        }
        sources = {name: each.source_topic for name, each in stores.items() if each.source_topic is not None}
        yield GroupPlan(
            group,
            tasks_of(topology, group, partitions, counts),
            _topics(topology, application, group.sources, counts),
            _topics(topology, application, group.global_sources, counts),
            changelogs,
            {**changelogs, **sources},
        )


def _topics(topology: Topology, application: str, sources: Iterable[str], counts: Mapping[str, int]) -> dict[str, str]:
    found = {}
    for name in sources:
        node = topology.nodes[name]
        assert isinstance(node, SourceNode)
        for topic in node.topics_among(counts):
            internal = topic in topology.repartition_topics
            found[repartition_topic(application, topic) if internal else topic] = name
    return found


def works_of(plan: ApplicationPlan) -> tuple[StreamsWork, ...]:
    """Return every work of an application."""
    return tuple(
        StreamsWork(plan.application_id, each.group.number, task) for each in plan.groups for task in range(each.tasks)
    )


def replicas_of(plan: ApplicationPlan) -> dict[StreamsWork, int]:
    """Return how many copies each work's state is to have: of those that restore any from changelogs."""
    found = {}
    for work in works_of(plan) if plan.standby_replicas else ():
        topics = plan.of_group(work.sub_topology).restored.values()
        if any(work.partition < plan.counts.get(topic, 0) for topic in topics):
            found[work] = plan.standby_replicas
    return found
