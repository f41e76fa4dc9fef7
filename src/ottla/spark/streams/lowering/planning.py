"""From a stage to its physical plan: every choice of how a step runs is made here, from the stage and the settings alone.

Runs of Python steps become one function over Arrow batches, and expressions Spark's own operators. What Python does with a
source's records is done where they are fetched if nobody else takes them; a stage that needs Spark for nothing between its
fetching and its producing is `Direct`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.spark.streams.lowering.physical import (
    AS_IT_COMES,
    INPUT,
    Aggregated,
    ChainPlan,
    ChainStep,
    ChangelogSink,
    Columns,
    ColumnSink,
    Counted,
    Decoded,
    Direct,
    Ending,
    Failed,
    InBytes,
    KeysKept,
    Merged,
    NativeStep,
    PhysicalPlan,
    PlannedSerde,
    PythonSinks,
    Read,
    Records,
    RecordsOnly,
    Results,
    Rows,
    Shuffled,
    Stateful,
    TailRecords,
    Written,
)
from ottla.spark.streams.lowering.plan_words import plan_lines
from ottla.spark.streams.lowering.record_times import direct_time, extractor_of, takes_own_time
from ottla.streams import (
    STATELESS,
    Entry,
    Function,
    ProcessorNode,
    Serde,
    SinkNode,
    SourceNode,
    Stage,
    StreamsSettings,
    TimeWindows,
    UnsupportedPlan,
    functions_of,
    operations,
    serde_of,
    serdes_at,
)

__all__ = ["Place", "lets_records_go", "physical", "physical_text", "same_bytes"]

KEEPING = (operations.NotNullKey, operations.PassThrough)
MAYBE_IN_ARROW = (
    operations.Filter,
    operations.MapValues,
    operations.SelectKey,
    operations.FlatMapValues,
    operations.Branch,
)
"""Steps that may have a text expression."""
UNCHANGED = (operations.NotNullKey, operations.PassThrough, operations.Filter, operations.Peek)


@dataclass(frozen=True, slots=True)
class Place:
    """What the session and the topics can do."""

    in_cluster: bool = True
    """Whether functions may run where records are fetched: by `format("ottla")`, not by a test driver's topics."""
    by_tasks: bool = True
    """Whether tasks may fetch, finish and deliver by themselves: not over Spark Connect."""


def physical(
    stage: Stage, settings: StreamsSettings, *, arrow: Stage | None = None, place: Place | None = None
) -> PhysicalPlan:
    """Return a stage's physical plan; raises UnsupportedPlan, with the step's name, for what Spark cannot do.

    `arrow` is the stage with its expressions as functions over Arrow arrays, where Arrow computes all of them as Spark does.
    """
    where = place or Place()
    in_tasks = _Planner(arrow or stage, settings, where)
    if where.by_tasks and (direct := in_tasks.direct()) is not None:
        return PhysicalPlan(in_tasks.stage, "append", direct)
    planner = in_tasks
    if stage.kind == "stateless" or (stage.kind == "native" and not in_tasks.counts_early()):
        planner = _Planner(stage, settings, where)  # in columns: Python would be one more hop
    if stage.kind == "stateful":
        return PhysicalPlan(planner.stage, "append", _written(planner.stateful()))
    if stage.kind == "native":
        if where.by_tasks and in_tasks.finishes():
            return PhysicalPlan(planner.stage, "update", Results(planner.aggregated()[0], in_tasks.finish()))
        return PhysicalPlan(planner.stage, "update", _written(planner.native()))
    return PhysicalPlan(planner.stage, "append", _written(planner.stateless()))


def physical_text(stage: Stage, settings: StreamsSettings) -> list[str]:
    """Return a stage's physical plan as lines; two where it depends on whether Arrow computes all expressions as Spark does.

    That only Spark can tell, which parses them. Raises UnsupportedPlan as `physical`.
    """
    in_columns = plan_lines(physical(stage, settings))
    in_tasks = plan_lines(physical(stage, settings, arrow=as_if_in_arrow(stage)))
    if in_tasks == in_columns:
        return ["physical plan", *(f"  {line}" for line in in_columns)]
    return [
        "physical plan, if Arrow computes every expression as Spark does",
        *(f"  {line}" for line in in_tasks),
        "physical plan, if it does not",
        *(f"  {line}" for line in in_columns),
    ]


