"""The topics that case.json names: what exists before the statements, with schemas in the case's registry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.sql.errors import SqlError
from ottla.sql.formats.registry import subject_of

if TYPE_CHECKING:
    from ottla.schemas import ParsedSchema, SchemaReference
    from ottla.serdes import KnownSchema, SchemaText
    from ottla.sql.testing.registry import CaseRegistry

_TYPES = {None: "AVRO", "AVRO": "AVRO", "JSON": "JSON", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}


@dataclass(slots=True)
class LazyRegistry:
    """A case's registry, made with the schemas of its topics when it is first asked: most cases have none."""

    topics: Iterable[Mapping[str, object]] = ()
    _made: CaseRegistry | None = field(default=None, repr=False)

    @property
    def _registry(self) -> CaseRegistry:
        if self._made is None:
            from ottla.sql.testing.registry import CaseRegistry

            self._made = CaseRegistry()
            for topic in self.topics:
                _register(topic, self._made)
        return self._made

    def register(self, subject: str, schema: SchemaText) -> KnownSchema:
        """See `SchemaRegistry`."""
        return self._registry.register(subject, schema)

    def latest(self, subject: str) -> KnownSchema:
        """See `SchemaRegistry`."""
        return self._registry.latest(subject)

    def by_id(self, number: int) -> SchemaText:
        """See `SchemaRegistry`."""
        return self._registry.by_id(number)

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        """See `SchemaRegistry`."""
        return self._registry.parsed(schema)


def _register(topic: Mapping[str, object], registry: CaseRegistry) -> None:
    """Register a topic's schemas, each under its id where it says one; raises SqlError for what is none."""
    from ottla.schemas import SchemaType
    from ottla.serdes import SchemaText, SerdeError

    name = str(topic.get("name", ""))
    for side in ("key", "value"):
        given = topic.get(f"{side}Schema")
        if given is None:
            continue
        format_ = topic.get(f"{side}Format")
        type_ = _TYPES.get(None if format_ is None else str(format_).upper())
        if type_ is None:
            raise SqlError(f"topic {name}: a {side}Schema of the {side}Format {format_} is none of a registry")
        number, referred = topic.get(f"{side}SchemaId"), topic.get(f"{side}SchemaReferences")
        if number is None and referred:
            number = registry.next_id
        try:
            references = _references(referred, type_, registry, number if isinstance(number, int) else 0)
            schema = SchemaText(SchemaType(type_), _text(given, type_), references)
            subject = subject_of(name, is_key=side == "key")
            registry.register(subject, schema, number if isinstance(number, int) else None)
        except SerdeError as error:
            raise SqlError(f"topic {name}: {error}") from None


def _text(schema: object, type_: str) -> str:
    return schema if isinstance(schema, str) and type_ == "PROTOBUF" else json.dumps(schema, default=str)


def _references(given: object, type_: str, registry: CaseRegistry, referring: int) -> tuple[SchemaReference, ...]:
    """Register what a schema refers to, each under its own name, with ids behind that of the one that refers to it."""
    from ottla.schemas import SchemaReference, SchemaType
    from ottla.serdes import SchemaText

    found: list[SchemaReference] = []
    for each in given if isinstance(given, Sequence) and not isinstance(given, str) else ():
        name = str(each["name"])
        number = max(registry.next_id, referring + 1)
        registry.register(name, SchemaText(SchemaType(type_), _text(each["schema"], type_), tuple(found)), number)
        found.append(SchemaReference(name, name, 1))
    return tuple(found)
