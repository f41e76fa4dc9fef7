"""What holds of all JSON Schemas: their text, and that a document of the older is one of what may follow it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from ottla.schemas import InvalidSchemaError, Level, SchemaType, check, incompatibilities, parse

NAMES = st.sampled_from(["a", "b", "xa"])
BOUND = st.integers(0, 3)
SIMPLE = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": BOUND, "maxLength": BOUND}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["number", "integer"])},
        optional={"minimum": BOUND, "maximum": BOUND, "exclusiveMaximum": BOUND, "multipleOf": st.integers(1, 4)},
    ),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from([1, 2, "a", None]), min_size=1, unique_by=repr)}),
    st.sampled_from([True, {}, {"type": "null"}, {"type": ["string", "null"]}, {"type": "boolean"}]),
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas whose rules, as they are compared, leave nothing out: what Confluent's do leave out is told in the docs."""
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "maxProperties": BOUND,
            "dependencies": st.dictionaries(NAMES, st.lists(NAMES, min_size=1, unique=True, max_size=2), max_size=1),
        },
    )
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner.filter(lambda each: each is not True)},
        optional={"uniqueItems": st.booleans(), "minItems": BOUND},
    )
    tuples = st.fixed_dictionaries(
        {"type": st.just("array"), "items": st.lists(inner, min_size=1, max_size=2)},
        optional={"additionalItems": st.booleans() | inner, "maxItems": BOUND},
    )
    combined = st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=2))
    return objects | lists | tuples | combined | st.builds(lambda part: {"allOf": [part]}, inner)


SCHEMAS = st.recursive(SIMPLE, larger, max_leaves=5)
DOCUMENTS = st.recursive(
    st.sampled_from([None, True, 0, 1, 2, 3, 4, 2.5, "", "a", "ab", "abcd"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def tweaked(random: Random, schema: Any) -> Any:
    """Return a schema in which a keyword is gone, or another number, or a schema inside is tweaked."""
    if not isinstance(schema, dict) or not schema:
        return random.choice([schema, {}, {"type": "string"}])
    key = random.choice(sorted(schema))
    value = schema[key]
    if key in ("type", "enum") or isinstance(value, bool):
        return schema
    if isinstance(value, int):
        return {**schema, key: max(value + random.choice((-1, 1)), 1)}
    if random.random() < 0.3:
        return {name: each for name, each in schema.items() if name != key}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        at = random.randrange(len(value))
        longer = [*value, value[0]] if random.random() < 0.3 else value
        return {**schema, key: [tweaked(random, each) if index == at else each for index, each in enumerate(longer)]}
    if key == "properties" and value:
        name = random.choice(sorted(value))
        return {**schema, key: {**value, name: tweaked(random, value[name])}}
    return {**schema, key: tweaked(random, value)} if key in ("items", "additionalProperties") else schema


@settings(max_examples=200, deadline=None)
@given(
    old=SCHEMAS,
    other=SCHEMAS,
    random=st.randoms(use_true_random=False),
    documents=st.lists(DOCUMENTS, min_size=5, max_size=10),
)
def test_a_document_of_the_older_is_one_of_what_may_follow_it(
    old: Any, other: Any, random: Random, documents: list[Any]
) -> None:
    new = other if random.random() < 0.2 else tweaked(random, old)
    writer, reader = (parse(SchemaType.JSON, json.dumps(each)) for each in (old, new))
    if not check(Level.BACKWARD, reader, [(1, writer)]):
        for document in documents:
            if Draft7Validator(old).is_valid(document):
                assert Draft7Validator(new).is_valid(document)


@settings(max_examples=80, deadline=None)
@given(schema=SCHEMAS)
def test_every_schema_may_follow_itself_and_its_text_is_canonical(schema: Any) -> None:
    first = parse(SchemaType.JSON, json.dumps(schema))
    for each in (first, first.normalized()):
        assert parse(SchemaType.JSON, each.canonical()).canonical() == each.canonical()
        assert incompatibilities(each, first) == [] and incompatibilities(first, each) == []


@settings(max_examples=50, deadline=None)
@given(old=SCHEMAS, more=st.lists(st.tuples(NAMES, SCHEMAS), min_size=1, max_size=3))
def test_a_closed_object_may_gain_properties_and_an_open_one_lose_them(old: Any, more: list[tuple[str, Any]]) -> None:
    properties: dict[str, Any] = {"first": old}
    chain = [{"type": "object", "properties": dict(properties), "additionalProperties": False}]
    for name, schema in more:
        properties.setdefault(name, schema)
        chain.append({"type": "object", "properties": dict(properties), "additionalProperties": False})
    chain.append({"type": "object", "properties": dict(properties)})
    chain.append({"type": "object", "properties": {"first": old}})
    parsed = [parse(SchemaType.JSON, json.dumps(each)) for each in chain]
    for count, schema in enumerate(parsed):
        assert check(Level.BACKWARD_TRANSITIVE, schema, list(enumerate(parsed[:count], 1))) == []


KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "items", "$ref", "$id", "$schema", "allOf", "oneOf", "anyOf", "not", "enum", "const"),
        *("required", "definitions", "pattern", "patternProperties", "dependencies", "additionalProperties", "if"),
        *("object", "array", "string", "#", "#/definitions/a", "a", "http://json-schema.org/draft-04/schema#"),
        *("https://json-schema.org/draft/2020-12/schema", "prefixItems", "$defs", "$dynamicRef", "unevaluatedItems"),
    ]
)
HALF_SCHEMAS = st.recursive(
    KEYWORDS | st.integers(-2, 4) | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=120, deadline=None)
@given(value=HALF_SCHEMAS, other=HALF_SCHEMAS)
def test_any_json_is_a_schema_or_refused_and_any_two_are_compared(value: Any, other: Any) -> None:
    found = []
    for each in (value, other):
        try:
            found.append(parse(SchemaType.JSON, json.dumps(each)))
        except InvalidSchemaError as error:
            assert str(error)
    for schema in found:
        assert parse(SchemaType.JSON, schema.canonical()) == schema
        for each in found:
            assert all(reason.description for reason in incompatibilities(schema, each))
