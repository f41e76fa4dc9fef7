"""Values of one version of a schema in a file of another: `schema.compatibility`, and what a projection fills in."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ottla.connect import DataError, Schema, SchemaType, Struct

__all__ = ["Compatibility", "ends_file", "projected"]

_WIDENING = (
    *(SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64),
    *(SchemaType.FLOAT32, SchemaType.FLOAT64),
)


class Compatibility(Enum):
    """What may stand in one file besides the schema that it was begun with."""

    NONE = "NONE"
    """Nothing: each change of the schema begins a new file."""

    BACKWARD = "BACKWARD"
    """Records of older versions."""

    FORWARD = "FORWARD"
    """Records of newer versions."""

    FULL = "FULL"
    """Records of older versions, and newer versions begin a file."""


def ends_file(compatibility: Compatibility, current: Schema | None, found: Schema | None) -> bool:
    """Return whether a record's schema begins a new file; raises DataError where versions are needed and missing."""
    if current is found or current == found:
        return False
    if compatibility is Compatibility.NONE:
        return True
    if current is None or found is None:
        raise DataError(
            f"schema.compatibility={compatibility.value} needs a schema for each record of a file, or for none"
        )
    if current.version is None or found.version is None:
        raise DataError(f"schema.compatibility={compatibility.value} needs schemas with a version")
    if compatibility is Compatibility.FORWARD:
        return found.version < current.version
    return found.version > current.version


def projected(source: Schema, value: Any, target: Schema) -> Any:
    """Return a value of one schema as one of another; raises DataError where that cannot be."""
    if source is target or source == target:
        return value
    if value is None:
        if target.default is not None:
            return target.default
        if target.optional:
            return None
        raise DataError("A value that is missing cannot be written under a schema that requires it")
    if source.name != target.name:
        raise DataError(f"A value of the schema {source.name} cannot be written under {target.name}")
    if source.type is not target.type:
        return _widened(source, value, target)
    match target.type:
        case SchemaType.STRUCT:
            return _struct(value, target)
        case SchemaType.ARRAY:
            of, to = _of(source.value_schema), _of(target.value_schema)
            return [projected(of, each, to) for each in value]
        case SchemaType.MAP:
            of_key, to_key = _of(source.key_schema), _of(target.key_schema)
            of, to = _of(source.value_schema), _of(target.value_schema)
            return {projected(of_key, key, to_key): projected(of, each, to) for key, each in value.items()}
    return value


def _of(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("An array or map without a schema for what it holds cannot be written under another schema")
    return schema


def _widened(source: Schema, value: Any, target: Schema) -> Any:
    if source.type in _WIDENING and target.type in _WIDENING and target.name is None:
        order = _WIDENING.index
        if order(source.type) < order(target.type):
            return float(value) if target.type in (SchemaType.FLOAT32, SchemaType.FLOAT64) else value
    raise DataError(f"A value of type {source.type} cannot be written as {target.type}")


def _struct(value: Struct, target: Schema) -> Struct:
    made = Struct(target)
    for field in target.fields:
        found = value.schema.field(field.name)
        if found is not None:
            made.values[field.index] = projected(found.schema, value.values[found.index], field.schema)
        elif field.schema.default is not None:
            made.values[field.index] = field.schema.default
        elif not field.schema.optional:
            raise DataError(f"The field {field.name} is required by the file's schema, and the record has none")
    return made
