"""Whether a JSON Schema takes what another took: their differences, by the names of Confluent's registry."""

from __future__ import annotations

from fractions import Fraction

from ottla.schemas.interface import Incompatibility
from ottla.schemas.json_schema.changes import Change, Changes, bounds
from ottla.schemas.json_schema.content import array_changes, object_changes
from ottla.schemas.json_schema.documents import Place
from ottla.schemas.json_schema.matching import largest_matching
from ottla.schemas.json_schema.schema import JsonSchema
from ottla.schemas.json_schema.shapes import Shape, ShapeKind, Shapes
from ottla.schemas.json_text import JsonValue, write_json
from ottla.schemas.pairs import Pairs

__all__ = ["json_incompatibilities"]

_EDGES_MAX = 100_000
"""Pairs of parts of combined schemas."""
_ALTERNATIVES = ("anyOf", "oneOf")


def json_incompatibilities(reader: JsonSchema, writer: JsonSchema) -> list[Incompatibility]:
    """Return why a document of the writer's schema may be none of the reader's; empty where it is one."""
    return [each.told() for each in _Comparison().settled(writer.place, reader.place)]


class _Comparison:
    def __init__(self) -> None:
        self._shapes = Shapes()
        self._edges_left = _EDGES_MAX
        self._parts: dict[int, dict[str, Place]] = {}
        self._values: dict[int, frozenset[str]] = {}
        self._pairs: Pairs[Shape, None, Change] = Pairs(self._calculated, lambda _: Change("TYPE_CHANGED"))

    def settled(self, old: Place, new: Place) -> Changes:
        """Return what the new schema no longer takes."""
        return self._pairs.settled(self._shapes.of(old), self._shapes.of(new), None)

    def compare(self, old: Place, new: Place) -> Changes:
        """Return what a schema inside the new one no longer takes, as far as is known."""
        return self._pairs.compare(self._shapes.of(old), self._shapes.of(new), None)

    def _calculated(self, old: Shape, new: Shape, _: None) -> Changes:
        if old.kind is ShapeKind.NOTHING or new.kind is ShapeKind.ANYTHING:
            return ()
        if self._fits_in_parts(old, new):
            return ()
        if old.kind is not new.kind:
            return (Change("TYPE_CHANGED"),)
        match old.kind:
            case ShapeKind.STRING:
                return (*bounds(old, new, ("maxLength",), ("minLength",)), *_pattern(old, new))
            case ShapeKind.NUMBER:
                return _numbers(old, new)
            case ShapeKind.VALUES:
                return _value_changes(self._texts(old), self._texts(new))
            case ShapeKind.NOT:
                narrower = self.compare(new.inner(new.keywords["not"]), old.inner(old.keywords["not"]))
                return (Change("NOT_TYPE_EXTENDED", ("not",)),) if narrower else ()
            case ShapeKind.OBJECT:
                return object_changes(old, new, self._shapes, self.compare)
            case ShapeKind.ARRAY:
                return array_changes(old, new, self._shapes, self.compare)
            case ShapeKind.COMBINED:
                return self._combined(old, new)
        return ()

    def _fits_in_parts(self, old: Shape, new: Shape) -> bool:
        """Return whether one of the new alternatives takes all of the old, or the new what one old demand lets through."""
        if old.kind is not ShapeKind.COMBINED and new.kind is ShapeKind.COMBINED:
            if len(new.parts) > 1 and new.criterion not in _ALTERNATIVES:
                return False
            return any(not self.compare(old.place, part) for part in new.parts)
        if old.kind is ShapeKind.COMBINED and new.kind is not ShapeKind.COMBINED:
            if len(old.parts) > 1 and old.criterion in _ALTERNATIVES:
                return False
            return any(not self.compare(part, new.place) for part in old.parts)
        return False

    def _combined(self, old: Shape, new: Shape) -> Changes:
        if not _may_become(old, new):
            return (Change("COMBINED_TYPE_CHANGED"),)
        olds, news = self._distinct(old), self._distinct(new)
        before, after = list(olds.values()), list(news.values())
        found: list[Change] = []
        if new.criterion == "allOf" and len(before) < len(after):
            found.append(Change("PRODUCT_TYPE_EXTENDED"))
        elif new.criterion != "allOf" and len(before) > len(after):
            found.append(Change("SUM_TYPE_NARROWED"))
        same = [(each, news[text]) for text, each in olds.items() if text in news]
        if len(same) == min(len(before), len(after)) and not any(self.compare(*pair) for pair in same):
            return tuple(found)  # each has one of its own in the other without a search
        self._edges_left -= len(before) * len(after)
        if self._edges_left < 0:
            return (*found, Change("COMBINED_TYPE_SUBSCHEMAS_CHANGED"))  # too many to be compared: not known to fit
        edges = [[not self.compare(each, other) for other in after] for each in before]
        if largest_matching(edges) < min(len(before), len(after)):
            found.append(Change("COMBINED_TYPE_SUBSCHEMAS_CHANGED"))
        return tuple(found)

    def _distinct(self, shape: Shape) -> dict[str, Place]:
        """Return the parts of a combined schema by their texts, in their order; of those with one text the first."""
        found = self._parts.get(id(shape))
        if found is None:
            texts = {write_json(each.schema, sort=True): each for each in reversed(shape.parts)}
            found = self._parts[id(shape)] = dict(reversed(texts.items()))
        return found

    def _texts(self, shape: Shape) -> frozenset[str]:
        """Return the values that a schema lists, each as a text."""
        found = self._values.get(id(shape))
        if found is None:
            values = shape.keywords["enum"]
            texts = (write_json(each, sort=True) for each in values) if isinstance(values, list) else ()
            found = self._values[id(shape)] = frozenset(texts)
        return found


