"""Stages as streaming DataFrames over real topics: what they write, natively and in Python."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ottla.client import BlockingClient
from ottla.streams import StreamsBuilder, TimeWindows, Topology, UnsupportedPlan, cut, vectorised
from ottla.streams.dsl import aggregates as agg
from ottla.wire import hash_keys
from tests.streams.spark.lowered import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TEXT = {"default.key.serde": "string", "default.value.serde": "string"}


@pytest.fixture
def bench(spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path) -> Bench:
    return Bench(spark, broker, client, tmp_path)


def built(builder: StreamsBuilder) -> Topology:
    return builder.build(TEXT)


def long(number: int) -> bytes:
    return struct.pack(">q", number)


def pairs(rows: list[Any], topic: str) -> list[tuple[bytes | None, bytes | None]]:
    found = [(each.key, each.value) for each in rows if each.topic == topic]
    return sorted(found, key=lambda each: (each[0] or b"", each[1] or b""))


@dataclass
class Payment:
    user: str
    amount: int


def test_expressions_filter_map_and_flatten_natively(bench: Bench) -> None:
    bench.topic("native-in")
    bench.produce("native-in", [("a", "one two", 5), ("b", None, 6), (None, "three", 7)])
    builder = StreamsBuilder()
    words = builder.stream("native-in").filter("value is not null").flat_map_values("split(value, ' ')")
    words.map_values("upper(value)").select_key("concat(value, '!')").to("native-out")
    rows = bench.run(built(builder))
    assert pairs(rows, "native-out") == [(b"ONE!", b"ONE"), (b"THREE!", b"THREE"), (b"TWO!", b"TWO")]
    assert {each.timestamp for each in rows} == {5, 7}


def test_python_steps_run_in_one_pass_and_keep_keys_that_they_do_not_touch(bench: Bench) -> None:
    bench.topic("python-in")
    bench.produce("python-in", [(b"\xff", "1", 5), ("b", "2", 6), (None, "3", 7)])
    builder = StreamsBuilder()
    numbers = builder.stream("python-in").map_values(lambda value: int(value), value_serde="long")
    numbers.filter(lambda value: value != 2).flat_map_values(lambda value: [value, -value], value_serde="long").to(
        "python-out"
    )
    rows = bench.run(built(builder))
    assert [(each.key, each.value, each.timestamp) for each in rows] == [
        (b"\xff", long(1), 5),
        (b"\xff", long(-1), 5),
        (None, long(3), 7),
        (None, long(-3), 7),
    ]


def test_vectorised_functions_take_and_return_arrays(bench: Bench) -> None:
    import pyarrow.compute as pc

    @vectorised
    def double(values: Any) -> Any:
        return pc.multiply(values, 2)

    @vectorised
    def large(keys: Any, values: Any) -> Any:
        return pc.greater(values, 2)

    bench.topic("arrow-in")
    bench.produce("arrow-in", [("a", long(1), 5), ("b", long(2), 6)])
    builder = StreamsBuilder()
    stream = builder.stream("arrow-in", value_serde="long").map_values(double, value_serde="long")
    stream.filter(large).to("arrow-out")
    assert pairs(bench.run(built(builder)), "arrow-out") == [(b"b", long(4))]


def test_steps_cross_between_columns_and_python(bench: Bench) -> None:
    bench.topic("cross-in")
    bench.produce("cross-in", [("a", '{"user":"ann","amount":3}', 5), ("b", '{"user":"bob","amount":1}', 6)])
    builder = StreamsBuilder()
    payments = builder.stream("cross-in", value_serde=Payment).filter("value.amount > 2")
    raised = payments.map_values(lambda each: Payment(each.user, each.amount + 1), value_serde=Payment)
    raised.map_values("value.amount * 2", value_serde="long").to("cross-out")
    assert pairs(bench.run(built(builder)), "cross-out") == [(b"a", long(8))]


@pytest.mark.parametrize("python", [False, True])
def test_a_record_goes_to_the_first_branch_that_takes_it(bench: Bench, python: bool) -> None:
    name = f"branch-{python}"
    bench.topic(name)
    bench.produce(name, [("a", "1", 5), ("b", "12", 6), ("c", "123", 7)])
    builder = StreamsBuilder()
    split = builder.stream(name).split()
    short: Any = (lambda value: len(value) < 2) if python else "length(value) < 2"
    middle: Any = (lambda value: len(value) < 3) if python else "length(value) < 3"
    split.branch(short, to=lambda each: each.to("short")).branch(middle, to=lambda each: each.to("middle"))
    split.default_branch(to=lambda each: each.to("rest"))
    rows = bench.run(built(builder))
    assert sorted((each.topic, each.value) for each in rows) == [("middle", b"12"), ("rest", b"123"), ("short", b"1")]


def test_merged_streams_leave_by_one_sink(bench: Bench) -> None:
    for name in ("merge-a", "merge-b"):
        bench.topic(name)
        bench.produce(name, [(name, "x", 5)])
    builder = StreamsBuilder()
    one, other = builder.stream("merge-a"), builder.stream("merge-b").map_values(lambda value: value + "!")
    one.merge(other).to("merged")
    assert pairs(bench.run(built(builder)), "merged") == [(b"merge-a", b"x"), (b"merge-b", b"x!")]


def test_a_sink_may_choose_topic_and_partition(bench: Bench) -> None:
    bench.topic("choose-in")
    bench.produce("choose-in", [("a", "x", 5), ("b", "y", 6)])
    builder = StreamsBuilder()
    builder.stream("choose-in").to(lambda key, value, record: f"out-{value}", partitioner=lambda *_: 1)
    rows = bench.run(built(builder))
    assert sorted((each.topic, each.key, each.partition) for each in rows) == [("out-x", b"a", 1), ("out-y", b"b", 1)]


def test_a_count_leaves_results_and_changelog_and_drops_null_keys_and_values(bench: Bench) -> None:
    bench.topic("count-in")
    bench.produce("count-in", [("a", "x", 5), ("b", "x", 6), ("a", "x", 4), (None, "x", 9), ("a", None, 9)])
    builder = StreamsBuilder()
    builder.stream("count-in").group_by_key().count(materialized="counts").to_stream().to("counted")
    topology = built(builder)
    assert [each.kind for each in cut(topology).stages] == ["native"]
    rows = bench.run(topology)
    assert pairs(rows, "counted") == [(b"a", long(2)), (b"b", long(1))]
    assert pairs(rows, "app-counts-changelog") == [(b"a", long(2)), (b"b", long(1))]
    assert {each.key: each.timestamp for each in rows} == {b"a": 5, b"b": 6}


def test_an_aggregate_by_a_new_key_needs_no_repartition_topic(bench: Bench) -> None:
    bench.topic("sum-in")
    records = [("k", f'{{"user":"u{number % 2}","amount":{number}}}', number) for number in range(6)]
    bench.produce("sum-in", records)
    builder = StreamsBuilder()
    by_user = builder.stream("sum-in", value_serde=Payment).group_by("value.user", key_serde="string")
    table = by_user.aggregate(agg.sum("value.amount"), materialized="sums")
    table.to_stream().map_values("value + 100").filter("value > 106").to("summed", value_serde="long")
    topology = built(builder)
    made = cut(topology)
    assert [each.kind for each in made.stages] == ["native"]
    assert not made.repartition_topics
    rows = bench.run(topology)
    assert pairs(rows, "summed") == [(b"u1", long(109))]
    assert pairs(rows, "app-sums-changelog") == [(b"u0", long(6)), (b"u1", long(9))]


def test_a_windowed_count_takes_late_records_within_grace_and_writes_kafka_s_windowed_keys(bench: Bench) -> None:
    bench.topic("windows-in", 1)
    bench.topic("windowed", 3)
    builder = StreamsBuilder()
    windows = TimeWindows.of_size("10s", grace="20s")
    grouped = builder.stream("windows-in").group_by_key(key_serde="string").windowed_by(windows)
    grouped.count(materialized="windows").to_stream().to("windowed")
    topology = built(builder)
    bench.produce("windows-in", [("a", "x", 1_000), ("a", "x", 12_000)])
    rows = bench.run(topology)
    assert pairs(rows, "windowed") == [(b"a" + long(0), long(1)), (b"a" + long(10_000), long(1))]
    assert pairs(rows, "app-windows-changelog")[0] == (b"a" + long(0) + bytes(4), long(1))
    hashed = int(hash_keys(b"a", np.array([0, 1], np.int32))[0])
    assert {each.partition for each in rows if each.topic == "windowed"} == {hashed % 3}
    # the first window ended 9 s before the watermark's time: within grace, so its result is overwritten
    bench.produce("windows-in", [("a", "x", 2_000), ("a", "x", 40_000)])
    assert pairs(bench.run(topology), "windowed") == [(b"a" + long(0), long(2)), (b"a" + long(40_000), long(1))]
    bench.produce("windows-in", [("a", "x", 3_000), ("a", "x", 41_000)])
    assert pairs(bench.run(topology), "windowed") == [(b"a" + long(40_000), long(2))]


def test_a_poison_record_fails_the_query_with_the_step_and_its_place(bench: Bench) -> None:
    bench.topic("poison-in")
    bench.produce("poison-in", [("a", "1", 5), ("b", "x", 6)])
    builder = StreamsBuilder()
    builder.stream("poison-in").map_values(lambda value: int(value), name="to-number").to("nowhere", value_serde="long")
    place = r"in a lambda at \S*test_lowering\.py:\d+"
    with pytest.raises(
        Exception, match=rf"step to-number failed with record poison-in-0@1, {place}: ValueError: invalid literal"
    ):
        bench.run(built(builder))


def test_a_poison_record_is_skipped_counted_and_sent_to_the_dead_letter_topic(bench: Bench) -> None:
    bench.topic("letters-in")
    bench.produce("letters-in", [("a", "1", 5), ("b", "x", 6), ("c", "3", 7)])
    builder = StreamsBuilder()
    builder.stream("letters-in").map_values(lambda value: int(value), name="to-number").to("kept", value_serde="long")
    handlers = {
        "processing.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": "letters",
    }
    rows = bench.run(built(builder), **handlers)
    assert pairs(rows, "kept") == [(b"a", long(1)), (b"c", long(3))]
    [letter] = [each for each in rows if each.topic == "letters"]
    headers = dict(letter.headers)
    assert (letter.key, letter.value, letter.timestamp) == (b"b", b"x", 6)
    assert headers["__streams.errors.exception"] == b"builtins.ValueError"
    assert headers["__streams.errors.offset"] == b"1"
    assert sum(each["ottla-skipped"]["records"] or 0 for each in bench.progress) == 1


def test_bytes_that_columns_cannot_decode_go_to_the_dead_letter_topic_too(bench: Bench) -> None:
    bench.topic("bytes-in")
    bench.produce("bytes-in", [("a", long(1), 5), ("b", "x", 6)])
    builder = StreamsBuilder()
    builder.stream("bytes-in", value_serde="long").map_values("value + 1", value_serde="long").to("plus")
    with pytest.raises(Exception, match=r"failed with record bytes-in-0@1"):
        bench.run(built(builder), **{"application.id": "strict"})
    handlers = {
        "deserialization.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": "letters",
    }
    rows = bench.run(built(builder), **handlers)
    assert pairs(rows, "plus") == [(b"a", long(2))]
    assert [(each.key, each.value) for each in rows if each.topic == "letters"] == [(b"b", b"x")]


def test_a_python_aggregate_gets_what_expressions_and_functions_before_it_made(bench: Bench) -> None:
    bench.topic("reduce-in")
    bench.produce("reduce-in", [("k", "ann 3", 5), ("k", "bob 4", 6)])
    bench.produce("reduce-in", [("k", "ann 5", 7), ("k", "poison", 8)], partition=1)
    builder = StreamsBuilder()
    split = (
        builder.stream("reduce-in")
        .filter("length(value) > 1")
        .map(lambda key, value: (value.split()[0], int(value.split()[1])), key_serde="string", value_serde="long")
    )
    reduced = split.group_by_key().reduce(lambda one, other: one * other, materialized="products")
    reduced.to_stream().map_values("value + 1").to("products", value_serde="long")
    topology = built(builder)
    [stage] = cut(topology).stages
    assert stage.kind == "stateful"
    handlers = {
        "processing.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": "letters",
    }
    rows = bench.run(topology, **handlers)
    assert pairs(rows, "products") == [(b"ann", long(16)), (b"bob", long(5))]
    assert pairs(rows, "app-products-changelog") == [(b"ann", long(15)), (b"bob", long(4))]
    assert [each.value for each in rows if each.topic == "letters"] == [b"poison"]


def test_a_step_that_does_not_suit_the_columns_is_refused_by_name(bench: Bench) -> None:
    bench.topic("wrong-in")
    builder = StreamsBuilder()
    builder.stream("wrong-in").map_values("value.amount", name="wrong").to("nowhere")
    with pytest.raises(UnsupportedPlan, match="step wrong: "):
        bench.run(built(builder))
