"""A physical plan as DataFrames: each operator becomes what it says, once; nothing is chosen here.

What is left to Spark are types: an expression's result has the type that Spark finds, and is written by that type's serde
where the plan names none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, assert_never

from pyspark.sql import functions as f

from ottla.spark.source.options import read_options
from ottla.spark.streams.internal_topics import changelog_topic, repartition_topic
from ottla.spark.streams.lowering import direct, results
from ottla.spark.streams.lowering import physical as ops
from ottla.spark.streams.lowering.chain import Chain, ChainEnd
from ottla.spark.streams.lowering.native import aggregated, key_serde
from ottla.spark.streams.lowering.native import results as aggregate_results
from ottla.spark.streams.lowering.partial import COUNTS, Counting, bucket_ms
from ottla.spark.streams.lowering.planning import lets_records_go
from ottla.spark.streams.lowering.python import ColumnRows, ShuffleRows, SinkRows
from ottla.spark.streams.lowering.query import FLOW, SKIPPED, Query, tail_rows
from ottla.spark.streams.lowering.record_times import extractor_of, invalid_time
from ottla.spark.streams.lowering.rows import OUT
from ottla.spark.streams.lowering.stream_frame import (
    RECORD,
    StreamFrame,
    decoded,
    encoded,
    native_step,
    not_null_key,
    out_rows,
    record_columns,
    serde_of_column,
    union,
)
from ottla.spark.streams.lowering.times import timed, told
from ottla.spark.streams.lowering.topics import ClusterTopics, TopicRead, Topics
from ottla.spark.streams.state.chunks import CHUNKS
from ottla.spark.streams.state.operator import stateful, task_plan, uses_wall_clock
from ottla.streams import (
    COLUMN_ROWS_MIN,
    EngineSettings,
    PartitionPlan,
    Serde,
    SinkNode,
    SourceNode,
    Stage,
    StreamsSettings,
    TimeWindows,
    operations,
    partition_plan,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.streams.state.rebuild import Initial

__all__ = ["Cluster", "emit"]

SIDES = ("key", "value")
Serdes = tuple[Serde | None, Serde | None]


@dataclass(frozen=True)
class Cluster:
    """What a query has to know of where it runs, beside its plan; as `plan_query` is told."""

    topics: Topics
    settings: StreamsSettings
    initial: Initial | None = None
    clock: str = ""
    commits_topic: str = ""


def emit(plan: ops.PhysicalPlan, spark: SparkSession, cluster: Cluster) -> Query:
    """Return a physical plan's query; raises UnsupportedPlan where a type that Spark found does not suit its serde."""
    made = _Emission(plan, spark, cluster)
    outcome = plan.outcome
    match outcome:
        case ops.Direct():
            found = made.source(outcome)
            return Query(found.rows, plan.mode, found)
        case ops.Results():
            return Query(made.changes(outcome.aggregate), plan.mode, pushed=plan.pushed, finish=made.finish(outcome))
        case ops.Written(rows):
            whole = union([frame for each in rows for frame in made.rows(each)])
            skipped = f.sum(f.when(f.col("topic").isNull(), f.col("partition")).otherwise(0)).alias("records")
            return Query(whole.observe(SKIPPED, skipped).where("topic is not null"), plan.mode, pushed=plan.pushed)
        case _:
            assert_never(outcome)


