"""JSON Schema's objects, arrays and plain types as columns; what has no one type is its JSON as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from ottla.serdes.columns.shapes import Shape
from ottla.serdes.errors import SerdeError

__all__ = ["shape_of_document"]

DEPTH_MAX = 64
INT64_MAX = (1 << 63) - 1


def shape_of_document(document: Any) -> Shape:
    """Return the column of a schema's values."""
    return _Shapes(document).of(document, 0, frozenset())


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


ANYTHING = Shape(pa.string(), _text)


def _checked(name: str, is_such: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def value(given: Any) -> Any:
        if given is None or is_such(given):
            return given
        raise SerdeError(f"The value does not fit the JSON schema: {str(given)[:60]!r} is no {name}")

    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and -INT64_MAX <= value <= INT64_MAX and value == int(value)


_PLAIN = {
    "string": Shape(pa.string(), _checked("string", lambda each: isinstance(each, str))),
    "boolean": Shape(pa.bool_(), _checked("boolean", lambda each: isinstance(each, bool))),
    "number": Shape(pa.float64(), _checked("number", _is_number)),
    "integer": Shape(pa.int64(), _checked("integer of 64 bits", _is_whole)),
    "null": Shape(pa.null(), _checked("null", lambda each: False)),
}


class _Shapes:
    def __init__(self, document: Any) -> None:
        self._document = document

    def of(self, node: Any, depth: int, followed: frozenset[str]) -> Shape:
        if not isinstance(node, Mapping) or depth > DEPTH_MAX:
            return ANYTHING
        if isinstance(node.get("$ref"), str):
            return self._followed(node["$ref"], depth, followed)
        for key in ("oneOf", "anyOf"):
            if isinstance(node.get(key), list):
                others = [each for each in node[key] if each != {"type": "null"}]
                return self.of(others[0], depth + 1, followed) if len(others) == 1 else ANYTHING
        kind = node.get("type")
        if isinstance(kind, list):
            named = [each for each in kind if each != "null"]
            kind = named[0] if len(named) == 1 else None
        if kind == "object":
            return self._object(node, depth, followed)
        if kind == "array" and isinstance(node.get("items"), Mapping):
            return _listed(self.of(node["items"], depth + 1, followed))
        return _PLAIN.get(kind, ANYTHING) if isinstance(kind, str) else ANYTHING

    def _followed(self, ref: str, depth: int, followed: frozenset[str]) -> Shape:
        if not ref.startswith("#/") or ref in followed:
            return ANYTHING  # what is elsewhere, or holds itself
        found = self._document
        for step in ref[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return self.of(found, depth + 1, followed | {ref})

    def _object(self, node: Mapping[str, Any], depth: int, followed: frozenset[str]) -> Shape:
        given = node.get("properties")
        if isinstance(given, Mapping) and given:
            return _struct({name: self.of(each, depth + 1, followed) for name, each in given.items()})
        rest = node.get("additionalProperties")
        return _mapped(self.of(rest, depth + 1, followed)) if isinstance(rest, Mapping) else ANYTHING


def _struct(shapes: dict[str, Shape]) -> Shape:
    def value(given: Any) -> Any:
        if given is None:
            return None
        if not isinstance(given, dict):
            raise SerdeError(f"The value does not fit the JSON schema: {str(given)[:60]!r} is no object")
        return {name: shape.value(given.get(name)) for name, shape in shapes.items()}

    return Shape(pa.struct([pa.field(name, shape.column) for name, shape in shapes.items()]), value)


def _listed(item: Shape) -> Shape:
    def value(given: Any) -> Any:
        if given is None:
            return None
        if not isinstance(given, list):
            raise SerdeError(f"The value does not fit the JSON schema: {str(given)[:60]!r} is no array")
        return [item.value(each) for each in given]

    return Shape(pa.list_(pa.field("element", item.column)), value)


def _mapped(item: Shape) -> Shape:
    def value(given: Any) -> Any:
        if given is None:
            return None
        if not isinstance(given, dict):
            raise SerdeError(f"The value does not fit the JSON schema: {str(given)[:60]!r} is no object")
        return [(key, item.value(each)) for key, each in given.items()]

    return Shape(pa.map_(pa.string(), item.column), value)
