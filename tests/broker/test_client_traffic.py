"""DescribeClientTraffic: what each client has written and read is counted, however its requests are handled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.broker import Node
from ottla.broker.meters import CLIENT_ID_CHARACTERS_MAX, CLIENTS_MAX, Traffic
from ottla.security import Operation, Resource
from ottla.wire import Message, encode_request
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_client_traffic import DescribeClientTrafficRequest
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.node_client import NodeClient, batch, delete_topic, run, running_node

READER = "User:reader"


async def told(client: NodeClient, *topics: str) -> dict[tuple[str, str], tuple[int, int, int]]:
    answer = await client.ask(DescribeClientTrafficRequest(topics=list(topics) or None), 0)
    assert answer.error_code == 0
    return {
        (topic.name, each.client_id): (each.bytes_in, each.records_in, each.bytes_out)
        for topic in answer.topics
        for each in topic.clients
    }


async def send(client: NodeClient, client_id: str, *requests: Message) -> None:
    client.writer.write(b"".join(encode_request(each, 13, at, client_id) for at, each in enumerate(requests)))
    for _ in requests:
        await client.frame()


def test_each_client_of_a_connection_is_counted_apart_quick_or_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.create("u")
            sent = batch(b"x", b"y")
            for _ in range(3):
                for name, count in (("one", 5), ("two", 2)):
                    await send(client, name, *[client.produce_request("t", sent)] * count)
            await send(client, "one", client.produce_request("u", sent))
            size = len(sent)
            assert await told(client) == {
                ("t", "one"): (15 * size, 30, 0),
                ("t", "two"): (6 * size, 12, 0),
                ("u", "one"): (size, 2, 0),
            }
            answer = await client.fetch("t", 0)
            counted = await told(client, "t", "not there")
            assert counted["t", "test"] == (0, 0, len(answer.records))
            assert counted.keys() == {("t", "one"), ("t", "two"), ("t", "test")}
            await delete_topic(client, "t")
            assert (await told(client)).keys() == {("u", "one")}

    run(test)


async def secured(node: Node) -> tuple[Asker, Asker]:
    admin, reader = Asker(node, ADMIN, client_id="app"), Asker(node, READER)
    made = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("open", "shut")]
    created = await admin.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000))
    client = await NodeClient.connect(node)
    for each in created.topics:
        client.topic_ids[each.name] = bytes(each.topic_id)
        answer = await admin.ask(client.produce_request(each.name, batch(b"x")))
        assert answer.responses[0].partition_responses[0].error_code == 0
    client.close()
    return admin, reader


def test_who_may_describe_a_topic_sees_its_clients_and_not_who_they_are(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            admin, reader = await secured(client.node)
            everything: Any = await admin.ask(DescribeClientTrafficRequest(topics=None))
            assert [each.name for each in everything.topics] == ["open", "shut"]
            assert everything.topics[0].clients[0].principal == ADMIN
            assert (await reader.ask(DescribeClientTrafficRequest(topics=None))).topics == []
            await grant(client.node, allowed(READER, Operation.DESCRIBE, Resource.TOPIC, "open"))
            for topics in (None, ["open", "shut", "none"]):
                (shown,) = (await reader.ask(DescribeClientTrafficRequest(topics=topics))).topics
                assert shown.name == "open"
                assert [(each.client_id, each.principal) for each in shown.clients] == [("app", None)]

    run(test)


def test_of_too_many_clients_the_busy_ones_stay_and_nothing_is_lost() -> None:
    traffic = Traffic()
    topic = traffic.of("t")
    traffic.client(topic, "busy", "User:a").bytes_in += 10**9
    for number in range(3 * CLIENTS_MAX):
        traffic.client(topic, f"short-lived-{number}", "User:a").bytes_in += 1
        traffic.client(topic, "busy", "User:a").bytes_out += 1000
    assert len(topic.clients) <= CLIENTS_MAX
    assert topic.clients["busy", "User:a"].bytes_out == 3000 * CLIENTS_MAX
    assert traffic.folded.bytes_in + sum(each.bytes_in for each in topic.clients.values()) == 10**9 + 3 * CLIENTS_MAX
    traffic.forget("t")
    assert traffic.folded.bytes_in == 10**9 + 3 * CLIENTS_MAX
    for number in range(CLIENTS_MAX):
        traffic.client(traffic.of("u"), f"c{number}", "User:a")
    assert len(traffic.of("u").clients) == CLIENTS_MAX, "the clients of a topic that is gone leave room for others"


def test_a_client_id_of_any_length_costs_little() -> None:
    traffic = Traffic()
    for _ in range(2):
        traffic.client(traffic.of("t"), "n" * 30_000, "User:a").bytes_in += 1
    assert [(len(name), each.bytes_in) for (name, _), each in traffic.of("t").clients.items()] == [
        (CLIENT_ID_CHARACTERS_MAX, 2)
    ]
