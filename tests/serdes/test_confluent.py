"""What Confluent's serializers write, ours read, and the other way round, against a registry that runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import struct_pb2

from ottla.schemas import SchemaReference, SchemaType, parse
from ottla.serdes import Deserializer, Registry, SchemaText, SerdeError, Serializer, codec_of, serde_settings
from tests.ports import free_port
from tests.registry.running import RegistryProcess

USER = json.dumps(
    {
        "type": "record",
        "name": "User",
        "namespace": "n",
        "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"], "default": None}],
    }
)
ANNA = {"name": "Anna", "age": 40}
PERSON = '{"title":"Person","type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}}}'


def settings(registry: RegistryProcess, **more: str) -> Any:
    return serde_settings(
        {"schema.registry.url": registry.url, **{key.replace("_", "."): value for key, value in more.items()}},
        is_key=False,
    )


def theirs(registry: RegistryProcess) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def context(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_avro_is_the_same_bytes_and_each_reads_the_others(registry: RegistryProcess, topic: str) -> None:
    our = Serializer(settings(registry)).serialize(topic, ANNA, SchemaText(SchemaType.AVRO, USER))
    their = AvroSerializer(theirs(registry), USER)(ANNA, context(topic))
    assert our == their
    assert AvroDeserializer(theirs(registry))(our, context(topic)) == ANNA
    found = Deserializer(settings(registry)).deserialize(their)
    assert found is not None and found.value == ANNA


def test_json_schema_is_read_both_ways(registry: RegistryProcess, topic: str) -> None:
    our = Serializer(settings(registry)).serialize(topic, ANNA, SchemaText(SchemaType.JSON, PERSON))
    assert our is not None and our[5:] == b'{"name":"Anna","age":40}'
    their = JSONSerializer(PERSON, theirs(registry))(ANNA, context(topic))
    assert their[:5] == our[:5]
    assert JSONDeserializer(PERSON, schema_registry_client=theirs(registry))(our, context(topic)) == ANNA
    found = Deserializer(settings(registry, json_fail_invalid_schema="true")).deserialize(their)
    assert found is not None and found.value == ANNA


def test_protobuf_is_the_same_payload_and_each_reads_the_others(registry: RegistryProcess, topic: str) -> None:
    text = 'syntax = "proto3"; package n; message First {} message Outer { message Inner { string name = 1; } }'
    message: Any = codec_of(parse(SchemaType.PROTOBUF, text)).from_json('{"name":"Anna"}', (1, 0))
    kind = type(message)
    their = ProtobufSerializer(kind, theirs(registry))(message, context(topic))
    found = Deserializer(settings(registry)).deserialize(their)
    assert found is not None and found.codec.name(found.id.indexes) == kind.DESCRIPTOR.full_name
    assert found.value.name == "Anna"
    our = Serializer(settings(registry)).serialize(topic, message, found.schema, message=kind.DESCRIPTOR.full_name)
    assert our == their
    assert ProtobufDeserializer(kind, schema_registry_client=theirs(registry))(our, context(topic)) == message


def test_the_first_message_of_a_file_is_the_same_bytes(registry: RegistryProcess, topic: str) -> None:
    their = ProtobufSerializer(struct_pb2.Struct, theirs(registry))(struct_pb2.Struct(), context(topic))
    assert their[5:] == b"\x00"
    found = Deserializer(settings(registry)).deserialize(their)
    assert found is not None and found.json() == "{}"


def test_ids_in_headers_are_read_both_ways(registry: RegistryProcess, topic: str) -> None:
    own = settings(registry, value_schema_id_serializer="HeaderSchemaIdSerializer")
    headers: list[tuple[str, bytes | None]] = []
    our = Serializer(own).serialize(topic, ANNA, SchemaText(SchemaType.AVRO, USER), headers=headers)
    assert AvroDeserializer(theirs(registry))(our, context(topic, headers)) == ANNA
    their_headers: list[tuple[str, bytes | None]] = []
    serializer = AvroSerializer(theirs(registry), USER, conf={"schema.id.serializer": header_schema_id_serializer})
    their = serializer(ANNA, context(topic, their_headers))
    assert (their, their_headers) == (our, headers)
    found = Deserializer(own).deserialize(their, their_headers)
    assert found is not None and found.value == ANNA


def test_a_schema_that_refers_to_others_is_resolved(registry: RegistryProcess, topic: str) -> None:
    registry.register(f"{topic}-address", '{"type":"record","name":"n.Address","fields":[{"name":"zip","type":"int"}]}')
    text = '{"type":"record","name":"n.Home","fields":[{"name":"at","type":"n.Address"}]}'
    schema = SchemaText(SchemaType.AVRO, text, (SchemaReference("n.Address", f"{topic}-address", 1),))
    data = Serializer(settings(registry)).serialize(topic, {"at": {"zip": 12}}, schema)
    found = Deserializer(settings(registry)).deserialize(data)
    assert found is not None and found.value == {"at": {"zip": 12}}


def test_subjects_follow_the_strategy(registry: RegistryProcess, topic: str) -> None:
    own = settings(registry, value_subject_name_strategy="TopicRecordNameStrategy")
    Serializer(own).serialize(topic, ANNA, SchemaText(SchemaType.AVRO, USER))
    assert f"{topic}-n.User" in registry.get("/subjects")
    with pytest.raises(SerdeError, match="name"):
        Serializer(own).serialize(topic, "x", SchemaText(SchemaType.AVRO, '"string"'))


def test_the_latest_version_is_written_with_where_it_can_stand_for_the_one_at_hand(
    registry: RegistryProcess, topic: str
) -> None:
    registry.register(f"{topic}-value", USER)
    own = settings(registry, auto_register_schemas="false", use_latest_version="true")
    plain = SchemaText(SchemaType.AVRO, '{"type":"record","name":"n.User","fields":[{"name":"name","type":"string"}]}')
    found = Deserializer(own).deserialize(Serializer(own).serialize(topic, {"name": "Anna"}, plain))
    assert found is not None and found.value == {"name": "Anna", "age": None}
    other = SchemaText(SchemaType.AVRO, '"string"')
    with pytest.raises(SerdeError, match=r"latest\.compatibility\.strict"):
        Serializer(own).serialize(topic, "x", other)


def test_without_registering_a_schema_has_to_be_there(registry: RegistryProcess, topic: str) -> None:
    own = settings(registry, auto_register_schemas="false")
    with pytest.raises(SerdeError) as raised:
        Serializer(own).serialize(topic, ANNA, SchemaText(SchemaType.AVRO, USER))
    assert not raised.value.retriable
    number = registry.register(f"{topic}-value", USER)
    data = Serializer(own).serialize(topic, ANNA, SchemaText(SchemaType.AVRO, USER))
    assert data is not None and data[:5] == b"\x00" + number.to_bytes(4)


def test_a_schema_may_be_named_by_its_id(registry: RegistryProcess, topic: str) -> None:
    number = registry.register(f"{topic}-value", USER)
    own = settings(registry, auto_register_schemas="false", use_schema_id=str(number))
    data = Serializer(own).serialize("elsewhere", ANNA, None)
    assert data is not None and data[:5] == b"\x00" + number.to_bytes(4)


def test_an_id_that_nobody_knows_is_refused_for_good(registry: RegistryProcess) -> None:
    with pytest.raises(SerdeError, match="40403") as raised:
        Deserializer(settings(registry)).deserialize(b"\x00\x00\x0f\xff\xff\x02")
    assert not raised.value.retriable


def test_an_incompatible_schema_is_refused_for_good(registry: RegistryProcess, topic: str) -> None:
    registry.register(f"{topic}-value", USER)
    with pytest.raises(SerdeError, match="refused") as raised:
        Serializer(settings(registry)).serialize(topic, 1, SchemaText(SchemaType.AVRO, '"int"'))
    assert not raised.value.retriable


def test_a_registry_that_is_away_is_worth_another_try(registry: RegistryProcess) -> None:
    away = serde_settings({"schema.registry.url": f"http://127.0.0.1:{free_port()}", "max.retries": "0"}, is_key=False)
    with pytest.raises(SerdeError, match="did not answer") as raised:
        Registry(away).by_id(1)
    assert raised.value.retriable


def test_the_next_address_is_asked_where_one_does_not_answer(registry: RegistryProcess, topic: str) -> None:
    urls = f"http://127.0.0.1:{free_port()},{registry.url}"
    own = serde_settings({"schema.registry.url": urls, "max.retries": "0"}, is_key=False)
    assert Serializer(own).serialize(topic, ANNA, SchemaText(SchemaType.AVRO, USER))


def test_schemas_with_rules_are_refused(registry: RegistryProcess, topic: str) -> None:
    rule = {"name": "hide", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT"}
    number = registry.register(f"{topic}-value", USER, ruleSet={"domainRules": [rule]})
    with pytest.raises(SerdeError, match="hide"):
        Deserializer(settings(registry)).deserialize(b"\x00" + number.to_bytes(4) + b"\x00\x00")


def test_the_latest_schema_of_some_metadata_is_written_with(registry: RegistryProcess, topic: str) -> None:
    body = {"schema": USER, "metadata": {"properties": {"major": "1"}}}
    other = json.loads(USER) | {"doc": "other"}
    for each in (body, {"schema": json.dumps(other), "metadata": {"properties": {"major": "2"}}}):
        answer = registry.ask("POST", f"/subjects/{topic}-value/versions", each)
        assert answer.status == 200
    given = {"auto_register_schemas": "false", "use_latest_with_metadata": "major=1"}
    found = Serializer(settings(registry, **given)).known(topic, None)
    assert json.loads(found.schema.text) == json.loads(USER)
