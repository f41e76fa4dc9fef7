"""From a record to a row: which fields are its primary key, which are written, and how they are taken out.

A shape is worked out once for each pair of schemas, and then only applied. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.connect import ConnectError, Schema, SchemaBuilder, SchemaType, SinkRecord, Struct, data

__all__ = ["KAFKA_COLUMNS", "UNKNOWN", "Shape", "ShapeSettings", "Shaped", "Shapes", "TableField", "where"]

KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")
UNKNOWN = SchemaBuilder.string().optional().name("ottla.null").build()
"""The schema of a field that is null and has no schema: it fits every column, and makes none."""

SHAPES_MAX = 1000

Getter = Callable[[SinkRecord], Any]


@dataclass(frozen=True, slots=True)
class TableField:
    """A field as a column: its name, schema, and whether it is part of the primary key."""

    name: str
    schema: Schema
    is_key: bool

    @property
    def nullable(self) -> bool:
        """Whether its column may be null: never in a key."""
        return not self.is_key and self.schema.optional


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of records of one pair of schemas: those of the key first."""

    fields: tuple[TableField, ...]
    getters: tuple[Getter, ...]
    keys: int
    """How many of the first fields are the primary key."""

    def row(self, record: SinkRecord) -> tuple[Any, ...]:
        """Return a record's values, in the fields' order."""
        return tuple([get(record) for get in self.getters])

    def key(self, record: SinkRecord) -> tuple[Any, ...]:
        """Return the values of a record's primary key."""
        return tuple([get(record) for get in self.getters[: self.keys]])


class Shaped(NamedTuple):
    """A record with its shape."""

    shape: Shape
    record: SinkRecord


@dataclass(frozen=True, slots=True)
class ShapeSettings:
    """What decides a shape."""

    pk_mode: str = "none"
    pk_fields: tuple[str, ...] = ()
    whitelist: frozenset[str] = frozenset()
    delete_enabled: bool = False
    replace_null: bool = True


def where(record: SinkRecord) -> str:
    """Return where a record came from, for messages: never what is in it."""
    return f"the record at offset {record.original_offset} of {record.original_topic}-{record.original_partition}"


class Shapes:
    """The shapes of the records that pass."""

    def __init__(self, settings: ShapeSettings) -> None:
        self.settings = settings
        self._known: dict[tuple[Schema | None, Schema | None, bool], Shape] = {}

    def is_delete(self, record: SinkRecord) -> bool:
        """Return whether a record deletes a row."""
        return record.value is None and self.settings.delete_enabled and self.settings.pk_mode == "record_key"

    def shaped(self, record: SinkRecord) -> Shaped:
        """Return a record's shape, and the record with structs for what had no schema.

        Raises ConnectError for a record that makes no row.
        """
        record = _with_schemas(record)
        deletes = self.is_delete(record)
        pair = (record.key_schema, record.value_schema, deletes)
        shape = self._known.get(pair)
        if shape is None:
            if len(self._known) >= SHAPES_MAX:
                self._known.clear()
            shape = self._known[pair] = self._shape(record, deletes=deletes)
        return Shaped(shape, record)

    def _shape(self, record: SinkRecord, *, deletes: bool) -> Shape:
        fields: dict[str, tuple[TableField, Getter]] = {}
        for name, schema, get in self._keys(record):
            fields[name] = (TableField(name, schema, True), get)
        count = len(fields)
        if not deletes:
            for name, schema, get in self._values(record):
                fields.setdefault(name, (TableField(name, schema, False), get))
        if not fields:
            raise ConnectError(f"No field is left to be written of {where(record)}: see pk.fields and fields.whitelist")
        found = tuple(fields.values())
        return Shape(tuple(each for each, _ in found), tuple(get for _, get in found), count)

    def _keys(self, record: SinkRecord) -> list[tuple[str, Schema, Getter]]:
        settings = self.settings
        match settings.pk_mode:
            case "kafka":
                names = settings.pk_fields or KAFKA_COLUMNS
                schemas = (data.STRING, data.INT32, data.INT64)
                getters: tuple[Getter, ...] = (_topic, _partition, _offset)
                return list(zip(names, schemas, getters, strict=True))
            case "record_key":
                return self._record_key(record)
            case "record_value":
                if not isinstance(record.value, Struct):
                    raise ConnectError(f"pk.mode=record_value needs a struct as value, and {where(record)} has none")
                return self._fields(record, record.value.schema, settings.pk_fields, in_key=False, required=True)
        return []

    def _record_key(self, record: SinkRecord) -> list[tuple[str, Schema, Getter]]:
        names = self.settings.pk_fields
        if record.key is None or record.key_schema is None:
            raise ConnectError(f"pk.mode=record_key needs a key with a schema, and {where(record)} has none")
        if record.key_schema.type is SchemaType.STRUCT:
            return self._fields(record, record.key_schema, names, in_key=True, required=True)
        if not record.key_schema.type.primitive:
            raise ConnectError(
                "pk.mode=record_key needs a primitive or a struct as key, and "
                f"{where(record)} has a {record.key_schema.type}"
            )
        if len(names) != 1:
            raise ConnectError(
                f"The key of {where(record)} is a plain {record.key_schema.type}: pk.fields must name its one column"
            )
        return [(names[0], record.key_schema, _key)]

    def _values(self, record: SinkRecord) -> list[tuple[str, Schema, Getter]]:
        if not isinstance(record.value, Struct):
            needed = "a struct with a schema, or a map, as value"
            if record.value is None:
                needed = "a value, for delete.enabled=true with pk.mode=record_key is not set"
            raise ConnectError(f"The sink needs {needed}, and {where(record)} has {_kind(record.value)}")
        schema = record.value.schema
        wanted = [each.name for each in schema.fields]
        if self.settings.whitelist:
            wanted = [each for each in wanted if each in self.settings.whitelist]
        return self._fields(record, schema, wanted, in_key=False, required=False)

    def _fields(
        self, record: SinkRecord, schema: Schema, names: Sequence[str], *, in_key: bool, required: bool
    ) -> list[tuple[str, Schema, Getter]]:
        """Return fields of a struct; all where none are named and the key is meant."""
        chosen = list(names) or ([each.name for each in schema.fields] if required else [])
        found: list[tuple[str, Schema, Getter]] = []
        for name in chosen:
            field = schema.field(name)
            if field is None:
                side = "key" if in_key else "value"
                listed = ", ".join(each.name for each in schema.fields)
                raise ConnectError(f"pk.fields names {name}, and the {side} of {where(record)} has only {listed}")
            default = field.schema.default if self.settings.replace_null else None
            found.append((name, field.schema, _getter(field.index, default, in_key=in_key)))
        return found


