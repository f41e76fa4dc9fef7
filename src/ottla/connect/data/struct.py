"""Structs, and whether a value fits a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple

from ottla.connect.data.far_times import EndOfDay, FarDate, FarTimestamp
from ottla.connect.data.java_text import Float32, Int8, Int16, Int32, java_class, java_text
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.errors import DataError

__all__ = [
    "DATE",
    "DECIMAL",
    "TIME",
    "TIMESTAMP",
    "SchemaAndValue",
    "Struct",
    "schema_type_of",
    "validate_value",
]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"


class SchemaAndValue(NamedTuple):
    """A value with its schema, which is None where the value has none."""

    schema: Schema | None
    value: Any


class Struct:
    """A value of a struct schema: `struct["field"]` reads with the field's default, `put` and `[...] =` check."""

    __slots__ = ("schema", "values")
    java_name = "org.apache.kafka.connect.data.Struct"

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Make a struct, with the given fields set; raises DataError as `put` does."""
        if schema.type is not SchemaType.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self.values: list[Any] = [None] * len(schema.struct_fields)
        for name, value in {**(values or {}), **named}.items():
            self.put(name, value)

    @classmethod
    def of(cls, schema: Schema, values: list[Any]) -> Struct:
        """Return a struct of one value per field that fit by their making: `put` looks at each."""
        found = object.__new__(cls)
        found.schema, found.values = schema, values
        return found

    def get(self, name: str) -> Any:
        """Return a field, or its default where it is not set; raises DataError for a name that is no field."""
        field = self._look_up(name)
        value = self.values[field.index]
        return field.schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        """Return a field as it was set."""
        return self.values[self._look_up(name).index]

    def at(self, field: Field, *, with_default: bool = True) -> Any:
        """Return the value of a field of this schema."""
        value = self.values[field.index]
        return field.schema.default if value is None and with_default else value

    def put(self, name: str, value: Any) -> Struct:
        """Set a field; raises DataError where the value does not fit the field's schema."""
        field = self._look_up(name)
        validate_value(field.schema, value, name)
        self.values[field.index] = value
        return self

    def validate(self) -> None:
        """Raise DataError where a required field without default is not set, or a value does not fit."""
        for field, value in zip(self.schema.struct_fields, self.values, strict=True):
            schema = field.schema
            if value is None and (schema.optional or schema.default is not None):
                continue
            validate_value(schema, value, field.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields with their defaults, nested structs included, as dictionaries."""
        return {field.name: _plain(self.at(field)) for field in self.schema.struct_fields}

    def _look_up(self, name: str) -> Field:
        field = self.schema.field(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        return field

    __getitem__ = get

    def __setitem__(self, name: str, value: Any) -> None:
        self.put(name, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.schema.field(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in self.schema.struct_fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.values == other.values and self.schema == other.schema

    def __hash__(self) -> int:
        return hash((self.schema, repr(self.values)))

    def __repr__(self) -> str:
        pairs = zip(self.schema.struct_fields, self.values, strict=True)
        return (
            "Struct{" + ",".join(f"{field.name}={java_text(each)}" for field, each in pairs if each is not None) + "}"
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _integer_within(bits: int) -> Callable[[Any], bool]:
    low, high = -(1 << bits), 1 << bits

    def fits(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value < high

    return fits


def _instance_of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


_FLOAT32_MAX = 3.4028235677973362e38
"""What is less than this is one of the floats of 32 bits when it is rounded."""


def _is_float32(value: Any) -> bool:
    return isinstance(value, float) and (abs(value) <= _FLOAT32_MAX or not isfinite(value))


_FITS: dict[SchemaType, Callable[[Any], bool]] = {
    SchemaType.INT8: _integer_within(7),
    SchemaType.INT16: _integer_within(15),
    SchemaType.INT32: _integer_within(31),
    SchemaType.INT64: _integer_within(63),
    SchemaType.FLOAT32: _is_float32,
    SchemaType.FLOAT64: _instance_of(float),
    SchemaType.BOOLEAN: _instance_of(bool),
    SchemaType.STRING: _instance_of(str),
    SchemaType.BYTES: _instance_of(bytes, bytearray, memoryview),
    SchemaType.ARRAY: _instance_of(list, tuple),
    SchemaType.MAP: _instance_of(dict),
    SchemaType.STRUCT: _instance_of(Struct),
}
_FITS_LOGICAL: dict[str, Callable[[Any], bool]] = {
    DECIMAL: _instance_of(Decimal),
    DATE: lambda value: isinstance(value, date | FarDate) and not isinstance(value, datetime),
    TIME: _instance_of(time, EndOfDay),
    TIMESTAMP: _instance_of(datetime, FarTimestamp),
}


def validate_value(schema: Schema, value: Any, field: str | None = None) -> None:
    """Raise DataError, in Kafka's words, where a value does not fit a schema; `field` is named in the message.

    A logical type's value is a `decimal.Decimal`, `datetime.date`, `datetime.time` or `datetime.datetime`.
    """
    _validate(schema, value, "value" if field is None else f'field: "{field}"')


def _validate(schema: Schema, value: Any, location: str) -> None:
    if value is None:
        if not schema.optional:
            raise DataError(f"Invalid value: null used for required {location}, schema type: {schema.type}")
        return
    fits = _FITS_LOGICAL.get(schema.name) if schema.name is not None else None
    if not (fits or _FITS[schema.type])(value):
        named = "" if schema.name is None else f' "{schema.name}"'
        raise DataError(
            f"Invalid Java object for schema{named} with type {schema.type}: {java_class(value)} for {location}"
        )
    if schema.type is SchemaType.STRUCT:
        if value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.validate()
    elif schema.type is SchemaType.ARRAY:
        inner = f"element of array {location}"
        element_schema = _present(schema.value_schema, inner)
        for each in value:
            _validate(element_schema, each, inner)
    elif schema.type is SchemaType.MAP:
        _validate_map(schema, value, location)


def _validate_map(schema: Schema, value: Mapping[Any, Any], location: str) -> None:
    of_key, of_value = f"key of map {location}", f"value of map {location}"
    key_schema, value_schema = _present(schema.key_schema, of_key), _present(schema.value_schema, of_value)
    for key, each in value.items():
        _validate(key_schema, key, of_key)
        _validate(value_schema, each, of_value)


def _present(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {location}")
    return schema


_TYPES: tuple[tuple[tuple[type, ...], SchemaType], ...] = (
    ((bool,), SchemaType.BOOLEAN),
    ((str,), SchemaType.STRING),
    ((Int8,), SchemaType.INT8),
    ((Int16,), SchemaType.INT16),
    ((Int32,), SchemaType.INT32),
    ((Float32,), SchemaType.FLOAT32),
    ((float,), SchemaType.FLOAT64),
    ((dict,), SchemaType.MAP),
    ((list, tuple), SchemaType.ARRAY),
    ((bytes, bytearray, memoryview), SchemaType.BYTES),
    ((Struct,), SchemaType.STRUCT),
)


def schema_type_of(value: Any) -> SchemaType | None:
    """Return the type of a value without a schema; None where Connect has none for it (a Decimal, a datetime)."""
    for kinds, type_ in _TYPES:
        if isinstance(value, kinds):
            return type_
    if isinstance(value, int):
        return SchemaType.INT64 if -(1 << 63) <= value < 1 << 63 else None
    return None
