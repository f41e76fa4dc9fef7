"""Task groups: what runs together where nothing is cut, with real repartition topics between; Kafka's sub-topologies.

A group is connected by edges, by stores and by what its steps look up. Global tables belong to every group that looks them
up: each of its tasks has a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.streams.plan import operations as ops
from ottla.streams.plan.nodes import ProcessorNode, SourceNode
from ottla.streams.plan.partitions import PartitionPlan
from ottla.streams.plan.stage_nodes import expressions_of, sub_topologies
from ottla.streams.plan.topology import Topology

__all__ = ["TaskGroup", "expressions_in", "task_groups", "tasks_of"]


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Nodes that one executor runs for one partition."""

    number: int
    nodes: tuple[str, ...]
    """In the plan's order."""
    sources: tuple[str, ...]
    """Sources of which each task reads its own partition."""
    global_sources: tuple[str, ...] = ()
    """Sources of which each task reads all partitions."""
    stores: tuple[str, ...] = ()
    """Stores that are restored: those of global tables are read from their topics instead."""

    @property
    def name(self) -> str:
        """What people see."""
        return f"sub-topology-{self.number}"

    @property
    def is_stateful(self) -> bool:
        """Whether it keeps state of its own."""
        return bool(self.stores)


def task_groups(topology: Topology) -> tuple[TaskGroup, ...]:
    """Return a topology's groups, in the order of their first nodes; global tables that nobody looks up have none."""
    found: list[TaskGroup] = []
    for names in sub_topologies(topology):
        own = {name for name in names if not _is_global(topology, name)}
        if own:
            found.append(_group(topology, len(found), own | set(names) | _looked_up(topology, own)))
    return tuple(found)


def _group(topology: Topology, number: int, names: set[str]) -> TaskGroup:
    ordered = tuple(name for name in topology.nodes if name in names)
    sources = [node for name in ordered if isinstance(node := topology.nodes[name], SourceNode)]
    stores = dict.fromkeys(
        store
        for name in ordered
        if isinstance(node := topology.nodes[name], ProcessorNode)
        for store in (*node.stores, getattr(node.operation, "store", None) or "")
        if store in topology.stores and not topology.stores[store].is_global
    )
    return TaskGroup(
        number,
        ordered,
        tuple(each.name for each in sources if not each.is_global),
        tuple(each.name for each in sources if each.is_global),
        tuple(each for each in topology.stores if each in stores),
    )


def _is_global(topology: Topology, name: str) -> bool:
    """True for the source of a global table, and for what stands behind nothing else."""
    node = topology.nodes[name]
    if isinstance(node, SourceNode):
        return node.is_global
    return bool(node.parents) and all(_is_global(topology, each) for each in node.parents)


def _looked_up(topology: Topology, names: Iterable[str]) -> set[str]:
    """Return the nodes of the global tables that some nodes look up: those that they name, or all for the user's own."""
    operations = [node.operation for name in names if isinstance(node := topology.nodes[name], ProcessorNode)]
    wanted = {each.store for each in operations if isinstance(each, ops.StreamGlobalJoin)}
    every = any(isinstance(each, ops.Process | ops.TableProcess) for each in operations)
    found: set[str] = set()
    for name, node in topology.nodes.items():
        if not isinstance(node, ProcessorNode) or not _is_global(topology, name):
            continue
        if every or wanted & {*node.stores, getattr(node.operation, "store", None)}:
            found |= {name, *_above(topology, name)}
    return found


def _above(topology: Topology, name: str) -> set[str]:
    node = topology.nodes[name]
    parents = () if isinstance(node, SourceNode) else node.parents
    return set(parents).union(*(_above(topology, each) for each in parents))


def tasks_of(topology: Topology, group: TaskGroup, partitions: PartitionPlan, known: Iterable[str]) -> int:
    """Return how many tasks a group has: as many as its widest topic has partitions."""
    names = list(known)
    topics = {
        topic
        for source in group.sources
        if isinstance(node := topology.nodes[source], SourceNode)
        for topic in node.topics_among(names)
    }
    return max((partitions.topics[each] for each in topics if each in partitions.topics), default=0)


def expressions_in(topology: Topology) -> Mapping[str, tuple[object, ...]]:
    """Return the column expressions of each step that has some."""
    found = {
        name: tuple(each.expression for each in expressions_of(node.operation))
        for name, node in topology.nodes.items()
        if isinstance(node, ProcessorNode)
    }
    return {name: expressions for name, expressions in found.items() if expressions}
