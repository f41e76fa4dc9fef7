"""How many partitions the internal topics need: Kafka Streams' rules, and its words where topics do not fit together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError
from ottla.streams.errors import TopologyError
from ottla.streams.plan.nodes import SinkNode, SourceNode
from ottla.streams.plan.topology import Topology

__all__ = ["PartitionPlan", "partition_plan", "source_topics", "subtopologies"]


_STEP = "Invalid topology"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Partition counts: of every source topic (repartition topics without the application's id), and of every store."""

    topics: Mapping[str, int]
    stores: Mapping[str, int]


def subtopologies(topology: Topology) -> list[frozenset[str]]:
    """Return the groups of nodes that topics connect but no edge and no store does, in the order of their first nodes."""
    return [frozenset(names) for names in topology.subtopologies()]


def source_topics(topology: Topology, nodes: Iterable[str], known: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the topics that the sources among `nodes` read, by source; patterns match among the `known` names."""
    found = {}
    for name in nodes:
        node = topology.nodes[name]
        if isinstance(node, SourceNode):
            found[name] = node.topics_among(known)
    return found


def partition_plan(topology: Topology, known: Mapping[str, int]) -> PartitionPlan:
    """Return every internal topic's number of partitions; `known` has the cluster's topics.

    Raises KafkaError for a source topic that is not there, TopologyError for topics that are not co-partitioned.
    """
    groups = subtopologies(topology)
    reads = [_read(topology, group, known) for group in groups]
    counts = {topic: known[topic] for topics in reads for topic in topics if topic in known}
    _check_sources(topology, reads, known)
    for topic in topology.repartition_topics.values():
        if topic.partitions is not None:
            counts[_named(topology, topic.name)] = topic.partitions
    _fill(topology, groups, reads, counts)
    for group_of_topics in topology.copartitioned:
        _copartition(topology, group_of_topics, counts)
    stores: dict[str, int] = {}
    for group, topics in zip(groups, reads, strict=True):
        tasks = max((counts[topic] for topic in topics), default=1)
        for name in group:
            for store in getattr(topology.nodes[name], "stores", ()):
                stores[store] = tasks
    return PartitionPlan(counts, stores)


def _named(topology: Topology, name: str) -> str:
    """Return the name by which sources and sinks know a repartition topic."""
    return next(key for key, topic in topology.repartition_topics.items() if topic.name == name)


def _read(topology: Topology, group: Iterable[str], known: Mapping[str, int]) -> list[str]:
    internal = topology.repartition_topics
    found = source_topics(topology, group, [name for name in known if name not in internal])
    return sorted({topic for topics in found.values() for topic in topics})


def _check_sources(topology: Topology, reads: Iterable[list[str]], known: Mapping[str, int]) -> None:
    wanted = {topic for topics in reads for topic in topics}
    missing = sorted(wanted - set(known) - set(topology.repartition_topics))
    if missing:
        words = f"Missing source topics: {', '.join(missing)}. Create them first: ottla topics --create --topic {missing[0]}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words)


def _fill(topology: Topology, groups: list[frozenset[str]], reads: list[list[str]], counts: dict[str, int]) -> None:
    """Give each repartition topic as many partitions as the widest source of what writes to it, round by round.

    The topics of a foreign-key join write to each other's sub-topologies; there the sources that are known decide.
    """
    open_topics = [topic for topic in topology.repartition_topics if topic not in counts]
    upstream = {
        topic: {
            source
            for group, topics in zip(groups, reads, strict=True)
            if any(_writes(topology, name, topic) for name in group)
            for source in topics
        }
        for topic in open_topics
    }
    while open_topics:
        filled = [topic for topic in open_topics if upstream[topic] and upstream[topic] <= counts.keys()]
        if not filled:
            filled = [topic for topic in open_topics if upstream[topic] & counts.keys()][:1]
        for topic in filled:
            counts[topic] = max(counts[source] for source in upstream[topic] if source in counts)
        if not filled:
            names = ", ".join(sorted(open_topics))
            raise TopologyError(
                _STEP,
                f"Failed to compute number of partitions for all repartition topics, make sure all user input topics "
                f"are created and all Pattern subscriptions match at least one topic in the cluster: {names}",
            )
        open_topics = [topic for topic in open_topics if topic not in filled]


def _writes(topology: Topology, name: str, topic: str) -> bool:
    node = topology.nodes[name]
    return isinstance(node, SinkNode) and node.topic == topic


def _copartition(topology: Topology, group: frozenset[str], counts: dict[str, int]) -> None:
    """Make a group's repartition topics as wide as its other topics, as Kafka's CopartitionedTopicsEnforcer does."""
    internal = sorted(group & set(topology.repartition_topics))
    outside = {topic: counts[topic] for topic in sorted(group) if topic not in internal}
    fixed = {topic: counts[topic] for topic in internal if topology.repartition_topics[topic].partitions is not None}
    if not outside:
        if len(set(fixed.values())) > 1:
            raise TopologyError(
                _STEP, f"Following topics do not have the same number of partitions: [{_java_map(fixed)}]"
            )
        wanted = next(iter(fixed.values()), max(counts[topic] for topic in internal))
    else:
        if len(set(outside.values())) > 1:
            raise TopologyError(_STEP, f"Topics not co-partitioned: [{_java_map(outside)}]")
        wanted = next(iter(outside.values()))
        for topic, partitions in fixed.items():
            if partitions != wanted:
                raise TopologyError(
                    _STEP,
                    f"Number of partitions [{partitions}] of repartition topic [{topic}] doesn't match number of "
                    f"partitions [{wanted}] of the source topic.",
                )
    counts.update(dict.fromkeys(internal, wanted))


def _java_map(counts: Mapping[str, int]) -> str:
    """Return a map as Java prints it."""
    return "{" + ", ".join(f"{name}={count}" for name, count in sorted(counts.items())) + "}"
