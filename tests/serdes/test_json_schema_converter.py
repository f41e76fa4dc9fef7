"""JsonSchemaConverter keeps Connect's schemas and values through a registry, and reads what others write."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.base import ConfigError
from ottla.connect import DataError, Schema, SchemaBuilder, Struct, data
from ottla.connect.plugins import PluginKind, discover
from tests.registry.running import RegistryProcess
from tests.serdes.connect_values import EVERYTHING, VALUE

NAME = "io.confluent.connect.json.JsonSchemaConverter"


def converter(url: str, **more: str) -> Any:
    made = discover().require(PluginKind.CONVERTER, NAME)()
    options = {key.replace("_", "."): value for key, value in more.items()}
    made.configure({"schema.registry.url": url, **options}, is_key=False)
    return made


def written_schema(registry: RegistryProcess, topic: str) -> Any:
    return json.loads(
        SchemaRegistryClient({"url": registry.url}).get_latest_version(f"{topic}-value").schema.schema_str
    )


@pytest.mark.parametrize("form", ["BASE64", "numeric"])
def test_schemas_and_values_come_back_as_they_were(registry: RegistryProcess, topic: str, form: str) -> None:
    written = converter(registry.url, decimal_format=form).from_connect(topic, EVERYTHING, VALUE)
    assert converter(registry.url).to_connect(topic, written) == (EVERYTHING, VALUE)


def test_nothing_is_a_tombstone(registry: RegistryProcess, topic: str) -> None:
    made = converter(registry.url)
    assert made.from_connect(topic, data.OPTIONAL_STRING, None) is None
    assert made.to_connect(topic, None) == (None, None)


@pytest.mark.parametrize(("schema", "value"), [(data.STRING, "x"), (data.INT64, 5), (data.BYTES, b"raw")])
def test_plain_values_come_back(registry: RegistryProcess, topic: str, schema: Schema, value: Any) -> None:
    made = converter(registry.url)
    assert made.to_connect(topic, made.from_connect(topic, schema, value)) == (schema, value)


def test_schemas_are_told_in_confluents_words(registry: RegistryProcess, topic: str) -> None:
    made = converter(registry.url, object_additional_properties="false")
    made.from_connect(topic, EVERYTHING, VALUE)
    found = written_schema(registry, topic)
    assert (found["type"], found["title"], found["connect.version"]) == ("object", "n.Everything", 3)
    assert found["additionalProperties"] is False
    fields = found["properties"]
    assert fields["i8"] == {"type": "integer", "connect.type": "int8", "connect.index": 0}
    assert fields["i16"] == {
        "oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int16"}],
        "connect.index": 1,
    }
    assert fields["i32"]["default"] == 7
    assert fields["money"]["oneOf"][1] == {
        "type": "number",
        "title": "org.apache.kafka.connect.data.Decimal",
        "connect.type": "bytes",
        "connect.version": 1,
        "connect.parameters": {"scale": "2"},
    }
    assert fields["day"]["title"] == "org.apache.kafka.connect.data.Date" and fields["day"]["type"] == "integer"
    assert fields["numbers"]["type"] == "array" and fields["numbers"]["connect.type"] == "map"
    assert list(fields["numbers"]["items"]["properties"]) == ["key", "value"]


def test_confluents_client_reads_what_it_writes(registry: RegistryProcess, topic: str) -> None:
    written = converter(registry.url, decimal_format="NUMERIC").from_connect(topic, EVERYTHING, VALUE)
    text = json.dumps(written_schema(registry, topic))
    client = SchemaRegistryClient({"url": registry.url})
    found: Any = JSONDeserializer(text, schema_registry_client=client)(
        written, SerializationContext(topic, MessageField.VALUE)
    )
    assert found["money"] == -12.34 and found["i16"] is None and found["numbers"][0] == {"key": 1, "value": "one"}


THEIRS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "definitions": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
    "properties": {
        "id": {"type": "integer"},
        "kind": {"type": "string", "enum": ["NEW", "OLD"]},
        "either": {"oneOf": [{"type": "null"}, {"type": "string"}, {"type": "integer"}]},
        "maybe": {"type": ["null", "number"]},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "all": {"allOf": [{"properties": {"a": {"type": "boolean"}}}, {"properties": {"b": {"type": "string"}}}]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["id", "kind"],
}
ORDER = {
    "id": 5,
    "kind": "NEW",
    "either": 7,
    "maybe": None,
    "lines": [{"sku": "a"}],
    "all": {"a": True, "b": "x"},
    "labels": {"k": "v"},
}


def test_schemas_of_others_become_connects(registry: RegistryProcess, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext(topic, MessageField.VALUE)
    theirs = JSONSerializer(json.dumps(THEIRS), client)(ORDER, context)
    made = converter(registry.url, use_optional_for_nonrequired="true")
    schema, value = made.to_connect(topic, theirs)
    assert (schema.name, value["id"], value["kind"], value["maybe"]) == ("Order", 5, "NEW", None)
    assert schema.field("kind").schema.parameter("io.confluent.connect.json.Enum.NEW") == "NEW"
    assert value["either"].to_dict() == {
        "io.confluent.connect.json.OneOf.field.0": None,
        "io.confluent.connect.json.OneOf.field.1": 7,
    }
    assert value["lines"][0]["sku"] == "a" and value["all"].to_dict() == {"a": True, "b": "x"}
    assert value["labels"] == {"k": "v"}
    assert schema.field("lines").schema.optional and not schema.field("id").schema.optional
    again = made.from_connect(f"{topic}-again", schema, value)
    assert json.loads(again[5:]) == ORDER
    assert made.to_connect(topic, again).value.to_dict() == value.to_dict()


def test_generalized_unions_and_enums_have_connects_own_words(registry: RegistryProcess, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    theirs = JSONSerializer(json.dumps(THEIRS), client)(ORDER, SerializationContext(topic, MessageField.VALUE))
    made = converter(registry.url, generalized_sum_type_support="true")
    schema, value = made.to_connect(topic, theirs)
    union = schema.field("either").schema
    assert union.name == "connect_union_0" and union.parameter("org.apache.kafka.connect.data.Union") == union.name
    assert value["either"]["connect_union_field_1"] == 7
    assert schema.field("kind").schema.parameter("org.apache.kafka.connect.data.Enum.OLD") == "1"
    assert json.loads(made.from_connect(f"{topic}-again", schema, value)[5:]) == ORDER


def test_references_are_followed(registry: RegistryProcess, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema(
        f"{topic}-line", TheirSchema('{"type":"object","properties":{"n":{"type":"integer"}}}', "JSON")
    )
    text = '{"title":"O","type":"object","properties":{"line":{"$ref":"line.json"}}}'
    schema = TheirSchema(text, "JSON", [SchemaReference("line.json", f"{topic}-line", 1)])
    number = client.register_schema(f"{topic}-value", schema)
    data = b"\x00" + number.to_bytes(4) + b'{"line":{"n":3}}'
    assert converter(registry.url).to_connect(topic, data).value["line"]["n"] == 3


def test_latest_versions_are_written_with(registry: RegistryProcess, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    text = '{"title":"P","type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}}'
    number = client.register_schema(f"{topic}-value", TheirSchema(text, "JSON"))
    settings = {"auto_register_schemas": "false", "use_latest_version": "true", "latest_compatibility_strict": "false"}
    made = converter(registry.url, **settings)
    schema = SchemaBuilder.struct().field("a", data.INT64).build()
    assert made.from_connect(topic, schema, Struct(schema, a=1)) == b"\x00" + number.to_bytes(4) + b'{"a":1}'


@pytest.mark.parametrize("payload", [b"", b"{", b"5", b'{"id":"x"}', b"[]", b'{"id":1,"kind":"NEW","either":1.5}'])
def test_bytes_that_are_no_value_are_data_errors(registry: RegistryProcess, topic: str, payload: bytes) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    text = json.dumps({**THEIRS, "properties": {**THEIRS["properties"], "id": {"$ref": "#/definitions/line"}}})  # type: ignore[dict-item]
    number = client.register_schema(f"{topic}-value", TheirSchema(text, "JSON"))
    with pytest.raises(DataError):
        converter(registry.url).to_connect(topic, b"\x00" + number.to_bytes(4) + payload)


def test_a_schema_that_holds_itself_is_a_data_error(registry: RegistryProcess, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    text = '{"title":"T","type":"object","properties":{"next":{"$ref":"#"}}}'
    number = client.register_schema(f"{topic}-value", TheirSchema(text, "JSON"))
    with pytest.raises(DataError, match="holds itself"):
        converter(registry.url).to_connect(topic, b"\x00" + number.to_bytes(4) + b"{}")


def test_values_are_checked_where_that_is_asked_for(registry: RegistryProcess, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    text = '{"title":"P","type":"object","properties":{"a":{"type":"integer","minimum":5}}}'
    number = client.register_schema(f"{topic}-value", TheirSchema(text, "JSON"))
    with pytest.raises(DataError, match="minimum"):
        converter(registry.url, json_fail_invalid_schema="true").to_connect(
            topic, b"\x00" + number.to_bytes(4) + b'{"a":1}'
        )


def test_decimals_keep_their_digits(registry: RegistryProcess, topic: str) -> None:
    made = converter(registry.url, decimal_format="NUMERIC")
    value = Decimal("12345678901234567890.10")
    schema = SchemaBuilder.bytes_().name("org.apache.kafka.connect.data.Decimal").version(1).parameter("scale", "2")
    schema = schema.default(Decimal("0.10")).build()
    found = made.to_connect(topic, made.from_connect(topic, schema, value))
    assert found == (schema, value)
    assert found.schema.default == Decimal("0.10") and str(found.schema.default) == "0.10"


@pytest.mark.parametrize("wrong", [{"decimal.format": "text"}, {"use.optional.for.nonrequired": "perhaps"}])
def test_wrong_settings_are_refused_before_any_work(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        made = discover().require(PluginKind.CONVERTER, NAME)()
        made.configure({"schema.registry.url": "http://x:1", **wrong}, is_key=False)
