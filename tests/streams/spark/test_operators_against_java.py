"""Rows of `docs/streams-operators.md` on Spark, by `TopologyTestDriver`, against Kafka Streams' own results.

The plans of `tests/streams/java/operator_topologies.py` have a topic for each row. Each plan runs once, with the inputs that
Java's TopologyTestDriver got; what must come in Java's order is given in batches that keep it. Rows that are native are
written a second time, with column expressions, and must give the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ottla.spark.source.local_topics import LocalRecord
from ottla.spark.streams.test_driver import TopologyTestDriver
from ottla.streams import Materialized, StreamsBuilder, TimeWindows, Topology, agg, cut
from ottla.streams.serdes.choice import serde_of
from tests.streams.java.goldens import read
from tests.streams.java.plans import build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[3] / "docs" / "streams-operators.md"
SOURCES = ("stream", "table", "global_table")
EVERY_UPDATE = {"statestore.cache.max.bytes": 0}


class Ask(NamedTuple):
    """A topic that is compared."""

    plan: str
    topic: str
    how: str = "sequence"
    """sequence: all records in order; any order: all records; final: the last value of each key."""


def all_of(plan: str, *topics: str, how: str = "sequence") -> list[Ask]:
    return [Ask(plan, topic, how) for topic in topics]


ROWS: Mapping[str, list[Ask]] = {
    "`stream`": [Ask("streams", "streamed"), Ask("native streams", "streamed")],
    "`filter`, `filter_not`": [*all_of("streams", "kept", "left"), *all_of("native streams", "kept", "left")],
    "`map_values`": [Ask("streams", "doubled"), Ask("native streams", "doubled")],
    "`map`": [Ask("streams", "swapped"), Ask("native streams", "swapped")],
    "`select_key`": [Ask("streams", "rekeyed"), Ask("native streams", "rekeyed")],
    "`flat_map_values`": [Ask("streams", "words"), Ask("native streams", "words")],
    "`flat_map`": [Ask("streams", "banged")],
    "`split`, `branch`": [
        *all_of("streams", "branch-one", "branch-two", "branch-rest"),
        *all_of("native streams", "branch-one", "branch-two", "branch-rest"),
    ],
    "`merge`": [Ask("streams", "merged", "any order"), Ask("native streams", "merged", "any order")],
    "`peek`, `foreach`, `print`": [Ask("streams", "seen")],
    "`repartition`": [Ask("streams", "repartitioned"), Ask("native streams", "repartitioned")],
    "`group_by`, `group_by_key`": [Ask("aggregates", "regrouped"), Ask("native aggregates", "regrouped", "final")],
    "`to`": all_of("streams", "chosen-a", "chosen-b", "chosen-c"),
    "`count`": [
        Ask("aggregates", "counted"),
        Ask("cached aggregates", "counted", "final"),
        Ask("native aggregates", "count", "final"),
        Ask("every update", "count"),
    ],
    "`aggregate(agg.sum …)`: `sum`, `min`, `max`, `avg`": [
        *all_of("native aggregates", "sum", "min", "max", how="final"),
        *all_of("every update", "sum", "min", "max", "avg"),
    ],
    "`agg.first`, `agg.last`, `agg.collect_list`, `agg.collect_set`": [
        *all_of("every update", "first", "last", "list"),
        Ask("every update", "set", "final"),
    ],
    "`reduce`, `aggregate` with a function": [
        *all_of("aggregates", "reduced", "aggregated"),
        *all_of("cached aggregates", "reduced", "aggregated", how="final"),
    ],
    "`cogroup`": [Ask("aggregates", "cogrouped"), Ask("cached aggregates", "cogrouped", "final")],
    "tumbling and hopping windows over native aggregates": all_of(
        "native aggregates", "tumbling-count", "hopping-sum", how="final"
    ),
    "the same with `stream.time=partition`, or over functions": [
        *all_of("aggregates", "tumbling", "hopping"),
        *all_of("cached aggregates", "tumbling", "hopping", how="final"),
        *all_of("every update", "tumbling-count", "hopping-count", "tumbling-sum", "hopping-sum"),
    ],
    "sliding, session and unlimited windows": [
        *all_of("aggregates", "sliding", "session", "unlimited"),
        *all_of("cached aggregates", "sliding", "session", "unlimited", how="final"),
    ],
    "`emit_strategy(on_window_close)`": [Ask("aggregates", "closed"), Ask("cached aggregates", "closed", "final")],
    "`table`, `to_table`": all_of("tables", "table", "made"),
    "`filter`, `filter_not` of a table": [
        *all_of("tables", "t-kept", "t-left"),
        Ask("native tables", "t-left", "final"),
    ],
    "`map_values` of a table": [Ask("tables", "t-mapped"), Ask("native tables", "t-mapped", "final")],
    "`group_by` of a table, with adder and subtractor": [Ask("tables", "t-summed")],
    "`to_stream`": [Ask("tables", "changes")],
    "`suppress(until_window_closes)`": [
        Ask("aggregates", "suppressed"),
        Ask("cached aggregates", "suppressed", "final"),
    ],
    "`suppress(until_time_limit)`": [Ask("aggregates", "waited")],
    "`process`, `process_values`": all_of("processors", "processed", "timed", "stream-flushed", "wall-flushed"),
    "stream-stream `join`, `left_join`, `outer_join`": all_of(
        "joins", "stream-stream-join", "stream-stream-left_join", "stream-stream-outer_join"
    ),
    "stream-table `join`, `left_join`": all_of("joins", "stream-table-join", "stream-table-left_join"),
    "stream-global table `join`, `left_join`": all_of("joins", "stream-global-join", "stream-global-left_join"),
    "table-table `join`, `left_join`, `outer_join`": all_of(
        "joins", "table-table-join", "table-table-left_join", "table-table-outer_join"
    ),
    "table-table by foreign key": all_of("foreign keys", "fk_join", "fk_left_join", how="final"),
}
"""The rows of the page, by their first cell."""


# -- the same plans with column expressions


def _builder() -> StreamsBuilder:
    return StreamsBuilder(default_key_serde="string", default_value_serde="long")


def native_streams() -> Topology:
    builder = _builder()
    given, more = builder.stream("in"), builder.stream("more")
    text = builder.stream("text", value_serde="string")
    given.to("streamed")
    even = "value is not null and value % 2 = 0"
    given.filter(even).to("kept")
    given.filter_not(even).to("left")
    given.map_values("value * 2").to("doubled")
    shown = "coalesce(cast(value as string), 'null')"
    given.map("key", key=shown, key_serde="string", value_serde="string").to("swapped", value_serde="string")
    given.select_key("cast(value % 3 as string)").to("rekeyed")
    text.flat_map_values("split(value, ' ')").to("words", value_serde="string")
    branches = given.split(name="branch-").branch(even, name="one").branch("value > 0", name="two")
    for name, branch in branches.default_branch(name="rest").items():
        branch.to(name)
    given.merge(more).to("merged")
    given.repartition(name="again").to("repartitioned")
    return builder.build()


WINDOWS = {
    "tumbling": TimeWindows.of_size(10, grace=500),
    "hopping": TimeWindows.of_size(12, grace=500).advance_by(4),
}
"""With a grace that lets nothing be late: the two clocks would differ there."""


def native_aggregates() -> Topology:
    builder = _builder()
    given = builder.stream("in", key_serde="string", value_serde="long")
    grouped = given.group_by_key()
    grouped.count().to_stream().to("count")
    for name, made in {"sum": agg.sum(), "min": agg.min(), "max": agg.max()}.items():
        grouped.aggregate(made).to_stream().to(name)
    by_rest = given.group_by("cast(value % 3 as string)")
    by_rest.count().to_stream().to("regrouped")
    grouped.windowed_by(WINDOWS["tumbling"]).count().to_stream().to("tumbling-count")
    grouped.windowed_by(WINDOWS["hopping"]).aggregate(agg.sum()).to_stream().to("hopping-sum")
    return builder.build()


def every_update() -> Topology:
    """Declared aggregates where every update is wanted, which Spark's own would not tell."""
    builder = _builder()
    grouped = builder.stream("in", key_serde="string", value_serde="long").group_by_key()
    grouped.count().to_stream().to("count")
    for name in ("sum", "min", "max", "first", "last"):
        grouped.aggregate(getattr(agg, name)("value")).to_stream().to(name)
    grouped.aggregate(agg.avg()).to_stream().to("avg", value_serde="double")
    grouped.aggregate(agg.collect_list(), materialized=Materialized(value_serde="json")).to_stream().to(
        "list", value_serde="json"
    )
    grouped.aggregate(agg.collect_set(), materialized=Materialized(value_serde="json")).to_stream().to(
        "set", value_serde="json"
    )
    for name, windows in WINDOWS.items():
        windowed = grouped.windowed_by(windows)
        windowed.count().to_stream().to(f"{name}-count")
        windowed.aggregate(agg.sum()).to_stream().to(f"{name}-sum")
    return builder.build()


