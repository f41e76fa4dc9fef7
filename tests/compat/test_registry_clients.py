"""Confluent's own registry client and serialisers (confluent-kafka) against `ottla registry`, over a broker of Ottla's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.registry_messages import greeting_class
from tests.processes import end
from tests.registry.running import RegistryProcess, record, running_registry, start_registry
from tests.server import Server, running_server

pytest.importorskip("confluent_kafka.schema_registry")

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

pytestmark = pytest.mark.compat
USER = '{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}'
PERSON = json.dumps({"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    overrides = ["group.initial.rebalance.delay.ms=0"]
    with running_server(tmp_path_factory.mktemp("broker"), overrides=overrides) as server:
        yield server


@pytest.fixture(scope="module")
def registry(broker: Server) -> Iterator[RegistryProcess]:
    with running_registry(broker.bootstrap) as found:
        yield found


@pytest.fixture
def client(registry: RegistryProcess) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def through_a_topic(broker: Server, topic: str, value: bytes) -> bytes:
    """Return what a consumer gets of a value that a producer wrote."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        found = consumer.poll(60)
        assert found is not None and found.error() is None, found
        read: bytes = found.value()
        return read
    finally:
        consumer.close()


def avro(client: SchemaRegistryClient) -> tuple[Any, Any, Any]:
    return AvroSerializer(client, USER), AvroDeserializer(client), {"name": "Anna"}


def json_schema(client: SchemaRegistryClient) -> tuple[Any, Any, Any]:
    deserializer = JSONDeserializer(PERSON, schema_registry_client=client)
    return JSONSerializer(PERSON, client), deserializer, {"name": "Anna"}


def protobuf(client: SchemaRegistryClient) -> tuple[Any, Any, Any]:
    kind = greeting_class()
    serializer = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    deserializer = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
    return serializer, deserializer, kind(words="hello", times=3)


@pytest.mark.parametrize("make", [avro, json_schema, protobuf])
def test_serialisers_register_by_themselves_and_deserialisers_find_what_they_need(
    broker: Server,
    registry: RegistryProcess,
    client: SchemaRegistryClient,
    make: Callable[[Any], tuple[Any, Any, Any]],
) -> None:
    serialize, deserialize, value = make(client)
    topic = f"topic-{make.__name__}"
    context = SerializationContext(topic, MessageField.VALUE)
    data = serialize(value, context)
    assert data[:1] == b"\0"
    assert deserialize(through_a_topic(broker, topic, data), context) == value
    assert client.get_subjects().count(f"{topic}-value") == 1
    assert serialize(value, context) == data, "what is registered is not registered again"
    fresh = SchemaRegistryClient({"url": registry.url})
    assert make(fresh)[0](value, context) == data
    assert make(SchemaRegistryClient({"url": registry.url}))[1](data, context) == value


def test_a_client_looks_up_compares_and_deletes(client: SchemaRegistryClient) -> None:
    first = client.register_schema("looked-up", Schema(record("R"), "AVRO"))
    assert client.get_schema(first).schema_str == record("R")
    found = client.lookup_schema("looked-up", Schema(record("R"), "AVRO"))
    assert (found.schema_id, found.version, found.subject) == (first, 1, "looked-up")
    assert client.get_latest_version("looked-up").schema_id == first
    assert client.get_versions("looked-up") == [1]
    assert client.test_compatibility("looked-up", Schema(record("R"), "AVRO"))
    assert not client.test_compatibility("looked-up", Schema(record("R", "x"), "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("looked-up", Schema(record("R", "x"), "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)
    client.set_compatibility("looked-up", "NONE")
    assert client.get_compatibility("looked-up") == "NONE"
    second = client.register_schema("looked-up", Schema(record("R", "x"), "AVRO"))
    assert second != first
    assert client.delete_version("looked-up", 1) == 1
    assert client.delete_subject("looked-up") == [2]
    with pytest.raises(SchemaRegistryError) as missing:
        client.get_versions("looked-up")
    assert missing.value.error_code == 40401


def test_references_are_registered_and_resolved(client: SchemaRegistryClient) -> None:
    client.register_schema("money", Schema(record("Money", "cents"), "AVRO"))
    order = '{"type":"record","name":"Order","fields":[{"name":"price","type":"Money"}]}'
    schema = Schema(order, "AVRO", [SchemaReference("Money", "money", 1)])
    context = SerializationContext("orders", MessageField.VALUE)
    data = AvroSerializer(client, schema)({"price": {"cents": 7}}, context)
    assert AvroDeserializer(client)(data, context) == {"price": {"cents": 7}}


def test_guids_in_headers_lead_to_schemas(registry: RegistryProcess, client: SchemaRegistryClient) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer

    serializer = AvroSerializer(client, USER, conf={"schema.id.serializer": header_schema_id_serializer})
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext("in-headers", MessageField.VALUE, headers)
    data = serializer({"name": "Anna of Ottla"}, context)
    assert headers and headers[0][0] == "__value_schema_id"
    fresh = SchemaRegistryClient({"url": registry.url})
    assert AvroDeserializer(fresh)(data, context) == {"name": "Anna of Ottla"}


def test_an_instance_that_starts_again_has_everything(broker: Server, tmp_path: Path) -> None:
    overrides = ["kafkastore.topic=_again", "schema.registry.group.id=again"]
    first = start_registry(broker.bootstrap, overrides=overrides)
    ids = [first.register(f"s{index}", record(f"R{index}")) for index in range(20)]
    first.kill()
    second = start_registry(broker.bootstrap, overrides=overrides)
    try:
        assert [second.get(f"/schemas/ids/{each}")["schema"] for each in ids] == [record(f"R{i}") for i in range(20)]
        assert second.register("next", record("Next")) == len(ids) + 1
    finally:
        end(second.process, 60)
