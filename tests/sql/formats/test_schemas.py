"""Formats with schemas: what stands in the registry, what is read of what others wrote, what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

import pytest

from ottla.schemas import Level, SchemaType
from ottla.serdes import SchemaText
from ottla.sql import SqlError, rules
from ottla.sql.catalogue import Catalogue
from ottla.sql.definitions import define
from ottla.sql.formats import FormatError, SchemaForm, codec
from ottla.sql.parser.texts import parse_statement
from ottla.sql.registration import with_registered
from ottla.sql.schema import SqlColumn
from ottla.sql.testing import Refused, run_case
from ottla.sql.testing.registry import CaseRegistry
from ottla.sql.tree.statements import CreateSource
from ottla.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    StructType,
)

FORMATS = ("AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR")
COLUMNS = (
    SqlColumn("I", INTEGER),
    SqlColumn("L", BIGINT),
    SqlColumn("D", DOUBLE),
    SqlColumn("B", BOOLEAN),
    SqlColumn("S", STRING),
    SqlColumn("N", DecimalType(6, 2)),
    SqlColumn("X", BYTES),
    SqlColumn("DAY", DATE),
    SqlColumn("AT", TIME),
    SqlColumn("WHEN", TIMESTAMP),
    SqlColumn("A", ArrayType(INTEGER)),
    SqlColumn("M", MapType(STRING, BIGINT)),
    SqlColumn("ST", StructType((("P", INTEGER), ("q", StructType((("R", STRING),)))))),
)
ROW = (1, 2, 1.5, True, "x", Decimal("1.20"), b"\x00", 3, 4, 5, [1, 2], {"k": 7}, {"P": 1, "q": {"R": "r"}})
Topics = list[Mapping[str, object]]


def made(statement: str, registry: CaseRegistry) -> Catalogue:
    parsed = parse_statement(statement)
    assert isinstance(parsed, CreateSource)
    return define(parsed, Catalogue(registry=registry), {})


def avro(*fields: tuple[str, object]) -> SchemaText:
    listed = [{"name": name, "type": type_} for name, type_ in fields]
    return SchemaText(SchemaType.AVRO, json.dumps({"type": "record", "name": "R", "fields": listed}))


def refusal(text: str, topics: Topics | None = None) -> str:
    with pytest.raises(Refused) as caught:
        run_case(text, [], topics or [])
    return str(caught.value)


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_come_back_as_they_were(format_: str) -> None:
    rows = codec(format_, COLUMNS)
    assert rows.decode(rows.encode(ROW)) == ROW


@pytest.mark.parametrize("format_", ["AVRO", "JSON_SR"])
def test_nulls_come_back(format_: str) -> None:
    rows = codec(format_, COLUMNS)
    assert rows.decode(rows.encode((None,) * len(COLUMNS))) == (None,) * len(COLUMNS)


@pytest.mark.parametrize("nullables", ["OPTIONAL", "WRAPPER"])
def test_protobuf_tells_null_from_default_values_where_it_is_asked_to(nullables: str) -> None:
    columns = (SqlColumn("I", INTEGER), SqlColumn("S", STRING), SqlColumn("D", DOUBLE))
    plain, telling = codec("PROTOBUF", columns), codec("PROTOBUF", columns, form=SchemaForm(nullables=nullables))  # type: ignore[arg-type]
    assert plain.decode(plain.encode((None, None, None))) == (0, "", 0.0)
    for row in ((None, None, None), (0, "", 0.0), (1, "x", 2.5)):
        assert telling.decode(telling.encode(row)) == row


def test_avro_schemas_are_named_as_ksqldb_names_them() -> None:
    registry = CaseRegistry()
    made(
        "CREATE STREAM MY_STREAM (A INT KEY, B INT KEY, M MAP<STRING, INT>, S STRUCT<P ARRAY<STRUCT<Q INT>>>, "
        "N DECIMAL(4, 2)) WITH (KAFKA_TOPIC='t', FORMAT='AVRO');",
        registry,
    )
    key, value = (json.loads(registry.latest(f"t-{side}").schema.text) for side in ("key", "value"))
    assert key["name"] == "io.confluent.ksql.avro_schemas.MyStreamKey"
    assert value["name"] == "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
    fields = {each["name"]: each["type"][1] for each in value["fields"]}
    assert fields["M"]["type"] == "array" and fields["M"]["items"]["name"] == f"{value['name']}_M"
    assert fields["S"]["name"] == f"{value['name']}_S"
    assert fields["S"]["fields"][0]["type"][1]["items"][1]["name"] == f"{value['name']}_S_P"
    assert (fields["N"]["logicalType"], fields["N"]["precision"], fields["N"]["scale"]) == ("decimal", 4, 2)


def test_a_single_key_is_no_record_in_avro_and_one_in_protobuf() -> None:
    for format_, shown in (("AVRO", '"string"'), ("PROTOBUF", "message ConnectDefault1")):
        registry = CaseRegistry()
        made(f"CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='t', FORMAT='{format_}');", registry)
        assert shown in registry.latest("t-key").schema.text


def test_what_another_wrote_is_read_by_its_own_schema() -> None:
    registry = CaseRegistry()
    number = registry.register("t-value", avro(("i", "int"), ("extra", "string"), ("f", "float"))).id
    columns = (SqlColumn("I", BIGINT), SqlColumn("F", DOUBLE), SqlColumn("GONE", STRING))
    rows = codec("AVRO", columns, registry=registry)
    data = b"\x00" + int(number or 0).to_bytes(4) + b"\x02\x02x\x00\x00\xc0\x3f"
    assert rows.decode(data) == (1, 1.5, None)
    with pytest.raises(FormatError, match="Cannot deserialize type int32 as type boolean for path: ->I"):
        codec("AVRO", [SqlColumn("I", BOOLEAN)], registry=registry).decode(data)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("data", [b"", b"\x00", b"\x01abcd", b"\x00\x00\x00\x00\x63\x00", b"\xff" * 40])
def test_bytes_that_are_no_row_cost_a_record(format_: str, data: bytes) -> None:
    rows = codec(format_, COLUMNS, registry=CaseRegistry())
    if format_ == "PROTOBUF_NOSR" and not data:
        return  # a message of which nothing is set
    with pytest.raises(FormatError):
        rows.decode(data)


def test_columns_that_are_left_out_are_those_of_the_registry() -> None:
    registry = CaseRegistry()
    registry.register("t-value", avro(("i", "int"), ("arr", {"type": "array", "items": "double"}), ("b", "bytes")))
    source = made("CREATE STREAM S (K STRING KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');", registry).source("S")
    assert str(source.schema) == "`K` STRING KEY, `I` INTEGER, `ARR` ARRAY<DOUBLE>, `B` BYTES"


def test_a_schema_that_is_named_by_its_id_keeps_its_names_and_is_written_with() -> None:
    fields = [{"name": "I", "type": "int"}, {"name": "x", "type": "string", "default": "d"}]
    topics: Topics = [
        {"name": "t", "valueFormat": "AVRO", "valueSchema": {"type": "record", "name": "R", "fields": fields}},
    ]
    text = (
        "CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=1);"
        "CREATE STREAM T WITH (VALUE_SCHEMA_ID=1) AS SELECT `I` + 1 AS I FROM S;"
    )
    found = run_case(text, [{"topic": "t", "value": {"I": 4, "x": "y"}}], topics)
    assert [record.value for record in found] == [{"I": 5, "x": "d"}]
    wrong = text.replace("AS I FROM", "AS J FROM")
    assert "The following value columns are changed, missing or reordered: [`J` INTEGER]." in refusal(wrong, topics)


TWO_OF_ONE_TOPIC = (
    "CREATE STREAM S (A INT, B STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');"
    "CREATE STREAM A WITH (KAFKA_TOPIC='x') AS SELECT A AS V FROM S;"
    "CREATE STREAM B WITH (KAFKA_TOPIC='x') AS SELECT B AS V FROM S;"
)


def test_a_sink_is_refused_where_its_registry_does_not_take_its_schema() -> None:
    registry = CaseRegistry(Level.BACKWARD)
    catalogue = made("CREATE STREAM S (A INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='AVRO');", registry)
    other = made("CREATE STREAM S (A STRING) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='AVRO');", CaseRegistry()).source("S")
    with pytest.raises(SqlError, match="Could not register schema for topic: Schema being registered is incompatible"):
        with_registered(other, catalogue.registry, anew=True)


def test_a_cases_registry_takes_every_version_as_that_of_ksqldbs_runner_does() -> None:
    found = run_case(TWO_OF_ONE_TOPIC, [{"topic": "s", "value": {"A": 1, "B": "b"}}])
    assert [(record.topic, record.value) for record in found] == [("x", {"V": 1}), ("x", {"V": "b"})]


@pytest.mark.parametrize(
    ("with_", "said"),
    [
        ("VALUE_FORMAT='AVRO'", "Schema for message values on topic 't' does not exist in the Schema Registry."),
        ("VALUE_FORMAT='JSON', VALUE_SCHEMA_ID=1", "VALUE_FORMAT should support schema inference when VALUE_SCHEMA_ID"),
        ("VALUE_FORMAT='JSON', VALUE_SCHEMA_FULL_NAME='x'", "JSON does not support the following configs: [fullSchema"),
        ("VALUE_FORMAT='AVRO', VALUE_SCHEMA_FULL_NAME=''", "fullSchemaName cannot be empty. Format configuration: {"),
        ("VALUE_FORMAT='JSON', VALUE_DELIMITER='|'", "JSON does not support the following configs: [delimiter]"),
        ("VALUE_FORMAT='JSON', VALUE_PROTOBUF_NULLABLE_REPRESENTATION='OPTIONAL'", "can only be enabled with protobuf"),
        (
            "VALUE_FORMAT='PROTOBUF', VALUE_PROTOBUF_NULLABLE_REPRESENTATION='X'",
            "String must be one of: OPTIONAL, WRAP",
        ),
        ("VALUE_FORMAT='NO'", "Unknown format: NO"),
        (
            "VALUE_FORMAT='JSON', FORMAT='JSON'",
            "Cannot supply both 'VALUE_FORMAT' and 'FORMAT' properties, as 'FORMAT'",
        ),
        ("VALUE_FORMAT='JSON', WINDOW_TYPE='tumbling'", "TUMBLING windows require 'WINDOW_SIZE' to be provided in the"),
        ("VALUE_FORMAT='JSON', WINDOW_TYPE='session', WINDOW_SIZE='1 SECOND'", "'WINDOW_SIZE' should not be set for"),
        (
            "VALUE_FORMAT='JSON', WINDOW_TYPE='x'",
            "Error in WITH clause property 'WINDOW_TYPE': Unknown window type: 'x'",
        ),
        (
            "VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE='x'",
            "Invalid value x for property WRAP_SINGLE_VALUE: Expected value to",
        ),
        ("VALUE_FORMAT='JSON', PARTITIONS='x'", "Invalid value x for property PARTITIONS: Not a number of type INT"),
        (
            "VALUE_FORMAT='DELIMITED', VALUE_DELIMITER='xx'",
            "Failed to prepare statement: Configuration VALUE_DELIMITER is invalid: Invalid delimiter value: 'xx'.",
        ),
        ("VALUE_FORMAT='AVRO', VALUE_SCHEMA_FULL_NAME=' '", "Format configuration: {fullSchemaName=}"),
    ],
)
def test_what_a_with_clause_cannot_say_is_refused_in_ksqldbs_words(with_: str, said: str) -> None:
    columns = "" if "AVRO'" in with_ and "NAME" not in with_ else " (A INT, B INT)"
    if "SCHEMA_ID" in with_:
        columns = ""
    assert said in refusal(f"CREATE STREAM S{columns} WITH (KAFKA_TOPIC='t', {with_});")


def test_a_format_of_another_kind_than_the_topics_is_told() -> None:
    topics: Topics = [{"name": "t", "valueFormat": "AVRO", "valueSchema": {"type": "string"}}]
    said = refusal("CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='PROTOBUF');", topics)
    assert "You may want to set VALUE_FORMAT to 'AVRO'." in said
    said = refusal("CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');", topics)
    assert "Schema returned from schema registry is anonymous type." in said


def test_of_several_messages_one_has_to_be_named() -> None:
    text = 'syntax = "proto3"; package p; message A { int32 x = 1; } message B { string y = 1; }'
    topics: Topics = [{"name": "t", "valueFormat": "PROTOBUF", "valueSchema": text}]
    create = "CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='PROTOBUF'{});"
    assert "Value schema has multiple schema definitions." in refusal(create.format(""), topics)
    named = (
        create.format(", VALUE_SCHEMA_FULL_NAME='p.B'")
        + "CREATE STREAM R WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;"
    )
    found = run_case(named, [{"topic": "t", "value": {"y": "q"}}], topics)
    assert [record.value for record in found] == [{"Y": "q"}]


def test_names_that_a_format_has_not_are_refused() -> None:
    with pytest.raises(SqlError, match="Schema is not compatible with Avro"):
        codec("AVRO", [SqlColumn("a-b", INTEGER), SqlColumn("C", INTEGER)])


def test_cases_take_payloads_in_jsons_terms_whatever_the_format() -> None:
    topics: Topics = [
        {
            "name": "t",
            "keyFormat": "AVRO",
            "keySchema": {"type": "int"},
            "valueFormat": "JSON_SR",
            "valueSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        }
    ]
    text = (
        "CREATE STREAM S WITH (KAFKA_TOPIC='t', KEY_FORMAT='AVRO', VALUE_FORMAT='JSON_SR');"
        "CREATE STREAM R WITH (FORMAT='AVRO') AS SELECT ROWKEY, A + 1 AS B FROM S;"
    )
    found = run_case(text, [{"topic": "t", "key": 7, "value": {"a": 4}}], topics)
    assert [(record.key, record.value) for record in found] == [(7, {"B": 5})]


def renamed(**more: object) -> SchemaText:
    fields = [{"name": name, "type": ["null", of], "default": None} for name, of in (("A", "int"), ("B", "string"))]
    return SchemaText(SchemaType.AVRO, json.dumps({"type": "record", "name": "others.Row", "fields": fields, **more}))


def test_rows_are_inserted_by_the_topics_own_schema_where_the_columns_schema_has_another_name() -> None:
    """A registry that asks for compatibility takes no other name, nor does a reader of the topic."""
    registry = CaseRegistry(Level.BACKWARD)
    held = registry.register("t-value", renamed())
    catalogue = made("CREATE STREAM S (A INT, B STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');", registry)
    with pytest.raises(SqlError, match="NAME_MISMATCH"):
        with_registered(catalogue.source("S"), registry, anew=True)
    source = with_registered(catalogue.source("S"), registry, anew=True, inserts=True)
    written = source.layout.value_codec(source.schema).encode((1, "x"))
    assert written is not None and written[:5] == b"\0" + int(held.id or 0).to_bytes(4)
    assert registry.latest("t-value") == held


@pytest.mark.parametrize("columns", ["A INT, C STRING", "A STRING, B STRING"])
def test_rows_that_the_topics_schema_cannot_hold_are_not_inserted(columns: str) -> None:
    registry = CaseRegistry(Level.BACKWARD)
    registry.register("t-value", renamed())
    catalogue = made(f"CREATE STREAM S ({columns}) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');", registry)
    with pytest.raises(SqlError, match="Could not register schema for topic"):
        with_registered(catalogue.source("S"), registry, anew=True, inserts=True)


@pytest.mark.parametrize("name", ["VALUE_SCHEMA_FULL_NAME", "VALUE_AVRO_SCHEMA_FULL_NAME"])
def test_a_full_name_is_the_records_in_sinks_and_in_what_is_inserted(name: str) -> None:
    registry = CaseRegistry(Level.BACKWARD)
    held = registry.register("t-value", renamed())
    with_ = f"KAFKA_TOPIC='t', VALUE_FORMAT='AVRO', {name}='others.Row'"
    source = made(f"CREATE STREAM S (A INT, B STRING) WITH ({with_});", registry).source("S")
    assert with_registered(source, registry, anew=True).layout.value_form.known == held


MAP_OF_INTS = [{"name": "key", "type": ["null", "string"], "default": None}, {"name": "value", "type": ["null", "int"]}]


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "MapEntry", "namespace": "io.confluent.connect.avro"},
        {"name": "Of", "namespace": "mine", "connect.internal.type": "MapEntry"},
    ],
)
@pytest.mark.parametrize("by_id", ["", ", VALUE_SCHEMA_ID=1"])
def test_a_value_that_is_a_map_alone_is_read_and_written_by_its_schema(entry: Mapping[str, object], by_id: str) -> None:
    """AvroConverter tells maps whose keys may be null as arrays of records of its own name, or that say so."""
    schema = {"type": "array", "items": {"type": "record", "fields": MAP_OF_INTS, **entry}}
    topics: Topics = [{"name": "t", "valueFormat": "AVRO", "valueSchema": schema, "valueSchemaId": 1}]
    with_ = f"VALUE_FORMAT='AVRO', WRAP_SINGLE_VALUE=FALSE{by_id}"
    text = (
        f"CREATE STREAM S (K STRING KEY) WITH (KAFKA_TOPIC='t', {with_});"
        f"CREATE STREAM R WITH ({with_}) AS SELECT K, ROWVAL FROM S;"
        "CREATE STREAM Q WITH (VALUE_FORMAT='JSON') AS SELECT K, ROWVAL['a'] AS A FROM R;"
    )
    found = run_case(text, [{"topic": "t", "key": "k", "value": {"a": 7}}], topics)
    assert [record.value for record in found] == [{"a": 7}, {"A": 7}]


def test_avro_says_of_the_entries_of_a_map_what_they_are() -> None:
    registry = CaseRegistry()
    made("CREATE STREAM S (M MAP<STRING, INT>) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');", registry)
    (field,) = json.loads(registry.latest("t-value").schema.text)["fields"]
    assert field["type"][1]["items"]["connect.internal.type"] == "MapEntry"
    assert "connect.internal.type" not in field["type"][1]


def test_a_sink_by_its_schemas_id_is_of_the_first_message_unless_one_is_named() -> None:
    text = 'syntax = "proto3"; message A { int32 X = 1; } message B { int32 X = 1; string Y = 2; }'
    topics: Topics = [{"name": "p", "valueFormat": "PROTOBUF", "valueSchema": text, "valueSchemaId": 5}]
    source = "CREATE STREAM S (K STRING KEY, X INT, Y STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    sink = "CREATE STREAM R WITH (VALUE_FORMAT='PROTOBUF', VALUE_SCHEMA_ID=5{}) AS SELECT K, {} FROM S;"
    given = [{"topic": "s", "key": "k", "value": {"X": 1, "Y": "y"}}]
    (first,) = run_case(source + sink.format("", "X"), given, topics)
    (named,) = run_case(source + sink.format(", VALUE_SCHEMA_FULL_NAME='B'", "X, Y"), given, topics)
    assert (first.value, named.value) == ({"X": 1}, {"X": 1, "Y": "y"})


@pytest.mark.parametrize(
    ("format_", "shown"),
    [
        ("JSON", {"null": 1, "a": None}),
        ("JSON_SR", {"null": 1, "a": None}),
        ("AVRO", {"null": 1, "a": None}),
        ("PROTOBUF", {"": 1, "a": 0}),
        ("PROTOBUF_NOSR", {"": 1, "a": 0}),
    ],
)
def test_a_map_with_a_null_key_is_written_as_converters_write_it(format_: str, shown: Mapping[str, object]) -> None:
    text = (
        "CREATE STREAM S (K STRING KEY, V STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        f"CREATE STREAM R WITH (VALUE_FORMAT='{format_}') AS SELECT K, MAP(V := 1, 'a' := CAST(NULL AS INT)) AS M FROM S;"
    )
    (found,) = run_case(text, [{"topic": "s", "key": "k", "value": {}}])
    assert found.value == {"M": shown}


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ({"type": "integer"}, 4),
        ({"type": "string"}, "a"),
        ({"type": "number"}, Decimal("1.5")),
        ({"type": "boolean"}, True),
        ({"type": "integer", "connect.type": "int32"}, 4),
        ({"type": "string", "connect.type": "string"}, "a"),
        ({"type": "boolean", "connect.type": "boolean"}, True),
        ({"oneOf": [{"type": "null"}, {"type": "string", "connect.type": "string"}]}, "a"),
    ],
)
@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
def test_a_key_that_json_schema_says_is_a_plain_value_is_one_column(
    schema: Mapping[str, object], key: object, kind: str
) -> None:
    topics: Topics = [{"name": "s", "keyFormat": "JSON_SR", "keySchema": schema}]
    text = (
        f"CREATE {kind} S (V INT) WITH (KAFKA_TOPIC='s', KEY_FORMAT='JSON_SR', VALUE_FORMAT='JSON');"
        f"CREATE {kind} R AS SELECT ROWKEY AS K, V FROM S;"
    )
    (found,) = run_case(text, [{"topic": "s", "key": key, "value": {"V": 1}}], topics)
    assert found.key == key


ENTRIES = [{"key": "a", "value": 1}, {"key": None, "value": 2}]
KEY_OR_NULL = {"oneOf": [{"type": "null"}, {"type": "string"}]}
ENTRY = {"type": "object", "properties": {"key": KEY_OR_NULL, "value": {"type": "integer"}}}
AS_ENTRIES = {"type": "array", "items": ENTRY}


def test_json_schemas_maps_are_written_as_the_entries_that_their_schema_tells() -> None:
    columns = [SqlColumn("M", MapType(STRING, MapType(STRING, INTEGER)))]
    written = codec("JSON_SR", columns).encode(({"a": {None: 1}},))
    assert written is not None
    assert json.loads(written[5:]) == {"M": [{"key": "a", "value": [{"key": None, "value": 1}]}]}


@pytest.mark.parametrize(
    ("schema", "given", "kept"),
    [
        ({**AS_ENTRIES, "connect.type": "map"}, ENTRIES, {"a": 1, "null": 2}),
        ({**AS_ENTRIES, "connect.type": "map"}, {"a": 1}, {"a": 1}),
        ({"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
        (AS_ENTRIES, ENTRIES, [{"KEY": "a", "VALUE": 1}, {"KEY": None, "VALUE": 2}]),
    ],
)
def test_json_schemas_maps_are_read_as_entries_and_as_objects(
    schema: Mapping[str, object], given: object, kept: object
) -> None:
    topics: Topics = [
        {"name": "t", "valueFormat": "JSON_SR", "valueSchema": {"type": "object", "properties": {"M": schema}}}
    ]
    text = (
        "CREATE STREAM S (K STRING KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON_SR');"
        "CREATE STREAM R WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;"
        "CREATE STREAM Q WITH (VALUE_FORMAT='JSON_SR') AS SELECT * FROM S;"
    )
    found = run_case(text, [{"topic": "t", "key": "k", "value": {"M": given}}], topics)
    assert [record.value for record in found] == [{"M": kept}, {"M": kept}]


def test_a_cases_schema_has_its_id_before_those_that_it_refers_to() -> None:
    event = {"name": "event.proto", "schema": 'syntax = "proto3"; message Event { int64 at = 1; }'}
    text = 'syntax = "proto3"; import "event.proto"; message Log { Event event = 1; }'
    topics: Topics = [{"name": "t", "valueFormat": "PROTOBUF", "valueSchema": text, "valueSchemaReferences": [event]}]
    statements = (
        "CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='PROTOBUF', VALUE_SCHEMA_ID=1);"
        "CREATE STREAM R AS SELECT * FROM S;"
    )
    (found,) = run_case(statements, [{"topic": "t", "value": {"event": {"at": 1}}}], topics)
    assert found.value == {"event": {"at": 1}}


@pytest.mark.parametrize(
    ("name", "said"), [("1st", "Illegal initial character: 1st"), ("a-b", "Illegal character in: a-b")]
)
@pytest.mark.parametrize("column", ["`{}` INT", "S STRUCT<`{}` INT>", "L ARRAY<STRUCT<`{}` INT>>"])
def test_names_that_avro_has_not_are_refused_in_avros_words(column: str, name: str, said: str) -> None:
    create = "CREATE STREAM S ({}) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');"
    assert f"Schema is not compatible with Avro: {said}" in refusal(create.format(column.format(name)))


WRAPPED = (
    'syntax = "proto3"; import "google/protobuf/wrappers.proto"; message M {'
    " google.protobuf.Int32Value I = 1; google.protobuf.UInt64Value U = 2; google.protobuf.StringValue S = 3;"
    " google.protobuf.BytesValue B = 4; repeated google.protobuf.DoubleValue D = 5; int32 P = 6; }"
)
FULL = {"I": 0, "U": 7, "S": "", "B": "AQI=", "D": [1.5], "P": 3}
EMPTY: dict[str, object] = {"I": None, "U": None, "S": None, "B": None, "D": [], "P": 0}


def test_protobufs_wrapper_messages_are_columns_of_what_they_hold_and_null_where_they_are_unset() -> None:
    topics: Topics = [
        {"name": "t", "valueFormat": "PROTOBUF", "valueSchema": WRAPPED},
        {"name": "R", "valueFormat": "PROTOBUF", "valueSchema": WRAPPED, "valueSchemaId": 40},
    ]
    statements = (
        "CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='PROTOBUF');"
        "CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;"
        "CREATE STREAM R WITH (VALUE_SCHEMA_ID=40) AS SELECT * FROM S;"
        "CREATE STREAM Q WITH (VALUE_FORMAT='JSON') AS SELECT * FROM R;"
    )
    found = run_case(statements, [{"topic": "t", "value": FULL}, {"topic": "t", "value": EMPTY}], topics)
    for name in ("J", "R", "Q"):
        assert [record.value for record in found if record.topic == name] == [FULL, EMPTY], name


def test_a_column_that_is_declared_as_a_struct_reads_a_wrapper_message() -> None:
    topics: Topics = [{"name": "t", "valueFormat": "PROTOBUF", "valueSchema": WRAPPED}]
    statements = (
        "CREATE STREAM S (I STRUCT<VALUE INT>, P INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='PROTOBUF');"
        "CREATE STREAM J WITH (VALUE_FORMAT='JSON') AS SELECT * FROM S;"
    )
    found = run_case(statements, [{"topic": "t", "value": FULL}, {"topic": "t", "value": EMPTY}], topics)
    assert [record.value for record in found] == [{"I": {"VALUE": 0}, "P": 3}, {"I": None, "P": 0}]


def test_a_decimals_notes_need_no_import_of_their_own() -> None:
    text = (
        'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal D = 1 '
        '[(confluent.field_meta) = {params: [{key: "precision", value: "6"}, {key: "scale", value: "3"}]}]; }'
    )
    topics: Topics = [{"name": "t", "valueFormat": "PROTOBUF", "valueSchema": text}]
    statements = (
        "CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='PROTOBUF'); CREATE STREAM R AS SELECT * FROM S;"
        "ASSERT SCHEMA SUBJECT 'R-value';"
    )
    (found,) = run_case(statements, [{"topic": "t", "value": {"D": Decimal("1.250")}}], topics)
    assert found.value == {"D": Decimal("1.250")}


@pytest.mark.parametrize("format_", ["PROTOBUF", "PROTOBUF_NOSR"])
def test_maps_of_new_sources_have_texts_as_keys_in_protobuf_and_those_of_earlier_versions_others(format_: str) -> None:
    create = f"CREATE STREAM S (M MAP<INT, INT>) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='{format_}');"
    assert "PROTOBUF format only supports MAP types with STRING keys." in refusal(create)
    with rules.under(rules.FIRST):
        (found,) = run_case(create + "CREATE STREAM R AS SELECT * FROM S;", [{"topic": "t", "value": {"M": {"1": 2}}}])
    assert found.value == {"M": {"1": 2}}
