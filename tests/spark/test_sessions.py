"""Sessions of ours, and what they keep Spark from tripping over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ottla.client import BlockingClient
from ottla.spark import register
from ottla.spark.sessions import SETTINGS
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
