"""What has changed between two JSON Schemas so that the newer no longer takes what the older did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from ottla.schemas.interface import Incompatibility
from ottla.schemas.json_schema.documents import Place
from ottla.schemas.json_schema.shapes import Shape
from ottla.schemas.json_text import JsonValue

__all__ = ["Change", "Changes", "Compare", "bounds", "under"]

CHANGES_MAX = 1_000
"""Changes that are told."""


@dataclass(frozen=True)
class Change:
    """A change by Confluent's name, and where it is, below the place that is compared."""

    kind: str
    path: tuple[str, ...] = ()

    def told(self) -> Incompatibility:
        """Return it as a reason."""
        return Incompatibility(self.kind, "/".join(("#", *self.path)) if self.path else "#/", _sentence(self.kind))


Changes = tuple[Change, ...]
Compare = Callable[[Place, Place], Changes]


def under(changes: Iterable[Change], *path: str) -> Changes:
    """Return changes as they are seen from further up."""
    return tuple(Change(each.kind, (*path, *each.path)) for each in changes)[:CHANGES_MAX]


def bounds(old: Shape, new: Shape, most: Iterable[str], least: Iterable[str]) -> Changes:
    """Return how the bounds of a value became narrower; each is named as its keyword."""
    found: list[Change] = []
    for keyword in most:
        found += _bound(keyword, old.keywords.get(keyword), new.keywords.get(keyword), "DECREASED")
    for keyword in least:
        found += _bound(keyword, old.keywords.get(keyword), new.keywords.get(keyword), "INCREASED")
    return tuple(found)


def _bound(keyword: str, old: JsonValue, new: JsonValue, narrower: str) -> Changes:
    name = "".join(f"_{each}" if each.isupper() else each.upper() for each in keyword)
    if new is None:
        return ()
    if old is None:
        return (Change(f"{name}_ADDED", (keyword,)),)
    before, after = Fraction(old), Fraction(new)  # type: ignore[arg-type]
    if (after < before) if narrower == "DECREASED" else (after > before):
        return (Change(f"{name}_{narrower}", (keyword,)),)
    return ()


_SENTENCES = {
    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": (
        "The {reader} schema says at {path} what a property must be which the {writer} schema lets be anything"
    ),
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": (
        "The {reader} schema says at {path} what an item must be which the {writer} schema lets be anything"
    ),
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": (
        "The {reader} schema requires the property at {path}, which the {writer} schema does not have"
    ),
    "REQUIRED_ATTRIBUTE_ADDED": "The {reader} schema requires what is at {path}, and the {writer} schema does not",
    "TYPE_CHANGED": "What the {reader} schema takes at {path} is something else than in the {writer} schema",
    "TYPE_NARROWED": "The {reader} schema takes integers only at {path}, and the {writer} schema any number",
    "COMBINED_TYPE_CHANGED": "The schemas at {path} are combined otherwise in the {reader} than in the {writer} schema",
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": (
        "The combined schemas at {path} of the {reader} schema are not each like one of the {writer} schema"
    ),
    "DEPENDENCY_ARRAY_CHANGED": "The property at {path} needs others in the {reader} schema than in the {writer} schema",
    "PATTERN_CHANGED": "The pattern at {path} of the {reader} schema is not that of the {writer} schema",
    "MULTIPLE_OF_CHANGED": "The number at {path} of the {reader} schema is no divisor of that of the {writer} schema",
}
_BY_ENDING = {
    "_FROM_CLOSED_CONTENT_MODEL": "The {reader} schema does not take what stands at {path} of the {writer} schema",
    "_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The {writer} schema has at {path} what the {reader} schema takes only as something else"
    ),
    "_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "The {reader} schema has at {path} what the {writer} schema also takes as something else"
    ),
    "_ADDED": "The {reader} schema has {path}, which narrows what it takes, and the {writer} schema has not",
    "_REMOVED": "The {reader} schema takes nothing beyond what it names at {path}, and the {writer} schema does",
    "_INCREASED": "The value at {path} is more in the {reader} schema than in the {writer} schema",
    "_DECREASED": "The value at {path} is less in the {reader} schema than in the {writer} schema",
    "_EXPANDED": "The value at {path} is a multiple, in the {reader} schema, of that in the {writer} schema",
    "_NARROWED": "The {reader} schema takes less at {path} than the {writer} schema",
    "_EXTENDED": "The {reader} schema asks for more at {path} than the {writer} schema",
    "_CHANGED": "What stands at {path} of the {reader} schema is something else than in the {writer} schema",
}


def _sentence(kind: str) -> str:
    return _SENTENCES.get(kind) or next(text for ending, text in _BY_ENDING.items() if kind.endswith(ending))
