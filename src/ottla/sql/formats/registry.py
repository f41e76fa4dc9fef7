"""What SQL asks of a schema registry, and how one side of a source is told in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from ottla.schemas import ParsedSchema
    from ottla.serdes import KnownSchema, SchemaText

Nullables = Literal["OPTIONAL", "WRAPPER"]
WITH_SCHEMAS: Mapping[str, str] = {"AVRO": "AVRO", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}
"""The formats whose schemas are in the registry, and the names of their schemas' types there."""
NAMESPACE = "io.confluent.ksql.avro_schemas"


class SchemaRegistry(Protocol):
    """A registry: `ottla.serdes.Registry`, or the one of a test case. All of it raises SerdeError."""

    def register(self, subject: str, schema: SchemaText) -> KnownSchema:
        """Return a schema's id, registered under the subject where it is not yet."""

    def latest(self, subject: str) -> KnownSchema:
        """Return the subject's newest version."""

    def by_id(self, number: int) -> SchemaText:
        """Return the schema of an id."""

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        """Return what a schema means, with all that it refers to."""


@dataclass(frozen=True, slots=True)
class SchemaForm:
    """How the keys or the values of a source are told in a schema of their format."""

    full_name: str | None = None
    """Of the record or message; None for the format's own."""
    nullables: Nullables | None = None
    """How Protobuf tells null from a default value; None where it does not."""
    schema_id: int | None = None
    """The id of the schema that WITH names: rows are then written as it says, not as their columns do."""
    known: KnownSchema | None = None
    """What is registered of them."""


def subject_of(topic: str, *, is_key: bool) -> str:
    """The subject of a topic's keys or values."""
    return f"{topic}-{'key' if is_key else 'value'}"


def key_schema_name(source: str) -> str:
    """The name of the Avro schema of a source's keys: it has the source's name, so that no two are the same."""
    return f"{NAMESPACE}.{''.join(part.capitalize() for part in source.split('_'))}Key"
