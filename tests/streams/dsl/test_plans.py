"""A plan tracks serdes, takes durations as people write them, and fails when it is built, naming the step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from ottla.streams import (
    JoinWindows,
    Materialized,
    ProcessorNode,
    SessionWindows,
    SinkNode,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyBuilder,
    TopologyError,
    agg,
)
from ottla.streams import operations as op
from ottla.streams.durations import milliseconds


@dataclass(frozen=True)
class Order:
    user: str
    amount: float


def builder() -> StreamsBuilder:
    return StreamsBuilder(default_key_serde="string", default_value_serde="string")


def sink(plan: Topology) -> SinkNode:
    (found,) = [node for node in plan.nodes.values() if isinstance(node, SinkNode)]
    return found


def operation(plan: Topology, kind: type) -> Any:
    (found,) = [
        node.operation
        for node in plan.nodes.values()
        if isinstance(node, ProcessorNode) and isinstance(node.operation, kind)
    ]
    return found


def length(text: str) -> int:
    return len(text)


def pair(key: str, value: str) -> tuple[int, Order]:
    return 1, Order(value, 1.0)


def words(text: str) -> list[str]:
    return text.split()


def test_a_functions_return_annotation_is_the_serde() -> None:
    b = builder()
    b.stream("in").map_values(length).to("out")
    assert sink(b.build()).value.name == "long"
    b = builder()
    b.stream("in").map(pair).to("out")
    assert (sink(b.build()).key.name, sink(b.build()).value.name) == ("long", "Order")
    b = builder()
    b.stream("in", value_serde=bytes).flat_map_values(words).to("out")
    assert sink(b.build()).value.name == "string"


def test_a_given_serde_comes_before_the_annotation_and_the_default_last() -> None:
    b = builder()
    b.stream("in").map_values(length, value_serde="int").to("out")
    assert sink(b.build()).value.name == "int"
    b = builder()
    b.stream("in", value_serde="long").map_values(lambda v: v).to("out")
    assert sink(b.build()).value.name == "string"


def test_an_aggregates_serde_follows_from_its_adder_or_its_first_value() -> None:
    def total(value: Order, sum: float) -> float:
        return sum + value.amount

    for initial, adder, expected in (
        (0, lambda v, a: a, "long"),
        (lambda: 0.0, total, "double"),
        (0.0, total, "double"),
    ):
        b = builder()
        b.stream("in", value_serde=Order).group_by_key().aggregate(
            initial, adder, materialized="totals"
        ).to_stream().to("out")
        plan = b.build()
        assert plan.stores["totals"].value.name == sink(plan).value.name == expected


def test_declared_aggregates_know_their_results() -> None:
    for made, expected in (
        (agg.count(), "long"),
        (agg.sum("value.amount"), "double"),
        (agg.max("value.user"), "string"),
        (agg.last(), "Order"),
        (agg.avg("value.amount"), "double"),
        (agg.collect_list("value.user"), "json"),
    ):
        b = builder()
        b.stream("in", value_serde=Order).group_by_key().aggregate(made).to_stream().to("out")
        assert sink(b.build()).value.name == expected


def test_windows_stores_keep_size_and_retention() -> None:
    b = builder()
    grouped = b.stream("in").group_by_key()
    windows = TimeWindows.of_size(minutes=5, grace=timedelta(seconds=30))
    grouped.windowed_by(windows).count(materialized=Materialized("kept", retention="1d"))
    grouped.windowed_by(windows).count(materialized="least")
    grouped.windowed_by(SessionWindows.of_inactivity_gap("1m", grace="10s")).count(materialized="sessions")
    stores = b.build().stores
    assert (stores["kept"].window_size_ms, stores["kept"].retention_ms) == (300_000, 86_400_000)
    assert stores["least"].retention_ms == 330_000
    assert (stores["sessions"].kind, stores["sessions"].retention_ms) == ("session", 70_000)


def test_suppression_waits_for_the_windows_grace() -> None:
    b = builder()
    sessions = b.stream("in").group_by_key().windowed_by(SessionWindows.of_inactivity_gap("1m", grace="10s"))
    sessions.count().suppress(Suppressed.until_window_closes()).to_stream().to("out")
    assert operation(b.build(), op.Suppress).wait_ms == 70_000


def test_a_table_is_kept_only_where_somebody_needs_it() -> None:
    b = builder()
    b.table("in").filter("value > 'a'").to_stream().to("out")
    assert not b.build().stores
    b = builder()
    table = b.table("in").filter("value > 'a'")
    b.stream("clicks").join(table, lambda one, other: one).to("out")
    assert list(b.build().stores) == ["in-STATE-STORE-0000000000"]


def test_old_values_are_sent_where_a_group_must_take_away() -> None:
    b = builder()
    b.table("in").map_values(length).group_by(
        lambda k, v: (v, v), key_serde=int, value_serde=int
    ).count().to_stream().to("out")
    plan = b.build()
    assert operation(plan, op.TableSource).send_old and operation(plan, op.TableMapValues).send_old
    assert not operation(plan, op.TableAggregate).send_old


def test_a_repartition_topic_keeps_records_without_key_only_for_left_and_outer_joins() -> None:
    for kind, drops in (("join", True), ("left_join", False)):
        b = builder()
        stream = b.stream("in").select_key(lambda v: v)
        getattr(stream, kind)(b.table("t"), lambda one, other: one).to("out")
        assert operation(b.build(), op.NotNullKey).drop is drops


def test_joined_topics_are_copartitioned() -> None:
    b = builder()
    one, two = b.stream("a"), b.stream("b")
    one.join(two, lambda x, y: x, JoinWindows.of_time_difference_with_no_grace("1m")).to("out")
    assert b.build().copartitioned == (frozenset({"a", "b"}),)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("500ms", 500),
        ("5 minutes", 300_000),
        ("1h30m", 5_400_000),
        ("PT1.5S", 1500),
        (timedelta(days=1), 86_400_000),
        (7, 7),
    ],
)
def test_durations_are_read_as_people_write_them(given: Any, expected: int) -> None:
    assert milliseconds(given) == expected


def test_a_plan_without_a_serde_fails_when_it_is_built_and_names_the_step() -> None:
    b = StreamsBuilder()
    b.stream("in", key_serde=str, value_serde=str).map_values(lambda v: v).to("out")
    with pytest.raises(TopologyError, match="KSTREAM-SINK-0000000002: the value's serde is unknown"):
        b.build()
    assert sink(b.build({"default.value.serde": "json"})).value.name == "json"


WRONG = [
    (lambda b: b.stream("in").filter(5), "KSTREAM-FILTER-0000000001: the predicate: expected a function, SQL text or"),
    (
        lambda b: b.stream("in").map_values(lambda a, c, d: a),
        "KSTREAM-MAPVALUES-0000000001: the mapper: expected a function of 1",
    ),
    (lambda b: b.stream("in").peek("value"), "KSTREAM-PEEK-0000000001: expected a Python function"),
    (lambda b: b.stream("in").map("value"), "KSTREAM-MAP-0000000001: expected two expressions"),
    (lambda b: b.stream("in", value_serde="text"), "KSTREAM-SOURCE-0000000000: no serde is called 'text'"),
    (lambda b: b.stream([]), "expected topics' names"),
    (lambda b: b.stream("in", offset_reset="first"), "offset_reset: expected earliest, latest, none"),
    (
        lambda b: b.stream("a").join(b.stream("b"), lambda x, y: x),
        "inner join of KSTREAM-SOURCE-0000000000: expected JoinWindows",
    ),
    (lambda b: b.stream("a").join(b.global_table("g"), lambda x, y: x), "expected key="),
    (lambda b: b.stream("a").join("b", lambda x, y: x), "expected a KStream, KTable or GlobalKTable, got str"),
    (lambda b: b.stream("a").outer_join(b.table("t"), lambda x, y: x, None), "a stream has no outer join with a table"),
    (
        lambda b: b.stream("a", key_serde=int).join(b.table("t", key_serde=str), lambda x, y: x),
        "the keys' serdes differ: long and the table's string",
    ),
    (lambda b: b.table("t").suppress(Suppressed.until_window_closes()), "suppress: expected a windowed table"),
    (lambda b: b.table("t").group_by(lambda k, v: (k, v)).aggregate(0, lambda v, a: a), "expected a subtractor"),
    (lambda b: b.table("t").group_by(lambda k, v: (k, v)).aggregate(agg.max()), "max cannot take away"),
    (
        lambda b: b.stream("a").group_by_key().aggregate([], lambda v, a: a),
        "expected a function without arguments or an immutable",
    ),
    (lambda b: b.stream("a").group_by_key().windowed_by(5), "windowed_by: expected TimeWindows"),
    (
        lambda b: (
            b.stream("a")
            .group_by_key()
            .windowed_by(TimeWindows.of_size_with_no_grace("1m"))
            .count(materialized=Materialized("x", retention="1s"))
        ),
        "store x: expected a retention of at least 60000 ms",
    ),
    (lambda b: b.stream("a", name="no good"), "illegal name 'no good'"),
    (lambda b: [b.table("a", materialized="x"), b.table("b", materialized="x")], "has been named 'x' already"),
    (lambda b: b.stream("a", value_serde=str).merge(b.stream("b", value_serde=int)), "the values' serdes differ"),
    (lambda b: b.stream("a").process("x"), "expected a Processor class"),
    (lambda b: b.stream("a", value_serde=object()), "expected a serde, its name or a type"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_a_wrong_step_is_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(TopologyError) as error:
        make(builder())
    assert message in str(error.value)


WRONG_WHEN_BUILT = [
    (lambda b: [b.stream("a").to("x"), b.table("a").to_stream().to("y")], "topic a is read by"),
    (lambda b: [b.stream("a", "b").to("x"), b.stream("a").to("y")], "expected the same topics in both"),
    (lambda b: [b.stream("a", name="n").filter("true", name="n").to("x")], "n: a node of this name has been added"),
    (lambda b: b.stream("a").process(lambda: None, "none").to("x"), "store 'none' has not been added"),
    (
        lambda b: b.stream("a").join(b.table("t"), lambda x, y: x, grace="1s").to("x"),
        "expected a versioned table",
    ),
    (
        lambda b: (
            b.stream("a")
            .repartition(name="one", partitions=2)
            .join(
                b.stream("b").repartition(name="two", partitions=3),
                lambda x, y: x,
                JoinWindows.of_time_difference_with_no_grace(1),
            )
            .to("x")
        ),
        "topics must have the same number of partitions",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG_WHEN_BUILT)
def test_a_plan_that_cannot_run_is_refused_when_it_is_built(make: Any, message: str) -> None:
    b = builder()
    with pytest.raises(TopologyError) as error:
        make(b)
        b.build()
    assert message in str(error.value)


def test_expressions_are_refused_where_only_python_can_read_the_value() -> None:
    from ottla.streams import Serdes

    stream = builder().stream("in", value_serde=Serdes.list(str))
    with pytest.raises(TopologyError, match=r"the value's serde list<string> is for Python only"):
        stream.filter("size(value) > 1")
    stream.filter("key = 'a'")


def test_a_topology_by_hand_refuses_unknown_parents_and_second_names() -> None:
    topology = TopologyBuilder(default_key_serde=str, default_value_serde=str).add_source("s", "in")
    with pytest.raises(TopologyError, match="p: parent 'x' is unknown"):
        topology.add_sink("p", "out", "x")
    with pytest.raises(TopologyError, match="s: a node of this name"):
        topology.add_source("s", "other")
    with pytest.raises(TopologyError, match="s: expected a processor to connect stores to"):
        topology.add_state_store(Stores.key_value_store("k", str, str), "s")
