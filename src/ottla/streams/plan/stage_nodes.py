"""What stages ask of a plan's nodes: which are stateless, which need Spark's columns, whose serdes hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain

from ottla.streams.functions import Function
from ottla.streams.plan import operations as ops
from ottla.streams.plan.nodes import Node, ProcessorNode, SinkNode, SourceNode
from ottla.streams.plan.topology import Topology
from ottla.streams.serdes.basic import Serde
from ottla.streams.windows import TimeWindows

__all__ = [
    "STATELESS",
    "agreed",
    "expressions_of",
    "functions_of",
    "fused",
    "is_stateless",
    "is_table",
    "key_serde",
    "may_be_in_tail",
    "needs_columns",
    "parents_of",
    "refers",
    "sub_topologies",
    "value_serde",
    "why_kind",
    "why_no_tail",
    "why_window",
    "with_arguments_apart",
]

STATELESS = (
    ops.Filter,
    ops.NotNullKey,
    ops.MapValues,
    ops.Map,
    ops.SelectKey,
    ops.FlatMap,
    ops.FlatMapValues,
    ops.Peek,
    ops.Foreach,
    ops.PassThrough,
    ops.Branch,
)
"""Operations of streams that look at one record alone."""
SAME_VALUES = (
    ops.StreamToTable,
    ops.Suppress,
    ops.TableFilter,
    ops.TablePassThrough,
    ops.TableSource,
    ops.TableToStream,
)
"""Operations with state or of tables that forward the values that they got."""
NATIVE_KINDS = frozenset({"count", "sum", "min", "max", "avg"})
"""Aggregates that Spark computes with the same result. Those that depend on the records' order are not among them."""


def expressions_of(operation: object) -> Iterator[Function]:
    """Yield the column expressions of an operation."""
    return (each for each in functions_of(operation) if each.is_native)


def functions_of(operation: object) -> Iterator[Function]:
    """Yield all functions of an operation."""
    for each in fields(operation):  # type: ignore[arg-type]
        value = getattr(operation, each.name)
        if isinstance(value, Function):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Function))
        elif isinstance(value, ops.Aggregator) and value.argument is not None:
            yield value.argument


def needs_columns(node: Node) -> bool:
    """True where a node's function is an expression or takes whole columns: an executor cannot call it."""
    return isinstance(node, ProcessorNode) and any(
        each.is_native or each.vectorised for each in functions_of(node.operation)
    )


def is_stateless(node: Node) -> bool:
    """True for sources, sinks and steps that look at one record alone."""
    return not isinstance(node, ProcessorNode) or isinstance(node.operation, STATELESS)


def refers(operation: object) -> set[str]:
    """Return the names of processors that an operation looks up besides its parents."""
    names = {"table", "other", "right", "left"}
    found = {each.name: getattr(operation, each.name) for each in fields(operation) if each.name in names}  # type: ignore[arg-type]
    return {value for value in found.values() if isinstance(value, str)}


