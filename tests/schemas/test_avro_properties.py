"""What holds of all Avro schemas: their text, and that a reader who may read does."""

from __future__ import annotations

import json
from io import BytesIO
from itertools import pairwise
from random import Random
from typing import Any

import fastavro
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schemas import InvalidSchemaError, Level, ParsedSchema, SchemaType, check, incompatibilities, parse
from tests.schemas import avro_maker

SEEDS = st.integers(0, 1 << 32)


def parsed(schema: Any) -> ParsedSchema:
    return parse(SchemaType.AVRO, json.dumps(schema))


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_canonical_text_is_its_own_canonical_text(seed: int) -> None:
    schema = parsed(avro_maker.schema(Random(seed)))
    for each in (schema, schema.normalized()):
        again = parse(SchemaType.AVRO, each.canonical())
        assert again.canonical() == each.canonical()
        assert fastavro.parse_schema(json.loads(each.canonical())) is not None
    assert parse(SchemaType.AVRO, schema.canonical()) == schema
    assert schema.normalized().normalized().canonical() == schema.normalized().canonical()


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_every_schema_reads_what_it_wrote_and_what_the_older_of_its_chain_wrote(seed: int) -> None:
    random = Random(seed)
    chain = [{"type": "record", "name": "n.Root", "fields": [{"name": "f", "type": avro_maker.schema(random)}]}]
    for count in range(3):
        chain.append(avro_maker.changed(random, chain[-1], count=count))
    for old, new in pairwise(chain):
        assert incompatibilities(parsed(new), parsed(old)) == []
        assert check(Level.BACKWARD, parsed(new), [(1, parsed(old))]) == []
        assert check(Level.FORWARD, parsed(old), [(1, parsed(new))]) == []
        written = BytesIO()
        fastavro.schemaless_writer(written, old, avro_maker.datum(random, old, {}))
        written.seek(0)
        fastavro.schemaless_reader(written, old, new)
        assert written.read() == b""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
WORDS = st.sampled_from(
    [
        *("type", "name", "fields", "items", "values", "symbols", "size", "default", "namespace", "aliases", "order"),
        *("record", "enum", "fixed", "array", "map", "int", "string", "null", "A", "n.A", "n", "ascending", "doc"),
    ]
)
HALF_SCHEMAS = st.recursive(
    WORDS | st.integers(-2, 4) | st.none() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=30,
)


@settings(max_examples=150, deadline=None)
@given(value=JSON | HALF_SCHEMAS)
def test_any_json_is_a_schema_or_refused(value: Any) -> None:
    try:
        schema = parsed(value)
    except InvalidSchemaError as error:
        assert str(error)
        return
    assert parse(SchemaType.AVRO, schema.canonical()) == schema
    assert incompatibilities(schema, schema) == []


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200) | st.text('[{"type":,}]\\un0e-.', max_size=200))
def test_any_text_is_a_schema_or_refused(text: str) -> None:
    for schema_type in (SchemaType.AVRO, SchemaType.JSON):
        try:
            schema = parse(schema_type, text)
        except InvalidSchemaError as error:
            assert str(error)
        else:
            assert parse(schema_type, schema.canonical()) == schema


def test_a_chain_of_names_as_long_as_is_allowed_is_compared() -> None:
    def chain(last: str) -> ParsedSchema:
        names = [f"T{number}" for number in range(3000)]
        fixed = {"type": "record", "name": names[-1], "fields": [{"name": "f", "type": last}]}
        union: list[Any] = [fixed]
        for name, below in zip(names[-2::-1], names[:0:-1], strict=True):
            union.append({"type": "record", "name": name, "fields": [{"name": "f", "type": below}]})
        return parsed(union)

    assert incompatibilities(chain("long"), chain("int")) == []
    assert incompatibilities(chain("int"), chain("long"))


def test_a_record_that_doubles_at_each_step_is_compared_in_bounded_time() -> None:
    def bomb(last: str) -> ParsedSchema:
        union: list[Any] = [{"type": "record", "name": "T0", "fields": [{"name": "a", "type": last}]}]
        for number in range(1, 60):
            fields = [{"name": name, "type": [f"T{number - 1}", "null"]} for name in ("a", "b", "c")]
            union.append({"type": "record", "name": f"T{number}", "fields": fields})
        return parsed(union)

    assert incompatibilities(bomb("long"), bomb("int")) == []
    assert incompatibilities(bomb("int"), bomb("long"))