def native_tables() -> Topology:
    builder = _builder()
    table = builder.table("in")
    table.filter_not("value is not null and value % 2 = 0").to_stream().to("t-left")
    table.map_values("if(value % 2 = 0, value, null)").to_stream().to("t-mapped")
    return builder.build()


# -- running


class Runs(NamedTuple):
    """A plan of the goldens, how it is written here, and how it runs."""

    golden: str
    written: Callable[[], Topology] | None = None
    settings: Mapping[str, Any] = {}
    whole: bool = False
    """All in one batch: nothing in it depends on the order of records of different topics."""


RUNS: Mapping[str, Runs] = {
    "streams": Runs("streams", whole=True),
    "native streams": Runs("streams", native_streams, whole=True),
    "aggregates": Runs("aggregates", None, EVERY_UPDATE),
    "cached aggregates": Runs("aggregates"),
    "native aggregates": Runs("declared aggregates", native_aggregates, whole=True),
    "every update": Runs("declared aggregates", every_update, EVERY_UPDATE),
    "tables": Runs("tables", None, EVERY_UPDATE, whole=True),
    "native tables": Runs("tables", native_tables, whole=True),
    "joins": Runs("joins", None, EVERY_UPDATE),
    "foreign keys": Runs("foreign keys", whole=True),
    "processors": Runs("processors", None, EVERY_UPDATE),
}
Case = dict[str, Any]
Rows = list[list[Any]]


