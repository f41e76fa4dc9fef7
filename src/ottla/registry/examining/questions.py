"""What an examining process is asked, as JSON, and how it finds the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ottla.schemas import (
    InvalidSchemaError,
    Level,
    ParsedSchema,
    Referenced,
    SchemaReference,
    SchemaType,
    check,
    parse,
)

__all__ = ["Text", "answer", "canonical_question", "comparison_question", "form_question"]

PARSED_MAX = 200
"""Schemas that a process keeps as it has parsed them."""


@dataclass(frozen=True)
class Text:
    """A schema's text with the texts of all that it refers to; subjects are whole names."""

    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    others: tuple[tuple[str, int, str, tuple[SchemaReference, ...]], ...] = ()
    is_new: bool = False

    def json(self) -> list[Any]:
        """Return it as it is sent."""
        others = [[subject, version, text, _listed(inner)] for subject, version, text, inner in self.others]
        return [self.schema_type, self.text, _listed(self.references), others, self.is_new]


def _listed(references: Iterable[SchemaReference]) -> list[list[Any]]:
    return [[each.name, each.subject, each.version] for each in references]


def canonical_question(text: Text, *, normalize: bool) -> dict[str, Any]:
    """Ask for the canonical text."""
    return {"ask": "canonical", "text": text.json(), "normalize": normalize}


def form_question(text: Text, form: str) -> dict[str, Any]:
    """Ask for a text in a form."""
    return {"ask": "form", "text": text.json(), "form": form}


def comparison_question(level: str, new: Text, older: Sequence[tuple[int, Text]]) -> dict[str, Any]:
    """Ask why a schema does not fit older ones."""
    return {
        "ask": "compare",
        "level": level,
        "text": new.json(),
        "older": [[version, text.json()] for version, text in older],
    }


def answer(question: Mapping[str, Any]) -> Any:
    """Return the answer to a question; raises InvalidSchemaError."""
    schema = _parsed(json.dumps(question["text"]))
    match question["ask"]:
        case "canonical":
            return (schema.normalized() if question["normalize"] else schema).canonical()
        case "form":
            return schema.formatted(question["form"])
        case "compare":
            level = Level(question["level"])
            versions = question["older"] if level.endswith("_TRANSITIVE") else question["older"][-1:]
            older = [(version, _parsed(json.dumps(text))) for version, text in versions]
            return check(level, schema, older)
    raise AssertionError(question["ask"])


@lru_cache(PARSED_MAX)
def _parsed(spelled: str) -> ParsedSchema:
    schema_type, text, references, others, is_new = json.loads(spelled)
    known = {(subject, version): Referenced(inner, _references(more)) for subject, version, inner, more in others}

    def resolve(reference: SchemaReference) -> Referenced:
        return known[reference.subject, reference.version]

    try:
        kind = SchemaType(schema_type)
    except (ValueError, RecursionError):
        raise InvalidSchemaError(f"Invalid schema type {schema_type}") from None
    return parse(kind, text, _references(references), resolve, new=is_new)


def _references(listed: Iterable[Sequence[Any]]) -> tuple[SchemaReference, ...]:
    return tuple(SchemaReference(*each) for each in listed)
