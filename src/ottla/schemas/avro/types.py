"""What Avro schemas consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ottla.schemas.json_text import JsonValue

__all__ = [
    "PRIMITIVES",
    "Array",
    "AvroType",
    "Enumeration",
    "Field",
    "Fixed",
    "Kind",
    "Map",
    "Name",
    "Named",
    "Primitive",
    "Props",
    "Record",
    "Union",
]


class Kind(StrEnum):
    """The types of Avro, as they are spelled in schemas."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"
    RECORD = "record"
    ENUM = "enum"
    FIXED = "fixed"


PRIMITIVES = (Kind.NULL, Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.BYTES, Kind.STRING)

Props = Mapping[str, JsonValue]
"""Attributes that Avro gives no meaning to, in their order; the logical type is one of them."""


@dataclass(frozen=True)
class Name:
    """A full name in its two parts; the namespace is empty for none."""

    namespace: str
    simple: str

    @property
    def full(self) -> str:
        """Return the name with its namespace."""
        return f"{self.namespace}.{self.simple}" if self.namespace else self.simple


@dataclass(frozen=True, eq=False)
class Primitive:
    """A type without parts."""

    kind: Kind
    props: Props = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Array:
    """A list of values of one type."""

    items: AvroType
    props: Props = field(default_factory=dict)
    kind = Kind.ARRAY


@dataclass(frozen=True, eq=False)
class Map:
    """Values of one type under strings."""

    values: AvroType
    props: Props = field(default_factory=dict)
    kind = Kind.MAP


@dataclass(frozen=True, eq=False)
class Union:
    """One of several types."""

    branches: tuple[AvroType, ...]
    kind = Kind.UNION


@dataclass(frozen=True, eq=False)
class Field:
    """A field of a record."""

    name: str
    type: AvroType
    doc: str | None = None
    default: JsonValue = None
    has_default: bool = False
    """Whether readers have a value for what a writer left out; None is a default, too."""
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    props: Props = field(default_factory=dict)


@dataclass(eq=False)
class Record:
    """Fields under names. Its own fields may be of its type, so they are set once, after it has its name."""

    name: Name
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    is_error: bool = False
    props: Props = field(default_factory=dict)
    fields: tuple[Field, ...] = field(default=())
    kind = Kind.RECORD


@dataclass(frozen=True, eq=False)
class Enumeration:
    """One of several symbols."""

    name: Name
    symbols: tuple[str, ...]
    doc: str | None = None
    default: str | None = None
    aliases: tuple[str, ...] = ()
    props: Props = field(default_factory=dict)
    kind = Kind.ENUM


@dataclass(frozen=True, eq=False)
class Fixed:
    """A number of bytes."""

    name: Name
    size: int
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    props: Props = field(default_factory=dict)
    kind = Kind.FIXED


Named = Record | Enumeration | Fixed
AvroType = Primitive | Array | Map | Union | Record | Enumeration | Fixed
