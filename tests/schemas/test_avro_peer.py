"""Ottla's answers about Avro beside those that Apache Avro 1.12.1 gave (tests/schemas/facts)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.schemas import InvalidSchemaError, SchemaType, incompatibilities, parse
from tests.schemas.facts import FACTS

ALL: list[dict[str, Any]] = json.loads(FACTS.read_text())
TEXTS = [fact for fact in ALL if "text" in fact]
PAIRS = [fact for fact in ALL if "reader" in fact]


def canonical(text: str) -> str | None:
    try:
        return parse(SchemaType.AVRO, text).canonical()
    except InvalidSchemaError:
        return None


@pytest.mark.parametrize("fact", TEXTS, ids=[str(index) for index in range(len(TEXTS))])
def test_a_text_has_javas_canonical_form_or_is_refused_as_by_java(fact: dict[str, Any]) -> None:
    assert canonical(fact["text"]) == fact["canonical"]


def test_a_reader_can_take_what_java_says_that_it_can_and_else_for_javas_reasons() -> None:
    assert len(PAIRS) > 300
    for fact in PAIRS:
        reader, writer = parse(SchemaType.AVRO, fact["reader"]), parse(SchemaType.AVRO, fact["writer"])
        found = [[each.kind, each.path, each.info] for each in incompatibilities(reader, writer)]
        assert found == fact["incompatibilities"], (fact["reader"], fact["writer"])
