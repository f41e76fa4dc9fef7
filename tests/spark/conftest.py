"""One Spark session and one broker for every test that needs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client import BlockingClient
from ottla.spark import find_java
from ottla.spark.private_api.callbacks import answer_callbacks_by_poll
from ottla.spark.private_api.local_files import quick_local_files
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests import spark_connector
from tests.server import running_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # records of any year, which must not be gone when the broker looks for old ones
    with running_server(tmp_path_factory.mktemp("ottla"), overrides=["log.retention.ms=-1"]) as server:
        yield server.bootstrap


@pytest.fixture(scope="session")
def client(broker: str) -> Iterator[BlockingClient]:
    with BlockingClient(broker) as opened:
        yield opened


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that nobody registered anything with: Spark finds `pyspark_ottla` by its name."""
    java = find_java()
    assert java is not None, "tests/conftest.py skips where there is none"
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from ottla.spark.fork_server import forked_python
    from ottla.spark.sessions import SOURCE_MODULES
    from ottla.spark.streams.launch import QUICK_COMPILER

    folder: Path = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": QUICK_COMPILER,
        "spark.driver.host": "127.0.0.1",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder),
        "spark.log.level": "OFF",
    }
    if spark_connector.missing() is None:
        settings["spark.jars"] = spark_connector.jars()
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with forked_python(SOURCE_MODULES):
        session = builder.getOrCreate()
    quick_local_files(session)
    answer_callbacks_by_poll()
    yield session
    session.stop()


def create_topic(client: BlockingClient, name: str, partitions: int = 2) -> str:
    """Create a topic and return its name."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert response.topics[0].error_code == 0, response.topics[0].error_message
    client.metadata([name])
    return name


def narrow_topic(client: BlockingClient, name: str, batch_bytes: int = 100, partitions: int = 1) -> None:
    """Create a topic that takes no batch of more than some bytes."""
    small = CreatableTopicConfig(name="max.message.bytes", value=str(batch_bytes))
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=[small])
    answer = client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


def make_again(client: BlockingClient, name: str, partitions: int = 1) -> None:
    """Delete a topic and create another of its name."""
    deleted = client.request(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000))
    assert deleted.responses[0].error_code == 0, deleted.responses[0].error_message
    create_topic(client, name, partitions)
