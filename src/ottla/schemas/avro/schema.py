"""An Avro schema with what it refers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.schemas.avro.reading import Parser
from ottla.schemas.avro.types import AvroType, Named
from ottla.schemas.avro.writing import canonical_text, normalized_text
from ottla.schemas.interface import Limits, Resolve, SchemaReference, SchemaType
from ottla.schemas.references import gather

__all__ = ["AvroSchema", "parse_avro"]


@dataclass(frozen=True, eq=False)
class AvroSchema:
    """An Avro schema; equal are those whose canonical texts are."""

    type: AvroType
    references: tuple[SchemaReference, ...] = ()
    referenced: frozenset[str] = frozenset()
    """The full names that its references define."""
    sort: bool = False
    schema_type = SchemaType.AVRO

    @property
    def name(self) -> str | None:
        """Return its full name, where it has one."""
        return self.type.name.full if isinstance(self.type, Named) else None

    def canonical(self) -> str:
        """Return the text that Java's `Schema.toString` gives, what is referred to by name only."""
        return (normalized_text if self.sort else canonical_text)(self.type, self.referenced)

    def normalized(self) -> AvroSchema:
        """Return it with its references, aliases and unknown attributes sorted."""
        ordered = sorted(set(self.references), key=lambda each: (each.subject, each.version, each.name))
        return replace(self, references=tuple(ordered), sort=True)

    def formatted(self, form: str) -> str:
        """Return it with all that it refers to inside (`resolved`), or the canonical text."""
        if form.lower() == "resolved":
            return (normalized_text if self.sort else canonical_text)(self.type)
        return self.canonical()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AvroSchema):
            return NotImplemented
        return self.references == other.references and self.canonical() == other.canonical()

    def __hash__(self) -> int:
        return hash(self.canonical())


def parse_avro(
    text: str, references: Sequence[SchemaReference], resolve: Resolve, *, limits: Limits, new: bool
) -> AvroSchema:
    """Return the schema of a text; a type that references define is known in it."""
    parser = Parser(limits, check_defaults=new)
    for _, each in gather(references, resolve, limits):
        parser.parse(each.text)
    known = frozenset(parser.names)
    return AvroSchema(parser.parse(text), tuple(references), known)
