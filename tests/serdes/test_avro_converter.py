"""AvroConverter keeps Connect's schemas and values through a registry, and reads what others write."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.base import ConfigError
from ottla.connect import DataError, RetriableError, Schema, converters, data
from ottla.connect.plugins import PluginKind, discover
from tests.ports import free_port
from tests.registry.running import RegistryProcess
from tests.serdes.connect_values import EVERYTHING, VALUE

NAME = "io.confluent.connect.avro.AvroConverter"


def converter(url: str, **more: str) -> Any:
    made = discover().require(PluginKind.CONVERTER, NAME)()
    options = {key.replace("_", "."): value for key, value in more.items()}
    made.configure({"schema.registry.url": url, **options}, is_key=False)
    return made


def test_schemas_and_values_come_back_as_they_were(registry: RegistryProcess, topic: str) -> None:
    written = converter(registry.url).from_connect(topic, EVERYTHING, VALUE)
    found = converter(registry.url).to_connect(topic, written)
    assert found.value == VALUE
    assert found.schema == EVERYTHING


def test_nothing_is_a_tombstone(registry: RegistryProcess, topic: str) -> None:
    made = converter(registry.url)
    assert made.from_connect(topic, data.OPTIONAL_STRING, None) is None
    assert made.to_connect(topic, None) == (None, None)


@pytest.mark.parametrize(("schema", "value"), [(data.STRING, "x"), (data.INT64, 5), (data.BYTES, b"raw")])
def test_plain_values_come_back(registry: RegistryProcess, topic: str, schema: Schema, value: Any) -> None:
    made = converter(registry.url)
    assert made.to_connect(topic, made.from_connect(topic, schema, value)) == (schema, value)


def test_confluents_client_reads_what_it_writes(registry: RegistryProcess, topic: str) -> None:
    written = converter(registry.url).from_connect(topic, EVERYTHING, VALUE)
    client = SchemaRegistryClient({"url": registry.url})
    found: Any = AvroDeserializer(client)(written, SerializationContext(topic, MessageField.VALUE))
    assert found["money"] == Decimal("-12.34") and found["day"] == date(2024, 2, 29)
    assert found["numbers"] == [{"key": 1, "value": "one"}, {"key": 2, "value": "two"}]


UNION = json.dumps(
    {
        "type": "record",
        "name": "U",
        "namespace": "n",
        "fields": [
            {"name": "any", "type": ["null", "int", "string", {"type": "record", "name": "A", "fields": []}]},
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["ONE", "TWO"]}, "doc": "which"},
            {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 2}},
        ],
    }
)


@pytest.mark.parametrize(("given", "field"), [(5, "int"), ("x", "string"), ({}, "A"), (None, None)])
def test_unions_enums_and_fixed_of_others_go_round(
    registry: RegistryProcess, topic: str, given: Any, field: str | None
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext(topic, MessageField.VALUE)
    theirs = AvroSerializer(client, UNION)({"any": given, "kind": "TWO", "hash": b"ab"}, context)
    made = converter(registry.url)
    found = made.to_connect(topic, theirs)
    union = found.value["any"]
    assert (union is None) if field is None else [each for each in union if union[each] is not None] == [field]
    assert (found.value["kind"], found.value["hash"]) == ("TWO", b"ab")
    assert found.schema.field("kind").schema.doc == "which"
    again = made.from_connect(f"{topic}-again-{field}", found.schema, found.value)
    read: Any = AvroDeserializer(client)(again, context)
    assert read == {"any": given, "kind": "TWO", "hash": b"ab"}
    assert made.to_connect(topic, again).value == found.value


SAID = {"connect.internal.type": "MapEntry"}
OF_CONFLUENT = {"name": "MapEntry", "namespace": "io.confluent.connect.avro"}


@pytest.mark.parametrize(
    ("entry", "of_array"),
    [(OF_CONFLUENT, {}), ({"name": "Pairs", **SAID}, {}), ({"name": "Pairs"}, SAID)],
    ids=["by its name", "by its property", "by the array's property, as Ottla wrote it"],
)
def test_maps_are_known_by_their_entries(
    registry: RegistryProcess, topic: str, entry: dict[str, Any], of_array: dict[str, Any]
) -> None:
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}]
    pairs = {"type": "array", "items": {"type": "record", "fields": fields, **entry}, **of_array}
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "pairs", "type": pairs}]})
    client = SchemaRegistryClient({"url": registry.url})
    value = {"pairs": [{"key": 1, "value": "one"}, {"key": 2, "value": "two"}]}
    theirs = AvroSerializer(client, schema)(value, SerializationContext(topic, MessageField.VALUE))
    found = converter(registry.url).to_connect(topic, theirs)
    assert found.value["pairs"] == {1: "one", 2: "two"}


def test_the_entries_of_a_map_with_a_name_say_what_they_are(registry: RegistryProcess, topic: str) -> None:
    of_map = data.SchemaBuilder.map(data.INT32, data.STRING).name("n.Pairs").build()
    schema = data.SchemaBuilder.struct().name("n.R").field("pairs", of_map).build()
    converter(registry.url).from_connect(topic, schema, data.Struct(schema, {"pairs": {1: "one"}}))
    client = SchemaRegistryClient({"url": registry.url})
    told = json.loads(str(client.get_latest_version(f"{topic}-value").schema.schema_str))
    (pairs,) = told["fields"]
    assert pairs["type"]["items"]["connect.internal.type"] == "MapEntry"
    assert "connect.internal.type" not in pairs["type"]


def test_the_extended_names_of_unions_are_full(registry: RegistryProcess, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext(topic, MessageField.VALUE)
    theirs = AvroSerializer(client, UNION)({"any": {}, "kind": "ONE", "hash": b"ab"}, context)
    found = converter(registry.url, enhanced_avro_schema_support="true").to_connect(topic, theirs)
    assert [each.name for each in found.schema.field("any").schema.fields] == ["int", "string", "n.A"]


@pytest.mark.parametrize("wrong", [b"", b"{}", b"\x00\x00\x00\x00\x01", b"\x00\x7f\xff\xff\xff\x00", b"\x01short"])
def test_bytes_that_are_no_value_are_data_errors(registry: RegistryProcess, topic: str, wrong: bytes) -> None:
    made = converter(registry.url)
    made.from_connect(topic, EVERYTHING, VALUE)
    with pytest.raises(DataError):
        made.to_connect(topic, wrong)


def test_a_value_without_a_schema_is_a_data_error(registry: RegistryProcess, topic: str) -> None:
    with pytest.raises(DataError, match="schema"):
        converter(registry.url).from_connect(topic, None, {"a": 1})


def test_a_registry_that_is_away_is_asked_again(topic: str) -> None:
    made = converter(f"http://127.0.0.1:{free_port()}", max_retries="0")
    with pytest.raises(RetriableError, match="did not answer"):
        made.from_connect(topic, data.STRING, "x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema.registry.url": ""},
        {"schema.registry.url": "http://x:1", "value.schema.id.serializer": "HeaderSchemaIdSerializer"},
        {"schema.registry.url": "http://x:1", "value.subject.name.strategy": "Mine"},
        {"schema.registry.url": "http://x:1", "auto.register.schemas": "perhaps"},
        {},
    ],
)
def test_wrong_settings_are_refused_before_any_work(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        discover().require(PluginKind.CONVERTER, NAME)().configure(wrong, is_key=False)


def test_json_of_what_came_as_avro_is_what_it_was(registry: RegistryProcess, topic: str) -> None:
    found = converter(registry.url).to_connect(topic, converter(registry.url).from_connect(topic, EVERYTHING, VALUE))
    plain = converters.JsonConverter()
    again = plain.to_connect(topic, plain.from_connect(topic, found.schema, found.value))
    assert again == (EVERYTHING, VALUE)


def test_it_answers_to_its_short_names() -> None:
    for name in ("AvroConverter", "Avro", "ottla.connect.schema_converters.avro.AvroConverter"):
        assert discover().find(PluginKind.CONVERTER, name) is not None
