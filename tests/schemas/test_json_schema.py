"""JSON Schema: what is one, its text, and which changes may follow one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.schemas import InvalidSchemaError, SchemaReference, SchemaType, incompatibilities, parse

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
NEWEST = "https://json-schema.org/draft/2020-12/schema"
ITEM_ADDED_TO_PARTLY_OPEN = [
    "TYPE_CHANGED #/items/1",
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
]
PROPERTY_NOT_COVERED = [
    "TYPE_CHANGED #/properties/xa",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/xa",
]


def object_of(*required: str, closed: bool = False, **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return {**found, "additionalProperties": False} if closed else found


def changes(old: Any, new: Any) -> list[str]:
    reader, writer = (parse(SchemaType.JSON, json.dumps(each)) for each in (new, old))
    return [f"{each.kind} {each.path}" for each in incompatibilities(reader, writer)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TEXT, TEXT),
        (TEXT, {}),
        (TEXT, True),
        (False, TEXT),
        (INTEGER, NUMBER),
        (TEXT, {"type": ["string", "null"]}),
        ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 4}),
        ({"type": "string", "pattern": "a"}, TEXT),
        ({"type": "number", "minimum": 2.5}, {"type": "number", "minimum": 2}),
        ({"type": "number", "multipleOf": 4}, {"type": "number", "multipleOf": 2}),
        ({"enum": [1, "a"]}, {"enum": ["a", 1, None]}),
        ({"const": 1}, {"enum": [1, 2]}),
        (object_of(a=TEXT, b=TEXT), object_of(a=TEXT)),
        (object_of(a=TEXT, closed=True), object_of(a=TEXT, b=NUMBER, closed=True)),
        (object_of(closed=True), object_of("a", a={"type": "string", "default": ""}, closed=True)),
        (object_of(a=False, closed=True), object_of(closed=True)),
        (object_of("a", a=TEXT), object_of(a=TEXT)),
        ({"oneOf": [TEXT, NUMBER]}, {"oneOf": [{"type": "null"}, NUMBER, TEXT]}),
        ({"oneOf": [TEXT, NUMBER]}, {"anyOf": [TEXT, NUMBER]}),
        ({"allOf": [object_of(a=TEXT), {"required": ["a"]}]}, {"allOf": [object_of(a=TEXT)]}),
        ({"not": {"type": "string"}}, {"not": {"type": "string", "maxLength": 3}}),
        ({"type": "array", "items": INTEGER}, {"type": "array", "items": NUMBER}),
        ({"type": "array", "items": [TEXT, TEXT]}, {"type": "array", "items": [TEXT]}),
        ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["b"]}}),
        ({"properties": {"next": {"$ref": "#"}}}, {"properties": {"next": {"$ref": "#"}}}),
    ],
)
def test_a_schema_that_takes_all_that_the_older_took_may_follow_it(old: Any, new: Any) -> None:
    assert changes(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (TEXT, NUMBER, ["TYPE_CHANGED #/"]),
        ({}, TEXT, ["TYPE_CHANGED #/"]),
        (NUMBER, INTEGER, ["TYPE_NARROWED #/"]),
        ({"type": ["string", "null"]}, TEXT, ["TYPE_CHANGED #/"]),
        (TEXT, {"type": "string", "minLength": 1}, ["MIN_LENGTH_ADDED #/minLength"]),
        (TEXT, {"type": "string", "pattern": "a"}, ["PATTERN_ADDED #/pattern"]),
        ({"type": "string", "pattern": "b"}, {"type": "string", "pattern": "a"}, ["PATTERN_CHANGED #/pattern"]),
        ({"maximum": 3}, {"maximum": 2.5}, ["MAXIMUM_DECREASED #/maximum"]),
        ({"minimum": 3}, {"minimum": 3, "exclusiveMinimum": 3}, ["EXCLUSIVE_MINIMUM_ADDED #/exclusiveMinimum"]),
        ({"multipleOf": 2}, {"multipleOf": 4}, ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
        ({"multipleOf": 2}, {"multipleOf": 0.3}, ["MULTIPLE_OF_CHANGED #/multipleOf"]),
        ({"enum": [1, 2]}, {"enum": [1]}, ["ENUM_ARRAY_NARROWED #/enum"]),
        ({"enum": [1, 2]}, {"enum": [1, 3]}, ["ENUM_ARRAY_CHANGED #/enum"]),
        (object_of(), object_of(a=TEXT), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"]),
        (
            object_of(closed=True),
            object_of("a", a=TEXT, closed=True),
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
        ),
        (
            object_of(a=TEXT, closed=True),
            object_of(closed=True),
            ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
        ),
        (object_of(a=TEXT), object_of("a", a=TEXT), ["REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
        (object_of(), object_of(closed=True), ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
        (
            {"type": "object"},
            {"type": "object", "additionalProperties": TEXT},
            ["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"],
        ),
        (
            {"type": "object", "patternProperties": {"^x": TEXT}, "additionalProperties": False},
            {**object_of(xa=NUMBER, closed=True), "patternProperties": {"^x": TEXT}},
            PROPERTY_NOT_COVERED,
        ),
        ({"type": "object"}, {"type": "object", "minProperties": 1}, ["MIN_PROPERTIES_ADDED #/minProperties"]),
        (
            {"dependencies": {"a": ["b"]}},
            {"dependencies": {"a": ["b", "c"]}},
            ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
        ),
        (
            {"type": "object", "$schema": NEWEST},
            {"dependentSchemas": {"a": TEXT}, "$schema": NEWEST},
            ["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"],
        ),
        ({"type": "array"}, {"type": "array", "items": TEXT}, ["SCHEMA_ADDED #/items"]),
        ({"items": [TEXT]}, {"items": [TEXT, TEXT]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"]),
        (
            {"prefixItems": [TEXT], "items": NUMBER, "$schema": NEWEST},
            {"prefixItems": [TEXT, TEXT], "items": NUMBER, "$schema": NEWEST},
            ITEM_ADDED_TO_PARTLY_OPEN,
        ),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED #/uniqueItems"]),
        ({"oneOf": [TEXT, NUMBER]}, {"oneOf": [TEXT]}, ["SUM_TYPE_NARROWED #/"]),
        ({"oneOf": [TEXT, NUMBER]}, {"oneOf": [TEXT, INTEGER]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
        ({"anyOf": [TEXT, NUMBER]}, {"oneOf": [TEXT, NUMBER]}, ["COMBINED_TYPE_CHANGED #/"]),
        (
            {"allOf": [object_of(a=TEXT), {"required": ["a"]}]},
            {"allOf": [object_of(a=TEXT), {"required": ["a"]}, {"required": ["b"]}]},
            ["PRODUCT_TYPE_EXTENDED #/"],
        ),
        ({"not": {"type": "string", "maxLength": 3}}, {"not": TEXT}, ["NOT_TYPE_EXTENDED #/not"]),
        (
            {"properties": {"next": {"$ref": "#"}}},
            {"properties": {"next": {"$ref": "#"}}, "required": ["next"]},
            ["REQUIRED_ATTRIBUTE_ADDED #/required/next"],
        ),
    ],
)
def test_a_schema_that_refuses_what_the_older_took_may_not(old: Any, new: Any, said: list[str]) -> None:
    assert changes(old, new) == said


def test_an_exclusive_limit_of_draft_4_is_the_one_that_later_drafts_write_otherwise() -> None:
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 5, "exclusiveMaximum": True}
    assert changes(draft4, {"exclusiveMaximum": 5}) == []
    assert changes(draft4, {"exclusiveMaximum": 4}) == ["EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum"]


def test_canonical_text_keeps_order_and_numbers_as_they_are_written() -> None:
    text = '{ "title" : "T\\u00e9", "minimum":1.50, "x":[1e10, 0.0000001], "a":{} }'
    schema = parse(SchemaType.JSON, text)
    assert schema.canonical() == '{"title":"Té","minimum":1.50,"x":[1E+10,1E-7],"a":{}}'
    assert schema.normalized().canonical() == '{"a":{},"minimum":1.50,"title":"Té","x":[1E+10,1E-7]}'
    assert schema.name == "Té"


def test_a_reference_is_known_by_its_name_and_relative_to_the_documents_own() -> None:
    text = '{"$id":"http://shop/order.json","properties":{"to":{"$ref":"address.json#/definitions/a"}}}'
    given = SchemaReference("address.json", "address", 1)
    schema = parse(SchemaType.JSON, text, [given], lambda _: '{"definitions":{"a":{"type":"string"}}}')
    assert schema.references == (given,)
    with pytest.raises(InvalidSchemaError, match="leads to nothing"):
        parse(SchemaType.JSON, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type":"strin"}', "Invalid JSON Schema at #/type"),
        ('{"properties":{"a":{"maxLength":-1}}}', "Invalid JSON Schema at #/properties/a/maxLength"),
        ('{"$ref":"https://example.com/schema.json"}', "leads to nothing"),
        ('{"$ref":"#/definitions/a"}', "leads to nothing"),
        ('{"$ref":"#/title","title":"x"}', "leads to no schema"),
        ('{"$ref":"#"}', "leads to itself"),
        ('{"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}}}', "leads to itself"),
        ('{"pattern":"("}', "Invalid pattern"),
        ('{"maximum":1e99999}', "exponent"),
        ('{"enum":[' + ",".join(f'{{"a":{n}}}' for n in range(5000)) + "]}", "too long to be compared"),
        (
            '{"properties":{' + ",".join(f'"a{n}":{{}}' for n in range(11_000)) + "}}",
            "more schemas in it than the 10000",
        ),
        ('{"not":' * 200, "not JSON"),
        ('{"not":' * 150 + "{}" + "}" * 150, "deeper than 100"),
        ("[]", "an object, true or false"),
        ("", "empty"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        parse(SchemaType.JSON, text)


def test_a_pattern_that_would_backtrack_without_end_is_not_run() -> None:
    old = {"type": "object", "patternProperties": {"^(?=a)(a+)+$": NUMBER}, "additionalProperties": TEXT}
    new = {**old, "properties": {"a" * 5000 + "b": TEXT}}
    assert changes(old, new) == []


@pytest.mark.parametrize("pattern", ["(?i)(?=a)[\\u0001-\\uffff]", "(?<!b)a", "\\\\p{L}+", "(?P<x>a)(?P=x)"])
def test_a_pattern_of_another_dialect_may_stand_in_a_schema(pattern: str) -> None:
    assert parse(SchemaType.JSON, f'{{"pattern":"{pattern}"}}').formatted("") != ""


def test_schemas_that_lead_to_each_other_are_compared_in_bounded_time() -> None:
    def web(size: int, bound: int) -> dict[str, Any]:
        branches = [{"$ref": f"#/definitions/d{n}"} for n in range(size)]
        node = {"type": "object", "properties": {"v": {"oneOf": branches}, "n": {"maximum": bound}}}
        return {"definitions": {f"d{n}": {**node, "title": str(n)} for n in range(size)}, **node}

    assert changes(web(12, 2), web(12, 2)) == []
    assert changes(web(12, 2), web(12, 1))
