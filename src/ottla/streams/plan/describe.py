"""A topology in the text form of Kafka Streams' `TopologyDescription.toString()`, letter by letter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.java import hash_ordered
from ottla.streams.plan.nodes import Node, ProcessorNode, SinkNode, SourceNode
from ottla.streams.plan.tree_set import TreeSet

__all__ = ["describe"]


@dataclass(slots=True, eq=False)
class _Described:
    node: Node
    size: int = 1
    predecessors: TreeSet[_Described] = field(default_factory=lambda: TreeSet(_compare))
    successors: TreeSet[_Described] = field(default_factory=lambda: TreeSet(_compare))

    def grow(self, by: int) -> None:
        self.size += by
        for each in self.predecessors:
            each.grow(by)


def _compare(one: _Described, other: _Described) -> int:
    """Larger trees go first, then names: Kafka's node comparator."""
    if one is other:
        return 0
    if one.size != other.size:
        return other.size - one.size
    return -1 if one.node.name < other.node.name else 1


def describe(nodes: Mapping[str, Node], subtopologies: Iterable[tuple[str, ...]]) -> str:
    """Return the text that Java prints for the topology of these nodes and parts."""
    parts, global_parts = {}, {}
    for number, names in enumerate(subtopologies):
        if any(isinstance(node := nodes[name], SourceNode) and node.is_global for name in names):
            global_parts[number] = _global_store(nodes, names, number)
        else:
            parts[number] = f"Sub-topology: {number}\n{_nodes(nodes, names)}\n"
    text = "Topologies:\n "
    expected = 0
    while parts and global_parts:
        taken = parts if expected in parts else global_parts
        text += "  " + taken.pop(min(taken))
        expected += 1
    return text + "".join("  " + each for each in (*parts.values(), *global_parts.values()))


def _global_store(nodes: Mapping[str, Node], names: tuple[str, ...], number: int) -> str:
    source, processor = (nodes[name] for name in names)
    assert isinstance(source, SourceNode) and isinstance(processor, ProcessorNode)
    return (
        f"Sub-topology: {number} for global store (will not generate tasks)\n"
        f"    Source: {source.name} (topics: [{source.topics[0]}])\n      --> {processor.name}\n"
        f"    Processor: {processor.name} (stores: [{processor.stores[0]}])\n      --> none\n      <-- {source.name}\n"
    )


def _nodes(nodes: Mapping[str, Node], names: tuple[str, ...]) -> str:
    described = {name: _Described(nodes[name]) for name in hash_ordered(hash_ordered(names))}
    for each in described.values():
        if isinstance(each.node, SourceNode):
            continue
        for name in each.node.parents:
            before = described[name]
            each.predecessors.add(before)
            before.successors.add(each)
            before.grow(each.size)
    ordered: TreeSet[_Described] = TreeSet(_compare)
    for each in described.values():
        ordered.add(each)
    return "".join(f"    {_text(each)}\n" for each in ordered)


def _text(each: _Described) -> str:
    node = each.node
    after = f"\n      --> {_names(each.successors)}"
    before = f"\n      <-- {_names(each.predecessors)}"
    if isinstance(node, SourceNode):
        topics = node.pattern if node.pattern is not None else f"[{', '.join(hash_ordered(node.topics))}]"
        return f"Source: {node.name} (topics: {topics}){after}"
    if isinstance(node, SinkNode):
        if callable(node.topic):
            return f"Sink: {node.name} (extractor class: {_callable_name(node.topic)}){before}"
        return f"Sink: {node.name} (topic: {node.topic}){before}"
    return f"Processor: {node.name} (stores: [{', '.join(hash_ordered(node.stores))}]){after}{before}"


def _names(nodes: TreeSet[_Described]) -> str:
    return ", ".join(each.node.name for each in nodes) or "none"


def _callable_name(given: object) -> str:
    return getattr(given, "__qualname__", None) or repr(given)
