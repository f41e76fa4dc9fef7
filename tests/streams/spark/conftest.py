"""One broker for every test of Streams on Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client import BlockingClient
from tests.server import running_server
from tests.streams.spark.test_application import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    quickly = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    with running_server(tmp_path_factory.mktemp("ottla"), overrides=quickly) as server:
        yield server.bootstrap


@pytest.fixture(scope="session")
def client(broker: str) -> Iterator[BlockingClient]:
    with BlockingClient(broker) as opened:
        yield opened


@pytest.fixture
def world(
    request: pytest.FixtureRequest, client: BlockingClient, spark: SparkSession, tmp_path: Path
) -> Iterator[World]:
    """Topics of the test's name, and applications that are closed in the end."""
    made = World(re.sub(r"\W", "-", request.node.name.removeprefix("test_"))[-40:], client, spark, tmp_path)
    yield made
    for application in made.open:
        application.close()