def _may_become(old: Shape, new: Shape) -> bool:
    """Return whether the way in which schemas are combined may change so."""
    if old.criterion == new.criterion or new.criterion == "anyOf":
        return True
    return len(old.parts) == 1 and (new.criterion == "oneOf" or len(new.parts) == 1)


def _pattern(old: Shape, new: Shape) -> Changes:
    before, after = old.keywords.get("pattern"), new.keywords.get("pattern")
    if after is None or before == after:
        return ()
    return (Change("PATTERN_ADDED" if before is None else "PATTERN_CHANGED", ("pattern",)),)


def _numbers(old: Shape, new: Shape) -> Changes:
    before, after = _limited(old), _limited(new)
    narrowed = (Change("TYPE_NARROWED"),) if new.is_integer and not old.is_integer else ()
    limits = bounds(before, after, ("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum"))
    return (*narrowed, *limits, *_multiple(old.keywords.get("multipleOf"), new.keywords.get("multipleOf")))


def _limited(shape: Shape) -> Shape:
    """Return a number's schema in the words of drafts since 6: before, an exclusive limit was said of the inclusive one."""
    words: dict[str, JsonValue] = dict(shape.keywords)
    for keyword, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if isinstance(said := words.get(exclusive), bool):
            del words[exclusive]
            if said and keyword in words:
                words[exclusive] = words.pop(keyword)
    return Shape(shape.kind, words, shape.place)


def _multiple(old: JsonValue, new: JsonValue) -> Changes:
    if new is None:
        return ()
    if old is None:
        return (Change("MULTIPLE_OF_ADDED", ("multipleOf",)),)
    before, after = Fraction(old), Fraction(new)  # type: ignore[arg-type]
    if before % after == 0:
        return ()
    return (Change("MULTIPLE_OF_CHANGED" if after % before else "MULTIPLE_OF_EXPANDED", ("multipleOf",)),)


def _value_changes(before: frozenset[str], after: frozenset[str]) -> Changes:
    if before <= after:
        return ()
    return (Change("ENUM_ARRAY_NARROWED" if after < before else "ENUM_ARRAY_CHANGED", ("enum",)),)
