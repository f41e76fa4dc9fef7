"""A JSON Schema document among those that it refers to; nothing is ever fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from jsonschema_specifications import REGISTRY
from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable

from ottla.schemas.interface import InvalidSchemaError, Limits
from ottla.schemas.json_schema.drafts import check_pattern, specification_of
from ottla.schemas.json_text import JsonValue

__all__ = ["Place", "follow", "root_of", "walk"]

_HOPS_MAX = 50
"""Of `$ref`s that lead to nothing but a `$ref`."""
_PATTERNS_MAX = 1_000
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, eq=False)
class Place:
    """A schema inside a document, with what its references are looked up by."""

    schema: JsonValue
    resolver: Any
    specification: Specification[Any]

    def inner(self, schema: JsonValue) -> Place:
        """Return the place of a schema that stands in this one."""
        if not isinstance(schema, dict):
            return Place(schema, self.resolver, self.specification)
        resource = self.specification.create_resource(schema)
        return Place(schema, self.resolver.in_subresource(resource), self.specification)

    def referred(self) -> Place:
        """Return where this schema's `$ref` leads; raises InvalidSchemaError where that is nowhere."""
        return follow(self)


def root_of(document: JsonValue, others: Mapping[str, JsonValue]) -> Place:
    """Return the place of a document; the others are known by the names that they are referred to with."""
    specification = specification_of(document)
    root: Resource[Any] = specification.create_resource(document)
    base = root.id() or ""
    registry: Registry[Any] = REGISTRY  # the drafts' own schemas
    for name, other in others.items():
        resource = specification_of(other).create_resource(other)
        names = {name, _joined(base, name), resource.id() or name}
        registry = registry.with_resources((each, resource) for each in names)
    registry = registry.with_resource(base, root)
    return Place(document, registry.resolver(base), specification)


def _joined(base: str, name: str) -> str:
    try:
        return urljoin(base, name)
    except ValueError:
        return name


def follow(place: Place, key: str = "$ref") -> Place:
    """Return where the reference of a schema leads; raises InvalidSchemaError where that is nowhere."""
    assert isinstance(place.schema, dict)
    reference = place.schema[key]
    try:
        found = place.resolver.lookup(reference)
    except (Unresolvable, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidSchemaError(f"{key} {reference!r} leads to nothing that is known here") from error
    if not isinstance(found.contents, dict | bool):
        raise InvalidSchemaError(f"{key} {reference!r} leads to no schema")
    return Place(found.contents, found.resolver, place.specification)


def walk(root: Place, limits: Limits) -> None:
    """Look at every schema that a document holds or leads to; raises InvalidSchemaError at what is wrong with one."""
    pending, seen = [root], {id(root.schema)}
    patterns: set[str] = set()
    while pending:
        place = pending.pop()
        if not isinstance(place.schema, dict):
            continue
        patterns |= _patterns(place.schema)
        below = [_target(place, key) for key in REFERENCES if isinstance(place.schema.get(key), str)]
        below += [place.inner(each) for each in place.specification.subresources_of(place.schema)]
        for each in below:
            if id(each.schema) not in seen:
                seen.add(id(each.schema))
                pending.append(each)
        if len(seen) > limits.names_max:
            raise InvalidSchemaError(f"There are more schemas in it than the {limits.names_max} that may be")
    if len(patterns) > _PATTERNS_MAX:
        raise InvalidSchemaError(f"There are more than {_PATTERNS_MAX} patterns in it")
    for pattern in patterns:
        check_pattern(pattern)


def _target(place: Place, key: str) -> Place:
    """Return where a reference leads; refuses one that leads to references only."""
    found = first = follow(place, key)
    for _ in range(_HOPS_MAX):
        words = found.schema if isinstance(found.schema, dict) else {}
        onward = next((each for each in REFERENCES if isinstance(words.get(each), str)), None)
        if onward is None:
            return first
        found = follow(found, onward)
    assert isinstance(place.schema, dict)
    raise InvalidSchemaError(f"{key} {place.schema[key]!r} leads to itself, or through too many others")


def _patterns(schema: dict[str, JsonValue]) -> set[str]:
    pattern, properties = schema.get("pattern"), schema.get("patternProperties")
    found = set(properties) if isinstance(properties, dict) else set()
    return found | {pattern} if isinstance(pattern, str) else found
