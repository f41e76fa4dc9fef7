"""Changes of what is in objects and arrays: which properties and items there are, and whether there may be others.

A content model is open where anything may be added, closed where nothing may, and partially open where what is added
has to be like a schema. What an open model lets be anything cannot be given a meaning later; what a closed one has, no
later one may leave out, unless it is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.schemas.json_schema.changes import Change, Changes, Compare, bounds, under
from ottla.schemas.json_schema.documents import Place
from ottla.schemas.json_schema.shapes import Shape, ShapeKind, Shapes
from ottla.schemas.json_text import JsonValue

__all__ = ["array_changes", "object_changes"]

_COVERED = "_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"


@dataclass(frozen=True, eq=False)
class _Rest:
    """What a schema says of the properties or items that it does not name."""

    permitted: bool
    place: Place | None

    @property
    def is_open(self) -> bool:
        return self.permitted and self.place is None


def _rest(shape: Shape, keyword: str, unevaluated: str) -> _Rest:
    """Return what is said by a keyword, or, where that is absent, of what no other keyword looked at."""
    said = shape.keywords.get(keyword, shape.keywords.get(unevaluated, True))
    if isinstance(said, bool) or not said:
        return _Rest(said is not False, None)
    return _Rest(True, shape.inner(said))


def object_changes(old: Shape, new: Shape, shapes: Shapes, compare: Compare) -> Changes:
    """Return what an object may not be any more."""
    return (
        *_required(old, new),
        *_properties(old, new, shapes, compare),
        *_dependencies(old, new, compare),
        *_rest_changes(old, new, "additionalProperties", "ADDITIONAL_PROPERTIES", compare),
        *_rest_changes(old, new, "unevaluatedProperties", "UNEVALUATED_PROPERTIES", compare),
        *bounds(old, new, ("maxProperties",), ("minProperties",)),
    )


def _named(shape: Shape) -> Mapping[str, JsonValue]:
    found = shape.keywords.get("properties")
    return found if isinstance(found, dict) else {}


def _needed(shape: Shape) -> set[str]:
    found = shape.keywords.get("required")
    return {str(each) for each in found} if isinstance(found, list) else set()


def _required(old: Shape, new: Shape) -> Changes:
    """A property that has a default may become required, as in Confluent's registry, whose clients fill it in."""
    found = []
    before, after = _named(old), _named(new)
    for name in sorted(_needed(new) - _needed(old)):
        if name in after and (name not in before or _has_default(after[name])):
            continue  # the first is told of where properties are compared
        found.append(Change("REQUIRED_ATTRIBUTE_ADDED", ("required", name)))
    return tuple(found)


