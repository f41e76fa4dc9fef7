"""A stage's physical plan: what runs where, decided without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.spark.streams.lowering.physical import (
    Aggregated,
    Columns,
    ColumnSink,
    Counted,
    Direct,
    NativeStep,
    PhysicalPlan,
    PythonSinks,
    Read,
    RecordsOnly,
    Results,
    Shuffled,
    Stateful,
    TailRecords,
    Written,
    operators,
)
from ottla.spark.streams.lowering.plan_words import plan_lines
from ottla.spark.streams.lowering.planning import Place, as_if_in_arrow, physical, physical_text
from ottla.streams import (
    LogAndSkipOnInvalidTimestamp,
    Stage,
    StreamsBuilder,
    StreamsSettings,
    UnsupportedPlan,
    cut,
)


def same(value: Any) -> Any:
    return value


def settings_of(**given: Any) -> StreamsSettings:
    chosen = {name.replace("_", "."): value for name, value in given.items()}
    return StreamsSettings.of({"application.id": "app", "bootstrap.servers": "b:1", **chosen})


def stage_of(make: Callable[[StreamsBuilder], None]) -> Stage:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    make(builder)
    (stage,) = cut(builder.build()).stages
    return stage


def planned(make: Callable[[StreamsBuilder], None], *, place: Place | None = None, **given: Any) -> PhysicalPlan:
    return physical(stage_of(make), settings_of(**given), place=place)


def kinds(plan: PhysicalPlan) -> list[str]:
    return [type(each).__name__ for each in operators(plan.outcome)]


def python_only(builder: StreamsBuilder) -> None:
    builder.stream("in").map_values(same).filter(lambda value: True).to("out")


def expressions(builder: StreamsBuilder) -> None:
    builder.stream("in").map_values("initcap(value)").to("out")


def counting(builder: StreamsBuilder) -> None:
    builder.stream("in").map_values("upper(value)").group_by("value").count(materialized="c").to_stream().to("out")


def reducing(builder: StreamsBuilder) -> None:
    counts = builder.stream("in").group_by_key().reduce(lambda one, other: one + other, materialized="r")
    counts.to_stream().to("out")


def test_python_steps_alone_are_done_by_tasks_that_fetch_and_produce() -> None:
    plan = planned(python_only)
    assert isinstance(plan.outcome, Direct) and plan.mode == "append" and not plan.pushed
    assert [each.parent for each in plan.outcome.chain.steps] == [-1, 0]
    assert [(each.after, each.sink and each.sink.topic) for each in plan.outcome.chain.ends] == [(1, "out")]


@pytest.mark.parametrize("place", [Place(by_tasks=False), Place(in_cluster=False)])
def test_where_tasks_cannot_fetch_by_themselves_python_steps_are_one_pass_behind_spark(place: Place) -> None:
    plan = planned(python_only, place=place)
    assert kinds(plan) == ["Written", "PythonSinks", "InBytes", "Read"]


def test_an_expression_that_arrow_does_not_compute_keeps_a_stage_in_columns() -> None:
    assert kinds(planned(expressions)) == ["Written", "ColumnSink", "NativeStep", "Decoded", "Read"]
    stage = stage_of(expressions)
    assert isinstance(physical(stage, settings_of(), arrow=as_if_in_arrow(stage)).outcome, Direct)


def test_an_extractor_that_drops_records_leaves_them_to_spark_only_where_it_has_to() -> None:
    skipping = {"default_timestamp_extractor": LogAndSkipOnInvalidTimestamp()}
    assert isinstance(planned(python_only, **skipping).outcome, Direct)
    assert not planned(reducing, **skipping).pushed and planned(reducing).pushed


def test_a_count_is_taken_where_records_are_fetched_and_finished_where_they_are_written() -> None:
    stage = stage_of(counting)
    plan = physical(stage, settings_of(), arrow=as_if_in_arrow(stage))
    assert isinstance(plan.outcome, Results) and plan.mode == "update" and plan.pushed
    given = plan.outcome.aggregate.given
    assert isinstance(given, Counted) and [each.name for each in given.chain.steps] == [
        name for name in stage.entries[0].prefix if name in {each.name for each in given.chain.steps}
    ]
    assert plan.outcome.behind is not None and plan.outcome.behind.ends[0].sink is not None


def test_a_handler_that_lets_records_go_sends_a_count_through_sparks_operators() -> None:
    stage = stage_of(counting)
    given = settings_of(processing_exception_handler="continue")
    plan = physical(stage, given, arrow=as_if_in_arrow(stage))
    assert isinstance(plan.outcome, Written) and not plan.pushed
    assert any(isinstance(each, Aggregated) for each in operators(plan.outcome))
    assert not any(isinstance(each, Counted) for each in operators(plan.outcome))


def test_records_go_to_state_from_where_they_are_fetched_if_nobody_else_takes_them() -> None:
    (entry,) = [each for each in operators(planned(reducing).outcome) if isinstance(each, Shuffled)]
    assert entry.at_source is not None and not entry.by_key

    def with_a_copy(builder: StreamsBuilder) -> None:
        lines = builder.stream("in").map_values("initcap(value)")
        lines.group_by_key().reduce(lambda one, other: one + other, materialized="r").to_stream().to("out")

    (entry,) = [each for each in operators(planned(with_a_copy).outcome) if isinstance(each, Shuffled)]
    assert entry.at_source is None


def test_expressions_behind_state_are_a_tail_in_columns() -> None:
    def upper(builder: StreamsBuilder) -> None:
        reduced = builder.stream("in").group_by_key().reduce(lambda one, other: one + other, materialized="r")
        reduced.to_stream().map_values("initcap(value)").to("out")

    found = list(operators(planned(upper).outcome))
    (tail,) = [each for each in found if isinstance(each, TailRecords)]
    assert isinstance(tail.rows, Stateful) and tail.is_first and not tail.others
    assert any(isinstance(each, ColumnSink) for each in found)


def test_a_python_step_that_columns_need_too_is_done_once() -> None:
    def shared(builder: StreamsBuilder) -> None:
        made = builder.stream("in").map_values(same, value_serde="string")
        made.map_values("initcap(value)").to("columns")
        made.map_values(same).to("python")

    found = list(operators(planned(shared).outcome))
    assert [type(each) for each in found].count(Columns) == 1 and [type(each) for each in found].count(Read) == 1
    (sinks,) = [each for each in found if isinstance(each, PythonSinks)]
    assert len(sinks.chain.steps) == 1, "the shared step is not done again"
    assert any(isinstance(each, RecordsOnly) for each in found), "what has left already leaves once"


def test_the_children_of_a_branch_in_python_and_in_columns_are_told_apart() -> None:
    def forked(mapper: Any) -> Callable[[StreamsBuilder], None]:
        def make(builder: StreamsBuilder) -> None:
            split = builder.stream("in").split(name="b-").branch(mapper, name="one")
            for name, child in split.default_branch(name="rest").items():
                child.map_values("initcap(value)").to(name)

        return make

    columns = [each for each in operators(planned(forked("value > 'm'")).outcome) if isinstance(each, NativeStep)]
    assert sorted(each.branch for each in columns if each.branch is not None) == [0, 1]
    python = [each for each in operators(planned(forked(lambda value: True)).outcome) if isinstance(each, Columns)]
    assert [each.chain.steps[-1].branch for each in python] == [0, 1], "a child is a step of its own"


def test_a_step_whose_result_has_no_serde_is_refused_before_columns_and_before_state() -> None:
    def before_columns(builder: StreamsBuilder) -> None:
        builder.stream("in").map_values(same).filter("value <> ''").to("out")

    with pytest.raises(UnsupportedPlan, match="a column step follows, so the value needs a serde; give its type"):
        planned(before_columns)


def test_a_plan_without_effect_is_refused() -> None:
    def nothing(builder: StreamsBuilder) -> None:
        builder.stream("in").filter("value <> ''").to("out")

    stage = stage_of(nothing)
    without = replace(stage, nodes=tuple(each for each in stage.nodes if each not in stage.sinks))
    with pytest.raises(UnsupportedPlan, match="expressions without effect"):
        physical(without, settings_of(), place=Place(by_tasks=False))


def test_a_plan_says_in_words_what_runs_where() -> None:
    stage = stage_of(counting)
    in_tasks = plan_lines(physical(stage, settings_of(), arrow=as_if_in_arrow(stage)))
    assert in_tasks[0].startswith("the writing tasks make records of results; Python there: KTABLE-TOSTREAM")
    assert in_tasks[2].startswith("    read in, and count in the same tasks; Python there: KSTREAM-MAPVALUES")
    (direct,) = plan_lines(planned(python_only))
    assert direct == (
        "direct: tasks that read in and produce; Python there: "
        "KSTREAM-MAPVALUES-0000000001, KSTREAM-FILTER-0000000002, KSTREAM-SINK-0000000003"
    )
    merged = plan_lines(
        planned(lambda builder: builder.stream("in").merge(builder.stream("more")).map_values("initcap(value)").to("o"))
    )
    assert [each.partition(":")[0] for each in merged] == [
        "rows by Spark's operators",
        "  Spark's operators",
        "    union of",
        "      read in",
        "      read more",
    ]
    assert merged[1].endswith(": KSTREAM-MAPVALUES-0000000003")


def test_both_plans_are_told_where_only_spark_knows_which_it_is() -> None:
    assert physical_text(stage_of(python_only), settings_of())[0] == "physical plan"
    told = physical_text(stage_of(expressions), settings_of())
    assert told[0].endswith("if Arrow computes every expression as Spark does") and told[1].startswith("  direct")
    assert told[2] == "physical plan, if it does not" and told[3].startswith("  rows by Spark")


def test_expressions_behind_state_are_sparks_in_either_case() -> None:
    def make(builder: StreamsBuilder) -> None:
        counts = builder.stream("in").filter("value <> ''").group_by_key().count(materialized="c").to_stream()
        counts.map_values("cast(value as string)", value_serde="string").to("out")

    told = physical_text(stage_of(make), settings_of())
    assert sum("Spark's operators: " in each and "MAPVALUES" in each for each in told) == 2


def test_an_expression_that_arrow_never_computes_leaves_one_plan() -> None:
    def make(builder: StreamsBuilder) -> None:
        builder.stream("in").map("value", key="value").filter("value <> ''").to("out")

    assert physical_text(stage_of(make), settings_of())[0] == "physical plan"


def test_planning_needs_neither_spark_nor_arrow() -> None:
    words = (
        "import sys; import ottla.spark.streams.lowering.planning; "
        "print(sorted({'pyspark', 'pyarrow', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
