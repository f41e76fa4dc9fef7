"""A lost checkpoint: state comes back from the changelogs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client import BlockingClient
from ottla.spark.streams.lowering.rows import OUT
from ottla.spark.streams.state.rebuild import changelogs_of, initial_state
from tests.server import running_server
from tests.spark.conftest import create_topic
from tests.streams.spark.entry_files import Alone, Stage, plan_of
from tests.streams.spark.test_stateful_stages import aggregate, records, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_state_rebuilt_from_changelog_topics_goes_on_as_if_nothing_was_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = plan_of(aggregate(), block_entries=16)
    first, second, third = (records(200, keys=60, first=first) for first in (0, 200, 400))
    (tmp_path / "broker").mkdir()
    with running_server(tmp_path / "broker") as server:
        options = {"kafka.bootstrap.servers": server.bootstrap}
        with BlockingClient(server.bootstrap) as client:
            create_topic(client, "app-store-changelog")

        alone = Alone(plan)
        left = [row for rows in (first, second) for row in alone.batch(rows) if row.topic == "app-store-changelog"]
        spark.createDataFrame(left, OUT).coalesce(1).write.format("ottla").options(**options).mode("append").save()
        topics = ",".join(changelogs_of(plan.topology, "app").values())
        read = spark.read.format("ottla").options(**options, subscribe=topics, includeHeaders="true").load()
        stage = Stage(spark, tmp_path, plan, initial=initial_state(read, plan)).add(third).go()
    stage.initial = None
    stage.add(first).go()
    assert [sorted_rows(rows) for rows in stage.batches] == [sorted_rows(alone.batch(rows)) for rows in (third, first)]
