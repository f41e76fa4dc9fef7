"""Sessions of ours, and what they keep Spark from tripping over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pytest

from ottla.base import ConfigError
from ottla.client import BlockingClient
from ottla.spark import register, session, sessions
from ottla.spark.private_api.checkpoints import FILES_BY
from ottla.spark.sessions import HADOOP_FOLDERS, SETTINGS, checkpoint_settings, let_go
from tests.spark.conftest import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MESSAGE_BYTES_DEFAULT = 1_048_588
"""Kafka's `message.max.bytes`."""


def test_a_stream_that_starts_adds_no_key_to_the_environment_that_all_streams_of_a_session_share(
    spark: SparkSession, client: BlockingClient, broker: str, tmp_path: Path
) -> None:
    create_topic(client, "environment")
    apart: Any = spark.newSession()
    register(apart)
    manager = apart._jsparkSession.sessionState().dataSourceManager()
    environment = manager.lookupDataSource("ottla").dataSourceCls().envVars()
    before = set(environment)
    options = {"kafka.bootstrap.servers": broker, "subscribe": "environment"}
    rows = apart.readStream.format("ottla").options(**options).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with_it = writer.start()
    try:
        with_it.processAllAvailable()
    finally:
        with_it.stop()
    assert set(environment) == before


def test_a_stream_keeps_the_partitions_of_its_checkpoint_when_a_session_has_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So a change of what a master stands for leaves applications alone that have begun."""
    (tmp_path / "rows").mkdir()
    kept = []
    for number, partitions in enumerate((2, 1)):
        apart = spark.newSession()
        apart.conf.set("spark.sql.shuffle.partitions", str(partitions))
        (tmp_path / "rows" / f"{number}.txt").write_text("a\nb\n")
        counts = apart.readStream.text(str(tmp_path / "rows")).groupBy("value").count()
        found: list[dict[str, int]] = []

        def take(batch: Any, _id: int, found: list[dict[str, int]] = found) -> None:
            found.append({row.value: row["count"] for row in batch.collect()})

        writer = counts.writeStream.outputMode("complete").foreachBatch(take)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(100)
        assert found[-1] == {"a": number + 1, "b": number + 1}
        said = (tmp_path / "checkpoint" / "offsets" / str(number)).read_text().splitlines()[1]
        kept.append(json.loads(said)["conf"]["spark.sql.shuffle.partitions"])
    assert kept == ["2", "2"]


def test_no_batch_of_a_python_worker_has_more_bytes_than_arrow_counts(spark: SparkSession) -> None:
    """Of any rows: by 64 MiB, and where Spark counts rows only, by as many as are below 2 GiB at Kafka's largest size."""
    apart = spark.newSession()
    for key in ("maxBytesPerBatch", "maxRecordsPerBatch"):
        apart.conf.set(f"spark.sql.execution.arrow.{key}", SETTINGS[f"spark.sql.execution.arrow.{key}"])

    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    large = apart.range(0, 90, 1, 1).selectExpr("cast(repeat('x', 1000000) as binary) value")
    found = large.mapInArrow(sizes, "rows bigint, bytes bigint").collect()
    assert sum(row.rows for row in found) == 90
    assert max(row.bytes for row in found) < (64 << 20) + 1_000_000
    rows = int(SETTINGS["spark.sql.execution.arrow.maxRecordsPerBatch"])
    assert rows * MESSAGE_BYTES_DEFAULT < 1 << 31


@pytest.mark.parametrize(
    ("settings", "quick"),
    [
        ({}, True),
        ({"spark.sql.streaming.checkpointLocation": "/var/lib/checkpoints"}, True),
        ({"spark.sql.streaming.checkpointLocation": "file:///var/lib/checkpoints"}, True),
        ({"spark.sql.streaming.checkpointLocation": "hdfs://names/checkpoints"}, False),
        ({"spark.sql.streaming.checkpointLocation": "s3a://bucket/checkpoints"}, False),
        ({"spark.hadoop.fs.defaultFS": "hdfs://names"}, False),
        ({"spark.hadoop.fs.defaultFS": "file:///"}, True),
    ],
)
def test_checkpoints_are_written_by_the_quick_file_system_unless_settings_name_another_machines(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], quick: bool
) -> None:
    for each in HADOOP_FOLDERS:
        monkeypatch.delenv(each, raising=False)
    assert (FILES_BY in checkpoint_settings(settings)) is quick
    for each in HADOOP_FOLDERS:
        monkeypatch.setenv(each, "/etc/hadoop")
        assert not checkpoint_settings(settings)
        monkeypatch.delenv(each)


@pytest.mark.parametrize("made_by", ["session", "somebody else"])
def test_who_lets_go_a_session_that_others_use_does_not_stop_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, made_by: str
) -> None:
    if made_by == "somebody else":
        monkeypatch.setattr(sessions, "_users", WeakKeyDictionary())
    for _ in range(2):
        assert session("another", master="local[2]", settings={"spark.app.name": "another"}) is spark
    for _ in range(2):
        let_go(spark)
    assert spark.range(3).count() == 3


def test_a_session_that_is_refused_stays_whole_for_those_that_have_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # so that nothing is known of the session before it is there
    with pytest.raises(ConfigError, match="needs"):
        session("another", master="spark://cluster:7077", secured="security.protocol=SSL")
    assert spark.range(3).count() == 3
