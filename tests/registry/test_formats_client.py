"""Records of each format, written and read by Confluent's own Python client against the registry."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from ottla.schemas import SchemaType, parse
from tests.registry.running import RegistryProcess

pytest.importorskip("confluent_kafka.schema_registry", reason="the client's registry part is not installed")

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

pytestmark = pytest.mark.compat

ORDER = """syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";

message Other {
}
message Order {
  int64 id = 1;
  map<string, int32> counts = 2;
  google.protobuf.Timestamp at = 3;
}
"""


@pytest.fixture
def client(registry: RegistryProcess) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def place(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def message_class(text: str, name: str) -> Any:
    """Return what a generated module would have: the class of a message."""
    pool, known = DescriptorPool(), FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    file = FileDescriptorProto.FromString(base64.b64decode(parse(SchemaType.PROTOBUF, text).formatted("serialized")))
    file.name = "shop/order.proto"
    for each in (known, file):
        pool.Add(each)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def test_a_protobuf_record_goes_through_a_schema_that_its_serializer_registers(
    registry: RegistryProcess, client: SchemaRegistryClient, subject: str
) -> None:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    order = message_class(ORDER, "shop.Order")
    serializer = ProtobufSerializer(order, client, {"use.deprecated.format": False, "skip.known.types": True})
    data = serializer(order(id=7, counts={"a": 1}), place(subject))
    stored = client.get_latest_version(f"{subject}-value")
    assert stored.schema.schema_str == ORDER and stored.schema.schema_type == "PROTOBUF"
    deserializer = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
    assert deserializer(data, place(subject)) == order(id=7, counts={"a": 1})
    assert registry.get(f"/schemas/ids/{stored.schema_id}?format=serialized")["schema"] != ORDER


def test_an_avro_record_is_read_with_a_schema_that_followed(client: SchemaRegistryClient, subject: str) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    old = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    new = (
        '{"type":"record","name":"R","fields":[{"name":"a","type":"long"},{"name":"b","type":"string","default":"x"}]}'
    )
    data = AvroSerializer(client, old)({"a": 3}, place(subject))
    assert client.test_compatibility(f"{subject}-value", Schema(new, "AVRO"))
    client.register_schema(f"{subject}-value", Schema(new, "AVRO"))
    assert AvroDeserializer(client, new)(data, place(subject)) == {"a": 3, "b": "x"}
    with pytest.raises(SchemaRegistryError, match="TYPE_MISMATCH"):
        client.register_schema(
            f"{subject}-value", Schema(new.replace("long", "string").replace(',"default":"x"', ""), "AVRO")
        )


def test_a_json_record_is_held_against_its_schema(client: SchemaRegistryClient, subject: str) -> None:
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

    schema = '{"title":"R","type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}'
    data = JSONSerializer(schema, client)({"a": 3}, place(subject))
    assert JSONDeserializer(schema, schema_registry_client=client)(data, place(subject)) == {"a": 3}
    assert client.get_latest_version(f"{subject}-value").schema.schema_str == schema
