"""Column expressions that run without Spark say what Spark says: types, nulls, ends of types, errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.spark.streams.test_driver import TopologyTestDriver
from ottla.streams import JoinWindows, Materialized, StreamsBuilder, Topology
from ottla.streams.expressions import FUNCTIONS
from tests.streams.expression_cases import FIXED, FIXED_FAILING, differences, expressions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_each_function_and_operator_says_what_spark_says(spark: SparkSession) -> None:
    found, refused = differences(spark, FIXED)
    assert (found, refused) == ([], 0)


def test_each_function_that_is_known_is_held_against_spark_and_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "streams-dsl.md").read_text()
    asked = " ".join([*FIXED, *FIXED_FAILING])
    words = {"in", "like", "rlike"}
    assert [name for name in FUNCTIONS if f"{name}(" not in asked and name not in words] == []
    assert [name for name in FUNCTIONS if f"`{name}`" not in page] == []


@pytest.mark.slow  # a query of its own for each expression that fails; those that do not are in every run
def test_each_expression_that_fails_in_spark_fails(spark: SparkSession) -> None:
    found, refused = differences(spark, FIXED_FAILING)
    assert (found, refused) == ([], 0)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(max_examples=15 if "EXAMPLES" in os.environ else 4, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(expressions(), min_size=30, max_size=30, unique=True))
def test_expressions_at_random_say_what_spark_says(spark: SparkSession, texts: list[str]) -> None:
    found, _ = differences(spark, texts)
    assert found == []


def joined_and_grouped(*, native: bool) -> Topology:
    """Expressions as joiners, in a table's group_by and between two steps with state; or the equal Python functions."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    users = builder.table("users", materialized="by-id")
    joiner: Any = "concat(left, '@', coalesce(right, '?'))" if native else _at
    clicks = builder.stream("clicks")
    clicks.left_join(users, joiner).to("where")
    clicks.join(
        builder.stream("views"), "left || '+' || right" if native else _plus, JoinWindows.of_time_difference(5, grace=0)
    ).to("both")
    counts = users.group_by("left(key, 1)", key="upper(value)") if native else users.group_by(_city_first)
    in_city = counts.count(materialized="per-city")
    doubled: Any = "value * 2" if native else (lambda count: count * 2)
    twice = in_city.map_values(doubled, materialized=Materialized("twice", value_serde="long"))
    twice.join(
        in_city, "left + right" if native else _sum, materialized=Materialized("thrice", value_serde="long")
    ).filter("value > 3" if native else (lambda count: count > 3)).to_stream().to("counted", value_serde="long")
    return builder.build()


def _at(left: str, right: str | None) -> str:
    return f"{left}@{'?' if right is None else right}"


def _plus(left: str, right: str) -> str:
    return f"{left}+{right}"


def _sum(left: int, right: int) -> int:
    return left + right


def _city_first(key: str, value: str) -> tuple[str, str]:
    return value.upper(), key[0]


@pytest.mark.parametrize("native", [True, False])
def test_expressions_join_group_tables_and_stand_between_states(spark: SparkSession, native: bool) -> None:
    driver = TopologyTestDriver(joined_and_grouped(native=native), spark=spark)
    try:
        users, clicks, views = (driver.create_input_topic(name) for name in ("users", "clicks", "views"))
        users.pipe_key_value_list([("ann", "rome"), ("bob", "Rome"), ("cid", "oslo")])
        clicks.pipe_input("ann", "c1", timestamp=1)
        clicks.pipe_input("eve", "c2", timestamp=2)
        views.pipe_input("ann", "v1", timestamp=3)
        users.pipe_input("cid", "rome")
        assert driver.create_output_topic("where").read_key_values_to_list() == [("ann", "c1@rome"), ("eve", "c2@?")]
        assert driver.create_output_topic("both").read_key_values_to_list() == [("ann", "c1+v1")]
        counted = driver.create_output_topic("counted", value_serde="long").read_key_values_to_list()
        assert dict(counted) == {"ROME": 9}
        assert dict(driver.get_key_value_store("twice").all())["ROME"] == 6
    finally:
        driver.close()
