"""Avro's canonical text, and what its parser refuses."""

from __future__ import annotations

import pytest

from ottla.schemas import InvalidSchemaError, Referenced, SchemaReference, SchemaType, parse

ADDRESS = '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"street","type":"string"}]}'
ORDER = (
    '{"namespace":"shop","name":"Order","type":"record","fields":'
    '[{"type":"Address","name":"to"},{"type":"shop.Address","name":"from"}]}'
)
REFERENCE = SchemaReference("shop.Address", "address", 1)


def canonical(text: str) -> str:
    return parse(SchemaType.AVRO, text).canonical()


def test_attributes_stand_in_javas_order_and_unknown_ones_are_kept() -> None:
    text = '{"fields":[],"x":{"b":1.50,"a":1e3},"doc":"d","aliases":["B"],"namespace":"n","name":"A","type":"record"}'
    expected = (
        '{"type":"record","name":"A","namespace":"n","doc":"d","fields":[],"x":{"b":1.5,"a":1000.0},"aliases":["B"]}'
    )
    assert canonical(text) == expected


def test_a_referenced_type_stands_by_its_name_and_inside_where_it_is_resolved() -> None:
    schema = parse(SchemaType.AVRO, ORDER, [REFERENCE], lambda _: ADDRESS)
    fields = '[{"name":"to","type":"Address"},{"name":"from","type":"Address"}]'
    assert schema.canonical() == f'{{"type":"record","name":"Order","namespace":"shop","fields":{fields}}}'
    assert '"name":"Address","fields":[{"name":"street"' in schema.formatted("resolved")
    assert parse(SchemaType.AVRO, schema.formatted("resolved")).name == "shop.Order"


def test_what_a_reference_refers_to_is_asked_for_once() -> None:
    texts = {
        "a": Referenced('{"type":"fixed","name":"A","size":1}'),
        "b": Referenced('{"type":"array","items":"A"}', (SchemaReference("A", "a", 1),)),
    }
    asked: list[str] = []

    def resolve(reference: SchemaReference) -> Referenced:
        asked.append(reference.subject)
        return texts[reference.subject]

    references = [SchemaReference("b", "b", 1), SchemaReference("A", "a", 1)]
    assert parse(SchemaType.AVRO, '["null","A"]', references, resolve).canonical() == '["null","A"]'
    assert asked == ["b", "a"]


def test_references_in_a_circle_are_refused() -> None:
    answer = Referenced('"int"', (REFERENCE,))
    with pytest.raises(InvalidSchemaError, match="leads back to itself"):
        parse(SchemaType.AVRO, '"int"', [REFERENCE], lambda _: answer)


def test_a_reference_to_nothing_is_refused() -> None:
    with pytest.raises(InvalidSchemaError, match="no schema for the reference to 'shop"):
        parse(SchemaType.AVRO, ORDER, [REFERENCE], lambda each: {}[each])  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type":"record","name":"A-b","fields":[]}', "Illegal character in"),
        ('{"type":"record","name":"1A","fields":[]}', "Illegal initial character"),
        ('{"type":"record","name":"A","fields":[{"name":"a","type":"A2"}]}', "Undefined schema: A2"),
        ('{"type":"record","name":"A","fields":[{"name":"a","type":"int","default":"x"}]}', "Invalid default"),
        ('{"type":"record","name":"A","fields":[{"name":"a","type":"int","default":3000000000}]}', "Invalid default"),
        ('{"type":"record","name":"A","fields":[{"name":"a","type":"A","default":{}}]}', "has no end"),
        ('[{"type":"fixed","name":"A","size":1},{"type":"enum","name":"A","symbols":[]}]', "Can't redefine: A"),
        ('["int","int"]', "Duplicate in union"),
        ('{"type":"int"', "not JSON"),
        ("[" * 100_000, "nested deeper"),
        ('"' + "a" * (1 << 20) + '"', "larger than"),
        ('{"type":"fixed","name":"A","size":' + "9" * 10_000 + "}", "digits"),
        ('{"type":"string","p":"\\ud800"}', "surrogate"),
        ("NaN", "no number"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        parse(SchemaType.AVRO, text)


def test_a_default_that_does_not_fit_is_let_pass_in_what_is_stored_already() -> None:
    text = '{"type":"record","name":"A","fields":[{"name":"a","type":"int","default":"x"}]}'
    assert parse(SchemaType.AVRO, text, new=False).canonical() == text


def test_a_normalized_schema_has_its_attributes_and_aliases_sorted() -> None:
    text = (
        '{"type":"record","name":"A","doc":"","aliases":["z","b"],"y":1,"x":{"b":1,"a":2},"fields":[{"name":"d","type":'
        '{"type":"bytes","scale":2,"a":1,"precision":9,"logicalType":"decimal"}},{"name":"e","type":"double","default":1}]}'
    )
    expected = (
        '{"type":"record","name":"A","fields":[{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":9,'
        '"scale":2,"a":1}},{"name":"e","type":"double","default":1.0}],"x":{"a":2,"b":1},"y":1,"aliases":["b","z"]}'
    )
    schema = parse(SchemaType.AVRO, text).normalized()
    assert schema.canonical() == expected
    assert parse(SchemaType.AVRO, expected).normalized().canonical() == expected
