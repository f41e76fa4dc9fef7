"""A topology is cut into one stage per query, with the repartition topics that are really needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ottla.streams import Function, ProcessorNode, RepartitionTopic, SinkNode, SourceNode, StoreSpec, Topology
from ottla.streams import operations as ops
from ottla.streams.plan.explain import explain, explain_text
from ottla.streams.plan.nodes import Node
from ottla.streams.plan.stages import UnsupportedPlan, cut
from ottla.streams.windows import SessionWindows, TimeWindows


@dataclass(frozen=True)
class Plain:
    """A serde for plans: only its column type matters to stages."""

    name: str = "string"
    sql_type: str | None = "string"

    def serialize(self, value: Any) -> bytes | None:
        return None if value is None else str(value).encode()

    def deserialize(self, data: bytes | None) -> Any:
        return None if data is None else data.decode()

    def sql_decode(self, column: str) -> str:
        return f"cast({column} as string)"

    def sql_encode(self, column: str) -> str:
        return f"cast({column} as binary)"


TEXT, LONG = Plain(), Plain("long", "bigint")
PYTHON = Function.of(lambda value: value)
SQL = Function.of("value")
COUNT = ops.StreamAggregate("counts", ops.Aggregator("count"))


def topology(*nodes: Node, repartitioned: tuple[str, ...] = (), store: str = "counts") -> Topology:
    return Topology(
        {each.name: each for each in nodes},
        {store: StoreSpec(store, "timestamped_key_value", TEXT, LONG)},
        {name: RepartitionTopic(name) for name in repartitioned},
    )


def source(name: str = "in", *topics: str) -> SourceNode:
    return SourceNode(name, topics or (name,), key=TEXT, value=TEXT)


def step(name: str, operation: ops.Operation, *parents: str, stores: tuple[str, ...] = ()) -> ProcessorNode:
    return ProcessorNode(name, operation, parents, stores)


def sink(name: str, *parents: str) -> SinkNode:
    return SinkNode(name, name, parents, TEXT, LONG)


def test_steps_without_state_are_one_stage() -> None:
    plan = topology(source(), step("upper", ops.MapValues(SQL), "in"), sink("out", "upper"))
    [stage] = cut(plan).stages
    assert (stage.kind, stage.nodes, stage.sinks) == ("stateless", ("in", "upper", "out"), ("out",))
    assert stage.entries[0].sources == ("in",)


def test_a_count_is_native_and_its_repartition_topic_is_spark_s_shuffle() -> None:
    plan = topology(
        source(),
        step("rekey", ops.SelectKey(PYTHON), "in"),
        SinkNode("to", "by", ("rekey",), TEXT, TEXT),
        SourceNode("from", ("by",), key=TEXT, value=TEXT),
        step("count", COUNT, "from", stores=("counts",)),
        step("stream", ops.TableToStream(), "count"),
        sink("out", "stream"),
        repartitioned=("by",),
    )
    made = cut(plan)
    [stage] = made.stages
    assert (stage.kind, stage.aggregate, stage.sinks) == ("native", "count", ("out",))
    assert stage.entries[0].prefix == ("rekey", "from")
    assert stage.entries[0].repartition == "by"
    assert not made.repartition_topics


def test_python_before_state_without_columns_runs_in_the_executor_and_reads_raw_bytes() -> None:
    reduce = ops.StreamAggregate("counts", ops.Aggregator("reduce", adder=max))
    plan = topology(
        source(),
        step("only", ops.Filter(PYTHON), "in"),
        step("reduce", reduce, "only", stores=("counts",)),
        step("stream", ops.TableToStream(), "reduce"),
        sink("out", "stream"),
    )
    [stage] = cut(plan).stages
    assert stage.kind == "stateful"
    assert [(each.node, each.prefix) for each in stage.entries] == [("in", ())]
    assert set(stage.topology.nodes) == {"in", "only", "reduce", "stream", "out"}


def test_expressions_before_state_are_a_prefix_and_enter_at_a_source_of_their_name() -> None:
    reduce = ops.StreamAggregate("counts", ops.Aggregator("reduce", adder=max))
    plan = topology(
        source(),
        step("only", ops.Filter(SQL), "in"),
        step("reduce", reduce, "only", stores=("counts",)),
        step("stream", ops.TableToStream(), "reduce"),
        sink("out", "stream"),
    )
    [stage] = cut(plan).stages
    [entry] = stage.entries
    assert (entry.node, entry.prefix, entry.repartition) == ("only", ("only",), None)
    assert isinstance(stage.topology.nodes["only"], SourceNode)
    assert "in" not in stage.topology.nodes


def test_expressions_behind_state_are_a_tail() -> None:
    reduce = ops.StreamAggregate("counts", ops.Aggregator("reduce", adder=max))
    plan = topology(
        source(),
        step("reduce", reduce, "in", stores=("counts",)),
        step("stream", ops.TableToStream(), "reduce"),
        step("upper", ops.MapValues(SQL, TEXT), "stream"),
        sink("out", "upper"),
    )
    [stage] = cut(plan).stages
    [tail] = stage.tails
    assert (tail.after, tail.nodes) == ("stream", ("upper", "out"))
    assert isinstance(stage.topology.nodes[tail.topic], SinkNode)
    assert "out" not in stage.topology.nodes


def between_states(expression: Function) -> Topology:
    return topology(
        source(),
        step("table", ops.TableSource("counts"), "in", stores=("counts",)),
        step("between", ops.TableMapValues(expression), "table"),
        step("wait", ops.Suppress("time_limit"), "between"),
        step("stream", ops.TableToStream(), "wait"),
        sink("out", "stream"),
    )


def test_an_expression_between_states_is_a_function_there() -> None:
    [stage] = cut(between_states(Function(expression="length(concat(value, key))"))).stages
    made = stage.topology.nodes["between"]
    assert isinstance(made, ProcessorNode) and isinstance(made.operation, ops.TableMapValues)
    assert made.operation.mapper.call is not None and made.operation.mapper.call("a", "b") == 2


def test_an_expression_between_states_that_only_spark_can_compute_is_refused_with_the_step_s_name() -> None:
    with pytest.raises(UnsupportedPlan, match=r"step between: function soundex is not known here \(a column"):
        cut(between_states(Function(expression="soundex(key)")))


def test_state_behind_state_needs_its_repartition_topic() -> None:
    plan = topology(
        source(),
        step("first", COUNT, "in", stores=("counts",)),
        step("stream", ops.TableToStream(), "first"),
        step("rekey", ops.SelectKey(PYTHON), "stream"),
        SinkNode("to", "by", ("rekey",), TEXT, LONG),
        SourceNode("from", ("by",), key=TEXT, value=LONG),
        step("second", ops.StreamAggregate("again", ops.Aggregator("count")), "from", stores=("again",)),
        repartitioned=("by",),
    )
    plan = Topology({**plan.nodes}, {**plan.stores, "again": plan.stores["counts"]}, plan.repartition_topics)
    made = cut(plan)
    assert [(each.kind, each.topics_read(), each.sinks) for each in made.stages] == [
        ("native", ("in",), ("to",)),
        ("native", ("by",), ()),
    ]
    assert set(made.repartition_topics) == {"by"}


def test_time_of_the_partition_sends_windows_through_python_and_plain_counts_stay_native() -> None:
    windowed = ops.WindowAggregate("counts", ops.Aggregator("count"), TimeWindows(10, 10, 0))
    plan = topology(source(), step("count", windowed, "in", stores=("counts",)))
    assert cut(plan).stages[0].kind == "native"
    made = cut(plan, stream_time="partition")
    assert made.stages[0].kind == "stateful"
    assert "stream_time" in made.reasons["count"]


def test_an_argument_in_columns_before_a_python_aggregate_is_computed_on_the_way_in() -> None:
    sessions = ops.SessionAggregate("counts", ops.Aggregator("sum", argument=SQL), SessionWindows(10, 0))
    [stage] = cut(topology(source(), step("sum", sessions, "in", stores=("counts",)))).stages
    assert stage.entries[0].prefix == ("sum-argument",)
    node = stage.topology.nodes["sum"]
    assert isinstance(node, ProcessorNode)
    assert isinstance(node.operation, ops.SessionAggregate)
    assert node.operation.aggregator.argument is None


def test_a_branch_beside_state_is_done_where_the_records_are() -> None:
    reduce = ops.StreamAggregate("counts", ops.Aggregator("reduce", adder=max))
    plan = topology(
        source(),
        step("reduce", reduce, "in", stores=("counts",)),
        step("note", ops.MapValues(PYTHON), "in"),
        sink("notes", "note"),
        step("upper", ops.MapValues(SQL), "in"),
        sink("uppers", "upper"),
    )
    stages = {each.kind: each for each in cut(plan).stages}
    assert stages["stateful"].sinks == ("notes",)
    assert stages["stateless"].sinks == ("uppers",)


def test_a_global_table_is_in_every_stage_that_looks_it_up_and_has_none_of_its_own() -> None:
    plan = topology(
        SourceNode("all", ("all",), key=TEXT, value=TEXT, is_global=True),
        step("table", ops.TableSource("counts"), "all", stores=("counts",)),
        source(),
        step("join", ops.StreamGlobalJoin("counts", PYTHON, PYTHON, "inner"), "in"),
        sink("out", "join"),
    )
    [stage] = cut(plan).stages
    assert [(each.node, each.is_global) for each in stage.entries] == [("all", True), ("in", False)]


def test_explain_says_where_each_step_runs_and_why() -> None:
    collect = ops.StreamAggregate("counts", ops.Aggregator("collect_list"))
    plan = topology(
        source(),
        step("upper", ops.MapValues(SQL), "in"),
        step("collect", collect, "upper", stores=("counts",)),
        step("stream", ops.TableToStream(), "collect"),
        step("note", ops.MapValues(SQL), "stream"),
        sink("out", "note"),
    )
    found = {each.node: each for each in explain(plan)}
    assert {name: each.how for name, each in found.items()} == {
        "in": "source",
        "upper": "native",
        "collect": "stateful",
        "stream": "stateful",
        "note": "native",
        "out": "sink",
    }
    assert "collect_list" in found["collect"].why
    assert explain_text(plan).startswith("Stage stateful-0\n  in: source;")


def test_where_every_update_is_wanted_no_aggregate_is_native() -> None:
    plan = topology(
        source(),
        step("count", COUNT, "in", stores=("counts",)),
        step("stream", ops.TableToStream(), "count"),
        sink("out", "stream"),
    )
    assert [each.kind for each in cut(plan).stages] == ["native"]
    stages = cut(plan, every_update=True)
    assert [each.kind for each in stages.stages] == ["stateful"]
    assert "every update" in stages.reasons["count"]
    assert "updates: every one" in explain_text(plan, every_update=True)
