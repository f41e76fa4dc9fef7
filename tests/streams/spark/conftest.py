"""One Spark session, and one broker, for every test of Streams on Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client import BlockingClient
from tests import spark_connector
from tests.server import running_server
from tests.streams.spark.test_application import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    quickly = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    with running_server(tmp_path_factory.mktemp("ottla"), overrides=quickly) as server:
        yield server.bootstrap


@pytest.fixture(scope="session")
def client(broker: str) -> Iterator[BlockingClient]:
    with BlockingClient(broker) as opened:
        yield opened


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session as a Streams application has it, of two slots; its workers can import `tests`."""
    from ottla.spark import session
    from ottla.spark.streams.launch import QUICK_COMPILER
    from ottla.spark.streams.state.operator import LOCAL_SETTINGS, STATE_SETTINGS

    path = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    settings = {
        **STATE_SETTINGS,
        **LOCAL_SETTINGS,
        "spark.driver.extraJavaOptions": QUICK_COMPILER,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark")),
    }
    if spark_connector.missing() is None:  # tests/spark may get this session, and reads by Spark's own connector
        settings["spark.jars"] = spark_connector.jars()
    opened = session("tests", master="local[2]", settings=settings, log_level="OFF")
    for name, value in settings.items():
        if name.startswith("spark.sql.") and opened.conf.isModifiable(name):
            opened.conf.set(name, value)
    yield opened
    opened.stop()


@pytest.fixture
def world(
    request: pytest.FixtureRequest, client: BlockingClient, spark: SparkSession, tmp_path: Path
) -> Iterator[World]:
    """Topics of the test's name, and applications that are closed in the end."""
    made = World(re.sub(r"\W", "-", request.node.name.removeprefix("test_"))[-40:], client, spark, tmp_path)
    yield made
    for application in made.open:
        application.close()