def as_if_in_arrow(stage: Stage) -> Stage:
    """Return a stage with functions in the place of the expressions in front of its state, to look at its plan.

    The stage as it is where one of them is at a step whose expressions Arrow never computes.
    """
    nodes, front = dict(stage.plan.nodes), set[str]()
    for name in stage.nodes:
        node = nodes[name]
        if isinstance(node, SourceNode):
            front.add(name)
        elif isinstance(node, ProcessorNode) and isinstance(node.operation, STATELESS):
            if any(parent not in front for parent in stage.parents(name)):
                continue  # behind the state
            front.add(name)
            if needs_columns(node.operation):
                if not isinstance(node.operation, MAYBE_IN_ARROW):
                    return stage
                nodes[name] = replace(node, operation=_in_arrow(node.operation))
    return replace(stage, plan=replace(stage.plan, nodes=nodes))


def _in_arrow(operation: Any) -> Any:
    def made(function: Function | None) -> Function | None:
        return Function(call=_unknown, vectorised=True) if function is not None and function.is_native else function

    if isinstance(operation, operations.Branch):
        return replace(operation, predicates=tuple(map(made, operation.predicates)))
    name = "predicate" if isinstance(operation, operations.Filter) else "mapper"
    return replace(operation, **{name: made(getattr(operation, name))})


def _unknown(*_: object) -> None:
    raise AssertionError("stands for a function in a plan that is looked at only")


def _written(rows: tuple[Rows, ...]) -> Written:
    if not rows:
        words = "a part of the plan ends in expressions without effect: expected a sink or a Python action"
        raise UnsupportedPlan(words)
    return Written(rows)


def same_bytes(one: Serde | None, other: Serde | None) -> bool:
    """True where two serdes write a value alike; a windowed serde's size is not written."""
    return (
        one is None
        or other is None
        or one == other
        or (type(one) is type(other) and hasattr(one, "inner") and one.inner == other.inner)  # type: ignore[attr-defined]
    )


def is_python(node: ProcessorNode) -> bool:
    """True where a step has a Python function (an action without effect in columns is none)."""
    return any(each.call is not None for each in functions_of(node.operation))


def needs_columns(operation: operations.Operation) -> bool:
    """True where a step has an expression."""
    return any(each.is_native for each in functions_of(operation))


def lets_records_go(settings: StreamsSettings) -> bool:
    """True where a handler lets records go elsewhere than on."""
    policies = (settings.deserialization, settings.processing, settings.production)
    return any(each.action != "fail" or each.decide is not None for each in policies)


def _makes_keys(records: Records) -> bool:
    """True where the records' keys are an expression's results, in a column and not in bytes."""
    if isinstance(records, NativeStep) and isinstance(records.node.operation, operations.Map | operations.SelectKey):
        return True
    return isinstance(records, NativeStep | KeysKept | RecordsOnly | Decoded) and _makes_keys(records.records)


class _Unknown:
    """Where a Python step gave a side no serde."""


UNKNOWN = _Unknown()


