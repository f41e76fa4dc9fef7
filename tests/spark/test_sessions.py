"""Sessions of ours, and what they keep Spark from tripping over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import BlockingClient
from ottla.spark import register
from tests.spark.conftest import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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
