"""Texts that were made to cost: each has its answer, and cheaply."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ottla.schemas import InvalidSchemaError, SchemaReference, SchemaType, incompatibilities, parse

NEWEST = '"$schema":"https://json-schema.org/draft/2020-12/schema"'


def many(count: int, each: Callable[[int], str], between: str = ",") -> str:
    return between.join(each(number) for number in range(count))


AVRO = {
    "defaults that unfold": (
        '[{"type":"record","name":"R","fields":['
        + many(300, lambda n: f'{{"name":"f{n}","type":"int","default":1}}')
        + ']},{"type":"record","name":"S","fields":['
        + many(9_000, lambda n: f'{{"name":"f{n}","type":"R","default":{{}}}}')
        + "]}]"
    ),
    "unions in unions of defaults": (
        '{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"],"default":null},'
        + many(5_000, lambda n: f'{{"name":"f{n}","type":["R",{{"type":"map","values":"R"}}],"default":{{"x":{{}}}}}}')
        + "]}"
    ),
    "names": "[" + many(12_000, lambda n: f'{{"type":"fixed","name":"F{n}","size":1}}') + "]",
    "a long number": '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":"'
    + "9" * 900_000
    + 'x"}]}',
    "depth": '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000,
}
JSON = {
    "schemas": '{"properties":{' + many(50_000, lambda n: f'"a{n}":{{}}') + "}}",
    "truths": '{"properties":{' + many(50_000, lambda n: f'"a{n}":true') + "}}",
    "patterns": '{"patternProperties":{' + many(9_000, lambda n: f'"(\\\\p{{L}}{{400}}){n}":{{}}') + "}}",
    "digits": '{"maximum":' + "9" * 500_000 + "}",
    "enum": '{"enum":[' + many(20_000, lambda n: f"[{n}]") + "]}",
}
PROTOBUF = {
    "long names": f"message {'A' * 400_000} {{" + many(20_000, lambda n: f"optional int32 f{n}={n + 1};", "") + "}",
    "long package": "package " + many(100_000, lambda n: "a", ".") + ";",
    "messages in messages": "message A {" * 30_000 + "}" * 30_000,
    "spaces": "a" + " " * 900_000 + "!",
    "an option": "option " * 100_000 + " " * 300_000,
    "numbers": "message A { optional int32 a = " + "9" * 900_000 + "; }",
    "options": 'syntax="proto3"; option ' + many(200_000, lambda n: "a", ".") + "=1;",
}


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        *(pytest.param(SchemaType.AVRO, text, id=name) for name, text in AVRO.items()),
        *(pytest.param(SchemaType.JSON, text, id=name) for name, text in JSON.items()),
        *(pytest.param(SchemaType.PROTOBUF, text, id=name) for name, text in PROTOBUF.items()),
    ],
)
@pytest.mark.timeout(30)
def test_a_bomb_is_refused(schema_type: SchemaType, text: str) -> None:
    assert len(text) < 1 << 20, "it is to be refused for what it is, not for its size"
    with pytest.raises(InvalidSchemaError):
        parse(schema_type, text)


@pytest.mark.timeout(60)
def test_large_schemas_are_read_and_compared() -> None:
    properties = many(300, lambda n: f'"a{n}":{{"type":"string","minLength":{n},"pattern":"^a{n % 900}"}}')
    fields = many(3_000, lambda n: f'{{"name":"f{n}","type":["null","string"],"default":null}}')
    numbers = many(5_000, lambda n: f"int32 f{n} = {n + 1};", "")
    for schema_type, text in (
        (SchemaType.JSON, f'{{{NEWEST},"properties":{{{properties}}}}}'),
        (SchemaType.AVRO, f'{{"type":"record","name":"R","fields":[{fields}]}}'),
        (SchemaType.PROTOBUF, f'syntax="proto3"; message A {{ {numbers} }}'),
    ):
        schema = parse(schema_type, text)
        assert incompatibilities(parse(schema_type, schema.canonical()), schema) == []


@pytest.mark.timeout(60)
def test_unions_of_unions_of_everything_are_compared_in_bounded_time() -> None:
    branches = [{"$ref": f"#/definitions/d{n}"} for n in range(50)]
    unions = {f"d{n}": {"title": str(n), "oneOf": [*branches[n:], *branches[:n]]} for n in range(50)}
    definitions = unions | {"e": {"type": "string", "maxLength": 1}}
    text = json.dumps({"definitions": definitions, "oneOf": branches})
    schema = parse(SchemaType.JSON, text)
    incompatibilities(schema, parse(SchemaType.JSON, text.replace('"title": "7"', '"title": "x"')))


@pytest.mark.timeout(60)
def test_patterns_without_regard_to_case_cost_nothing() -> None:
    ranges = "[\\\\u0001-\\\\uffff]" * 40
    patterns = many(900, lambda n: f'"(?i)(?=a){ranges}{n}":{{}}')
    assert parse(SchemaType.JSON, f'{{"patternProperties":{{{patterns}}}}}').name is None


def test_more_references_than_there_may_be_are_refused() -> None:
    references = [SchemaReference(f"r{n}", f"r{n}", 1) for n in range(1_001)]
    with pytest.raises(InvalidSchemaError, match="more than 1000 references"):
        parse(SchemaType.AVRO, '"int"', references, lambda _: '"int"')
    with pytest.raises(InvalidSchemaError, match="larger than 8388608 bytes"):
        parse(SchemaType.AVRO, '"int"', references, lambda _: '"int"' + " " * 100_000)