@cache
def golden(plan: str) -> tuple[Case, dict[str, Rows]]:
    """Return a plan's case and Java's records by topic, with what follows from them for declared aggregates."""
    case, answer = next((case, answer) for case, answer in read("operators") if case["name"] == plan)
    outputs: dict[str, Rows] = answer["outputs"]
    if plan == "declared aggregates":
        number, double, json = (serde_of(each) for each in ("long", "double", "json"))
        seen = {text: [] for text, *_ in outputs["list"]}  # type: ignore[var-annotated]
        outputs["avg"], lists, outputs["set"] = [], [], []
        for (key, total, at), (_, count, _), (_, text, _) in zip(
            outputs["sum"], outputs["count"], outputs["list"], strict=True
        ):
            mean = number.deserialize(total.encode("latin-1")) / number.deserialize(count.encode("latin-1"))
            outputs["avg"].append([key, double.serialize(mean).decode("latin-1"), at])
            seen[key] = [int(each) for each in text.removeprefix("+").split("+")]
            lists.append([key, json.serialize(seen[key]).decode("latin-1"), at])
            outputs["set"].append([key, json.serialize(list(dict.fromkeys(seen[key]))).decode("latin-1"), at])
        outputs["list"] = lists
    return case, outputs


def batches(inputs: list[Case], global_topics: set[str], whole: bool) -> Iterator[list[Case]]:
    """Divide inputs so that each batch, taken as Kafka takes several partitions, is in the order of the inputs.

    That is by smallest timestamp first, each topic's in their own order, global tables before all others.
    """
    found: list[Case] = []
    for given in inputs:
        others = [each for each in found if "advance" in each or each["topic"] != given.get("topic")]
        late = any("advance" in each or each["ts"] >= given.get("ts", 0) for each in others)
        if found and ("advance" in given or (late and not whole) or (others and given["topic"] in global_topics)):
            yield found
            found = []
        found.append(given)
    yield found


