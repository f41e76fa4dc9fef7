"""What every format of schemas gives: types that name no format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

__all__ = [
    "DEFAULT_LIMITS",
    "Incompatibility",
    "InvalidSchemaError",
    "Limits",
    "ParsedSchema",
    "Referenced",
    "Resolve",
    "SchemaReference",
    "SchemaType",
]


class SchemaType(StrEnum):
    """The formats, by the names that Confluent's interface gives them."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True)
class SchemaReference:
    """What a schema needs of another subject: a full name (Avro), a URI (JSON Schema) or an import (Protobuf)."""

    name: str
    subject: str
    version: int


class InvalidSchemaError(Exception):
    """A text that is no schema; the message says what is wrong and where."""


@dataclass(frozen=True)
class Referenced:
    """The text of a referenced schema, and what that text refers to itself."""

    text: str
    references: tuple[SchemaReference, ...] = ()


Resolve = Callable[[SchemaReference], Referenced | str]
"""Gives what a reference stands for; a `str` is a text without references of its own.

It is asked once for each subject and version, first for what the schema refers to and then, depth first, for what those
refer to, until everything is there. Where there is no such version it raises InvalidSchemaError (or LookupError).
"""


@dataclass(frozen=True)
class Limits:
    """How large a schema may be with all that it refers to; beyond that it is refused as invalid."""

    text_bytes_max: int = 1 << 20
    total_bytes_max: int = 8 << 20
    depth_max: int = 100
    """Of brackets in a text, and of types within types where they are followed by name."""
    names_max: int = 10_000
    """Types, messages or `$ref`s."""
    references_max: int = 1_000
    compile_seconds_max: float = 10.0
    """Processor time of Protobuf's compiler for one schema."""
    compile_bytes_max: int = 512 << 20
    """Memory of Protobuf's compiler."""


DEFAULT_LIMITS = Limits()


class ParsedSchema(Protocol):
    """A schema that was found to be valid."""

    @property
    def schema_type(self) -> SchemaType:
        """Return its format."""

    @property
    def references(self) -> tuple[SchemaReference, ...]:
        """Return what it refers to, as it was given."""

    @property
    def name(self) -> str | None:
        """Return the full name of its type or first message, or its title."""

    def canonical(self) -> str:
        """Return the text that is stored and answered: the same for all texts that differ in layout only."""

    def normalized(self) -> ParsedSchema:
        """Return the schema of which all that mean the same are the same text."""

    def formatted(self, form: str) -> str:
        """Return it in a form, such as `resolved` or `serialized`; the canonical text where this format has no such form."""


@dataclass(frozen=True)
class Incompatibility:
    """A reason why a reader cannot take what a writer wrote."""

    kind: str
    """Confluent's name for it, such as READER_FIELD_MISSING_DEFAULT_VALUE."""
    path: str
    sentence: str
    """What is wrong, in which {reader}, {writer}, {path} and {info} stand for what they say."""
    info: str = ""

    @property
    def description(self) -> str:
        """Return what is wrong, in a sentence."""
        return self._told("reader", "writer")

    def message(self, *, reader: str, writer: str) -> str:
        """Return it as a registry answers it, with the names that the two schemas have for the user."""
        more = f", additionalInfo:'{self.info}'" if self.info else ""
        return f"{{errorType:'{self.kind}', description:'{self._told(reader, writer)}'{more}}}"

    def _told(self, reader: str, writer: str) -> str:
        return self.sentence.format(reader=reader, writer=writer, path=self.path, info=self.info)
