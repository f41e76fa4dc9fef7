"""One broker for every test of Spark's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client import BlockingClient
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.server import running_server


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # records of any year, which must not be gone when the broker looks for old ones
    with running_server(tmp_path_factory.mktemp("ottla")) as server:
        yield server.bootstrap


@pytest.fixture(scope="session")
def client(broker: str) -> Iterator[BlockingClient]:
    with BlockingClient(broker) as opened:
        yield opened


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
