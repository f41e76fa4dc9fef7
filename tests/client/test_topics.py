"""Topics are made and refused one by one, and records deleted wherever they are, by a broker of our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.base import ErrorCode, Millis, Offset, TopicPartition
from ottla.client import EARLIEST, BlockingClient, DeletedRecords, NewTopic, create_topics, delete_records
from ottla.wire import Record, build_batch
from tests.server import running_server


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    with running_server(tmp_path_factory.mktemp("topics")) as server, BlockingClient(server.bootstrap) as opened:
        yield opened


def test_topics_are_made_beside_those_that_are_refused(client: BlockingClient) -> None:
    [node] = client.metadata(()).nodes
    wanted = [
        NewTopic("plain", 2, 1, {"retention.ms": "1000"}),
        NewTopic("assigned", assignment=[[node], [node], [node]]),
        NewTopic("copied", 1, 7),
        NewTopic("left-to-the-broker"),
    ]
    refused = client.run(create_topics(client.client, wanted))
    assert {name: error.code for name, error in refused.items()} == {"copied": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert "replication factor" in str(refused["copied"]).lower()
    found = client.metadata(["plain", "assigned", "left-to-the-broker"]).topics
    assert {name: len(each.partitions) for name, each in found.items()} == {
        "plain": 2,
        "assigned": 3,
        "left-to-the-broker": 1,
    }
    again = client.run(create_topics(client.client, [NewTopic("plain", 2, 1)]))
    assert again["plain"].code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_topic_is_only_checked_where_that_is_wanted(client: BlockingClient) -> None:
    assert client.run(create_topics(client.client, [NewTopic("checked", 1, 1)], validate_only=True)) == {}
    assert client.metadata(["checked"], allow_auto_topic_creation=False).topics["checked"].error


def test_records_are_deleted_up_to_an_offset_and_each_partition_says_what_became_of_it(client: BlockingClient) -> None:
    client.run(create_topics(client.client, [NewTopic("records", 2, 1)]))
    first, second, none = (TopicPartition("records", index) for index in range(3))
    records = [Record(timestamp=Millis(0), value=b"v")] * 5
    client.produce({first: build_batch(records), second: build_batch(records)})
    wanted = {none: Offset(1), first: Offset(3), second: Offset(9)}
    found = client.run(delete_records(client.client, wanted))
    assert found == {
        none: DeletedRecords(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        first: DeletedRecords(3, ErrorCode.NONE),
        second: DeletedRecords(-1, ErrorCode.OFFSET_OUT_OF_RANGE),
    }
    listed = client.list_offsets(dict.fromkeys((first, second), EARLIEST))
    assert [listed[each].offset for each in (first, second)] == [3, 0]