def run(spark: SparkSession | None, name: str, execution: str = "auto") -> dict[str, Rows]:
    """Run a plan by the driver; return what it has written to each topic."""
    runs = RUNS[name]
    case, _ = golden(runs.golden)
    steps = case["topology"]
    serdes = {each["topic"]: (each["key"], each["value"]) for each in steps if each["op"] in SOURCES}
    global_topics = {each["topic"] for each in steps if each["op"] == "global_table"}
    topology = build(steps) if runs.written is None else runs.written()
    with TopologyTestDriver(topology, {**runs.settings, "execution": execution}, spark=spark) as driver:
        known = {name for each in topology.nodes.values() for name in getattr(each, "topics", ())}
        topics = {each: driver.create_input_topic(each, *serdes[each]) for each in serdes if each in known}
        for batch in batches(case["inputs"], global_topics, runs.whole):
            for given in batch:
                if "advance" in given:
                    driver.advance_wall_clock_time(given["advance"])
                elif given["topic"] in topics:
                    headers = tuple((key, text.encode()) for key, text in given.get("headers", {}).items())
                    topics[given["topic"]].pipe_input(
                        given["key"], given["value"], timestamp=given["ts"], headers=headers
                    )
            driver.flush()
        return {topic: [_row(each) for each in driver.written(topic)] for topic in driver.produced_topic_names()}


def _row(record: LocalRecord) -> list[Any]:
    texts = [None if data is None else data.decode("latin-1") for data in record[:2]]
    headers = [[name, None if data is None else data.decode("latin-1")] for name, data in record.headers]
    return [*texts, record.timestamp, *([headers] if headers else [])]


@pytest.fixture(scope="module")
def written(spark: SparkSession) -> Callable[[str], dict[str, Rows]]:
    @cache
    def once(name: str) -> dict[str, Rows] | Exception:
        try:
            return run(spark, name)
        except Exception as error:
            return error

    def of(name: str) -> dict[str, Rows]:
        found = once(name)
        if isinstance(found, Exception):
            raise found
        return found

    return of


SELDOM = {"cached aggregates", "joins", "processors"}
"""Plans of many batches each, with `make nightly`: the engine is held against the same answers in every run without Spark
(`tests/streams/test_java_goldens.py`), and what Spark adds to it is the same for the other plans with state."""
CASES = [
    pytest.param(
        ask,
        id=f"{row.replace('`', '')}: {ask.topic} of {ask.plan}",
        marks=[pytest.mark.slow] if ask.plan in SELDOM else [],
    )
    for row, asks in ROWS.items()
    for ask in asks
]


@pytest.mark.parametrize("ask", CASES)
def test_what_the_operator_gives_is_what_java_gave(ask: Ask, written: Callable[[str], dict[str, Rows]]) -> None:
    java = golden(RUNS[ask.plan].golden)[1].get(ask.topic, [])
    ours = written(ask.plan).get(ask.topic, [])
    assert java, "the case says nothing"
    if ask.how == "any order":
        java, ours = sorted(java, key=str), sorted(ours, key=str)
    if ask.how == "final":
        assert final(ours) == final(java)
    else:
        assert ours == java


def final(rows: Rows) -> dict[Any, Any]:
    """Return the last value of each key, and when it was reached; a row that is gone is as one that never was."""
    last = {key: (value, at) for key, value, at, *_ in rows}
    return {key: value for key, (value, at) in last.items() if value is not None}


def test_every_row_of_the_page_has_its_topics() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \|", PAGE.read_text(encoding="utf-8").split("## Streams without state")[1], re.MULTILINE
    )
    assert [each for each in rows if each != "operator" and each.strip("-:")] == list(ROWS)


def test_the_plans_in_columns_are_native_and_no_other_is() -> None:
    kinds = {name: {each.kind for each in cut(runs.written()).stages} for name, runs in RUNS.items() if runs.written}
    assert kinds["native streams"] == {"stateless"}
    assert kinds["native aggregates"] == {"native"}
    updates = cut(every_update(), every_update=True)
    assert {each.kind for each in updates.stages} == {"stateful"}
    assert all("every update" in why for why in list(updates.reasons.values())[:1])