class _Emission:
    """One plan on its way; what an operator becomes is kept, so that all who take it take the same."""

    def __init__(self, plan: ops.PhysicalPlan, spark: SparkSession, cluster: Cluster) -> None:
        self.spark = spark
        self.cluster = cluster
        self.settings = cluster.settings
        self.topics = _Names(plan.stage, cluster)
        self._records: dict[ops.Records, StreamFrame] = {}
        self._stateful: dict[ops.Stateful, DataFrame] = {}

    # -- how queries end

    def source(self, end: ops.Direct) -> direct.Direct:
        """Return the source, and what tasks do with its records."""
        source, topics = end.source.source, self.cluster.topics
        assert isinstance(topics, ClusterTopics)
        wanted = self.topics.wanted(source)
        options = read_options(topics.options(wanted), streaming=True)
        chain = self._chain(end.chain, (source.key, source.value))
        return direct.Direct(topics.read(self.spark, wanted), options, SinkRows(chain))

    def changes(self, aggregate: ops.Aggregated) -> DataFrame:
        """Return what an aggregate hands on, for `finish`."""
        node, operation = aggregate.node, _aggregation(aggregate)
        return aggregate_results(self._given(aggregate), operation, aggregate.store, node.name)

    def finish(self, end: ops.Results) -> results.Results:
        """Return what writing tasks do with the results."""
        made, operation = end.aggregate, _aggregation(end.aggregate)
        serdes = key_serde(operation, made.store), made.store.value
        behind = SinkRows(self._chain(end.behind, serdes)) if end.behind is not None else None
        return results.Results(self.topics.changelog(made), self.topics.store_tasks(made), behind)

    def rows(self, operator: ops.Rows) -> list[DataFrame]:
        """Return rows for topics; of what has left already none where nothing could."""
        match operator:
            case ops.ColumnSink(records, sink):
                return [self._column_sink(self.records(records), sink)]
            case ops.PythonSinks(records, chain):
                flow = self.records(records)
                return [record_columns(flow).mapInArrow(SinkRows(self._chain(chain, flow.serdes)), OUT)]
            case ops.ChangelogSink(records):
                return [self.records(records).frame.select("_out.*")]
            case ops.Failed(records):
                flow = self.records(records)
                return [flow.frame.where("_out is not null").select("_out.*")] if flow.finished else []
            case ops.Stateful():
                return [self._tasks(operator)]
            case _:
                assert_never(operator)

    def _column_sink(self, flow: StreamFrame, sink: SinkNode) -> DataFrame:
        if flow.needs_decoding((sink.key, sink.value)):
            flow = self._decoded(flow)
        assert isinstance(sink.topic, str), "a topic that a function chooses is Python's"
        topic, count = self.topics.full_name(sink.topic), self.topics.partition_count(sink)
        return out_rows(flow, topic, (sink.key, sink.value), sink.name, count)

    # -- records

    def records(self, operator: ops.Records) -> StreamFrame:
        """Return the records behind an operator."""
        if operator not in self._records:
            self._records[operator] = self._made(operator)
        return self._records[operator]

    def _made(self, operator: ops.Records) -> StreamFrame:
        match operator:
            case ops.Read(source):
                return self._read(source)
            case ops.RecordsOnly(records):
                return self.records(records).without_finished()
            case ops.Decoded(records):
                return self._decoded(self.records(records))
            case ops.InBytes(records, key, value, step):
                return self._in_bytes(self.records(records), (key, value), step)
            case ops.Merged(parts, step):
                return self._merged([self.records(each) for each in parts], step)
            case ops.NativeStep(records, node, branch):
                flow = native_step(self.records(records), node.operation, node.name, branch)
                return replace(flow, node=node.name) if branch is None else flow
            case ops.KeysKept(records, node):
                assert isinstance(node.operation, operations.NotNullKey)
                return not_null_key(self.records(records), node.operation)
            case ops.Columns():
                return self._columns(operator)
            case ops.Aggregated():
                return self._aggregated(operator)
            case ops.TailRecords():
                return self._tail(operator)
            case _:
                assert_never(operator)

    def _read(self, node: SourceNode) -> StreamFrame:
        frame = self.cluster.topics.read(self.spark, told(self.topics.wanted(node)))
        frame = frame.select(
            f.col("key").alias("_key"),
            f.col("value").alias("_value"),
            *("timestamp", "headers", "topic", "partition", "offset"),
        )
        flow = StreamFrame.of(frame, node.key, node.value, node.name)
        return timed(flow, self.topics.extractor(node), self.settings.deserialization)

    def _through(self, read: ops.Read, function: Any, schema: str) -> DataFrame:
        """Return what a function over Arrow makes of a source's records where they are fetched."""
        topics = self.cluster.topics
        assert isinstance(topics, ClusterTopics)
        return topics.read_through(self.spark, self.topics.wanted(read.source), function, schema)

    def _decoded(self, flow: StreamFrame) -> StreamFrame:
        return decoded(flow, self.settings.deserialization)

    def _merged(self, flows: list[StreamFrame], step: str) -> StreamFrame:
        """Return several nodes' records as one flow."""
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

    def _in_bytes(self, flow: StreamFrame, wanted: Serdes, step: str) -> StreamFrame:
        """Return records whose sides are bytes by these serdes (None: whatever they are in)."""
        serdes = _known(wanted[0], flow, "key"), _known(wanted[1], flow, "value")
        if flow.is_in_bytes(serdes):
            frame = flow.carrying(f.col("_key"), f.col("_value"))
            return StreamFrame.of(frame, *serdes, step)
        if flow.needs_decoding(serdes):
            flow = self._decoded(flow)
        columns = [
            encoded(flow, name, serde, step).alias(f"_{name}") for serde, name in zip(serdes, SIDES, strict=True)
        ]
        return StreamFrame.of(flow.carrying(*columns), *serdes, step)

    def _columns(self, operator: ops.Columns) -> StreamFrame:
        flow = self.records(operator.records)
        chain = self._chain(operator.chain, flow.serdes)
        frame = record_columns(flow).mapInArrow(ColumnRows(chain), FLOW)
        columns: list[Any] = [
            *("_key", "_value"),
            f.expr("timestamp_millis(timestamp)").alias("timestamp"),
            *("headers", "topic", "partition", "offset", "_step"),
            *(["_task"] if "_task" in flow.frame.columns else []),
            *(["_out"] if flow.finished or lets_records_go(self.settings) else []),
        ]
        (end,) = chain.ends
        return StreamFrame.of(frame.select(*columns), end.key, end.value, operator.node)

    def _chain(self, plan: ops.ChainPlan, serdes: Serdes) -> Chain:
        """Return a chain over records in bytes by these serdes."""
        settings = self.settings
        ends = tuple(self._end(each, serdes) for each in plan.ends)
        policies = settings.deserialization, settings.processing, settings.production
        return Chain(*serdes, plan.steps, ends, *policies, plan.root)

    def _end(self, end: ops.Ending, serdes: Serdes) -> ChainEnd:
        key, value = (
            own if isinstance(planned, ops.AsItComes) else planned
            for planned, own in zip((end.key, end.value), serdes, strict=True)
        )
        sink = end.sink
        if sink is None:
            return ChainEnd(end.name, end.after, key, value, end.branch)
        topic = self.topics.full_name(sink.topic) if isinstance(sink.topic, str) else sink.topic
        count = self.topics.partition_count(sink)
        return ChainEnd(end.name, end.after, key, value, end.branch, topic, sink.partitioner, count)

    # -- aggregates of Spark's own

    def _given(self, operator: ops.Aggregated) -> StreamFrame | DataFrame:
        """Return what is aggregated: records, or counts that were taken before."""
        given = operator.given
        if isinstance(given, ops.Counted):
            windows = given.windows
            flow = self.records(given.records)
            bucket = bucket_ms(windows if isinstance(windows, TimeWindows) else None)
            return self._through(given.records, Counting(self._chain(given.chain, flow.serdes), bucket), COUNTS)
        return self.records(given)

    def _aggregated(self, operator: ops.Aggregated) -> StreamFrame:
        return aggregated(
            self._given(operator),
            _aggregation(operator),
            operator.store,
            changelog=self.topics.changelog(operator),
            tasks=self.topics.store_tasks(operator),
            tail=operator.has_tail,
            step=operator.node.name,
        )

    # -- state

    def _tasks(self, operator: ops.Stateful) -> DataFrame:
        """Return what the tasks with state leave."""
        if operator not in self._stateful:
            self._stateful[operator] = self._with_state(operator)
        return self._stateful[operator]

    def _with_state(self, operator: ops.Stateful) -> DataFrame:
        cluster, stage, entries = self.cluster, self.topics.stage, []
        topology = stage.topology
        for entry, planned in zip(stage.entries, operator.entries, strict=True):
            rows, serdes = self._entering(planned)
            entries.append(rows)
            node = topology.nodes[entry.node]
            assert isinstance(node, SourceNode)
            if (node.key, node.value) != serdes:
                changed = replace(node, key=serdes[0], value=serdes[1])
                topology = replace(topology, nodes={**topology.nodes, entry.node: changed})
        plan = task_plan(
            replace(stage, topology=topology),
            application_id=self.settings.application_id,
            tasks=self.topics.tasks,
            settings=self._engine_settings(),
            clock=cluster.clock,
            commits_topic=cluster.commits_topic,
            known=None if cluster.initial is None else cluster.initial.known,
            topic_ids=cluster.topics.topic_ids(),
        )
        return stateful(union(entries), plan, initial=None if cluster.initial is None else cluster.initial.blobs)

    def _engine_settings(self) -> EngineSettings:
        settings = self.settings
        return EngineSettings(
            cache=settings.cache,
            skip_undecodable=settings.deserialization.action == "continue",
            skip_failing=settings.processing.action == "continue",
            skip_unwritable=settings.production.action == "continue",
            decide_undecodable=settings.deserialization.decide,
            decide_failing=settings.processing.decide,
            decide_unwritable=settings.production.decide,
            dead_letter_topic=settings.processing.dead_letter_topic,
            column_rows_min=COLUMN_ROWS_MIN,
            partition_counts=dict(self.topics.counts),
        )

    def _entering(self, operator: ops.Shuffled) -> tuple[DataFrame, Serdes]:
        """Return an entry's records, folded for the executors, and the serdes of their bytes."""
        flow, tasks = self.records(operator.records), self.topics.tasks
        chain = self._chain(operator.chain, flow.serdes)
        (end,) = chain.ends
        wake = tasks if operator.edge == 0 and uses_wall_clock(self.topics.stage) else 0
        entering = ShuffleRows(chain, operator.edge, tasks, operator.by_key, wake)
        if operator.at_source is not None:
            return self._through(operator.at_source, entering, CHUNKS), (end.key, end.value)
        frame = record_columns(flow)
        if operator.is_global:
            spread = f.explode(f.sequence(f.lit(0), f.lit(tasks - 1))).alias("_task")
            frame = frame.select("*", spread)
        return frame.mapInArrow(entering, CHUNKS), (end.key, end.value)

    def _tail(self, operator: ops.TailRecords) -> StreamFrame:
        """Return rows for steps behind the executors; other rows leave with those of the first tail."""
        frame, topic = self._tasks(operator.rows), operator.tail.topic
        if operator.others and operator.is_first:
            frame = frame.where(~f.col("topic").isin(list(operator.others)))
        elif operator.others:
            frame = frame.where(f.col("topic") == topic)
        node = self.topics.stage.topology.nodes[topic]
        assert isinstance(node, SinkNode)
        return StreamFrame.of(tail_rows(frame, topic), node.key, node.value, operator.tail.after)


