"""Stages: a topology cut into what one Spark query each can do, as values.

Kafka's sub-topologies come first. A repartition topic whose records come from stateless steps only is not a topic here: the
steps before it become the *prefix* of what stands behind it, and Spark's shuffle moves the records. What stands behind state
writes its real internal topic. Of what is left, an aggregate that Spark can say becomes a stage of kind `native` of its own;
everything else that has state becomes one `stateful` stage per sub-topology; the remaining sinks are `stateless`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from ottla.streams.expressions import Refused
from ottla.streams.plan import operations as ops
from ottla.streams.plan.evaluation import evaluated
from ottla.streams.plan.nodes import Node, ProcessorNode, RepartitionTopic, SinkNode, SourceNode
from ottla.streams.plan.stage_nodes import (
    agreed,
    expressions_of,
    functions_of,
    fused,
    is_stateless,
    is_table,
    key_serde,
    may_be_in_tail,
    needs_columns,
    parents_of,
    refers,
    sub_topologies,
    value_serde,
    why_kind,
    why_no_tail,
    why_window,
    with_arguments_apart,
)
from ottla.streams.plan.topology import Topology
from ottla.streams.serdes.basic import Serde

__all__ = ["Entry", "Stage", "Stages", "Tail", "UnsupportedPlan", "cut", "is_native", "serdes_at"]

TAIL_TOPIC = "@"
"""In front of a tail's name: the topic of rows that a stateful stage hands to Spark's expressions, not to a topic."""
WHY_EVERY_UPDATE = "every update was asked for (statestore.cache.max.bytes=0)"


class UnsupportedPlan(ValueError):
    """A plan that cannot be run: says the step and what was expected."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An edge by which records come into a stage's core: from source topics, through stateless steps."""

    node: str
    """The SourceNode of the stage's `topology` at which they enter."""
    sources: tuple[str, ...]
    """The SourceNodes of the plan that are read."""
    prefix: tuple[str, ...] = ()
    """Stateless nodes between them, in order; none: the topic's bytes enter as they are."""
    after: str = ""
    """The node whose output enters: a source, or the last of the prefix."""
    repartition: str | None = None
    """The repartition topic that the shuffle stands for: the key decides the task. None: the source's partition does."""
    is_global: bool = False
    """Every task gets every record (a global table), before those of the other entries."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Steps behind a stateful stage's core that Spark does: rows leave the core for topic `@<node>`."""

    topic: str
    after: str
    """The node of the core whose output the tail begins with."""
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """What one query does. `kind`: stateless, native or stateful."""

    name: str
    kind: str
    plan: Topology
    """The whole plan, for the nodes that are named here."""
    nodes: tuple[str, ...]
    """All nodes that the stage does, sources and sinks with them, in the plan's order."""
    entries: tuple[Entry, ...]
    """Native and stateless stages have one; a stateful one has one for each edge into its core."""
    sinks: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    topology: Topology = field(default_factory=lambda: Topology({}))
    """What an executor runs: the core's nodes, with a SourceNode for each entry and a SinkNode for each tail."""
    aggregate: str | None = None
    """The aggregating node of a native stage."""
    tails: tuple[Tail, ...] = ()
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Repartition sources that are not topics here → the parents whose records they take."""
    sub_topology: int = 0

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the nodes whose records a node takes, across repartition topics that are none."""
        return parents_of(self.plan, self.fused, name)

    def source_nodes(self) -> tuple[SourceNode, ...]:
        """Return the sources that are read from topics."""
        names = dict.fromkeys(chain.from_iterable(entry.sources for entry in self.entries))
        return tuple(each for each in map(self.plan.nodes.__getitem__, names) if isinstance(each, SourceNode))

    def topics_read(self) -> tuple[str, ...]:
        """Return the names of topics that are read, internal ones without the application's name in front."""
        return tuple(dict.fromkeys(chain.from_iterable(each.topics for each in self.source_nodes())))


def is_native(stages: Stages) -> bool:
    """Whether Spark's own operators say all of a plan: no Python function sees a record."""
    if any(each.kind == "stateful" for each in stages.stages):
        return False
    nodes = (each.plan.nodes[name] for each in stages.stages for name in each.nodes)
    return all(
        function.is_native
        for node in nodes
        if isinstance(node, ProcessorNode)
        for function in functions_of(node.operation)
    )


