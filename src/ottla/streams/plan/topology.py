"""The plan: an immutable graph of sources, processors and sinks, with Kafka Streams' node names.

The DSL makes the same nodes, in the same order and with the same names and numbers, as Kafka Streams makes for the same
calls (topology optimisation off), so that `describe()` prints the same text and tools for it work. Each processor carries
an operation (`operations`): a value that says what is done, read by whoever runs it: `ottla.streams.engine` in
Python, the `spark` room where Spark has an operator of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.streams.plan.describe import describe
from ottla.streams.plan.nodes import Node, RepartitionTopic, SourceNode, StoreSpec
from ottla.streams.plan.serdes_of_topics import with_topics
from ottla.streams.plan.subtopologies import subtopologies

__all__ = ["Topology"]


@dataclass(frozen=True, slots=True)
class Topology:
    """The plan. `nodes` is in the order in which they were added; every parent comes before its children."""

    nodes: Mapping[str, Node]
    stores: Mapping[str, StoreSpec] = field(default_factory=dict)
    repartition_topics: Mapping[str, RepartitionTopic] = field(default_factory=dict)
    """By the topic name that sources and sinks use: the name without `<application.id>-`, as `describe()` prints it."""
    copartitioned: tuple[frozenset[str], ...] = ()
    """Groups of source topics that must have as many partitions as one another."""

    def subtopologies(self) -> tuple[tuple[str, ...], ...]:
        """Return the parts that are connected by nodes or by shared stores, in Kafka's order; each in order of nodes."""
        return subtopologies(self.nodes, self.stores)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of the nodes that a node forwards to, in the order in which they were added."""
        return tuple(
            each.name for each in self.nodes.values() if not isinstance(each, SourceNode) and name in each.parents
        )

    def describe(self) -> str:
        """Return Kafka's text form (`TopologyDescription.toString`)."""
        return describe(self.nodes, self.subtopologies())

    def of_application(self, application_id: str) -> Topology:
        """Return the plan with its serdes told which topics they write; the same one where no serde asks for that."""
        found = with_topics(self.nodes, self.stores, self.repartition_topics, application_id)
        return self if found is None else Topology(*found, self.copartitioned)