def _aggregation(operator: ops.Aggregated) -> operations.StreamAggregate | operations.WindowAggregate:
    operation = operator.node.operation
    assert isinstance(operation, operations.StreamAggregate | operations.WindowAggregate)
    return operation


def _known(serde: Serde | None, flow: StreamFrame, name: str) -> Serde | None:
    """Return the serde that is wanted, else the side's own, else one for the type that Spark found: or JSON."""
    side = flow.key if name == "key" else flow.value
    if serde is not None or side.serde is not None or not side.decoded:
        return serde if serde is not None else side.serde
    return serde_of_column(flow.frame.schema[name].dataType.simpleString())


class _Names:
    """A stage's topics in the cluster: full names, counts of partitions, and how they are read."""

    def __init__(self, stage: Stage, cluster: Cluster) -> None:
        self.stage = stage
        self.plan = stage.plan
        self.settings = cluster.settings
        self.counts: Mapping[str, int] = dict(cluster.topics.partition_counts())
        self.partitions: PartitionPlan = partition_plan(stage.plan, self.counts)

    @cached_property
    def tasks(self) -> int:
        """The number of the stage's tasks: its widest topic's partitions, as in Kafka Streams."""
        counts = [self.partitions.stores[name] for name in self.stage.stores if name in self.partitions.stores]
        for entry in self.stage.entries:
            if entry.repartition is not None:
                counts.append(self.partitions.topics[entry.repartition])
            elif not entry.is_global:
                for name in entry.sources:
                    node = self.plan.nodes[name]
                    assert isinstance(node, SourceNode)
                    counts += [self.partitions.topics[topic] for topic in node.topics_among(self.counts)]
        return max(counts, default=1)

    def full_name(self, topic: str) -> str:
        """Return a topic's name in the cluster."""
        internal = topic in self.plan.repartition_topics
        return repartition_topic(self.settings.application_id, topic) if internal else topic

    def partition_count(self, sink: SinkNode) -> int:
        """Return the partitions of a sink's topic; 0 where a function chooses it."""
        if not isinstance(sink.topic, str):
            return 0
        return self.partitions.topics.get(sink.topic) or self.counts.get(sink.topic, 0)

    def changelog(self, aggregate: ops.Aggregated) -> str | None:
        """Return the name of a store's changelog; None where it has none."""
        spec = aggregate.store
        return changelog_topic(self.settings.application_id, spec.name) if spec.logged else None

    def store_tasks(self, aggregate: ops.Aggregated) -> int:
        """Return the partitions of a store's changelog."""
        return self.partitions.stores.get(aggregate.store.name, 1)

    def extractor(self, node: SourceNode) -> Any:
        """Return what says the time of a source's records."""
        return extractor_of(node, self.plan, self.settings)

    def wanted(self, node: SourceNode) -> TopicRead:
        """Return what a source reads."""
        reset = "earliest" if self.plan.repartition_topics.keys() & set(node.topics) else node.offset_reset
        names = tuple(map(self.full_name, node.topics))
        return TopicRead(node.name, names, node.pattern, reset, invalid_time(self.extractor(node)))
