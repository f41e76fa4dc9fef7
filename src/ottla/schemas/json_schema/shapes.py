"""What a JSON Schema asks of a document, taken apart: a schema of one kind, or one that combines others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from ottla.schemas.json_schema.documents import REFERENCES, Place, follow
from ottla.schemas.json_schema.drafts import linear_pattern
from ottla.schemas.json_text import JsonValue

__all__ = ["COMBINING", "Shape", "ShapeKind", "Shapes"]


class ShapeKind(StrEnum):
    """What a schema is about."""

    ANYTHING = "anything"
    NOTHING = "nothing"
    STRING = "string"
    NUMBER = "number"
    OBJECT = "object"
    ARRAY = "array"
    BOOLEAN = "boolean"
    NULL = "null"
    VALUES = "values"
    NOT = "not"
    CONDITION = "condition"
    COMBINED = "combined"


COMBINING = ("allOf", "anyOf", "oneOf")
_KEYWORDS = {
    "object": (
        *("properties", "required", "patternProperties", "additionalProperties", "unevaluatedProperties"),
        *("dependencies", "dependentRequired", "dependentSchemas", "maxProperties", "minProperties", "propertyNames"),
    ),
    "array": (
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "maxItems", "minItems", "uniqueItems"),
        *("contains", "minContains", "maxContains"),
    ),
    "string": ("maxLength", "minLength", "pattern"),
    "number": ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"),
}
"""What is said of values of a type; said without the type, it implies it."""
_IGNORING_SIBLINGS = (DRAFT4, DRAFT6, DRAFT7)
_LATER = {
    **dict.fromkeys(("const", "contains", "propertyNames"), (DRAFT4,)),
    "if": (DRAFT4, DRAFT6),
    **dict.fromkeys(
        (
            *("dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"),
            *("minContains", "maxContains"),
        ),
        _IGNORING_SIBLINGS,
    ),
    "prefixItems": (*_IGNORING_SIBLINGS, DRAFT201909),
    "dependencies": (DRAFT201909, DRAFT202012),
    "additionalItems": (DRAFT202012,),
}
"""Keywords, and the drafts in which they mean nothing."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A schema of one kind, with what it says; of a combined one the parts, and how many of them have to hold."""

    kind: ShapeKind
    keywords: Mapping[str, JsonValue]
    place: Place
    parts: tuple[Place, ...] = ()
    criterion: str = ""

    @property
    def is_integer(self) -> bool:
        """True for numbers without a fraction."""
        return self.keywords.get("type") == "integer"

    def inner(self, schema: JsonValue) -> Place:
        """Return the place of a schema that stands in this one."""
        return self.place.inner(schema)


class Shapes:
    """Takes schemas apart, each once."""

    def __init__(self) -> None:
        self._known: dict[int, Shape] = {}
        self._kept: list[Place] = []  # so that no other schema comes to have the id of one
        self._patterns: dict[int, list[tuple[Any, Place]]] = {}

    def of(self, place: Place) -> Shape:
        """Return what stands at a place, or where its reference leads."""
        found = self._known.get(id(place.schema))
        if found is None:
            found = self._known[id(place.schema)] = self._made(place)
            self._kept.append(place)
        return found

    def patterns(self, shape: Shape) -> list[tuple[Any, Place]]:
        """Return the patterns of an object's properties that search in linear time, and what each says of a property."""
        found = self._patterns.get(id(shape))
        if found is None:
            said = shape.keywords.get("patternProperties")
            each = ((linear_pattern(key), schema) for key, schema in (said.items() if isinstance(said, dict) else ()))
            found = [(pattern, shape.inner(schema)) for pattern, schema in each if pattern is not None]
            self._patterns[id(shape)] = found
        return found

    def _made(self, place: Place) -> Shape:
        schema = place.schema
        if not isinstance(schema, dict):
            return Shape(ShapeKind.NOTHING if schema is False else ShapeKind.ANYTHING, {}, place)
        leads = [follow(place, key) for key in REFERENCES if isinstance(schema.get(key), str)]
        if leads and place.specification in _IGNORING_SIBLINGS:
            return self.of(leads[0])
        groups = list(_groups({key: schema[key] for key in schema if place.specification not in _LATER.get(key, ())}))
        if not groups and len(leads) == 1:
            return self.of(leads[0])
        if not groups and not leads:
            return Shape(ShapeKind.ANYTHING, schema, place)
        if len(groups) == 1 and not leads:
            return _single(groups[0], place)
        parts = (*leads, *(replace(place, schema=each) for each in groups))
        return Shape(ShapeKind.COMBINED, schema, place, parts, "allOf")


def _groups(schema: dict[str, JsonValue]) -> Iterator[dict[str, JsonValue]]:
    """Yield schemas that together say what this one does, each about one thing."""
    for key in COMBINING:
        if schema.get(key):
            yield {key: schema[key]}
    if "not" in schema:
        yield {"not": schema["not"]}
    if "if" in schema:
        yield {key: schema[key] for key in ("if", "then", "else") if key in schema}
    if "const" in schema:
        yield {"enum": [schema["const"]]}
    if "enum" in schema:
        yield {"enum": schema["enum"]}
    kinds = schema.get("type")
    if isinstance(kinds, list) and len(kinds) != 1:
        yield {"anyOf": [_typed(schema, str(kind)) for kind in kinds]}
    elif kinds is not None:
        yield _typed(schema, str(kinds[0] if isinstance(kinds, list) else kinds))
    else:
        for kind, keywords in _KEYWORDS.items():
            if any(keyword in schema for keyword in keywords):
                yield _typed(schema, kind)


def _typed(schema: dict[str, JsonValue], kind: str) -> dict[str, JsonValue]:
    keywords = _KEYWORDS.get("number" if kind == "integer" else kind, ())
    return {"type": kind, **{key: schema[key] for key in keywords if key in schema}}


def _single(schema: dict[str, JsonValue], place: Place) -> Shape:
    """Return the shape of a schema about one thing."""
    for key in COMBINING:
        parts = schema.get(key)
        if isinstance(parts, list):
            return Shape(ShapeKind.COMBINED, schema, place, tuple(place.inner(each) for each in parts), key)
    if "not" in schema:
        return Shape(ShapeKind.NOT, schema, place)
    if "if" in schema:
        return Shape(ShapeKind.CONDITION, schema, place)
    if "enum" in schema:
        return Shape(ShapeKind.VALUES, schema, place)
    kind = str(schema["type"])
    return Shape(ShapeKind.NUMBER if kind == "integer" else ShapeKind(kind), schema, place)
