"""Ottla's answers about Avro beside those that Confluent's own library, release 7.9.5, gave (tests/schemas/facts)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.rest.bodies import metadata_of, rule_set_of
from ottla.schemas import (
    InvalidSchemaError,
    ParsedSchema,
    SchemaReference,
    SchemaType,
    fingerprint,
    incompatibilities,
    parse,
)
from tests.schemas.facts import CONFLUENT_FACTS

ALL: list[dict[str, Any]] = json.loads(CONFLUENT_FACTS.read_text())
SCHEMAS = [fact for fact in ALL if "text" in fact]
VALID = [fact for fact in SCHEMAS if fact["canonical"] is not None]
PAIRS = [fact for fact in ALL if "reader" in fact]


def references(fact: dict[str, Any]) -> list[SchemaReference]:
    return [SchemaReference(**each) for each in fact.get("references", ())]


def parsed(fact: dict[str, Any], key: str = "text") -> ParsedSchema:
    return parse(SchemaType.AVRO, fact[key], references(fact), lambda each: fact["resolved"][each.name])


def print_of(fact: dict[str, Any], text: str, referred: Any, *, bare: bool = False) -> str:
    more = () if bare else (metadata_of(fact.get("metadata")), rule_set_of(fact.get("ruleSet")))
    return fingerprint(text, referred, *more).hex()


def test_what_is_a_schema_there_is_one_here_and_nothing_else() -> None:
    for fact in SCHEMAS:
        if fact["canonical"] is None:
            with pytest.raises(InvalidSchemaError):
                parsed(fact)


def test_texts_resolved_texts_and_fingerprints_are_confluents() -> None:
    assert len(VALID) > 150
    for fact in VALID:
        schema = parsed(fact)
        assert schema.canonical() == fact["canonical"]
        assert schema.formatted("resolved") == fact["resolvedText"]
        assert print_of(fact, schema.canonical(), references(fact)) == fact["md5"], fact


def loses_meaning(fact: dict[str, Any]) -> bool:
    """Whether Confluent's normal form has other defaults or names than the text, which Ottla keeps (docs/schemas.md)."""
    kept, lost = parsed(fact, "canonical"), parsed(fact, "normalized")
    counted = [text.canonical().count('"default":') for text in (kept, lost)]
    return counted[0] != counted[1] or '"namespace":""' in fact["canonical"]


def test_normal_forms_are_confluents_but_where_those_lose_a_default_or_a_namespace() -> None:
    kept = [fact for fact in VALID if loses_meaning(fact)]
    assert len(kept) < 9
    for fact in VALID:
        if fact in kept:
            continue
        schema = parsed(fact).normalized()
        assert schema.canonical() == fact["normalized"], fact["text"]
        assert [each.name for each in schema.references] == fact["normalizedReferences"]
        assert print_of(fact, schema.canonical(), schema.references, bare=True) == fact["normalizedMd5"]


def test_a_normal_form_keeps_every_default_and_namespace() -> None:
    for fact in VALID:
        schema = parsed(fact)
        again = parsed({**fact, "normal": schema.normalized().canonical()}, "normal")
        assert not incompatibilities(schema, again) and not incompatibilities(again, schema), fact["text"]
        assert again.name == schema.name


def told(message: str) -> tuple[str, str]:
    """Return a message's kind and details: its sentence is each registry's own."""
    return message.split("'")[1], message.rpartition("additionalInfo:")[2]


def test_reasons_have_confluents_kinds_and_details() -> None:
    assert len(PAIRS) > 50
    for fact in PAIRS:
        reader, writer = (parse(SchemaType.AVRO, fact[each], new=False) for each in ("reader", "writer"))
        found = [told(each.message(reader="new", writer="old")) for each in incompatibilities(reader, writer)]
        expected = [told(each) for each in fact["messages"]]
        assert found[:1] == expected[:1], fact
        assert [each for each in found if each in expected] == expected, fact
