"""`TopologyTestDriver`: what goes in, what comes out, stores and time, with every kind of stage."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.base import ConfigError, KafkaError
from ottla.spark.streams.test_driver import TestRecord, TopologyTestDriver
from ottla.streams import (
    Processor,
    ProcessRecord,
    PunctuationType,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Open = Callable[..., TopologyTestDriver]


@pytest.fixture
def open_driver(spark: SparkSession) -> Any:
    opened: list[TopologyTestDriver] = []

    def of(topology: Topology, settings: dict[str, Any] | None = None) -> TopologyTestDriver:
        opened.append(TopologyTestDriver(topology, settings, spark=spark))
        return opened[-1]

    yield of
    for each in opened:
        each.close()


def shouts() -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream("said").filter("value is not null").map_values("upper(value)").to("shouted")
    return builder.build()


def word_count(*, native: bool) -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    words = builder.stream("lines")
    split: Any = "split(lower(value), ' ')" if native else (lambda line: line.lower().split())
    by_word: Any = "value" if native else (lambda word: word)
    counts = words.flat_map_values(split).group_by(by_word).count(materialized="counts")
    counts.to_stream().to("counted", value_serde="long")
    return builder.build()


def test_records_come_out_as_they_went_in_with_their_time_and_headers(open_driver: Open) -> None:
    driver = open_driver(shouts())
    said = driver.create_input_topic("said", start_ms=5, auto_advance_ms=10)
    shouted = driver.create_output_topic("shouted")
    said.pipe_input("k", "hello")
    said.pipe_input("world")
    said.pipe_input("k", None)
    said.pipe_record_list([TestRecord("h", "with", 99, (("trace", b"1"), ("none", None)))])
    assert shouted.read_records_to_list() == [
        TestRecord("k", "HELLO", 5),
        TestRecord(None, "WORLD", 15),
        TestRecord("h", "WITH", 99, (("trace", b"1"), ("none", None))),
    ]
    assert shouted.is_empty
    with pytest.raises(LookupError, match="Empty topic: shouted"):
        shouted.read_value()
    assert driver.produced_topic_names() == {"shouted"}


@pytest.mark.parametrize("native", [True, False])
def test_a_store_and_its_topic_say_the_same(open_driver: Open, native: bool) -> None:
    driver = open_driver(word_count(native=native))
    lines = driver.create_input_topic("lines")
    counted = driver.create_output_topic("counted", value_serde="long")
    lines.pipe_value_list(["to be or", "not to be"])
    assert counted.read_key_values_to_map() == {"to": 2, "be": 2, "or": 1, "not": 1}
    lines.pipe_input("to do")
    assert counted.read_key_values_to_map() == {"to": 3, "do": 1}
    store = driver.get_key_value_store("counts")
    assert dict(store.all()) == {"to": 3, "be": 2, "or": 1, "not": 1, "do": 1}
    assert store.get("to") == 3
    assert store.get("nothing") is None


def test_every_update_is_there_where_the_cache_is_off(open_driver: Open) -> None:
    driver = open_driver(word_count(native=False), {"statestore.cache.max.bytes": 0})
    lines = driver.create_input_topic("lines")
    lines.pipe_value_list(["a b a", "a"])
    counted = driver.create_output_topic("counted", value_serde="long")
    assert counted.read_key_values_to_list() == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]


def test_windows_are_kept_by_the_time_of_the_records(open_driver: Open) -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    windows = TimeWindows.of_size("10s", grace="5s")
    counts = builder.stream("views").group_by_key().windowed_by(windows)
    counts.count(materialized="by-page").to_stream(
        lambda page, count: f"{page.key}@{page.start_ms}", key_serde="string"
    ).to("per-window", value_serde="long")
    driver = open_driver(builder.build())
    views = driver.create_input_topic("views")
    for at in (1000, 9000, 12000, 2000):
        views.pipe_input("home", "v", timestamp=at)
    result = driver.create_output_topic("per-window", value_serde="long")
    assert result.read_key_values_to_map() == {"home@0": 3, "home@10000": 1}
    found = driver.get_window_store("by-page").fetch("home", 0, 60_000)
    assert [(window.start_ms, count) for window, count in found] == [(0, 3), (10_000, 1)]


class Every(Processor):
    """Tells how many records there were, each second of the wall clock."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        return [Stores.key_value_store("seen", str, int)]

    def init(self, context: Any) -> None:
        self.seen = context.get_state_store("seen")
        context.schedule("1s", PunctuationType.WALL_CLOCK_TIME, self.tell)
        self.context = context

    def process(self, record: Any) -> None:
        self.seen.put("all", (self.seen.get("all") or 0) + 1)

    def tell(self, now_ms: int) -> None:
        self.context.forward(ProcessRecord("seen", str(self.seen.get("all")), now_ms))


def test_the_wall_clock_moves_only_when_it_is_told(open_driver: Open) -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream("in").process(Every).to("out")
    driver = open_driver(builder.build())
    driver.create_input_topic("in").pipe_value_list(["a", "b"])
    out = driver.create_output_topic("out")
    assert out.is_empty
    driver.advance_wall_clock_time(1500)
    assert out.read_key_values_to_list() == [("seen", "2")]


def test_a_topic_that_nothing_reads_is_refused_by_name(open_driver: Open) -> None:
    with pytest.raises(ConfigError, match=r"elsewhere.*no source"):
        open_driver(shouts()).create_input_topic("elsewhere")


def test_what_a_function_raises_is_told_with_its_step(open_driver: Open) -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream("in").map_values(lambda value: str(1 // int(value)), name="divide").to("out")
    driver = open_driver(builder.build())
    driver.create_input_topic("in").pipe_input("0")
    with pytest.raises(KafkaError, match="divide"):
        driver.create_output_topic("out").read_value()


def test_what_is_piped_into_two_topics_is_one_batch_in_the_order_of_its_timestamps(open_driver: Open) -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    both = builder.stream("left").merge(builder.stream("right"))
    lines = both.group_by_key().reduce(lambda one, other: one + other, materialized="lines")
    lines.to_stream().to("out")
    driver = open_driver(builder.build(), {"statestore.cache.max.bytes": 0})
    left, right = driver.create_input_topic("left"), driver.create_input_topic("right")
    out = driver.create_output_topic("out")
    for index in range(4):
        left.pipe_input(str(index), "later", timestamp=1_000 * index + 2)
        right.pipe_input(str(index), "first", timestamp=1_000 * index + 1)
        assert [each.value for each in out.read_records_to_list()] == ["first", "firstlater"]


LATE_ONCE = """#!/bin/sh
case "$*" in *python_streaming_source_runner*) mkdir "$(dirname "$0")/was-late" 2>/dev/null && sleep 12;; esac
exec {python} "$@"
"""
"""A Python that takes longer for the first source than the ten seconds for which Spark waits."""


@pytest.mark.slow
def test_a_source_whose_process_was_late_is_started_again(
    open_driver: Open, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = tmp_path / "python"
    late.write_text(LATE_ONCE.format(python=sys.executable))
    late.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(late))
    driver = open_driver(shouts())
    driver.create_input_topic("said").pipe_input("k", "once")
    assert driver.create_output_topic("shouted").read_value() == "ONCE"
    assert (tmp_path / "was-late").is_dir()