@dataclass(frozen=True, slots=True)
class Stages:
    """A plan's stages, and the internal topics that are really needed."""

    stages: tuple[Stage, ...]
    repartition_topics: Mapping[str, RepartitionTopic]
    reasons: Mapping[str, str]
    """For each aggregate that could have been native and is not: why."""


def cut(topology: Topology, *, stream_time: str = "auto", every_update: bool = False) -> Stages:
    """Cut a topology into stages; raises UnsupportedPlan for a plan that no stage can do.

    `stream_time="partition"` sends every windowed aggregate through Python, where time is that of its partition as in Kafka
    Streams; else windows that Spark knows follow Spark's watermark, which is the query's and moves between batches.
    `every_update` sends every aggregate through Python: Spark's own tell a batch's last update of a key only.
    """
    return _Cutter(topology, stream_time, every_update).cut()


# -- cutting


def serdes_at(stage: Stage, name: str) -> tuple[Serde | None, Serde | None]:
    """Return the serdes of key and value behind a node, where the plan says them."""
    return key_serde(stage.plan, stage.fused, name), value_serde(stage.plan, stage.fused, name)


class _Cutter:
    def __init__(self, topology: Topology, stream_time: str, every_update: bool) -> None:
        self.by_partition = stream_time == "partition"
        self.every_update = every_update
        self.plan = with_arguments_apart(topology, self.by_partition, every_update)
        self.fused = fused(self.plan)
        self.dropped = {
            each.name
            for each in self.plan.nodes.values()
            if isinstance(each, SinkNode) and self._is_fused_topic(each.topic)
        }
        self.order = {name: index for index, name in enumerate(self.plan.nodes)}
        self.below = self._children()
        self.groups = sub_topologies(self.plan)
        self.core = self._core()
        self.reasons: dict[str, str] = {}

    def cut(self) -> Stages:
        native = [stage for stage in map(self._native, self.order) if stage is not None]
        taken = {name for stage in native for name in (stage.aggregate or "", *self._beneath(stage.aggregate or ""))}
        stateful = [
            self._stateful(number, wanted)
            for number, group in enumerate(self.groups)
            if (wanted := {name for name in group if name in self.core and name not in taken})
            and not self._serves_others(wanted)
        ]
        done = taken | set(chain.from_iterable(stage.topology.nodes for stage in stateful))
        stages = sorted((*native, *stateful, *self._stateless(done)), key=lambda each: self.order[each.nodes[0]])
        real = {name: each for name, each in self.plan.repartition_topics.items() if not self._is_fused_topic(name)}
        return Stages(tuple(stages), real, self.reasons)

    def _is_fused_topic(self, topic: object) -> bool:
        return any(topic in node.topics for name in self.fused if isinstance(node := self.plan.nodes[name], SourceNode))

    def _children(self) -> dict[str, list[str]]:
        below: dict[str, list[str]] = {name: [] for name in self.plan.nodes}
        for name in self.plan.nodes:
            if name not in self.dropped:
                for parent in parents_of(self.plan, self.fused, name):
                    below[parent].append(name)
        return below

    def _core(self) -> set[str]:
        """Return every node that has state or stands behind state."""
        core: set[str] = set()
        for name, node in self.plan.nodes.items():
            if not is_stateless(node) or any(each in core for each in parents_of(self.plan, self.fused, name)):
                core.add(name)
        return core - self.dropped

    def _parents_of(self, name: str) -> tuple[str, ...]:
        return parents_of(self.plan, self.fused, name)

    def _above(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return nodes with all their ancestors, in the plan's order."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(self._parents_of(name))
        return self._ordered(found)

    def _beneath(self, name: str) -> tuple[str, ...]:
        """Return every node that takes what a node forwards, directly or not."""
        found: set[str] = set()
        waiting = list(self.below[name])
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting.extend(self.below[each])
        return self._ordered(found)

    def _ordered(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=self.order.__getitem__))

    def _sources(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(each for each in names if isinstance(self.plan.nodes[each], SourceNode) and each not in self.fused)

    def _sinks(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(each for each in names if isinstance(self.plan.nodes[each], SinkNode))

    def _group_of(self, name: str) -> int:
        return next(number for number, group in enumerate(self.groups) if name in group)

    # native stages

    def _native(self, name: str) -> Stage | None:
        node = self.plan.nodes[name]
        if not isinstance(node, ProcessorNode):
            return None
        if not isinstance(node.operation, ops.StreamAggregate | ops.WindowAggregate):
            return None
        why = self._why_not_native(node)
        if why is not None:
            self.reasons[name] = why
            return None
        above, beneath = self._above(node.parents), self._beneath(name)
        entry = self._entry(name, node.parents)
        return Stage(
            name=f"native-{node.operation.store}",
            kind="native",
            plan=self.plan,
            nodes=self._ordered({*above, name, *beneath}),
            entries=(entry,),
            sinks=self._sinks(beneath),
            stores=(node.operation.store,),
            aggregate=name,
            fused=self.fused,
            sub_topology=self._group_of(name),
        )

    def _why_not_native(self, node: ProcessorNode) -> str | None:
        """Return why Spark cannot do an aggregate, or None where it can."""
        operation = node.operation
        assert isinstance(operation, ops.StreamAggregate | ops.WindowAggregate)
        return (
            why_kind(operation.aggregator)
            or (WHY_EVERY_UPDATE if self.every_update else None)
            or why_window(operation, self.by_partition)
            or self._why_value(node, operation.aggregator)
            or self._why_neighbours(node, operation.store)
        )

    def _why_value(self, node: ProcessorNode, aggregator: ops.Aggregator) -> str | None:
        if any(each in self.core for each in node.parents):
            return "stands behind another step with state"
        spec = self.plan.stores.get(getattr(node.operation, "store", ""))
        if spec is None or spec.value.sql_type is None:
            return "the store's value serde has no column type"
        value = agreed(value_serde(self.plan, self.fused, each) for each in node.parents)
        if aggregator.kind == "count" or (value is None and all(self._makes_column(each) for each in node.parents)):
            return None
        return None if value is not None and value.sql_type is not None else "the value's serde has no column type"

    def _makes_column(self, name: str) -> bool:
        """True where the value behind a node is an expression's result, whose type Spark knows."""
        node = self.plan.nodes[name]
        if isinstance(node, ProcessorNode):
            if isinstance(node.operation, ops.Map | ops.MapValues | ops.FlatMapValues):
                return node.operation.mapper.is_native
            return bool(node.parents) and all(map(self._makes_column, node.parents))
        return False

    def _why_neighbours(self, node: ProcessorNode, store: str) -> str | None:
        for each in self.plan.nodes.values():
            if isinstance(each, ProcessorNode) and each.name != node.name:
                if store in each.stores:
                    return f"{each.name} reads its store"
                if node.name in refers(each.operation):
                    return f"{each.name} looks it up"
        tail = self._beneath(node.name)
        for name in tail:
            below = self.plan.nodes[name]
            why = why_no_tail(below)
            if why is not None:
                return why
            if any(parent not in tail and parent != node.name for parent in self._parents_of(name)):
                return f"{name} merges its results with other records"
        return None

    # stateful stages

    def _serves_others(self, wanted: set[str]) -> bool:
        """True for a global table that other stages hold a copy of: it needs no stage of its own."""
        return all(self._is_global(name) for name in wanted) and any(
            isinstance(node, ProcessorNode)
            and isinstance(node.operation, ops.StreamGlobalJoin | ops.Process | ops.TableProcess)
            for node in self.plan.nodes.values()
        )

    def _is_global(self, name: str) -> bool:
        node = self.plan.nodes[name]
        return (isinstance(node, SourceNode) and node.is_global) or any(map(self._is_global, self._parents_of(name)))

    def _with_global_tables(self, wanted: set[str]) -> set[str]:
        """Add the global tables that processors of a stage look up: those they name, or all for processors of the user's."""
        operations = [node.operation for name in wanted if isinstance(node := self.plan.nodes[name], ProcessorNode)]
        named = {each.store for each in operations if isinstance(each, ops.StreamGlobalJoin)}
        every = any(isinstance(each, ops.Process | ops.TableProcess) for each in operations)
        return wanted | {
            name
            for name in self.core
            if self._is_global(name)
            and isinstance(node := self.plan.nodes[name], ProcessorNode)
            and (every or named & {*node.stores, getattr(node.operation, "store", None)})
        }

    def _stateful(self, number: int, wanted: set[str]) -> Stage:
        wanted = self._with_global_tables(wanted)
        tails = self._tails(wanted)
        behind = set(chain.from_iterable(tail.nodes for tail in tails))
        core = wanted - behind
        self._evaluate(self._ordered(core))
        entries = self._entries(core)
        inside = self._with_side_branches(core, entries)
        topology = self._executed(inside, entries, tails)
        outside = set(chain.from_iterable((*entry.prefix, *entry.sources) for entry in entries))
        nodes = self._ordered(inside | behind | outside)
        stores = dict.fromkeys(
            chain.from_iterable(
                node.stores for name in inside if isinstance(node := self.plan.nodes[name], ProcessorNode)
            )
        )
        return Stage(
            name=f"stateful-{number}",
            kind="stateful",
            plan=self.plan,
            nodes=nodes,
            entries=entries,
            sinks=self._sinks(self._ordered(inside | behind)),
            stores=tuple(each for each in self.plan.stores if each in stores),
            topology=topology,
            tails=tails,
            fused=self.fused,
            sub_topology=number,
        )

    def _tails(self, wanted: set[str]) -> tuple[Tail, ...]:
        """Return what Spark does behind the core: from each outermost expression down to the sinks."""
        found: list[Tail] = []
        behind: set[str] = set()
        for name in self._ordered(wanted):
            node = self.plan.nodes[name]
            if name in behind or not needs_columns(node) or not may_be_in_tail(node):
                continue
            nodes = (name, *(each for each in self._beneath(name) if each in wanted))
            parents = self._parents_of(name)
            if len(parents) != 1 or any(why_no_tail(self.plan.nodes[each]) for each in nodes):
                continue
            if any(set(self._parents_of(each)) - set(nodes) for each in nodes[1:]):
                continue
            found.append(Tail(f"{TAIL_TOPIC}{name}", parents[0], nodes))
            behind.update(nodes)
        return tuple(found)

    def _evaluate(self, core: tuple[str, ...]) -> None:
        """Make functions of the expressions at and between steps with state, which Spark cannot be asked for there."""
        operations = {name: node.operation for name in core if isinstance(node := self.plan.nodes[name], ProcessorNode)}
        for name, operation in operations.items():
            if any(each.vectorised for each in functions_of(operation)):
                raise UnsupportedPlan(
                    f"step {name}: a vectorised function cannot stand at or between steps with state; "
                    "give a Python function of one record"
                )
        try:
            self.plan = evaluated(self.plan, [name for name, each in operations.items() if any(expressions_of(each))])
        except Refused as problem:
            raise UnsupportedPlan(
                f"{problem} (a column expression at or between steps with state); give a Python function of one record"
            ) from None

    def _entries(self, core: set[str]) -> tuple[Entry, ...]:
        """Return an entry for each edge into the core, those that share one origin once."""
        found: dict[str, Entry] = {}
        for name in self._ordered(core):
            for parent in self._parents_of(name) or (name,):
                if parent not in self.core or parent == name:
                    for entry in self._entries_through(parent):
                        found.setdefault(entry.node, entry)
        return tuple(found.values())

    def _entries_through(self, name: str) -> Iterator[Entry]:
        """Yield entries for a front node's output: raw at its sources where an executor can do all of its steps."""
        above = self._within(name)
        if any(needs_columns(self.plan.nodes[each]) for each in above):
            yield self._entry(name, (name,))
            return
        for each in above:
            node = self.plan.nodes[each]
            if isinstance(node, SourceNode):
                yield self._entry(each, self.fused.get(each, (each,)), source=node)

    def _within(self, name: str) -> tuple[str, ...]:
        """Return a front node with its ancestors up to sources, fused ones too: what lies in its sub-topology."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                node = self.plan.nodes[each]
                waiting.extend(() if isinstance(node, SourceNode) else node.parents)
        return self._ordered(found)

    def _entry(self, node: str, parents: tuple[str, ...], source: SourceNode | None = None) -> Entry:
        above = self._above(parents)
        sources = self._sources(above)
        topics = [
            found.topics[0]
            for each in (*above, node)
            if each in self.fused and isinstance(found := self.plan.nodes[each], SourceNode)
        ]
        return Entry(
            node=node,
            sources=sources,
            prefix=tuple(each for each in above if each not in sources),
            after=parents[0] if len(parents) == 1 else node,
            repartition=topics[-1] if topics else None,
            is_global=source is not None and source.is_global,
        )

    def _with_side_branches(self, core: set[str], entries: tuple[Entry, ...]) -> set[str]:
        """Add the front nodes that an executor does: between entries and core, and branches beside that need no columns."""
        outside = set(chain.from_iterable(entry.prefix for entry in entries))
        inside = {entry.node for entry in entries}
        for name in self.plan.nodes:
            node = self.plan.nodes[name]
            if name in core:
                inside.add(name)
            elif name in self.core or name in self.dropped or isinstance(node, SourceNode) or name in outside:
                continue
            elif set(node.parents) <= inside and not needs_columns(node):
                inside.add(name)
        return self._useful(inside, core)

    def _useful(self, inside: set[str], core: set[str]) -> set[str]:
        """Leave out front nodes that lead nowhere within the stage (their branch goes on in another one)."""
        kept: set[str] = set()
        for name in reversed(self._ordered(inside)):
            node = self.plan.nodes[name]
            leaf = isinstance(node, SinkNode) or not self.below[name]
            if name in core or leaf or any(each in kept for each in self.below[name]):
                kept.add(name)
        return kept

    def _executed(self, inside: set[str], entries: tuple[Entry, ...], tails: tuple[Tail, ...]) -> Topology:
        starts = {entry.node: entry for entry in entries}
        nodes: dict[str, Node] = {}
        for name in self._ordered(inside):
            node = self.plan.nodes[name]
            if name in starts and not isinstance(node, SourceNode):
                key, value = key_serde(self.plan, self.fused, name), value_serde(self.plan, self.fused, name)
                node = SourceNode(name, key=key, value=value)
            nodes[name] = node
        for tail in tails:
            key, value = key_serde(self.plan, self.fused, tail.after), value_serde(self.plan, self.fused, tail.after)
            after = tail.after
            if is_table(self.plan.nodes[after]):
                after = f"{tail.topic}-TOSTREAM"
                nodes[after] = ProcessorNode(after, ops.TableToStream(), (tail.after,))
            nodes[tail.topic] = SinkNode(tail.topic, tail.topic, (after,), key, value)
        stores = {
            each: spec
            for each, spec in self.plan.stores.items()
            if any(isinstance(node, ProcessorNode) and each in node.stores for node in nodes.values())
        }
        return replace(self.plan, nodes=nodes, stores=stores)

    # stateless stages

    def _stateless(self, done: set[str]) -> list[Stage]:
        """Return a stage for each connected set of the sinks and actions that nobody does yet."""
        ends = [
            name
            for name, node in self.plan.nodes.items()
            if name not in self.core
            and name not in done
            and name not in self.dropped
            and not self.below[name]
            and (isinstance(node, SinkNode) or _acts(node))
        ]
        joined: list[tuple[set[str], list[str]]] = []
        for end in ends:
            above = set(self._above((end,)))
            touching = [each for each in joined if each[0] & above]
            joined = [each for each in joined if not each[0] & above]
            joined.append(
                (
                    above.union(*(each[0] for each in touching)),
                    [*chain.from_iterable(each[1] for each in touching), end],
                )
            )
        return [self._stateless_stage(nodes, ends) for nodes, ends in joined]

    def _stateless_stage(self, nodes: set[str], ends: list[str]) -> Stage:
        ordered = self._ordered(nodes)
        sources = self._sources(ordered)
        number = self._group_of(sources[0])
        entry = Entry(node=sources[0], sources=sources, prefix=tuple(each for each in ordered if each not in sources))
        return Stage(
            name=f"stateless-{number}",
            kind="stateless",
            plan=self.plan,
            nodes=ordered,
            entries=(entry,),
            sinks=self._sinks(ordered),
            fused=self.fused,
            sub_topology=number,
        )


def _acts(node: Node) -> bool:
    return isinstance(node, ProcessorNode) and isinstance(node.operation, ops.Foreach | ops.Peek)
