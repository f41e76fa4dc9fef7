"""A topic that other registries have written is taken over and given back: their records, by clients that nobody here wrote.

The records are in the bytes of Confluent's registry (its key order, with and without md5) and of Karapace's (spaces, its own
key order), with what ours does not know between them. Neither server can be run here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("confluent_kafka.schema_registry")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError

from tests.registry.running import record, running_registry
from tests.server import Server

pytestmark = pytest.mark.compat
CONFLUENT: list[tuple[str, str | None]] = [
    ('{"keytype":"NOOP","magic":0}', None),
    ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"NONE"}'),
    (
        '{"keytype":"SCHEMA","subject":"money","version":1,"magic":1}',
        '{"subject":"money","version":1,"id":1,"schema":"{\\"type\\":\\"record\\",\\"name\\":\\"Money\\",\\"fields\\":'
        '[{\\"name\\":\\"cents\\",\\"type\\":\\"long\\"}]}","deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
        '{"subject":"orders-value","version":1,"id":2,"references":[{"name":"Money","subject":"money","version":1}],'
        '"schema":"{\\"type\\":\\"record\\",\\"name\\":\\"Order\\",\\"fields\\":[{\\"name\\":\\"price\\",\\"type\\":\\"Money\\"}]}",'
        '"deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"gone-value","version":1,"magic":1}',
        '{"subject":"gone-value","version":1,"id":3,"schema":"\\"string\\"","deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"gone-value","version":1,"magic":1}',
        '{"subject":"gone-value","version":1,"id":3,"schema":"\\"string\\"","deleted":true}',
    ),
    ('{"keytype":"DELETE_SUBJECT","subject":"gone-value","magic":0}', '{"subject":"gone-value","version":1}'),
    (
        '{"keytype":"CONFIG","subject":"orders-value","magic":0}',
        '{"subject":"orders-value","compatibilityLevel":"FULL"}',
    ),
    ('{"keytype":"MODE","subject":"money","magic":0}', '{"subject":"money","mode":"READONLY"}'),
    ('{"keytype":"CONTEXT","tenant":"default","context":".eu","magic":0}', '{"tenant":"default","context":".eu"}'),
    (
        '{"keytype":"SCHEMA","subject":":.eu:people-value","version":4,"magic":1}',
        '{"subject":":.eu:people-value","version":4,"id":1,"md5":"unknown","schemaType":"JSON",'
        '"schema":"{\\"type\\":\\"object\\"}","deleted":false}',
    ),
]
KARAPACE: list[tuple[str, str | None]] = [
    (
        '{"keytype": "SCHEMA", "subject": "greetings-value", "version": 1, "magic": 1}',
        '{"deleted": false, "id": 9, "schema": "syntax = \\"proto3\\";\\nmessage Hello {\\n  string words = 1;\\n}\\n", '
        '"schemaType": "PROTOBUF", "subject": "greetings-value", "version": 1}',
    ),
]
UNKNOWN: list[tuple[str, str | None]] = [
    ('{"keytype":"ASSOC","tenant":"default","guid":"x","magic":0}', '{"resourceName":"orders"}'),
    ('{"keytype":"SCHEMA","subject":"broken","version":1,"magic":1}', '{"subject":"broken","version":1,"id":'),
    ("not JSON at all", "\x00\x01"),
]


def write(server: Server, topic: str, records: list[tuple[str, str | None]]) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    refused: list[Any] = []
    for key, value in records:
        producer.produce(
            topic, key=key, value=value, partition=0, on_delivery=lambda error, _: error and refused.append(error)
        )
    assert producer.flush(30) == 0 and not refused, refused


def held(server: Server, topic: str) -> dict[str, Any]:
    """Return what a reader of the topic has in the end: the newest value of each key that is JSON, by a plain consumer."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[str, Any] = {}
    try:
        for _ in range(200):
            message = consumer.poll(10)
            assert message is not None, "the topic's end was not reached"
            if message.error() is not None:
                return found
            try:
                key = json.dumps(json.loads(message.key() or b""), sort_keys=True)
                found[key] = None if message.value() is None else json.loads(message.value())
            except ValueError:
                continue
        raise AssertionError("the topic has no end")
    finally:
        consumer.close()


def test_a_topic_of_confluents_and_karapaces_is_taken_over_and_given_back(server: Server) -> None:
    topic = "_theirs"
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    made = admin.create_topics([NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})])
    made[topic].result(30)
    write(server, topic, [*CONFLUENT, *UNKNOWN, *KARAPACE])
    overrides = [f"kafkastore.topic={topic}", "schema.registry.group.id=theirs"]
    with running_registry(server.bootstrap, overrides=overrides) as registry:
        client = SchemaRegistryClient({"url": registry.url})
        assert sorted(client.get_subjects()) == [":.eu:people-value", "greetings-value", "money", "orders-value"]
        order = client.get_schema(2)
        assert [(each.name, each.subject, each.version) for each in order.references] == [("Money", "money", 1)]
        assert client.get_schema(3).schema_str == '"string"', "what was deleted is still found by its id"
        assert client.get_latest_version("greetings-value").schema_id == 9
        assert client.get_compatibility("orders-value") == "FULL"
        assert client.get_compatibility() == "NONE"
        assert registry.get("/mode/money") == {"mode": "READONLY"}
        with pytest.raises(SchemaRegistryError) as refused:
            client.register_schema("money", Schema(record("Money", "x"), "AVRO"))
        assert refused.value.error_code == 42205
        again = Schema(order.schema_str, "AVRO", [SchemaReference("Money", "money", 1)])
        assert client.register_schema("orders-value", again) == 2, "what is there is not registered again"
        assert client.register_schema("new-value", Schema(record("New"), "AVRO")) == 10, "the next id of the context"
        assert client.register_schema("gone-value", Schema(record("Again"), "AVRO")) == 11
        assert client.get_latest_version("gone-value").version == 2
        said = registry.said()
    assert said.count("passed over") >= len(UNKNOWN) or "unreadable" in said.lower(), said
    back = held(server, topic)
    new = back['{"keytype": "SCHEMA", "magic": 1, "subject": "new-value", "version": 1}']
    assert list(new) == ["subject", "version", "id", "md5", "schema", "deleted"], "as Confluent's own registry writes"
    assert (new["id"], new["deleted"], new["schema"]) == (10, False, record("New"))
    kinds = {json.loads(key)["keytype"] for key in back}
    assert kinds <= {"NOOP", "CONFIG", "MODE", "SCHEMA", "DELETE_SUBJECT", "CONTEXT", "ASSOC"}, kinds
    before = {json.dumps(json.loads(key), sort_keys=True): value for key, value in [*CONFLUENT, *KARAPACE]}
    for key, value in before.items():
        if "NOOP" not in key and "gone" not in key:
            assert back[key] == (None if value is None else json.loads(value)), "nothing of theirs is changed"
    # and Confluent's again: it writes on without a transaction, and ours finds that, too
    later = '{"keytype":"SCHEMA","subject":"later-value","version":1,"magic":1}'
    write(
        server, topic, [(later, '{"subject":"later-value","version":1,"id":12,"schema":"\\"int\\"","deleted":false}')]
    )
    with running_registry(server.bootstrap, overrides=overrides) as registry:
        client = SchemaRegistryClient({"url": registry.url})
        assert client.get_schema(12).schema_str == '"int"'
        assert client.register_schema("next-value", Schema(record("Next"), "AVRO")) == 13
