"""`TopologyTestDriver` on the engine of hosts, without Spark: Java's answers for every operator, stores, time and errors."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base import ConfigError, KafkaError
from ottla.spark import TopologyTestDriver
from ottla.streams import Processor, ProcessRecord, PunctuationType, StreamsBuilder, Topology
from tests.streams.spark.test_expressions import joined_and_grouped
from tests.streams.spark.test_operators_against_java import ROWS, RUNS, Ask, Rows, final, golden, run

CONTINUOUS = {"execution": "continuous"}
CASES = [
    pytest.param(ask, id=f"{row.replace('`', '')}: {ask.topic} of {ask.plan}")
    for row, asks in ROWS.items()
    for ask in asks
]


@cache
def written(plan: str) -> dict[str, Rows]:
    return run(None, plan, "continuous")


@pytest.mark.parametrize("ask", CASES)
def test_what_the_operator_gives_is_what_java_gave(ask: Ask) -> None:
    java, ours = golden(RUNS[ask.plan].golden)[1].get(ask.topic, []), written(ask.plan).get(ask.topic, [])
    assert java, "the case says nothing"
    if ask.how == "any order":
        assert sorted(ours, key=str) == sorted(java, key=str)
    elif ask.how == "final":
        assert final(ours) == final(java)
    else:
        assert ours == java


def word_count() -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    words = builder.stream("lines").flat_map_values("split(lower(value), ' ')")
    words.group_by("value").count(materialized="counts").to_stream().to("counted", value_serde="long")
    return builder.build()


def test_a_store_and_its_topic_say_the_same() -> None:
    with TopologyTestDriver(word_count(), CONTINUOUS) as driver:
        lines, counted = driver.create_input_topic("lines"), driver.create_output_topic("counted", value_serde="long")
        lines.pipe_value_list(["to be", "not to be"])
        assert counted.read_key_values_to_map() == {"to": 2, "be": 2, "not": 1}
        assert driver.get_key_value_store("counts").get("be") == 2
        lines.pipe_value_list([" ".join(["be"] * 50)] * 200)  # so many go as a block of columns
        assert counted.read_key_values_to_list() == [("be", 10_002)]
        assert "test-counts-repartition" in driver.produced_topic_names()


class Ticking(Processor):  # type: ignore[type-arg]
    def init(self, context: Any) -> None:
        self.context = context
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record: ProcessRecord[Any, Any]) -> None:
        pass

    def tick(self, now_ms: int) -> None:
        self.context.forward(ProcessRecord("tick", str(now_ms), now_ms))


def test_the_wall_clock_moves_only_when_it_is_told() -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream("in").process(Ticking).to("ticks")
    with TopologyTestDriver(builder.build(), CONTINUOUS) as driver:
        ticks = driver.create_output_topic("ticks")
        assert ticks.is_empty
        driver.advance_wall_clock_time(250)
        assert ticks.read_values_to_list() == ["250"]


def test_what_a_function_raises_is_told_and_the_driver_stays_failed() -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream("in").map_values(lambda value: value[9]).to("out")
    with TopologyTestDriver(builder.build(), CONTINUOUS) as driver:
        out = driver.create_output_topic("out")
        driver.create_input_topic("in").pipe_input("short")
        for _ in range(2):
            with pytest.raises(KafkaError, match=r"KSTREAM-SOURCE-\d+: cannot process the record at in-0, offset 0"):
                out.read_value()


def placed(*, native: bool) -> Topology:
    """Rows with their cities' countries, by foreign key."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    people, cities = builder.table("users"), builder.table("clicks")
    joiner: Any = "upper(left) || ' in ' || right" if native else (lambda left, right: f"{left.upper()} in {right}")
    joined = people.join(cities, joiner, foreign_key="value" if native else (lambda city: city))
    joined.map_values("length(value)" if native else len, value_serde="long").to_stream().to("counted")
    return builder.build()


@pytest.mark.parametrize("plan", [joined_and_grouped, placed])
@settings(max_examples=15, deadline=None)
@given(
    given_=st.lists(
        st.tuples(
            st.sampled_from(["users", "clicks", "views"]),
            st.sampled_from("abc"),
            st.sampled_from(["a", "b", "cc", None]),
        ),
        max_size=12,
    )
)
def test_expressions_join_group_tables_and_stand_between_states(plan: Any, given_: list[tuple[str, str, Any]]) -> None:
    found = []
    for native in (False, True):
        with TopologyTestDriver(plan(native=native), CONTINUOUS) as driver:
            known = {name for node in driver.topology.nodes.values() for name in getattr(node, "topics", ())}
            inputs = {name: driver.create_input_topic(name) for name in ("users", "clicks", "views") if name in known}
            for at, (name, key, value) in enumerate(given_):
                if name in inputs and (value is not None or name == "users"):
                    inputs[name].pipe_input(key, value, timestamp=at)
            outs = ("where", "both", "counted")
            found.append({name: list(driver.written(name)) for name in outs})
    assert found[0] == found[1]


def test_an_expression_that_only_spark_knows_is_refused_by_its_steps_name() -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream("in").map_values("soundex(value)").to("out")
    with pytest.raises(ConfigError, match=r"KSTREAM-MAPVALUES-\d+: function soundex is not known here"):
        TopologyTestDriver(builder.build(), CONTINUOUS)
