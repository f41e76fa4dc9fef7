"""ProtobufConverter keeps Connect's schemas and values through a registry, and reads what others write."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.base import ConfigError
from ottla.connect import DataError, Schema, SchemaBuilder, Struct, data
from ottla.connect.plugins import PluginKind, discover
from ottla.schemas import SchemaType, parse
from ottla.serdes import codec_of
from tests.registry.running import RegistryProcess
from tests.serdes.connect_values import EVERYTHING, VALUE

NAME = "io.confluent.connect.protobuf.ProtobufConverter"
STRUCT = SchemaBuilder.struct
TAG = "io.confluent.connect.protobuf.Tag"


def converter(url: str, **more: str) -> Any:
    made = discover().require(PluginKind.CONVERTER, NAME)()
    options = {key.replace("_", "."): value for key, value in more.items()}
    made.configure({"schema.registry.url": url, **options}, is_key=False)
    return made


def written_schema(registry: RegistryProcess, topic: str) -> str:
    return str(SchemaRegistryClient({"url": registry.url}).get_latest_version(f"{topic}-value").schema.schema_str)


FULL = Struct(EVERYTHING, {**{each.name: VALUE[each.name] for each in EVERYTHING.fields}, "list": ["a", "b"]})


def plain(value: Struct) -> dict[str, Any]:
    return {key: each for key, each in value.to_dict().items() if each is not None}


@pytest.mark.parametrize("option", ["", "optional_for_nullables", "wrapper_for_nullables"])
def test_values_come_back_as_they_were(registry: RegistryProcess, topic: str, option: str) -> None:
    made = converter(registry.url, **({option: "true"} if option else {}))
    written = made.from_connect(topic, EVERYTHING, FULL)
    schema, value = made.to_connect(topic, written)
    expected = {**plain(FULL)} if option else {**plain(FULL), "i16": 0}
    assert plain(value) == expected
    logical = {each.name: each.schema.name for each in schema.fields if each.schema.name}
    assert logical["money"] == "org.apache.kafka.connect.data.Decimal"
    assert logical["day"] == "org.apache.kafka.connect.data.Date"
    assert schema.field("money").schema.parameter("scale") == "2"
    assert schema.field("i8").schema.type is data.INT8.type
    again = made.from_connect(f"{topic}-again", schema, value)
    assert made.to_connect(topic, again) == (schema, value)


def test_schemas_are_told_in_confluents_words(registry: RegistryProcess, topic: str) -> None:
    converter(registry.url).from_connect(topic, EVERYTHING, FULL)
    text = written_schema(registry, topic)
    for line in (
        "package n;",
        "message Everything {",
        "confluent.type.Decimal money = 10",
        "google.type.Date day = 11;",
        "google.protobuf.Timestamp at = 12;",
        "google.type.TimeOfDay hour = 13;",
        "map<int32, string> numbers = 16;",
        "message Inner {",
    ):
        assert line in text


def test_confluents_client_reads_what_it_writes(registry: RegistryProcess, topic: str) -> None:
    written = converter(registry.url).from_connect(topic, EVERYTHING, FULL)
    codec: Any = codec_of(parse(SchemaType.PROTOBUF, written_schema(registry, topic)))
    kind = type(codec.message({}, (0,)))
    read = ProtobufDeserializer(kind, schema_registry_client=SchemaRegistryClient({"url": registry.url}))
    found: Any = read(written, SerializationContext(topic, MessageField.VALUE))
    assert (found.i64, found.text, found.numbers[2], found.day.month) == (2**40, "é", "two", 2)
    assert int.from_bytes(found.money.value, signed=True) == -1234 and found.money.scale == 2


THEIRS = """
syntax = "proto3";
package n;
import "google/protobuf/wrappers.proto";
message Skipped {}
message Order {
  enum Kind { NEW = 0; OLD = 1; }
  message Line { string sku = 1; uint64 many = 2; }
  int32 id = 1;
  Kind kind = 2;
  oneof either { string text = 3; Line line = 4; }
  repeated Line lines = 5;
  optional int32 maybe = 6;
  google.protobuf.StringValue wrapped = 7;
  Line missing = 8;
  map<string, Line> by_name = 9;
}
"""


def theirs(registry: RegistryProcess, topic: str) -> Any:
    codec: Any = codec_of(parse(SchemaType.PROTOBUF, THEIRS))
    line = {"sku": "a", "many": 2**64 - 1}
    value = {"id": 5, "kind": "OLD", "line": line, "lines": [line], "wrapped": "w", "by_name": {"k": line}}
    message = codec.message(value, (1,))
    client = SchemaRegistryClient({"url": registry.url})
    return ProtobufSerializer(type(message), client)(message, SerializationContext(topic, MessageField.VALUE))


def test_messages_of_others_become_connects_and_back(registry: RegistryProcess, topic: str) -> None:
    data_of = theirs(registry, topic)
    made = converter(registry.url)
    schema, value = made.to_connect(topic, data_of)
    assert (schema.name, value["id"], value["kind"], value["missing"]) == ("Order", 5, "OLD", None)
    assert schema.field("id").schema.parameter(TAG) == "1"
    assert schema.field("kind").schema.parameter("io.confluent.connect.protobuf.Enum.OLD") == "1"
    union = value["either_0"]
    assert union.schema.name == "io.confluent.connect.protobuf.Union.either"
    assert union["text"] is None and union["line"].to_dict() == {"sku": "a", "many": -1}
    assert value["lines"][0]["sku"] == "a" and value["wrapped"].to_dict() == {"value": "w"}
    assert value["by_name"]["k"]["sku"] == "a"
    assert value["maybe"] is None
    again = made.to_connect(topic, made.from_connect(f"{topic}-again", schema, value))
    assert again.value.to_dict() == {
        **value.to_dict(),
        "maybe": 0,
    }  # without optional.for.nullables it says no `optional`


def test_each_option_changes_what_a_message_is(registry: RegistryProcess, topic: str) -> None:
    data_of = theirs(registry, topic)

    def read(**options: str) -> Any:
        return converter(registry.url, **options).to_connect(topic, data_of)

    assert read(enhanced_protobuf_schema_support="true").schema.name == "n.Order"
    assert read(int_for_enums="true").value["kind"] == 1
    assert "either" in read(generate_index_for_unions="false").value
    assert read(flatten_unions="true").value["line"]["sku"] == "a"
    assert read(wrapper_for_nullables="true").value["wrapped"] == "w"
    nullable = read(optional_for_nullables="true")
    assert nullable.value["maybe"] is None and not nullable.schema.field("id").schema.optional
    assert read(generate_struct_for_nulls="true").value["missing"].to_dict() == {"sku": "", "many": 0}
    general = read(generalized_sum_type_support="true").schema
    assert general.field("either_0").schema.parameter("org.apache.kafka.connect.data.Union") == "either"


@pytest.mark.parametrize(
    ("schema", "value"),
    [(data.STRING, "x"), (data.INT64, -5), (data.BYTES, b"raw"), (data.BOOLEAN, True), (data.FLOAT64, 1.5)],
)
def test_plain_values_are_wrappers(registry: RegistryProcess, topic: str, schema: Schema, value: Any) -> None:
    made = converter(registry.url)
    assert made.to_connect(topic, made.from_connect(topic, schema, value)) == (schema, value)


def test_nothing_is_a_tombstone(registry: RegistryProcess, topic: str) -> None:
    made = converter(registry.url)
    assert made.from_connect(topic, data.OPTIONAL_STRING, None) is None
    assert made.to_connect(topic, None) == (None, None)


def test_maps_with_other_keys_are_entries(registry: RegistryProcess, topic: str) -> None:
    key = STRUCT().name("K").field("a", data.INT32).build()
    schema = STRUCT().name("M").field("by_key", SchemaBuilder.map(data.FLOAT64, key).build()).build()
    made = converter(registry.url)
    value = Struct(schema, by_key={0.5: Struct(key, a=1)})
    found = made.to_connect(topic, made.from_connect(topic, schema, value))
    assert found.value["by_key"][0.5]["a"] == 1


def test_names_are_scrubbed_where_that_is_asked_for(registry: RegistryProcess, topic: str) -> None:
    schema = STRUCT().name("n.My-Type").field("a b", data.INT32).field("_c", data.INT32).build()
    value = Struct(schema, {"a b": 1, "_c": 2})
    with pytest.raises(DataError, match="scrub"):
        converter(registry.url).from_connect(topic, schema, value)
    made = converter(registry.url, scrub_invalid_names="true")
    found = made.to_connect(topic, made.from_connect(topic, schema, value))
    assert found.schema.name == "My_Type" and found.value.to_dict() == {"a_b": 1, "x_c": 2}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (SchemaBuilder.array(SchemaBuilder.array(data.INT32).build()).build(), [[1]]),
        (SchemaBuilder.array(data.OPTIONAL_STRING).build(), ["a", None]),
        (SchemaBuilder.map(data.STRING, SchemaBuilder.array(data.INT32).build()).build(), {"a": [1]}),
    ],
)
def test_what_protobuf_has_not_is_a_data_error(
    registry: RegistryProcess, topic: str, schema: Schema, value: Any
) -> None:
    outer = STRUCT().field("f", schema).build()
    with pytest.raises(DataError):
        converter(registry.url).from_connect(topic, outer, Struct(outer, f=value))


def test_a_message_that_holds_itself_is_a_data_error(registry: RegistryProcess, topic: str) -> None:
    text = 'syntax = "proto3"; message Node { Node next = 1; }'
    number = SchemaRegistryClient({"url": registry.url}).register_schema(
        f"{topic}-value", TheirSchema(text, "PROTOBUF")
    )
    with pytest.raises(DataError, match="holds itself"):
        converter(registry.url).to_connect(topic, b"\x00" + number.to_bytes(4) + b"\x00")


def test_decimals_of_any_size_come_back(registry: RegistryProcess, topic: str) -> None:
    schema = STRUCT().field("d", data.decimal_schema(3)).build()
    made = converter(registry.url)
    for text in ("0.000", "-0.001", "12345678901234567890123456789.125"):
        found = made.to_connect(topic, made.from_connect(topic, schema, Struct(schema, d=Decimal(text))))
        assert found.value["d"] == Decimal(text)


@pytest.mark.parametrize(
    "wrong", [{"flatten.unions": "perhaps"}, {"value.schema.id.serializer": "HeaderSchemaIdSerializer"}]
)
def test_wrong_settings_are_refused_before_any_work(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        made = discover().require(PluginKind.CONVERTER, NAME)()
        made.configure({"schema.registry.url": "http://x:1", **wrong}, is_key=False)
