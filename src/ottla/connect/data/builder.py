"""Building schemas step by step, and the schemas of the plain types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.data.struct import validate_value
from ottla.connect.errors import DataError, SchemaBuilderError

__all__ = [
    "BOOLEAN",
    "BYTES",
    "FLOAT32",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "OPTIONAL_BOOLEAN",
    "OPTIONAL_BYTES",
    "OPTIONAL_FLOAT32",
    "OPTIONAL_FLOAT64",
    "OPTIONAL_INT8",
    "OPTIONAL_INT16",
    "OPTIONAL_INT32",
    "OPTIONAL_INT64",
    "OPTIONAL_STRING",
    "STRING",
    "SchemaBuilder",
]


class SchemaBuilder:
    """Makes a schema: `SchemaBuilder.struct().name("person").field("age", INT32).build()`.

    What is set twice to different values raises SchemaBuilderError, as in Kafka.
    """

    def __init__(self, type_: SchemaType, *, key: Schema | None = None, value: Schema | None = None) -> None:
        self.type = type_
        self._key = key
        self._value = value
        self._set: dict[str, Any] = {}
        self._parameters: dict[str, str] | None = None
        self._fields: dict[str, Field] = {}

    @classmethod
    def int8(cls) -> SchemaBuilder:
        """Begin a schema of 8-bit ints."""
        return cls(SchemaType.INT8)

    @classmethod
    def int16(cls) -> SchemaBuilder:
        """Begin a schema of 16-bit ints."""
        return cls(SchemaType.INT16)

    @classmethod
    def int32(cls) -> SchemaBuilder:
        """Begin a schema of 32-bit ints."""
        return cls(SchemaType.INT32)

    @classmethod
    def int64(cls) -> SchemaBuilder:
        """Begin a schema of 64-bit ints."""
        return cls(SchemaType.INT64)

    @classmethod
    def float32(cls) -> SchemaBuilder:
        """Begin a schema of 32-bit floats."""
        return cls(SchemaType.FLOAT32)

    @classmethod
    def float64(cls) -> SchemaBuilder:
        """Begin a schema of 64-bit floats."""
        return cls(SchemaType.FLOAT64)

    @classmethod
    def boolean(cls) -> SchemaBuilder:
        """Begin a schema of booleans."""
        return cls(SchemaType.BOOLEAN)

    @classmethod
    def string(cls) -> SchemaBuilder:
        """Begin a schema of strings."""
        return cls(SchemaType.STRING)

    @classmethod
    def bytes_(cls) -> SchemaBuilder:
        """Begin a schema of bytes."""
        return cls(SchemaType.BYTES)

    @classmethod
    def array(cls, value: Schema) -> SchemaBuilder:
        """Begin a schema of lists whose elements have the given schema."""
        return cls(SchemaType.ARRAY, value=value)

    @classmethod
    def map(cls, key: Schema, value: Schema) -> SchemaBuilder:
        """Begin a schema of maps."""
        return cls(SchemaType.MAP, key=key, value=value)

    @classmethod
    def struct(cls) -> SchemaBuilder:
        """Begin a schema of structs; `field` adds the fields."""
        return cls(SchemaType.STRUCT)

    def optional(self) -> SchemaBuilder:
        """Allow None."""
        return self._put("optional", True)

    def required(self) -> SchemaBuilder:
        """Forbid None."""
        return self._put("optional", False)

    def default(self, value: Any) -> SchemaBuilder:
        """Set what stands for a value that is not there; raises SchemaBuilderError where it does not fit."""
        self._check("default", value)
        try:
            validate_value(self.build(), value)
        except DataError as error:
            raise SchemaBuilderError("Invalid default value") from error
        self._set["default"] = value
        return self

    def name(self, name: str | None) -> SchemaBuilder:
        """Set the schema's name."""
        return self._put("name", name)

    def version(self, version: int | None) -> SchemaBuilder:
        """Set the schema's version."""
        return self._put("version", version)

    def doc(self, doc: str | None) -> SchemaBuilder:
        """Set what is said of the schema."""
        return self._put("doc", doc)

    def parameter(self, name: str, value: str) -> SchemaBuilder:
        """Set one parameter."""
        return self.parameters({name: value})

    def parameters(self, parameters: Mapping[str, str] | None) -> SchemaBuilder:
        """Set parameters; none at all leaves the schema without."""
        if parameters:
            self._parameters = {**(self._parameters or {}), **parameters}
        return self

    def field(self, name: str, schema: Schema) -> SchemaBuilder:
        """Add a field to a struct."""
        if self.type is not SchemaType.STRUCT:
            raise SchemaBuilderError(f"Cannot create fields on type {self.type}")
        if not name:
            raise SchemaBuilderError("fieldName cannot be null.")
        if name in self._fields:
            raise SchemaBuilderError(f"Cannot create field because of field name duplication {name}")
        self._fields[name] = Field(name, len(self._fields), schema)
        return self

    def build(self) -> Schema:
        """Return the schema as it stands."""
        return Schema(
            self.type,
            optional=bool(self._set.get("optional")),
            default=self._set.get("default"),
            name=self._set.get("name"),
            version=self._set.get("version"),
            doc=self._set.get("doc"),
            parameters=self._parameters,
            fields=tuple(self._fields.values()),
            key_schema=self._key,
            value_schema=self._value,
        )

    def _put(self, key: str, value: Any) -> SchemaBuilder:
        self._check(key, value)
        self._set[key] = value
        return self

    def _check(self, key: str, value: Any) -> None:
        before = self._set.get(key)
        if before is not None and before != value:
            raise SchemaBuilderError(f"Invalid SchemaBuilder call: {key} has already been set.")


def _both(type_: SchemaType) -> tuple[Schema, Schema]:
    return Schema(type_), Schema(type_, optional=True)


INT8, OPTIONAL_INT8 = _both(SchemaType.INT8)
INT16, OPTIONAL_INT16 = _both(SchemaType.INT16)
INT32, OPTIONAL_INT32 = _both(SchemaType.INT32)
INT64, OPTIONAL_INT64 = _both(SchemaType.INT64)
FLOAT32, OPTIONAL_FLOAT32 = _both(SchemaType.FLOAT32)
FLOAT64, OPTIONAL_FLOAT64 = _both(SchemaType.FLOAT64)
BOOLEAN, OPTIONAL_BOOLEAN = _both(SchemaType.BOOLEAN)
STRING, OPTIONAL_STRING = _both(SchemaType.STRING)
BYTES, OPTIONAL_BYTES = _both(SchemaType.BYTES)
