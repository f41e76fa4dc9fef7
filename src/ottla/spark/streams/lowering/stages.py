"""A stage of a plan as a streaming DataFrame: `plan_query` is where plans become Spark's.

Each node becomes a `StreamFrame`; runs of Python steps become one `mapInArrow`, expressions Spark's own operators. Results
are in shape OUT (`rows.py`); those without a topic say how many records were skipped, are counted (`SKIPPED`) and taken out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from ottla.spark.source.options import read_options
from ottla.spark.streams.internal_topics import changelog_topic, repartition_topic
from ottla.spark.streams.lowering.arrow import in_arrow
from ottla.spark.streams.lowering.chain import INPUT, Chain, ChainEnd, ChainStep
from ottla.spark.streams.lowering.direct import Direct
from ottla.spark.streams.lowering.native import aggregated, key_serde, results
from ottla.spark.streams.lowering.partial import COUNTS, Counting, bucket_ms
from ottla.spark.streams.lowering.python import ColumnRows, ShuffleRows, SinkRows
from ottla.spark.streams.lowering.query import FLOW, KEEPING, SKIPPED, UNCHANGED, UNKNOWN, Query, tail_rows
from ottla.spark.streams.lowering.results import Results
from ottla.spark.streams.lowering.rows import OUT
from ottla.spark.streams.lowering.stream_frame import (
    RECORD,
    StreamFrame,
    decoded,
    encoded,
    is_python,
    native_step,
    needs_columns,
    not_null_key,
    out_rows,
    record_columns,
    serde_of_column,
    union,
)
from ottla.spark.streams.lowering.times import direct_time, invalid_time, takes_own_time, timed, told
from ottla.spark.streams.lowering.topics import ClusterTopics, TopicRead, Topics
from ottla.spark.streams.state.chunks import CHUNKS
from ottla.spark.streams.state.operator import stateful, task_plan, uses_wall_clock
from ottla.streams import (
    STATELESS,
    EngineSettings,
    Entry,
    ProcessorNode,
    Serde,
    SinkNode,
    SourceNode,
    Stage,
    StoreSpec,
    StreamsSettings,
    TimeWindows,
    UnsupportedPlan,
    functions_of,
    operations,
    partition_plan,
    serde_of,
    serdes_at,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.streams.state.rebuild import Initial

__all__ = ["SKIPPED", "ClusterTopics", "Query", "TopicRead", "Topics", "plan_query"]


def plan_query(
    stage: Stage,
    spark: SparkSession,
    topics: Topics,
    settings: StreamsSettings,
    *,
    initial: Initial | None = None,
    clock: str = "",
    commits_topic: str = "",
    direct: bool = False,
) -> Query:
    """Return a stage's query; raises UnsupportedPlan, with the step's name, for what Spark cannot do.

    `initial` is state for a new checkpoint of a stateful stage; `clock` a file that tells the time, for tests; in
    `commits_topic` tasks with state note how far they have come (`state_positions`), unless it is empty; `direct` says that
    the caller can do with `Query.direct`. The session must not run adaptively (`sessions.SETTINGS`).
    """
    lowering = in_tasks = _Lowering(in_arrow(stage, spark), spark, topics, settings)
    if direct and (found := lowering.direct()) is not None:
        return Query(found.rows, "append", found)
    if stage.kind == "stateless" or (stage.kind == "native" and not lowering.counts_early()):
        lowering = _Lowering(stage, spark, topics, settings)  # in columns: Python would be one more hop
    if stage.kind == "stateful":
        rows, mode = lowering.stateful(initial, clock, commits_topic), "append"
    elif stage.kind == "native":
        if direct and (finish := in_tasks.finish()) is not None:
            return Query(lowering.results(), "update", pushed=lowering.pushed, finish=finish)
        rows, mode = lowering.native(), "update"
    else:
        rows, mode = lowering.stateless(), "append"
    skipped = f.sum(f.when(f.col("topic").isNull(), f.col("partition")).otherwise(0)).alias("records")
    return Query(rows.observe(SKIPPED, skipped).where("topic is not null"), mode, pushed=lowering.pushed)


class _Lowering:
    """One stage on its way; flows are made once per node."""

    def __init__(self, stage: Stage, spark: SparkSession, topics: Topics, settings: StreamsSettings) -> None:
        self.stage = stage
        self.plan = stage.plan
        self.spark = spark
        self.topics = topics
        self.settings = settings
        self.counts = dict(topics.partition_counts())
        self.partitions = partition_plan(stage.plan, self.counts)
        self.flows: dict[str, StreamFrame] = {}
        self.columns: dict[str, StreamFrame] = {}
        self.given: set[tuple[str, bool]] = set()
        self.pushed = False  # whether a source hands on something else than records

    # -- whole stages

    def direct(self) -> Direct | None:
        """Return a stage whose tasks need Spark for nothing between their fetching and producing; None for others."""
        stage, sources = self.stage, self.stage.source_nodes()
        if stage.kind != "stateless" or len(sources) != 1 or not isinstance(self.topics, ClusterTopics):
            return None
        source = sources[0]
        steps = [name for name in stage.nodes if isinstance(self.plan.nodes[name], ProcessorNode)]
        single = all(len(stage.parents(name)) == 1 for name in stage.nodes if name != source.name)
        if not single or not all(map(self._in_python, steps)) or not takes_own_time(self._extractor(source)):
            return None
        wanted = self._wanted(source)
        flow = StreamFrame.of(self.topics.read(self.spark, wanted), source.key, source.value, source.name)
        ends = [self._chain_end(name) for name in self._ends()]
        options = read_options(self.topics.options(wanted), streaming=True)
        return Direct(flow.frame, options, SinkRows(self._chain(source.name, steps, ends, flow.serdes)))

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

    def stateless(self) -> DataFrame:
        """Return what the stage's sinks and actions leave."""
        return union(self._leaving(self._ends(), self.stage.nodes))

    def native(self) -> DataFrame:
        """Return what the tail behind the stage's aggregate leaves, and its changelog's rows."""
        node, spec = self._aggregate()
        name = node.name
        given: StreamFrame | DataFrame | None = self._counts(node, spec)
        failed: list[DataFrame] = []
        if given is None:
            given, failed = self._aggregable(self._merged(node.parents, name), node.operation.aggregator)
        flow = aggregated(
            given,
            node.operation,
            spec,
            changelog=changelog_topic(self.settings.application_id, spec.name) if spec.logged else None,
            tasks=self.partitions.stores.get(spec.name, 1),
            tail=bool(self._below(name, self.stage.nodes)),
            step=name,
        )
        self.flows[name] = flow
        end = name
        while below := self._below(end, self.stage.nodes):
            end = below[0]
        if end == name:
            return union([flow.frame.select("_out.*"), *failed])
        return union([*self._leaving([end], self.stage.nodes), *failed])

    def results(self) -> DataFrame:
        """Return what the stage's aggregate hands on, for `finish`."""
        node, spec = self._aggregate()
        given: StreamFrame | DataFrame | None = self._counts(node, spec)
        if given is None:
            given, _ = self._aggregable(self._merged(node.parents, node.name), node.operation.aggregator)
        return results(given, node.operation, spec, node.name)

    def finish(self) -> Results | None:
        """Return what writing tasks do with the results; None where Spark is needed behind the aggregate."""
        node, spec = self._aggregate()
        behind = [name for name in self.stage.nodes if self._is_behind(name, node.name)]
        steps = [name for name in behind if isinstance(self.plan.nodes[name], ProcessorNode)]
        if self._letters() or not all(self._in_python(name) or self._is_conversion(name) for name in steps):
            return None
        changelog = changelog_topic(self.settings.application_id, spec.name) if spec.logged else None
        serdes = key_serde(node.operation, spec), spec.value
        ends = [name for name in self._ends() if name in behind]
        leaving = SinkRows(self._chain(node.name, steps, list(map(self._chain_end, ends)), serdes)) if ends else None
        return Results(changelog, self.partitions.stores.get(spec.name, 1), leaving)

    def _aggregate(self) -> tuple[Any, StoreSpec]:
        """Return the stage's aggregate and its store."""
        node = self.plan.nodes[self.stage.aggregate or ""]
        assert isinstance(node, ProcessorNode)
        assert isinstance(node.operation, operations.StreamAggregate | operations.WindowAggregate)
        return node, self.plan.stores[node.operation.store]

    def _is_behind(self, name: str, above: str) -> bool:
        parents = self.stage.parents(name)
        return above in parents or any(self._is_behind(each, above) for each in parents)

    def _counts(self, node: ProcessorNode, spec: StoreSpec) -> DataFrame | None:
        """Return counts of a counting step's records, taken where they are fetched; None where that cannot be."""
        parent = self._counted_behind(node)
        if parent is None:
            return None
        root, steps = self._tree([parent])
        windows, flow = getattr(node.operation, "windows", None), self._take(root, columns=False)
        chain = self._chain(root, steps, [ChainEnd(parent, 0, spec.key, None)], flow.serdes)
        function = Counting(chain, bucket_ms(windows if isinstance(windows, TimeWindows) else None))
        return self._through(root, function, COUNTS)

    def counts_early(self) -> bool:
        """True where the stage's records are counted where they are fetched."""
        node = self.plan.nodes[self.stage.aggregate or ""]
        return isinstance(node, ProcessorNode) and self._counted_behind(node) is not None

    def _counted_behind(self, node: ProcessorNode) -> str | None:
        """Return the step behind which records are counted where they are fetched; None where that cannot be."""
        assert isinstance(node.operation, operations.StreamAggregate | operations.WindowAggregate)
        aggregator = node.operation.aggregator
        if aggregator.kind != "count" or aggregator.argument is not None or self._letters():
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
        if not isinstance(self.topics, ClusterTopics) or not direct_time(self._extractor(source)):
            return False
        below = self._below(root, self.stage.nodes)
        while len(below) == 1:
            node = self.plan.nodes[below[0]]
            if isinstance(node, ProcessorNode) and not isinstance(node.operation, STATELESS):
                return True
            below = self._below(node.name, self.stage.nodes)
        return False

    def _through(self, root: str, function: Any, schema: str) -> DataFrame:
        """Return what a function over Arrow makes of a source's records where they are fetched (`_is_pushed`)."""
        source = self.plan.nodes[root]
        assert isinstance(source, SourceNode) and isinstance(self.topics, ClusterTopics)
        self.pushed = True
        return self.topics.read_through(self.spark, self._wanted(source), function, schema)

    def _aggregable(self, flow: StreamFrame, aggregator: operations.Aggregator) -> tuple[StreamFrame, list[DataFrame]]:
        """Return records in columns, and apart from them the OUT rows of what failed: these take a pass of their own."""
        if aggregator.kind != "count" or aggregator.argument is not None or not flow.key.raw:
            flow = self._decoded(flow)
        if not flow.finished:
            return flow, []
        return flow.without_finished(), [flow.frame.where("_out is not null").select("_out.*")]

    def stateful(self, initial: Initial | None, clock: str = "", commits_topic: str = "") -> DataFrame:
        """Return what the executors leave, with the tails behind them."""
        stage, entries = self.stage, []
        topology = stage.topology
        for edge, entry in enumerate(stage.entries):
            rows, serdes = self._entering(entry, edge)
            entries.append(rows)
            node = topology.nodes[entry.node]
            assert isinstance(node, SourceNode)
            if (node.key, node.value) != serdes:
                changed = replace(node, key=serdes[0], value=serdes[1])
                topology = replace(topology, nodes={**topology.nodes, entry.node: changed})
        stage = replace(stage, topology=topology)
        engine = self._engine_settings()
        plan = task_plan(
            stage,
            application_id=self.settings.application_id,
            tasks=self._tasks(),
            settings=engine,
            clock=clock,
            commits_topic=commits_topic,
            known=None if initial is None else initial.known,
            topic_ids=self.topics.topic_ids(),
        )
        rows = stateful(union(entries), plan, initial=None if initial is None else initial.blobs)
        return self._tails(rows) if stage.tails else rows

    def _engine_settings(self) -> EngineSettings:
        settings = self.settings
        return EngineSettings(
            cache=settings.cache,
            skip_undecodable=settings.deserialization.action == "continue",
            skip_failing=settings.processing.action == "continue",
            dead_letter_topic=settings.processing.dead_letter_topic,
            partition_counts=dict(self.counts),
        )

    def _tasks(self) -> int:
        """Return the number of the stage's tasks: its widest topic's partitions, as in Kafka Streams."""
        counts = [self.partitions.stores[name] for name in self.stage.stores if name in self.partitions.stores]
        for entry in self.stage.entries:
            if entry.repartition is not None:
                counts.append(self.partitions.topics[entry.repartition])
            elif not entry.is_global:
                counts += [self.partitions.topics[topic] for name in entry.sources for topic in self._topics_of(name)]
        return max(counts, default=1)

    def _topics_of(self, name: str) -> Sequence[str]:
        node = self.plan.nodes[name]
        assert isinstance(node, SourceNode)
        return node.topics_among(self.counts)

    # -- sources and steps

    def _take(self, name: str, *, columns: bool) -> StreamFrame:
        """Return the records behind a node for one consumer; only the first gets the rows that have left already."""
        made = self.columns if columns else self.flows
        if name not in made:
            made[name] = self._decoded(self._take(name, columns=False)) if columns else self._flow(name)
        flow = made[name]
        if (name, columns) in self.given:
            return flow.without_finished()
        self.given.add((name, columns))
        return flow

    def _decoded(self, flow: StreamFrame) -> StreamFrame:
        return decoded(flow, self.settings.deserialization)

    def _flow(self, name: str) -> StreamFrame:
        node = self.plan.nodes[name]
        if isinstance(node, SourceNode):
            return self._repartitioned(node) if name in self.stage.fused else self._source(node)
        assert isinstance(node, ProcessorNode), f"{name} forwards nothing"
        if self._chained(name):
            return self._stayed(name)
        operation = node.operation
        if len(node.parents) > 1:
            return self._merged(node.parents, name)
        parent = node.parents[0]
        if isinstance(operation, operations.NotNullKey):
            return not_null_key(self._take(parent, columns=False), operation)
        above = self.plan.nodes[parent]
        if (
            self._chained(parent)
            and isinstance(above, ProcessorNode)
            and isinstance(above.operation, operations.Branch)
        ):
            flow = self._decoded(self._stayed(parent, name))
        elif isinstance(above, ProcessorNode) and isinstance(above.operation, operations.Branch):
            branch = above.operation.children.index(name)
            flow = native_step(self._take(above.parents[0], columns=True), above.operation, above.name, branch)
        else:
            flow = self._take(parent, columns=needs_columns(operation))
        return replace(native_step(flow, operation, name), node=name)

    def _source(self, node: SourceNode) -> StreamFrame:
        frame = self.topics.read(self.spark, told(self._wanted(node)))
        frame = frame.select(
            f.col("key").alias("_key"),
            f.col("value").alias("_value"),
            *("timestamp", "headers", "topic", "partition", "offset"),
        )
        flow = StreamFrame.of(frame, node.key, node.value, node.name)
        return timed(flow, self._extractor(node), self.settings.deserialization)

    def _wanted(self, node: SourceNode) -> TopicRead:
        internal = self.plan.repartition_topics
        names = tuple(
            repartition_topic(self.settings.application_id, each) if each in internal else each for each in node.topics
        )
        reset = "earliest" if internal.keys() & set(node.topics) else node.offset_reset
        return TopicRead(node.name, names, node.pattern, reset, invalid_time(self._extractor(node)))

    def _extractor(self, node: SourceNode) -> Any:
        """Return the source's own timestamp extractor, else the application's; none for repartition topics."""
        if self.plan.repartition_topics.keys() & set(node.topics):
            return None
        given = self.settings["default.timestamp.extractor"]
        return given if node.extractor is None and hasattr(given, "extract") else node.extractor

    def _repartitioned(self, node: SourceNode) -> StreamFrame:
        """Return what would be read from a repartition topic: the records by its serdes, bytes again."""
        flow = self._merged(self.stage.fused[node.name], node.name)
        return self._in_bytes(flow, (node.key, node.value), node.name)

    def _merged(self, parents: Sequence[str], step: str) -> StreamFrame:
        """Return several nodes' records as one flow."""
        flows = [self._take(each, columns=False) for each in parents]
        if len(flows) == 1:
            return flows[0]
        serdes = []
        for sides in ([each.key for each in flows], [each.value for each in flows]):
            known = [side.serde for side in sides if side.serde is not None]
            serdes.append(known[0] if known else None)
        made = [self._in_bytes(each, (serdes[0], serdes[1]), step) for each in flows]
        columns = [each for each in (*RECORD, "_step", "_out") if any(each in flow.frame.columns for flow in made)]
        types = {"_step": "int", "_out": f"struct<{OUT}>"}

        def chosen(frame: DataFrame) -> DataFrame:
            here = (f.col(each) if each in frame.columns else f.lit(None).cast(types[each]) for each in columns)
            return frame.select(*(each.alias(name) for each, name in zip(here, columns, strict=True)))

        frames = [chosen(flow.frame) for flow in made]
        return StreamFrame(union(frames), made[0].key, made[0].value, step)

    def _in_bytes(self, flow: StreamFrame, serdes: tuple[Serde | None, Serde | None], step: str) -> StreamFrame:
        """Return records whose sides are bytes by these serdes (None: whatever they are in)."""
        chosen = [self._known(serde, flow, name) for serde, name in zip(serdes, ("key", "value"), strict=True)]
        serdes = chosen[0], chosen[1]
        if flow.is_in_bytes(serdes):
            frame = flow.carrying(f.col("_key"), f.col("_value"))
            return StreamFrame.of(frame, serdes[0], serdes[1], step)
        if flow.needs_decoding(serdes):
            flow = self._decoded(flow)
        columns = [
            encoded(flow, name, serde, step).alias(f"_{name}")
            for serde, name in zip(serdes, ("key", "value"), strict=True)
        ]
        return StreamFrame.of(flow.carrying(*columns), serdes[0], serdes[1], step)

    def _known(self, serde: Serde | None, flow: StreamFrame, name: str) -> Serde | None:
        """Return the serde that is wanted, else the side's own, else one for the type that Spark found: or JSON."""
        side = flow.key if name == "key" else flow.value
        if serde is not None or side.serde is not None or not side.decoded:
            return serde if serde is not None else side.serde
        return serde_of_column(flow.frame.schema[name].dataType.simpleString())

    # -- runs of Python steps

    def _tree(self, ends: Sequence[str]) -> tuple[str, list[str]]:
        """Return the node above the Python steps that lead to some ends, and those steps in the plan's order."""
        steps: set[str] = set()
        root = ""
        for end in ends:
            name = end
            while True:
                if self._chained(name) and name not in self.flows:
                    steps.add(name)
                    name = self._above_branch(name)
                    continue
                root = name
                break
        return root, [each for each in self.plan.nodes if each in steps]

    def _above_branch(self, name: str) -> str:
        node = self.plan.nodes[name]
        assert isinstance(node, ProcessorNode | SinkNode)
        return node.parents[0]

    def _chain(
        self, root: str, steps: list[str], ends: Sequence[ChainEnd], serdes: tuple[Serde | None, Serde | None]
    ) -> Chain:
        place = {name: index for index, name in enumerate(steps)}
        made = []
        for name in steps:
            node = self.plan.nodes[name]
            assert isinstance(node, ProcessorNode)
            parent = node.parents[0]
            made.append(ChainStep(name, node.operation, place.get(parent, INPUT), self._branch(parent, name)))
        return Chain(
            *serdes,
            tuple(made),
            tuple(self._placed(end, place) for end in ends),
            self.settings.deserialization,
            self.settings.processing,
            self.settings.production,
            root,
        )

    def _placed(self, end: ChainEnd, place: Mapping[str, int]) -> ChainEnd:
        origin = self._origin(end.name)
        return replace(end, after=place.get(origin, INPUT), branch=self._branch(origin, end.name))

    def _chained(self, name: str) -> bool:
        """True for what runs in Python: a step with a Python function, and one without function behind such a step."""
        node = self.plan.nodes[name]
        if not isinstance(node, ProcessorNode) or len(node.parents) != 1 or not isinstance(node.operation, STATELESS):
            return False
        if is_python(node):
            return True
        return not any(functions_of(node.operation)) and name not in self.flows and self._chained(node.parents[0])

    def _branch(self, parent: str, child: str) -> int | None:
        above = self.plan.nodes[parent]
        if isinstance(above, ProcessorNode) and isinstance(above.operation, operations.Branch):
            return above.operation.children.index(child) if child in above.operation.children else None
        return None

    def _origin(self, end: str) -> str:
        """Return the node whose records an end takes: a sink's parent, else the node itself."""
        node = self.plan.nodes.get(end)
        return node.parents[0] if isinstance(node, SinkNode) else end

    def _stayed(self, name: str, child: str | None = None) -> StreamFrame:
        """Return the records behind a Python step for Spark's own steps; behind a Branch, those of a child."""
        root, steps = self._tree([name])
        flow = self._in_bytes(self._take(root, columns=False), (None, None), name)
        key, value = (
            self._as_written(name, side) if found is UNKNOWN else found
            for side, found in zip(("key", "value"), self._behind(name, flow), strict=True)
        )
        if key is UNKNOWN or value is UNKNOWN:
            what = "key" if key is UNKNOWN else "value"
            raise UnsupportedPlan(f"step {name}: a column step follows, so the {what} needs a serde; give its type")
        chain = self._chain(root, steps, [ChainEnd(name, 0, key, value)], flow.serdes)
        if child is not None:
            ends = tuple(replace(each, branch=self._branch(name, child)) for each in chain.ends)
            chain = replace(chain, ends=ends)
        frame = record_columns(flow).mapInArrow(ColumnRows(chain), FLOW)
        columns: list[Any] = [
            *("_key", "_value"),
            f.expr("timestamp_millis(timestamp)").alias("timestamp"),
            *("headers", "topic", "partition", "offset", "_step"),
            *(["_task"] if "_task" in flow.frame.columns else []),
            *(["_out"] if flow.finished or self._letters() else []),
        ]
        return StreamFrame.of(frame.select(*columns), key, value, name)

    def _letters(self) -> bool:
        """True where a handler lets records go elsewhere than on."""
        policies = (self.settings.deserialization, self.settings.processing, self.settings.production)
        return any(each.action != "fail" or each.decide is not None for each in policies)

    def _behind(self, name: str, flow: StreamFrame) -> tuple[Any, Any]:
        """Return the serdes behind a run of Python steps: the plan's, or those of the flow where nothing replaced a side."""
        found: list[Any] = [flow.key.serde, flow.value.serde]
        for each in self._tree([name])[1]:
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

    def _below(self, name: str, among: Sequence[str]) -> list[str]:
        return [each for each in among if name in self.stage.parents(each)]

    def _leaving(self, ends: Sequence[str], among: Sequence[str]) -> list[DataFrame]:
        """Return OUT rows of sinks and actions: those behind one run of Python steps in one pass."""
        python: list[Any] = []
        native: list[str] = []
        for end in ends:
            node = self.plan.nodes[end]
            if isinstance(node, SinkNode) and (len(node.parents) > 1 or self._in_columns(node)):
                native.append(end)
            elif isinstance(node, ProcessorNode) and not self._chained(end):
                continue  # an action in columns has no effect
            else:
                python.append(node)
        made = list(map(self._native_sink, native))
        roots: dict[str, list[str]] = {}
        # only now: a step that a native sink needed too is a root, behind which nothing is done twice
        for node in python:
            roots.setdefault(self._root(node), []).append(node.name)
        return [*made, *(self._python_sinks(root, found) for root, found in roots.items())]

    def _in_columns(self, node: SinkNode) -> bool:
        """True where nothing of a sink, nor the step before it, is Python's."""
        return isinstance(node.topic, str) and node.partitioner is None and not self._chained(node.parents[0])

    def _root(self, node: Any) -> str:
        return self._tree([self._origin(node.name)])[0]

    def _topic(self, node: SinkNode) -> Any:
        if isinstance(node.topic, str) and node.topic in self.plan.repartition_topics:
            return repartition_topic(self.settings.application_id, node.topic)
        return node.topic

    def _count(self, node: SinkNode) -> int:
        if not isinstance(node.topic, str):
            return 0
        return self.partitions.topics.get(node.topic) or self.counts.get(node.topic, 0)

    def _native_sink(self, name: str) -> DataFrame:
        node = self.plan.nodes[name]
        assert isinstance(node, SinkNode)
        flow = self._merged(node.parents, name) if len(node.parents) > 1 else self._branched(node.parents[0], name)
        if flow.needs_decoding((node.key, node.value)):
            flow = self._decoded(flow)
        return out_rows(flow, self._topic(node), (node.key, node.value), name, self._count(node))

    def _branched(self, parent: str, child: str) -> StreamFrame:
        """Return a parent's records for a child, which may be one of a Branch's."""
        above = self.plan.nodes[parent]
        if isinstance(above, ProcessorNode) and isinstance(above.operation, operations.Branch):
            branch = above.operation.children.index(child)
            return native_step(self._take(above.parents[0], columns=True), above.operation, parent, branch)
        return self._take(parent, columns=False)

    def _python_sinks(self, root: str, ends: Sequence[str]) -> DataFrame:
        steps = self._tree([self._origin(each) for each in ends])[1]
        flow = self._in_bytes(self._take(root, columns=False), (None, None), root)
        made = list(map(self._chain_end, ends))
        return record_columns(flow).mapInArrow(SinkRows(self._chain(root, steps, made, flow.serdes)), OUT)

    def _chain_end(self, name: str) -> ChainEnd:
        node = self.plan.nodes[name]
        if not isinstance(node, SinkNode):
            return ChainEnd(name, 0, None, None)
        return ChainEnd(name, 0, node.key, node.value, None, self._topic(node), node.partitioner, self._count(node))

    # -- state

    def _entering(self, entry: Entry, edge: int) -> tuple[DataFrame, tuple[Serde | None, Serde | None]]:
        """Return an entry's records, folded for the executors, and the serdes of their bytes."""
        tasks = self._tasks()
        node = self.plan.nodes[entry.node]
        if isinstance(node, SourceNode) and entry.node in self.stage.fused:
            parents, wanted = self.stage.fused[entry.node], (node.key, node.value)
        else:
            parents, wanted = (entry.node,), serdes_at(self.stage, entry.node)
        if len(parents) == 1:
            root, steps = self._tree([parents[0]])
            serdes: tuple[Serde | None, Serde | None] = (None, None) if steps else wanted
            taken = self._take(root, columns=False)
            flow = self._in_bytes(taken, serdes, entry.node)
            as_it_is = taken.is_in_bytes(serdes) and not entry.is_global
        else:
            root, steps, as_it_is = entry.node, [], False
            flow = self._in_bytes(self._merged(parents, entry.node), wanted, entry.node)
        key, value = self._entry_serdes(parents[0], steps, flow, wanted)
        end = ChainEnd(parents[0] if steps else entry.node, 0, key, value)
        chain = self._chain(root, steps, [end], flow.serdes)
        frame = record_columns(flow)
        if entry.is_global:
            spread = f.explode(f.sequence(f.lit(0), f.lit(tasks - 1))).alias("_task")
            frame = frame.select("*", spread)
        wake = tasks if edge == 0 and uses_wall_clock(self.stage) else 0
        entering = ShuffleRows(chain, edge, tasks, entry.repartition is not None, wake)
        if as_it_is and self._is_pushed(root):
            return self._through(root, entering, CHUNKS), (key, value)
        return frame.mapInArrow(entering, CHUNKS), (key, value)

    def _entry_serdes(
        self, parent: str, steps: list[str], flow: StreamFrame, wanted: tuple[Serde | None, Serde | None]
    ) -> tuple[Serde | None, Serde | None]:
        """Return the serdes between prefix and executor: the plan's, else those that the records have."""
        found: list[Any] = list(self._behind(parent, flow)) if steps else [flow.key.serde, flow.value.serde]
        for at, name in enumerate(("key", "value")):
            if wanted[at] is not None:
                found[at] = wanted[at]
            elif found[at] is UNKNOWN:
                raise UnsupportedPlan(f"step {parent}: state follows, so the {name} needs a serde; give its type")
        return found[0], found[1]

    def _tails(self, rows: DataFrame) -> DataFrame:
        """Do the steps behind the executors in columns; other rows leave as they are."""
        found: list[DataFrame] = []
        for tail in self.stage.tails:
            node = self.stage.topology.nodes[tail.topic]
            assert isinstance(node, SinkNode)
            frame = rows
            if len(self.stage.tails) > 1:
                names = [each.topic for each in self.stage.tails if each.topic != tail.topic]
                frame = frame.where(f.col("topic") == tail.topic) if found else frame.where(~f.col("topic").isin(names))
            self.flows[tail.after] = StreamFrame.of(tail_rows(frame, tail.topic), node.key, node.value, tail.after)
            ends = [each for each in tail.nodes if isinstance(self.plan.nodes[each], SinkNode)]
            found += self._leaving(ends, tail.nodes)
        return union(found)