def _topic(record: SinkRecord) -> Any:
    return record.original_topic


def _partition(record: SinkRecord) -> Any:
    return record.original_partition


def _offset(record: SinkRecord) -> Any:
    return record.original_offset


def _key(record: SinkRecord) -> Any:
    return record.key


def _getter(index: int, default: Any, *, in_key: bool) -> Getter:
    if in_key:
        return lambda record: default if (found := record.key.values[index]) is None else found
    if default is None:
        return lambda record: record.value.values[index]
    return lambda record: default if (found := record.value.values[index]) is None else found


def _kind(value: Any) -> str:
    return "none" if value is None else f"a {type(value).__name__} without a schema"


def _with_schemas(record: SinkRecord) -> SinkRecord:
    """Return the record with schemas: of maps as their values show, of plain keys as they are."""
    changes: dict[str, Any] = {}
    if record.value_schema is None and isinstance(record.value, Mapping):
        struct = _struct_of(record.value)
        changes |= {"value": struct, "value_schema": struct.schema}
    if record.key_schema is None and record.key is not None:
        if isinstance(record.key, Mapping):
            struct = _struct_of(record.key)
            changes |= {"key": struct, "key_schema": struct.schema}
        else:
            schema = data.infer_schema(record.key)
            if schema is not None:
                changes["key_schema"] = schema
    made: SinkRecord = record.replace(**changes) if changes else record
    return made


def _struct_of(values: Mapping[Any, Any]) -> Struct:
    builder = SchemaBuilder.struct()
    for name, value in values.items():
        builder = builder.field(str(name), _optional_schema(value))
    made = Struct(builder.build())
    made.values = list(values.values())
    return made


_ANY_MAP = SchemaBuilder.map(data.STRING, data.OPTIONAL_STRING).optional().build()
_ANY_LIST = SchemaBuilder.array(data.OPTIONAL_STRING).optional().build()
_PLAIN = {
    SchemaType.BOOLEAN: data.OPTIONAL_BOOLEAN,
    SchemaType.INT8: data.OPTIONAL_INT8,
    SchemaType.INT16: data.OPTIONAL_INT16,
    SchemaType.INT32: data.OPTIONAL_INT32,
    SchemaType.INT64: data.OPTIONAL_INT64,
    SchemaType.FLOAT32: data.OPTIONAL_FLOAT32,
    SchemaType.FLOAT64: data.OPTIONAL_FLOAT64,
    SchemaType.STRING: data.OPTIONAL_STRING,
    SchemaType.BYTES: data.OPTIONAL_BYTES,
    SchemaType.MAP: _ANY_MAP,
    SchemaType.ARRAY: _ANY_LIST,
}


def _optional_schema(value: Any) -> Schema:
    """Return the schema that a value shows: whole numbers are of 64 bits, and nothing may come later in their place."""
    type_ = data.schema_type_of(value)
    return UNKNOWN if type_ is None else _PLAIN.get(type_, UNKNOWN)
