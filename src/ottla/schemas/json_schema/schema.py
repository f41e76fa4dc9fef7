"""A JSON Schema with what it refers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.schemas.interface import Limits, Resolve, SchemaReference, SchemaType
from ottla.schemas.json_schema.documents import Place, root_of, walk
from ottla.schemas.json_schema.drafts import check_validity
from ottla.schemas.json_text import JsonValue, read_json, write_json
from ottla.schemas.references import gather

__all__ = ["JsonSchema", "parse_json_schema"]


@dataclass(frozen=True, eq=False)
class JsonSchema:
    """A JSON Schema; equal are those whose canonical texts are."""

    document: JsonValue
    place: Place
    references: tuple[SchemaReference, ...] = ()
    sort: bool = False
    schema_type = SchemaType.JSON

    @property
    def name(self) -> str | None:
        """Return its title."""
        title = self.document.get("title") if isinstance(self.document, dict) else None
        return title if isinstance(title, str) else None

    def canonical(self) -> str:
        """Return the text on one line, its keys in their order, its numbers as they were written."""
        return write_json(self.document, sort=self.sort)

    def normalized(self) -> JsonSchema:
        """Return it with its keys and references sorted."""
        ordered = sorted(set(self.references), key=lambda each: (each.subject, each.version, each.name))
        return replace(self, references=tuple(ordered), sort=True)

    def formatted(self, form: str) -> str:
        """Return the canonical text: JSON Schema has no other form."""
        return self.canonical()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JsonSchema):
            return NotImplemented
        return self.references == other.references and self.canonical() == other.canonical()

    def __hash__(self) -> int:
        return hash(self.canonical())


def parse_json_schema(
    text: str, references: Sequence[SchemaReference], resolve: Resolve, *, limits: Limits
) -> JsonSchema:
    """Return the schema of a text; each `$ref` has to lead into it, to a reference or to a draft's own schema."""
    room = limits.names_max
    others: dict[str, JsonValue] = {}
    for reference, each in gather(references, resolve, limits):
        if reference.name not in others:
            others[reference.name] = read_json(each.text, limits, exact=True)
            room -= check_validity(others[reference.name], most=room)
    document = read_json(text, limits, exact=True)
    check_validity(document, most=room)
    place = root_of(document, others)
    walk(place, limits)
    return JsonSchema(document, place, tuple(references))