class _Planner:
    """One stage: the operators behind its nodes, each made once."""

    def __init__(self, stage: Stage, settings: StreamsSettings, place: Place) -> None:
        self.stage = stage
        self.plan = stage.plan
        self.settings = settings
        self.place = place
        self.flows: dict[str, Records] = {}
        """The records behind nodes that an operator takes as they are; a run of Python steps begins behind them."""
        self.columns: dict[str, Records] = {}
        self.given: set[tuple[str, bool]] = set()

    # -- whole stages

    def direct(self) -> Direct | None:
        """Return a stage whose tasks need Spark for nothing between their fetching and producing; None for others."""
        stage, sources = self.stage, self.stage.source_nodes()
        if stage.kind != "stateless" or len(sources) != 1 or not self.place.in_cluster:
            return None
        source = sources[0]
        steps = [name for name in stage.nodes if isinstance(self.plan.nodes[name], ProcessorNode)]
        single = all(len(stage.parents(name)) == 1 for name in stage.nodes if name != source.name)
        if not single or not all(map(self._in_python, steps)) or not takes_own_time(self._extractor(source)):
            return None
        return Direct(Read(source), self._chain(source.name, steps, list(map(self._ending, self._ends()))))

    def stateless(self) -> tuple[Rows, ...]:
        """Return what the stage's sinks and actions leave."""
        return tuple(self._leaving(self._ends(), self.stage.nodes))

    def aggregated(self) -> tuple[Aggregated, list[Rows]]:
        """Return the stage's aggregate, and what has left already of its records."""
        node, operation = self._aggregate()
        aggregator, failed = operation.aggregator, list[Rows]()
        given: Records | Counted | None = self._counts(node)
        if given is None:
            records = self._merged(node.parents, node.name)
            if aggregator.kind != "count" or aggregator.argument is not None or _makes_keys(records):
                records = Decoded(records)
            given, failed = RecordsOnly(records), [Failed(records)]
        tail = bool(self._below(node.name, self.stage.nodes))
        return Aggregated(given, node, self.plan.stores[operation.store], tail), failed

    def native(self) -> tuple[Rows, ...]:
        """Return what the tail behind the stage's aggregate leaves, and its changelog's rows."""
        made, failed = self.aggregated()
        name = end = made.node.name
        self.flows[name] = made
        while below := self._below(end, self.stage.nodes):
            end = below[0]
        if end == name:
            return (ChangelogSink(made), *failed)
        return (*self._leaving([end], self.stage.nodes), *failed)

    def finishes(self) -> bool:
        """Whether the writing tasks can make records of the aggregate's results: Spark is not needed behind it."""
        steps = [name for name in self._behind_aggregate() if isinstance(self.plan.nodes[name], ProcessorNode)]
        if lets_records_go(self.settings):
            return False
        return all(self._in_python(name) or self._is_conversion(name) for name in steps)

    def finish(self) -> ChainPlan | None:
        """Return the steps and sinks behind the aggregate; None where there are none."""
        behind = self._behind_aggregate()
        steps = [name for name in behind if isinstance(self.plan.nodes[name], ProcessorNode)]
        ends = [self._ending(name) for name in self._ends() if name in behind]
        return self._chain(self._aggregate()[0].name, steps, ends) if ends else None

    def counts_early(self) -> bool:
        """True where the stage's records are counted where they are fetched."""
        node = self.plan.nodes[self.stage.aggregate or ""]
        return isinstance(node, ProcessorNode) and self._counted_behind(node) is not None

    def stateful(self) -> tuple[Rows, ...]:
        """Return what the tasks with state leave, with the tails behind them."""
        tasks = Stateful(tuple(self._entering(entry, edge) for edge, entry in enumerate(self.stage.entries)))
        if not self.stage.tails:
            return (tasks,)
        found: list[Rows] = []
        for tail in self.stage.tails:
            others = tuple(each.topic for each in self.stage.tails if each.topic != tail.topic)
            self.flows[tail.after] = TailRecords(tasks, tail, others, not found)
            ends = [each for each in tail.nodes if isinstance(self.plan.nodes[each], SinkNode)]
            found += self._leaving(ends, tail.nodes)
        return tuple(found)

    # -- what is asked of nodes

    def _extractor(self, source: SourceNode) -> Any:
        return extractor_of(source, self.plan, self.settings)

    def _in_python(self, name: str) -> bool:
        """True where no function of a step is Spark's to compute."""
        operation = getattr(self.plan.nodes[name], "operation", None)
        return isinstance(operation, STATELESS) and not needs_columns(operation)

    def _is_conversion(self, name: str) -> bool:
        return isinstance(getattr(self.plan.nodes[name], "operation", None), operations.TableToStream)

    def _ends(self) -> list[str]:
        """Return the stage's sinks, and its steps that nothing follows."""
        nodes = self.stage.nodes
        return [name for name in nodes if isinstance(self.plan.nodes[name], SinkNode) or not self._below(name, nodes)]

    def _below(self, name: str, among: Sequence[str]) -> list[str]:
        return [each for each in among if name in self.stage.parents(each)]

    def _aggregate(self) -> tuple[ProcessorNode, operations.StreamAggregate | operations.WindowAggregate]:
        node = self.plan.nodes[self.stage.aggregate or ""]
        assert isinstance(node, ProcessorNode)
        assert isinstance(node.operation, operations.StreamAggregate | operations.WindowAggregate)
        return node, node.operation

    def _behind_aggregate(self) -> list[str]:
        above = self._aggregate()[0].name
        return [name for name in self.stage.nodes if self._is_behind(name, above)]

    def _is_behind(self, name: str, above: str) -> bool:
        parents = self.stage.parents(name)
        return above in parents or any(self._is_behind(each, above) for each in parents)

    def _branch_of(self, parent: str, child: str) -> int | None:
        above = self.plan.nodes[parent]
        if isinstance(above, ProcessorNode) and isinstance(above.operation, operations.Branch):
            return above.operation.children.index(child) if child in above.operation.children else None
        return None

    # -- where records are fetched

    def _counts(self, node: ProcessorNode) -> Counted | None:
        """Return counts of a counting step's records, taken where they are fetched; None where that cannot be."""
        parent = self._counted_behind(node)
        if parent is None:
            return None
        root, steps = self._tree([parent])
        windows, read = getattr(node.operation, "windows", None), self._take(root, columns=False)
        assert isinstance(read, Read), "nobody else takes them"
        assert isinstance(node.operation, operations.StreamAggregate | operations.WindowAggregate)
        end = Ending(parent, 0, key=self.plan.stores[node.operation.store].key)
        return Counted(read, self._chain(root, steps, [end]), windows if isinstance(windows, TimeWindows) else None)

    def _counted_behind(self, node: ProcessorNode) -> str | None:
        """Return the step behind which records are counted where they are fetched; None where that cannot be."""
        assert isinstance(node.operation, operations.StreamAggregate | operations.WindowAggregate)
        aggregator = node.operation.aggregator
        if aggregator.kind != "count" or aggregator.argument is not None or lets_records_go(self.settings):
            return None
        parent = self._single(node.name)
        while parent is not None and isinstance(getattr(self.plan.nodes[parent], "operation", None), KEEPING):
            parent = self._single(parent)  # null keys are not counted anyway
        return parent if parent is not None and self._is_pushed(self._tree([parent])[0]) else None

    def _single(self, name: str) -> str | None:
        """Return the only node whose records a node takes, across repartition topics that are none."""
        parents = self.stage.parents(name)
        while len(parents) == 1 and parents[0] in self.stage.fused:
            parents = self.stage.fused[parents[0]]
        return parents[0] if len(parents) == 1 else None

    def _is_pushed(self, root: str) -> bool:
        """True where what Python does with a source's records can be done where they are fetched: nobody else takes them."""
        source = self.plan.nodes.get(root)
        if not isinstance(source, SourceNode) or root in self.stage.fused:
            return False
        if not self.place.in_cluster or not direct_time(self._extractor(source)):
            return False
        below = self._below(root, self.stage.nodes)
        while len(below) == 1:
            node = self.plan.nodes[below[0]]
            if isinstance(node, ProcessorNode) and not isinstance(node.operation, STATELESS):
                return True
            below = self._below(node.name, self.stage.nodes)
        return False

    # -- sources and steps

    def _take(self, name: str, *, columns: bool) -> Records:
        """Return the records behind a node for one operator; only the first gets the rows that have left already."""
        made = self.columns if columns else self.flows
        if name not in made:
            made[name] = Decoded(self._take(name, columns=False)) if columns else self._flow(name)
        flow = made[name]
        if (name, columns) in self.given:
            return RecordsOnly(flow)
        self.given.add((name, columns))
        return flow

    def _flow(self, name: str) -> Records:
        node = self.plan.nodes[name]
        if isinstance(node, SourceNode):
            if name not in self.stage.fused:
                return Read(node)
            return InBytes(self._merged(self.stage.fused[name], name), node.key, node.value, name)
        assert isinstance(node, ProcessorNode), f"{name} forwards nothing"
        if self._chained(name):
            return self._stayed(name)
        operation = node.operation
        if len(node.parents) > 1:
            return self._merged(node.parents, name)
        parent = node.parents[0]
        if isinstance(operation, operations.NotNullKey):
            return KeysKept(self._take(parent, columns=False), node)
        above = self.plan.nodes[parent]
        records: Records
        if not (isinstance(above, ProcessorNode) and isinstance(above.operation, operations.Branch)):
            records = self._take(parent, columns=needs_columns(operation))
        elif self._chained(parent):
            records = Decoded(self._stayed(parent, name))
        else:
            branch = above.operation.children.index(name)
            records = NativeStep(self._take(above.parents[0], columns=True), above, branch)
        return NativeStep(records, node)

    def _merged(self, parents: Sequence[str], step: str) -> Records:
        """Return several nodes' records as one flow."""
        parts = tuple(self._take(each, columns=False) for each in parents)
        return parts[0] if len(parts) == 1 else Merged(parts, step)

    # -- runs of Python steps

    def _tree(self, ends: Sequence[str]) -> tuple[str, list[str]]:
        """Return the node above the Python steps that lead to some ends, and those steps in the plan's order."""
        steps: set[str] = set()
        root = ""
        for end in ends:
            root = end
            while self._chained(root) and root not in self.flows:
                steps.add(root)
                node = self.plan.nodes[root]
                assert isinstance(node, ProcessorNode)
                root = node.parents[0]
        return root, [each for each in self.plan.nodes if each in steps]

    def _chained(self, name: str) -> bool:
        """True for what runs in Python: a step with a Python function, and one without function behind such a step."""
        node = self.plan.nodes[name]
        if not isinstance(node, ProcessorNode) or len(node.parents) != 1 or not isinstance(node.operation, STATELESS):
            return False
        if is_python(node):
            return True
        return not any(functions_of(node.operation)) and name not in self.flows and self._chained(node.parents[0])

    def _chain(self, root: str, steps: Sequence[str], ends: Sequence[Ending]) -> ChainPlan:
        place = {name: index for index, name in enumerate(steps)}
        made = []
        for name in steps:
            node = self.plan.nodes[name]
            assert isinstance(node, ProcessorNode)
            parent = node.parents[0]
            made.append(ChainStep(name, node.operation, place.get(parent, INPUT), self._branch_of(parent, name)))
        return ChainPlan(root, tuple(made), tuple(self._placed(end, place) for end in ends))

    def _placed(self, end: Ending, place: Mapping[str, int]) -> Ending:
        origin = self._origin(end.name)
        return replace(end, after=place.get(origin, INPUT), branch=self._branch_of(origin, end.name))

    def _origin(self, end: str) -> str:
        """Return the node whose records an end takes: a sink's parent, else the node itself."""
        node = self.plan.nodes.get(end)
        return node.parents[0] if isinstance(node, SinkNode) else end

    def _ending(self, name: str) -> Ending:
        node = self.plan.nodes[name]
        return Ending(name, 0, None, node.key, node.value, node) if isinstance(node, SinkNode) else Ending(name, 0)

    def _stayed(self, name: str, child: str | None = None) -> Columns:
        """Return the records behind a Python step for Spark's own steps; behind a Branch, those of a child."""
        root, steps = self._tree([name])
        records = InBytes(self._take(root, columns=False), None, None, name)
        key, value = (
            self._as_written(name, side) if found is UNKNOWN else found
            for side, found in zip(("key", "value"), self._behind(steps), strict=True)
        )
        if key is UNKNOWN or value is UNKNOWN:
            what = "key" if key is UNKNOWN else "value"
            raise UnsupportedPlan(f"step {name}: a column step follows, so the {what} needs a serde; give its type")
        chain = self._chain(root, steps, [Ending(name, 0, None, key, value)])
        if child is not None:
            ends = tuple(replace(each, branch=self._branch_of(name, child)) for each in chain.ends)
            chain = replace(chain, ends=ends)
        return Columns(records, chain, name)

    def _behind(self, steps: Sequence[str]) -> tuple[Any, Any]:
        """Return the serdes behind Python steps: the plan's, or those of the records where nothing replaced a side."""
        found: list[Any] = [AS_IT_COMES, AS_IT_COMES]
        for each in steps:
            node = self.plan.nodes[each]
            assert isinstance(node, ProcessorNode)
            operation = node.operation
            if isinstance(operation, operations.Map | operations.FlatMap | operations.SelectKey):
                found[0] = operation.key or self._default("key")
            if isinstance(
                operation, operations.Map | operations.FlatMap | operations.MapValues | operations.FlatMapValues
            ):
                found[1] = operation.value or self._default("value")
        return found[0], found[1]

    def _as_written(self, name: str, side: str) -> Any:
        """Return the serde with which Kafka would write what leaves a step to the repartition topic that follows it."""
        for sink in self.plan.nodes.values():
            if isinstance(sink, SinkNode) and sink.topic in self.plan.repartition_topics:
                above = sink.parents[0]
                while above != name and isinstance(getattr(self.plan.nodes[above], "operation", None), UNCHANGED):
                    above = self.plan.nodes[above].parents[0]  # type: ignore[union-attr]  # a processor has parents
                if above == name and getattr(sink, side) is not None:
                    return getattr(sink, side)
        return UNKNOWN

    def _default(self, name: str) -> Any:
        """Return the application's default serde."""
        given = self.settings[f"default.{name}.serde"]
        return UNKNOWN if given is None else serde_of(given)

    # -- leaving

    def _leaving(self, ends: Sequence[str], among: Sequence[str]) -> list[Rows]:
        """Return rows of sinks and actions: those behind one run of Python steps in one pass."""
        python: list[str] = []
        native: list[SinkNode] = []
        for end in ends:
            node = self.plan.nodes[end]
            if isinstance(node, SinkNode) and (len(node.parents) > 1 or self._in_columns(node)):
                native.append(node)
            elif isinstance(node, ProcessorNode) and not self._chained(end):
                continue  # an action in columns has no effect
            else:
                python.append(end)
        made: list[Rows] = [ColumnSink(self._for_sink(node), node) for node in native]
        roots: dict[str, list[str]] = {}
        # only now: a step that a native sink needed too is a root, behind which nothing is done twice
        for end in python:
            roots.setdefault(self._tree([self._origin(end)])[0], []).append(end)
        return [*made, *(self._python_sinks(root, found) for root, found in roots.items())]

    def _in_columns(self, node: SinkNode) -> bool:
        """True where nothing of a sink, nor the step before it, is Python's."""
        return isinstance(node.topic, str) and node.partitioner is None and not self._chained(node.parents[0])

    def _for_sink(self, node: SinkNode) -> Records:
        """Return the records that a sink takes; its parent may be a Branch."""
        if len(node.parents) > 1:
            return self._merged(node.parents, node.name)
        parent = node.parents[0]
        above = self.plan.nodes[parent]
        if isinstance(above, ProcessorNode) and isinstance(above.operation, operations.Branch):
            branch = above.operation.children.index(node.name)
            return NativeStep(self._take(above.parents[0], columns=True), above, branch)
        return self._take(parent, columns=False)

    def _python_sinks(self, root: str, ends: Sequence[str]) -> PythonSinks:
        steps = self._tree([self._origin(each) for each in ends])[1]
        records = InBytes(self._take(root, columns=False), None, None, root)
        return PythonSinks(records, self._chain(root, steps, list(map(self._ending, ends))))

    # -- state

    def _entering(self, entry: Entry, edge: int) -> Shuffled:
        """Return an entry's records on their way to the tasks with state."""
        node = self.plan.nodes[entry.node]
        if isinstance(node, SourceNode) and entry.node in self.stage.fused:
            parents, wanted = self.stage.fused[entry.node], (node.key, node.value)
        else:
            parents, wanted = (entry.node,), serdes_at(self.stage, entry.node)
        at_source: Read | None = None
        if len(parents) == 1:
            root, steps = self._tree([parents[0]])
            serdes: tuple[Serde | None, Serde | None] = (None, None) if steps else wanted
            taken = self._take(root, columns=False)
            if isinstance(taken, Read) and self._is_pushed(root) and not entry.is_global:
                own = taken.source.key, taken.source.value
                at_source = taken if all(map(same_bytes, own, serdes)) else None
            records = InBytes(taken, *serdes, entry.node)
        else:
            root, steps = entry.node, []
            records = InBytes(self._merged(parents, entry.node), *wanted, entry.node)
        key, value = self._entry_serdes(parents[0], steps, wanted)
        end = Ending(parents[0] if steps else entry.node, 0, None, key, value)
        chain = self._chain(root, steps, [end])
        return Shuffled(records, chain, edge, entry.repartition is not None, entry.is_global, at_source)

    def _entry_serdes(
        self, parent: str, steps: Sequence[str], wanted: tuple[Serde | None, Serde | None]
    ) -> tuple[PlannedSerde, PlannedSerde]:
        """Return the serdes between prefix and executor: the plan's, else those that the records have."""
        found: list[Any] = list(self._behind(steps))
        for at, name in enumerate(("key", "value")):
            if wanted[at] is not None:
                found[at] = wanted[at]
            elif found[at] is UNKNOWN:
                raise UnsupportedPlan(f"step {parent}: state follows, so the {name} needs a serde; give its type")
        return found[0], found[1]
