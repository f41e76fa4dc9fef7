"""How many partitions a topic has: remembered, waited for where it is made on demand, asked for again where wanted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.client import BlockingClient, Limits, PartitionCounts
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.server import Server, running_server

HASTY = Limits(unknown_topic_s=0.1, call_s=1, backoff_s=0.01)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("counts"), overrides=["num.partitions=3"]) as found:
        yield found


def test_a_count_is_remembered_for_a_minute(server: Server) -> None:
    now = 0.0
    with BlockingClient(server.bootstrap) as client:
        wanted = CreatableTopic(name="made", num_partitions=2, replication_factor=1)
        client.request(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), controller=True)
        counts = PartitionCounts(client.client, now=lambda: now)
        assert counts.known("made") is None
        assert client.run(counts.count("made")) == 2 == counts.known("made")
        gone = DeleteTopicState(name="made")
        client.request(DeleteTopicsRequest(topics=[gone], timeout_ms=10_000), controller=True, lowest=6)
        assert client.run(counts.count("made")) == 2
        now = 61.0
        assert counts.known("made") is None
        assert client.run(counts.count("made")) == 3  # made again, on demand


def test_a_topic_that_nobody_makes_is_asked_for_until_it_gives_up(tmp_path_factory: pytest.TempPathFactory) -> None:
    overrides = ["auto.create.topics.enable=false"]
    folder = tmp_path_factory.mktemp("none")
    with (
        running_server(folder, overrides=overrides) as server,
        BlockingClient(server.bootstrap, limits=HASTY) as client,
    ):
        asked = itertools.count()
        patient = PartitionCounts(client.client, unknown_s=60, gives_up=lambda: next(asked) == 2)
        with pytest.raises(KafkaError) as refused:
            client.run(patient.count("nowhere"))
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and next(asked) == 3
        late = PartitionCounts(client.client, gives_up=lambda: False)
        with pytest.raises(KafkaError, match="nowhere"):
            client.run(late.count("nowhere"))
