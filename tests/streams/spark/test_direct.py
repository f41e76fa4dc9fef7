"""Stages whose tasks fetch and produce by themselves, and expressions that Arrow computes in Spark's place."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ottla.base import Offset, TopicPartition
from ottla.client import BlockingClient, FetchPosition, Isolation
from ottla.spark import StreamsApplication
from ottla.spark.streams.lowering.arrow import OPERATIONS, arrow_expression
from ottla.streams import StreamsBuilder, Topology
from ottla.wire import ColumnDecoder, Record, build_batch
from tests.spark.conftest import create_topic
from tests.streams.spark.test_application import WAIT_SECONDS_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOW_MS = int(time.time() * 1000)
TEXTS = [
    "",
    " ",
    "a b",
    "Straße ΣΑΣ",
    "  trimmed\t ",
    "x,y,,z,",
    "ÀÉ",
    "ﬁn",
    "İ",
    "zebra",
    "Abc",
    "日本 語",
    "ab%",
    None,
]
EXPRESSIONS = {
    "upper(value)": "Upper",
    "lower(concat(value, key))": "Lower Concat",
    "length(value) = length(key)": "Length EqualTo",
    "length(value) > 3": "GreaterThan",
    "length(value) >= 3 and not value is null": "GreaterThanOrEqual And Not IsNull",
    "trim(value)": "StringTrim",
    "ltrim(value)": "StringTrimLeft",
    "rtrim(value)": "StringTrimRight",
    "contains(value, 'b')": "Contains",
    "startswith(value, 'A') or endswith(value, 'a')": "StartsWith EndsWith Or",
    "split(lower(value), ' ')": "StringSplit",
    "split(value, ',')": "StringSplit",
    "coalesce(value, key)": "Coalesce",
    "value < key": "LessThan",
    "key <= value": "LessThanOrEqual",
    "value is not null": "IsNotNull",
}


def test_arrow_computes_what_spark_computes(spark: SparkSession) -> None:
    rows = [(one, other) for one in TEXTS for other in [*TEXTS[:8], None]]
    wanted = spark.createDataFrame(rows, "key string, value string").selectExpr(*EXPRESSIONS).toArrow()
    columns = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(("key", "value"))}
    for at, text in enumerate(EXPRESSIONS):
        read = arrow_expression(spark, text, frozenset(("key", "value")))
        assert read is not None, text
        assert read.compute(columns).to_pylist() == wanted.column(at).to_pylist(), text
    assert set(" ".join(EXPRESSIONS.values()).split()) == set(OPERATIONS)


@pytest.mark.parametrize(
    "text",
    ["split(value, '[a-z]')", "split(value, ' ', 2)", "rand()", "length(value) + 1", "offset", "no_such(value)"],
)
def test_what_arrow_might_compute_differently_stays_sparks(spark: SparkSession, text: str) -> None:
    assert arrow_expression(spark, text, frozenset(("key", "value"))) is None


def shouting(topic: str) -> Topology:
    """A filter and a map in columns, a Python function that refuses some values, and a branch."""
    builder = StreamsBuilder()
    words = builder.stream(topic, key_serde="string", value_serde="string").filter("length(value) > 1")
    loud = words.map_values("upper(value)").map_values(_checked, value_serde="string")
    loud.to(f"{topic}-out", key_serde="string", value_serde="string")
    return builder.build()


def _checked(value: str) -> str:
    if value == "BAD":
        raise ValueError("no")
    return f"{value}!"


@pytest.mark.parametrize(
    ("guarantee", "by"),
    [
        ("at_least_once", "the driver"),
        ("exactly_once_v2", "tasks"),
        # who works and what is promised are settled in different places: each of both is in every run
        pytest.param("at_least_once", "tasks", marks=pytest.mark.slow),
        pytest.param("exactly_once_v2", "the driver", marks=pytest.mark.slow),
    ],
)
def test_a_stage_without_state_delivers_every_record_once_and_counts(
    guarantee: str, by: str, spark: SparkSession, client: BlockingClient, tmp_path: Path
) -> None:
    topic = f"direct-{guarantee.partition('_')[0]}-{by.split()[-1]}"
    create_topic(client, topic, 3)
    create_topic(client, f"{topic}-out", 2)
    settings: dict[str, Any] = {
        "application.id": f"app-{topic}",
        "bootstrap.servers": ",".join(map(str, client.client.bootstrap)),
        "state.dir": str(tmp_path),
        "processing.guarantee": guarantee,
        "processing.exception.handler": "continue",
        "driver.records.max": 0 if by == "tasks" else 2,
    }
    with StreamsApplication(shouting(topic), settings, spark=spark) as application:
        feed(client, topic, 0, "one", "x", "bad")
        feed(client, topic, 2, "two")
        await_rows(application, 4)
        feed(client, topic, 1, "three")
        await_rows(application, 5)
        status = application.status()["queries"][0]
    assert (status["rows"], status["skipped"], status["lag"]) == (5, 1, 0)
    assert sorted(outputs(client, f"{topic}-out")) == [(b"k", b"ONE!"), (b"k", b"THREE!"), (b"k", b"TWO!")]


def test_a_batch_of_few_records_is_worked_on_by_the_driver_and_a_larger_one_by_a_task(
    spark: SparkSession, client: BlockingClient, tmp_path: Path
) -> None:
    create_topic(client, "where", 1)
    create_topic(client, "where-out", 2)
    builder = StreamsBuilder()
    values = builder.stream("where", key_serde="string", value_serde="string")
    values.map_values(lambda value: f"{value} {os.getpid()}").to("where-out", value_serde="string")
    settings = {
        "application.id": "app-where",
        "bootstrap.servers": ",".join(map(str, client.client.bootstrap)),
        "state.dir": str(tmp_path),
        "driver.records.max": 2,
    }
    with StreamsApplication(builder.build(), settings, spark=spark) as application:
        feed(client, "where", 0, "few", "few")
        await_rows(application, 2)
        feed(client, "where", 0, "many", "many", "many")
        await_rows(application, 5)
    where = {
        word: pid == str(os.getpid()).encode()
        for word, pid in (each.split() for _, each in outputs(client, "where-out"))
    }
    assert where == {b"few": True, b"many": False}


def feed(client: BlockingClient, topic: str, partition: int, *values: str) -> None:
    records = [Record(0, NOW_MS + at, b"k", value.encode(), ()) for at, value in enumerate(values)]
    client.produce({TopicPartition(topic, partition): bytes(build_batch(records))})


def await_rows(application: StreamsApplication, count: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while application.status()["rows"] < count:
        assert time.monotonic() < deadline and not application.state.is_final, application.status()
        time.sleep(0.05)


def outputs(client: BlockingClient, topic: str) -> list[tuple[bytes, ...]]:
    found: list[tuple[bytes, ...]] = []
    for partition in (0, 1):
        [fetched] = client.fetch(
            [FetchPosition(TopicPartition(topic, partition), Offset(0), 1 << 20)],
            max_wait_ms=0,
            isolation=Isolation.READ_COMMITTED,
        )
        decoded = ColumnDecoder().decode(fetched.check().records, start=fetched.offset, aborted=fetched.aborted)
        for columns in decoded.columns:
            keys, values = columns.key_bounds.tolist(), columns.value_bounds.tolist()
            for at in range(0, 2 * len(columns), 2):
                pair = (bytes(columns.data[each[at] : each[at + 1]]) for each in (keys, values))
                found.append(tuple(pair))
    return found


def test_a_batch_that_is_done_again_behind_its_transactions_is_passed_over(
    spark: SparkSession, client: BlockingClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []

    def fail_once(place: str) -> None:
        if place == "before Spark's own commit" and not failed:
            failed.append(place)
            raise RuntimeError("the driver ends here")

    monkeypatch.setattr("ottla.spark.streams.delivery.failpoint", fail_once)
    topic = "direct-again"
    create_topic(client, topic, 3)
    create_topic(client, f"{topic}-out", 2)
    settings: dict[str, Any] = {
        "application.id": f"app-{topic}",
        "bootstrap.servers": ",".join(map(str, client.client.bootstrap)),
        "state.dir": str(tmp_path),
        "processing.guarantee": "exactly_once_v2",
        "restart.backoff.ms": 1,
    }
    feed(client, topic, 0, "one", "two")
    with StreamsApplication(shouting(topic), settings, spark=spark) as application:
        await_rows(application, 2)
        feed(client, topic, 1, "three")
        await_rows(application, 3)
        assert application.status()["queries"][0]["restarts"] == 1
    assert failed
    assert sorted(outputs(client, f"{topic}-out")) == [(b"k", b"ONE!"), (b"k", b"THREE!"), (b"k", b"TWO!")]
