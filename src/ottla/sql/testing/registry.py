"""The schema registry of a test case: subjects in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.schemas import InvalidSchemaError, Level, ParsedSchema, Referenced, SchemaReference, check, parse
from ottla.serdes import KnownSchema, SchemaText, SerdeError


@dataclass(slots=True)
class CaseRegistry:
    """A `SchemaRegistry` without a server. A schema has one id under all subjects.

    As that of ksqlDB's test runner it takes every version, unless a `level` is asked for: what a subject's next version may
    be is the setting of a real registry, and no case's.
    """

    level: Level = Level.NONE
    _subjects: dict[str, list[KnownSchema]] = field(default_factory=dict)
    _texts: dict[int, SchemaText] = field(default_factory=dict)
    _parsed: dict[SchemaText, ParsedSchema] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[CaseRegistry], tuple[object, ...]]:
        """What travels are the texts: they are parsed anew where they are needed."""
        return CaseRegistry, (self.level, self._subjects, self._texts)

    def register(self, subject: str, schema: SchemaText, number: int | None = None) -> KnownSchema:
        """See `SchemaRegistry`; `number` is the id that it shall have. Raises SerdeError for what does not fit."""
        new = self.parsed(schema)
        versions = self._subjects.setdefault(subject, [])
        known = next((each for each in versions if self.parsed(each.schema).canonical() == new.canonical()), None)
        if known is not None:
            return known
        older = [(at, self.parsed(each.schema)) for at, each in enumerate(versions, 1)]
        reasons = check(self.level, new, older)
        if reasons:
            raise SerdeError(
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
                f"details: [{', '.join(reasons)}]"
            )
        found = KnownSchema(schema, self._id_of(schema) if number is None else number)
        assert found.id is not None
        self._texts[found.id] = schema
        versions.append(found)
        return found

    def _id_of(self, schema: SchemaText) -> int:
        known = next((number for number, text in self._texts.items() if text == schema), None)
        return known if known is not None else self.next_id

    @property
    def next_id(self) -> int:
        """The id of the next schema that is new and has none of its own."""
        return max(self._texts, default=0) + 1

    def latest(self, subject: str) -> KnownSchema:
        """See `SchemaRegistry`."""
        versions = self._subjects.get(subject)
        if not versions:
            raise SerdeError(f"Subject '{subject}' not found.")
        return versions[-1]

    def by_id(self, number: int) -> SchemaText:
        """See `SchemaRegistry`."""
        if number not in self._texts:
            raise SerdeError(f"Schema {number} not found")
        return self._texts[number]

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        """See `SchemaRegistry`."""
        if schema not in self._parsed:
            try:
                self._parsed[schema] = parse(schema.schema_type, schema.text, schema.references, self._referenced)
            except InvalidSchemaError as error:
                raise SerdeError(f"The {schema.schema_type} schema cannot be used: {error}") from None
        return self._parsed[schema]

    def _referenced(self, reference: SchemaReference) -> Referenced:
        versions = self._subjects.get(reference.subject, [])
        if not 1 <= reference.version <= len(versions):
            raise LookupError(reference.name)
        schema = versions[reference.version - 1].schema
        return Referenced(schema.text, schema.references)
