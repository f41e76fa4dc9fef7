"""Cast: fields, or the whole key or value, as another type."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.config import ConfigType
from ottla.connect.config_def import REQUIRED, Importance
from ottla.connect.data import logical
from ottla.connect.data.builder import SchemaBuilder
from ottla.connect.data.conversions import double_of, integer_of, wrapped
from ottla.connect.data.java_text import Float32, java_class, java_text
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct, schema_type_of
from ottla.connect.data.value_text import date_text, double_of_text
from ottla.connect.errors import DataError, config_error
from ottla.connect.transforms.part import (
    PartTransformation,
    copied_basics,
    java_split,
    kept,
    replaces_null,
    require_map,
    require_struct,
    simple_def,
)
from ottla.connect.validators import Lambda, invalid
from ottla.java import float_text

__all__ = ["Cast"]

_PURPOSE = "cast types"
_OUTPUTS = [each for each in SchemaType if each.primitive and each is not SchemaType.BYTES]
_INPUTS = [*_OUTPUTS, SchemaType.BYTES]
_BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}

Casts = dict[str | None, SchemaType]
"""Field -> type; None -> the type of the whole."""


def _listed(types: Sequence[SchemaType]) -> str:
    return "[" + ", ".join(map(str, types)) + "]"


def _type_of(text: str) -> SchemaType:
    name = text.strip().upper()
    if name not in SchemaType.__members__:
        cause = f"java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type.{name}"
        raise invalid(f"Invalid type found in casting spec: {text.strip()}", cause)
    found = SchemaType[name]
    if found not in _OUTPUTS:
        raise config_error(
            f"Cast transformation does not support casting to {found}; supported types are {_listed(_OUTPUTS)}"
        )
    return found


def _parsed(spec: list[str]) -> Casts:
    """Return the casts of a spec; raises ConfigError in Kafka's words."""
    found: Casts = {}
    for mapping in spec:
        parts = java_split(mapping, ":")
        if len(parts) > 2:
            raise invalid("renames", spec, f"Invalid rename mapping: {mapping}")
        if len(parts) == 1:
            found[None] = _type_of(parts[0])
        else:
            found[parts[0].strip()] = _type_of(parts[1])
    if None in found and len(spec) > 1:
        raise config_error(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in "
            "their spec"
        )
    return found


def _check_spec(name: str, value: Any) -> None:
    if not value:
        raise config_error("Must specify at least one field to cast.")
    _parsed(value)


class Cast(PartTransformation):
    """Cast fields or the entire key or value to a specific type, e.g. to force an integer field to a smaller width."""

    config_def = simple_def(
        (
            "spec",
            ConfigType.LIST,
            REQUIRED,
            Lambda(_check_spec, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"),
            Importance.HIGH,
            "List of fields and the type to cast them to of the form field1:type,field2:type to cast fields of Maps or "
            "Structs. A single type to cast the entire value. Valid types are int8, int16, int32, int64, float32, "
            "float64, boolean, and string. Note that binary fields can only be cast to string.",
        ),
        replaces_null(),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._casts = _parsed(settings["spec"])
        self._whole = self._casts.get(None)
        self._with_default: bool = settings["replace.null.with.default"]
        self._schemas = kept(self._schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        value, schema = self.value(record), self.schema(record)
        if value is None:
            return record
        if schema is None:
            return self.with_part(record, None, self._without_schema(value))
        updated = self._schemas(schema)
        if self._whole is not None:
            return self.with_part(record, updated, cast(schema, value, self._whole))
        struct, made = require_struct(value, _PURPOSE), Struct(updated)
        for field in struct.schema.fields:
            each, target = struct.at(field, with_default=self._with_default), self._casts.get(field.name)
            made.put(field.name, each if target is None else cast(field.schema, each, target))
        return self.with_part(record, updated, made)

    def _without_schema(self, value: Any) -> Any:
        if self._whole is not None:
            return cast(None, value, self._whole)
        found = require_map(value, _PURPOSE)
        changed = {
            name: cast(None, found.get(name), target) for name, target in self._casts.items() if name is not None
        }
        return {**found, **changed}

    def _schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            builder = copied_basics(schema, SchemaBuilder(self._whole))
        else:
            builder = copied_basics(schema, SchemaBuilder.struct())
            for field in schema.fields:
                target = self._casts.get(field.name)
                builder.field(field.name, field.schema if target is None else _field_schema(field.schema, target))
        if schema.optional:
            builder.optional()
        if schema.default is not None:
            builder.default(cast(schema, schema.default, builder.type))
        return builder.build()


def _field_schema(schema: Schema, target: SchemaType) -> Schema:
    builder = SchemaBuilder(target)
    if schema.optional:
        builder.optional()
    if schema.default is not None:
        builder.default(cast(schema, schema.default, target))
    return builder.build()


def cast(schema: Schema | None, value: Any, target: SchemaType) -> Any:
    """Return a value as another type; raises DataError."""
    if value is None:
        return None
    type_ = schema_type_of(value) if schema is None else schema.type
    if type_ is None:
        raise DataError(
            f"Cast transformation was passed a value of type {java_class(value)} which is not supported by Connect's "
            "data API"
        )
    if type_ not in _INPUTS:
        raise DataError(
            f"Cast transformation does not support casting from {type_}; supported types are {_listed(_INPUTS)}"
        )
    if target is SchemaType.STRING:
        return float_text(value) if type_ is SchemaType.FLOAT32 else _text(value)
    if isinstance(value, datetime):
        value = logical.ms_of_timestamp(value)
    elif isinstance(value, date):
        value = logical.days_of(value)
    elif isinstance(value, time):
        value = logical.ms_of_day(value)
    if not isinstance(value, bool | int | float | Decimal | str):
        raise DataError(f"Unexpected type in Cast transformation: {java_class(value)}")
    if target is SchemaType.BOOLEAN:
        return value.lower() == "true" if isinstance(value, str) else integer_of(value, 64) != 0
    if target in _BITS:
        return _integer(value, _BITS[target])
    if target not in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        raise DataError(f"{target} is not supported in the Cast transformation.")
    number = double_of_text(value) if isinstance(value, str) else double_of(value)
    if number is None:
        raise _out_of_range(value)
    return Float32(number) if target is SchemaType.FLOAT32 else number


def _out_of_range(value: Any) -> DataError:
    return DataError(f"Value ({value}) was out of range for requested data type")


def _integer(value: bool | int | float | Decimal | str, bits: int) -> int:
    if not isinstance(value, str):
        return integer_of(value, bits)
    number = int(value) if len(value) < 40 and re.fullmatch(r"[+-]?\d+", value, re.ASCII) else 1 << 100
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise _out_of_range(value)
    return wrapped(number, bits)


def _text(value: Any) -> str:
    if isinstance(value, datetime | date | time):
        return date_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return java_text(value)