def _has_default(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _properties(old: Shape, new: Shape, shapes: Shapes, compare: Compare) -> Changes:
    before, after = _named(old), _named(new)
    found: list[Change] = []
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            changes = _removed(old.inner(before[name]), new, name, shapes, compare)
        elif name not in before:
            changes = _added(old, new, name, shapes, compare)
        else:
            changes = compare(old.inner(before[name]), new.inner(after[name]))
        found += under(changes, "properties", name)
    return tuple(found)


def _removed(before: Place, new: Shape, name: str, shapes: Shapes, compare: Compare) -> Changes:
    rest = _rest_for(new, name, shapes)
    if rest.is_open:
        return ()
    if rest.place is not None:
        changes = compare(before, rest.place)
        return (*changes, Change(f"PROPERTY_REMOVED_NOT{_COVERED}")) if changes else ()
    if shapes.of(before).kind is ShapeKind.NOTHING:
        return ()
    return (Change("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),)


def _added(old: Shape, new: Shape, name: str, shapes: Shapes, compare: Compare) -> Changes:
    schema = _named(new)[name]
    after = new.inner(schema)
    is_required = name in _needed(new) - _needed(old)
    rest = _rest_for(old, name, shapes)
    if rest.is_open:
        if shapes.of(after).kind is not ShapeKind.ANYTHING:
            return (Change("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),)
        return (Change("REQUIRED_ATTRIBUTE_ADDED"),) if is_required and not _has_default(schema) else ()
    found: list[Change] = []
    if rest.place is not None and (changes := compare(rest.place, after)):
        found += (*changes, Change(f"PROPERTY_ADDED_NOT{_COVERED}"))
    if is_required and not _has_default(schema):
        found.append(Change("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"))
    return tuple(found)


def _rest_for(shape: Shape, name: str, shapes: Shapes) -> _Rest:
    """Return what is said of a property that is not named: by the pattern that it matches, or of all the rest.

    A pattern that only backtracking could search for is not run: whatever it may match, the name has to be like all the
    rest, too.
    """
    for pattern, place in shapes.patterns(shape):
        if pattern.search(name) is not None:
            return _Rest(place.schema is not False, None if isinstance(place.schema, bool) else place)
    return _rest(shape, "additionalProperties", "unevaluatedProperties")


def _rest_changes(old: Shape, new: Shape, keyword: str, name: str, compare: Compare) -> Changes:
    before, after = _rest(old, keyword, keyword), _rest(new, keyword, keyword)
    if before.permitted and not after.permitted:
        return (Change(f"{name}_REMOVED", (keyword,)),)
    if not before.permitted or after.place is None:
        return ()
    if before.place is None:
        return (Change(f"{name}_NARROWED", (keyword,)),)
    return under(compare(before.place, after.place), keyword)


def _dependencies(old: Shape, new: Shape, compare: Compare) -> Changes:
    found: list[Change] = []
    before, after = _dependent(old), _dependent(new)
    for name, later in after.items():
        earlier = before.get(name)
        if isinstance(later, list):
            found += under(_needs(earlier, {str(each) for each in later}), "dependencies", name)
        elif earlier is None or isinstance(earlier, list):
            found.append(Change("DEPENDENCY_SCHEMA_ADDED", ("dependencies", name)))
        else:
            found += under(compare(old.inner(earlier), new.inner(later)), "dependencies", name)
    return tuple(found)


def _dependent(shape: Shape) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
        said = shape.keywords.get(keyword)
        found |= said if isinstance(said, dict) else {}
    return found


def _needs(earlier: JsonValue, later: set[str]) -> Changes:
    if not isinstance(earlier, list):
        return (Change("DEPENDENCY_ARRAY_ADDED"),)
    before = {str(each) for each in earlier}
    if later <= before:
        return ()
    return (Change("DEPENDENCY_ARRAY_EXTENDED" if before < later else "DEPENDENCY_ARRAY_CHANGED"),)


@dataclass(frozen=True, eq=False)
class _Items:
    every: Place | None
    listed: tuple[Place, ...]
    rest: _Rest


def _items(shape: Shape) -> _Items:
    """Return what is said of items, in whichever draft's words."""
    words = shape.keywords
    listed = words.get("prefixItems", words.get("items"))
    if isinstance(listed, list):
        keyword = "items" if "prefixItems" in words else "additionalItems"
        places = tuple(shape.inner(each) for each in listed)
        return _Items(None, places, _rest(shape, keyword, "unevaluatedItems"))
    every = shape.inner(words["items"]) if "items" in words else None
    return _Items(every, (), _rest(shape, "unevaluatedItems", "unevaluatedItems"))


def array_changes(old: Shape, new: Shape, shapes: Shapes, compare: Compare) -> Changes:
    """Return what an array may not be any more."""
    before, after = _items(old), _items(new)
    found: list[Change] = []
    if before.every is not None and after.every is not None:
        found += under(compare(before.every, after.every), "items")
    elif after.every is not None and shapes.of(after.every).kind is not ShapeKind.ANYTHING:
        found.append(Change("SCHEMA_ADDED", ("items",)))
    for index in range(max(len(before.listed), len(after.listed))):
        found += under(_item(index, before, after, shapes, compare), "items", str(index))
    if before.listed or after.listed:
        found += _more_items(before.rest, after.rest, compare)
    found += _rest_changes(old, new, "unevaluatedItems", "UNEVALUATED_ITEMS", compare)
    found += bounds(old, new, ("maxItems", "maxContains"), ("minItems", "minContains"))
    if new.keywords.get("uniqueItems") is True and old.keywords.get("uniqueItems") is not True:
        found.append(Change("UNIQUE_ITEMS_ADDED", ("uniqueItems",)))
    return tuple(found)


def _item(index: int, before: _Items, after: _Items, shapes: Shapes, compare: Compare) -> Changes:
    if index < len(before.listed) and index < len(after.listed):
        return compare(before.listed[index], after.listed[index])
    if index < len(before.listed):
        return _item_removed(before.listed[index], after, shapes, compare)
    return _item_added(before, after.listed[index], shapes, compare)


def _item_removed(before: Place, after: _Items, shapes: Shapes, compare: Compare) -> Changes:
    if after.rest.is_open:
        return ()
    if after.rest.place is not None:
        changes = compare(before, after.rest.place)
        return (*changes, Change(f"ITEM_REMOVED_NOT{_COVERED}")) if changes else ()
    if shapes.of(before).kind is ShapeKind.NOTHING:
        return ()
    return (Change("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"),)


def _item_added(before: _Items, after: Place, shapes: Shapes, compare: Compare) -> Changes:
    if before.rest.is_open:
        is_anything = shapes.of(after).kind is ShapeKind.ANYTHING
        return () if is_anything else (Change("ITEM_ADDED_TO_OPEN_CONTENT_MODEL"),)
    if before.rest.place is None:
        return ()
    changes = compare(before.rest.place, after)
    return (*changes, Change(f"ITEM_ADDED_NOT{_COVERED}")) if changes else ()


def _more_items(before: _Rest, after: _Rest, compare: Compare) -> Changes:
    if before.permitted and not after.permitted:
        return (Change("ADDITIONAL_ITEMS_REMOVED", ("additionalItems",)),)
    if not before.permitted or after.place is None:
        return ()
    if before.place is None:
        return (Change("ADDITIONAL_ITEMS_NARROWED", ("additionalItems",)),)
    return under(compare(before.place, after.place), "additionalItems")