def parents_of(topology: Topology, fused: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """Return the nodes whose records a node takes; a fused repartition source takes those of its writers."""
    node = topology.nodes[name]
    return fused.get(name, ()) if isinstance(node, SourceNode) else node.parents


def key_serde(topology: Topology, fused: Mapping[str, tuple[str, ...]], name: str) -> Serde | None:
    """Return the serde of keys behind a node, where the plan says it."""
    node = topology.nodes[name]
    if isinstance(node, SourceNode):
        return node.key
    if isinstance(node, ProcessorNode):
        if isinstance(node.operation, ops.Map | ops.SelectKey | ops.FlatMap | ops.Process):
            return node.operation.key
        spec = topology.stores.get(getattr(node.operation, "store", None) or "")
        if spec is not None:
            return spec.key
    return agreed(key_serde(topology, fused, each) for each in node.parents)


def value_serde(topology: Topology, fused: Mapping[str, tuple[str, ...]], name: str) -> Serde | None:
    """Return the serde of values behind a node, where the plan says it."""
    node = topology.nodes[name]
    if isinstance(node, SourceNode):
        return node.value
    if isinstance(node, ProcessorNode):
        spec = topology.stores.get(getattr(node.operation, "store", None) or "")
        if spec is not None:
            return spec.value
        if hasattr(node.operation, "value"):
            return node.operation.value
        if not is_stateless(node) and not isinstance(node.operation, SAME_VALUES):
            return None
    return agreed(value_serde(topology, fused, each) for each in node.parents)


def agreed(found: Iterable[Serde | None]) -> Serde | None:
    """Return what all say, or None."""
    serdes = list(found)
    return serdes[0] if serdes and all(each == serdes[0] for each in serdes) else None


def is_table(node: Node) -> bool:
    """True where a node forwards changes, not records."""
    tables = (
        ops.TableSource,
        ops.StreamToTable,
        ops.TableFilter,
        ops.TableMapValues,
        ops.TableAggregate,
        ops.TablePassThrough,
        ops.TableProcess,
        ops.TableJoin,
        ops.TableJoinMerge,
        ops.StreamAggregate,
        ops.WindowAggregate,
        ops.SessionAggregate,
        ops.Suppress,
        ops.ForeignKeyResolve,
    )
    return isinstance(node, ProcessorNode) and isinstance(node.operation, tables)


def may_be_in_tail(node: Node) -> bool:
    """True where Spark can do a node behind state."""
    return why_no_tail(node) is None


def why_no_tail(node: Node) -> str | None:
    """Return why a node cannot be done behind state by Spark's own operators, or None."""
    if is_stateless(node):
        return None
    assert isinstance(node, ProcessorNode)
    operation = node.operation
    if isinstance(operation, ops.TableToStream):
        return None
    if isinstance(operation, ops.TableMapValues | ops.TableFilter) and operation.store is None and not node.stores:
        function = operation.mapper if isinstance(operation, ops.TableMapValues) else operation.predicate
        return None if function.is_native else f"{node.name} is a Python function over a table"
    return f"{node.name} needs its table in Python"


def why_kind(aggregator: ops.Aggregator) -> str | None:
    """Return why Spark cannot compute a kind of aggregate, or None."""
    if aggregator.kind not in NATIVE_KINDS:
        return f"{aggregator.kind} has no operator in Spark with Kafka's order"
    if aggregator.argument is not None and not aggregator.argument.is_native:
        return "its argument is a Python function"
    return None


def why_window(operation: ops.StreamAggregate | ops.WindowAggregate, by_partition: bool) -> str | None:
    """Return why Spark cannot compute an aggregate's windows, or None."""
    if isinstance(operation, ops.StreamAggregate):
        return None
    if by_partition:
        return 'stream_time="partition" was asked for'
    if not isinstance(operation.windows, TimeWindows):
        return f"{type(operation.windows).__name__} are no windows of Spark's with Kafka's bounds"
    if operation.on_close:
        return "results leave when the window closes, by the time of the partition"
    return None


def with_arguments_apart(topology: Topology, by_partition: bool, every_update: bool) -> Topology:
    """Compute an aggregate's argument in a step of its own where Python aggregates and the argument is an expression."""
    nodes: dict[str, Node] = {}
    for name, node in topology.nodes.items():
        operation = node.operation if isinstance(node, ProcessorNode) else None
        if (
            isinstance(node, ProcessorNode)
            and isinstance(operation, ops.StreamAggregate | ops.WindowAggregate | ops.SessionAggregate)
            and operation.aggregator.argument is not None
            and operation.aggregator.argument.is_native
            and (
                every_update
                or isinstance(operation, ops.SessionAggregate)
                or why_kind(operation.aggregator)
                or why_window(operation, by_partition)
            )
        ):
            argument = f"{name}-argument"
            nodes[argument] = ProcessorNode(argument, ops.MapValues(operation.aggregator.argument), node.parents)
            changed = replace(operation, aggregator=replace(operation.aggregator, argument=None))
            nodes[name] = replace(node, operation=changed, parents=(argument,))
        else:
            nodes[name] = node
    return topology if len(nodes) == len(topology.nodes) else replace(topology, nodes=nodes)


def fused(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return the repartition sources whose records come from stateless steps only, with the nodes that write them."""
    sinks: dict[str, list[SinkNode]] = {}
    for node in topology.nodes.values():
        if isinstance(node, SinkNode) and isinstance(node.topic, str):
            sinks.setdefault(node.topic, []).append(node)
    fused: dict[str, tuple[str, ...]] = {}
    for node in topology.nodes.values():
        if (
            not isinstance(node, SourceNode)
            or len(node.topics) != 1
            or node.topics[0] not in topology.repartition_topics
        ):
            continue
        writers = sinks.get(node.topics[0], [])
        if writers and all(each.partitioner is None for each in writers):
            parents = tuple(chain.from_iterable(each.parents for each in writers))
            if all(stateless_above(topology, fused, each) for each in parents):
                fused[node.name] = parents
    return fused


def stateless_above(topology: Topology, fused: Mapping[str, tuple[str, ...]], name: str) -> bool:
    """True where a node and all above it look at one record alone and read no internal topic that is needed."""
    node = topology.nodes[name]
    if isinstance(node, SourceNode) and name not in fused:
        return not any(topic in topology.repartition_topics for topic in node.topics)
    return is_stateless(node) and all(
        stateless_above(topology, fused, each) for each in parents_of(topology, fused, name)
    )


def sub_topologies(topology: Topology) -> list[frozenset[str]]:
    """Return Kafka's sub-topologies: nodes connected by edges, by stores, and by what they look up."""
    leader = {name: name for name in topology.nodes}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    owners: dict[str, str] = {}
    for node in topology.nodes.values():
        related: list[str] = [] if isinstance(node, SourceNode) else list(node.parents)
        if isinstance(node, ProcessorNode):
            related += [each for each in refers(node.operation) if each in leader]
            related += [owners.setdefault(store, node.name) for store in node.stores]
        for each in related:
            first, second = sorted((find(node.name), find(each)), key=list(leader).index)
            leader[second] = first
    groups: dict[str, set[str]] = {}
    for name in topology.nodes:
        groups.setdefault(find(name), set()).add(name)
    return [frozenset(group) for group in groups.values()]
