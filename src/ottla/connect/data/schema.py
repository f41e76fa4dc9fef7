"""Schemas: a type with its name, version, default and fields, as immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from ottla.connect.errors import DataError

__all__ = ["Field", "Schema", "SchemaType"]


class SchemaType(Enum):
    """The types of Connect's data; the value is the type's name in schemas of JSON."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    def __str__(self) -> str:
        return self.name

    @property
    def primitive(self) -> bool:
        """True for what holds no other values."""
        return self not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)


class Schema:
    """What a value is; equal by content, hashed once. `SchemaBuilder` makes them."""

    __slots__ = (
        "_by_name",
        "_hash",
        "default",
        "doc",
        "key_schema",
        "name",
        "optional",
        "parameters",
        "struct_fields",
        "type",
        "value_schema",
        "version",
    )

    def __init__(
        self,
        type_: SchemaType,
        *,
        optional: bool = False,
        default: Any = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: tuple[Field, ...] = (),
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
    ) -> None:
        self.type = type_
        self.optional = optional
        self.default = default
        self.name = name
        self.version = version
        self.doc = doc
        self.parameters = None if parameters is None else MappingProxyType(dict(parameters))
        self.struct_fields = fields
        self._by_name = {field.name: field for field in fields}
        self.key_schema = key_schema
        self.value_schema = value_schema
        self._hash: int | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of a struct, in order; raises DataError for any other type."""
        if self.type is not SchemaType.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        return self.struct_fields

    def field(self, name: str) -> Field | None:
        """Return a struct's field, or None where it has none of that name; raises DataError for any other type."""
        if self.type is not SchemaType.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

    def parameter(self, name: str) -> str | None:
        """Return one of the schema's parameters."""
        return None if self.parameters is None else self.parameters.get(name)

    def with_optional(self, optional: bool) -> Schema:
        """Return the same schema, without a default, that allows None or does not."""
        return Schema(
            self.type,
            optional=optional,
            name=self.name,
            version=self.version,
            doc=self.doc,
            parameters=self.parameters,
            fields=self.struct_fields,
            key_schema=self.key_schema,
            value_schema=self.value_schema,
        )

    def _content(self) -> tuple[Any, ...]:
        parameters = None if self.parameters is None else dict(self.parameters)
        flat = (self.type, self.optional, self.name, self.version, self.doc, self.struct_fields)
        return (*flat, self.key_schema, self.value_schema, parameters)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema) or hash(self) != hash(other):
            return False
        return self._content() == other._content() and _same(self.default, other.default)

    def __hash__(self) -> int:
        if self._hash is None:
            parts = (self.type, self.optional, self.name, self.version, self.doc, self.struct_fields)
            self._hash = hash((*parts, self.key_schema, self.value_schema))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        parameters = None if self.parameters is None else dict(self.parameters)
        flat = (self.type, self.optional, self.default, self.name, self.version, self.doc, parameters)
        return _rebuilt, (*flat, self.struct_fields, self.key_schema, self.value_schema)

    def __repr__(self) -> str:
        return f"Schema{{{self.name}:{self.type}}}" if self.name is not None else f"Schema{{{self.type}}}"


def _same(one: Any, other: Any) -> bool:
    """Compare defaults: NaN is NaN, as in Java."""
    return bool(one == other or (one != one and other != other))


class Field:
    """A struct's field: its name, place and schema."""

    __slots__ = ("index", "name", "schema")

    def __init__(self, name: str, index: int, schema: Schema) -> None:
        self.name = name
        self.index = index
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Field):
            return NotImplemented
        return self.index == other.index and self.name == other.name and self.schema == other.schema

    def __hash__(self) -> int:
        return hash((self.name, self.index, self.schema))

    def __repr__(self) -> str:
        return f"Field{{name={self.name}, index={self.index}, schema={self.schema}}}"


def _rebuilt(
    type_: SchemaType,
    optional: bool,
    default: Any,
    name: str | None,
    version: int | None,
    doc: str | None,
    parameters: dict[str, str] | None,
    fields: tuple[Field, ...],
    key_schema: Schema | None,
    value_schema: Schema | None,
) -> Schema:
    """Return the schema that was pickled: a mapping proxy cannot travel."""
    return Schema(
        type_,
        optional=optional,
        default=default,
        name=name,
        version=version,
        doc=doc,
        parameters=parameters,
        fields=fields,
        key_schema=key_schema,
        value_schema=value_schema,
    )
