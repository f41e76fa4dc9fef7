"""Protobuf's messages as Connect's schemas, and what makes Connect's values of messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ottla.connect.data import (
    DATE_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Float32,
    SchemaBuilder,
    decimal_of_bytes,
    decimal_schema,
    time_of_ms,
    timestamp_of_ms,
)
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.schema_converters import sum_types
from ottla.connect.schema_converters.protobuf_words import (
    DECIMAL,
    ENUM,
    PRECISION_KEY,
    TAG,
    UNION,
    WRAPPED,
    WRAPPERS,
    Options,
)

__all__ = ["ProtobufReading"]

Read = Callable[[Any], Any]
Get = Callable[[Any], Any]
"""Gives a field of a message, None where it is not set."""
_INTS = {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32}
_LONGS = {
    *(FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_INT64),
    *(FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_FIXED64),
    FieldDescriptor.TYPE_SFIXED64,
}
_OTHERS: dict[int, SchemaType] = {
    FieldDescriptor.TYPE_FLOAT: SchemaType.FLOAT32,
    FieldDescriptor.TYPE_DOUBLE: SchemaType.FLOAT64,
    FieldDescriptor.TYPE_BOOL: SchemaType.BOOLEAN,
    FieldDescriptor.TYPE_STRING: SchemaType.STRING,
    FieldDescriptor.TYPE_BYTES: SchemaType.BYTES,
}
_NESTED = {FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP}
_WRAPPER_NAMES = {f"google.protobuf.{name}" for name in WRAPPERS}
_DEPTH_MAX = 100
_NANOS_PER_MS = 1_000_000
_FIELD_META = 1088


def _meta_class() -> Any:
    """Return a message of which the field that Confluent's notes on fields have is the only one."""
    file = FileDescriptorProto(name="notes.proto", package="ottla", syntax="proto3")
    meta = file.message_type.add(name="Meta")
    entry = DescriptorProto(name="ParamsEntry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL, type=9)
    meta.nested_type.append(entry)
    meta.field.add(name="params", number=2, label=3, type=11, type_name=".ottla.Meta.ParamsEntry")
    notes = file.message_type.add(name="Notes")
    notes.field.add(name="meta", number=_FIELD_META, label=1, type=11, type_name=".ottla.Meta")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("ottla.Notes"))


_Notes = _meta_class()


class ProtobufReading:
    """Reads one message's descriptor."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._open: list[str] = []
        self._unions = 0

    def of(self, descriptor: Any) -> tuple[Schema, Read]:
        """Return the Connect schema of a message, and what reads messages; raises DataError for what Connect has not."""
        if self._options.raw_primitives and descriptor.full_name in _WRAPPER_NAMES:
            field = descriptor.fields[0]
            builder, read = self._scalar(field)
            return builder.build(), lambda message: read(message.value)
        builder, read = self._struct(descriptor)
        return builder.build(), read

    def _struct(self, descriptor: Any) -> tuple[SchemaBuilder, Read]:
        name = descriptor.full_name
        if name in self._open or len(self._open) > _DEPTH_MAX:
            raise DataError(f"The Protobuf message {name} holds itself, which no schema of Connect can")
        self._open.append(name)
        builder = SchemaBuilder.struct().name(name if self._options.enhanced else descriptor.name)
        gets: list[Get] = []
        for index, oneof in enumerate(each for each in descriptor.oneofs if not _is_synthetic(each)):
            if self._options.flatten_unions:
                for each in oneof.fields:
                    schema, get = self._field(each, in_union=True)
                    builder.field(each.name, schema)
                    gets.append(get)
            else:
                schema, get = self._oneof(oneof)
                builder.field(f"{oneof.name}_{index}" if self._options.union_index else oneof.name, schema)
                gets.append(get)
        for each in descriptor.fields:
            if each.containing_oneof is None or _is_synthetic(each.containing_oneof):
                schema, get = self._field(each)
                builder.field(each.name, schema)
                gets.append(get)
        self._open.pop()
        made: list[Schema] = []

        def struct(message: Any) -> Struct:
            if not made:
                made.append(builder.build())  # described by now, and optional where it is
            found = Struct(made[0])
            found.values = [get(message) for get in gets]
            return found

        return builder, struct

    def _oneof(self, oneof: Any) -> tuple[Schema, Get]:
        builder = SchemaBuilder.struct().optional()
        if self._options.generalized:
            name = sum_types.union_name(self._unions)
            self._unions += 1
            builder.name(name).parameter(sum_types.UNION, oneof.name)
        else:
            builder.name(f"{UNION}.{oneof.name}")
        gets: dict[str, tuple[int, Get]] = {}
        for index, each in enumerate(oneof.fields):
            schema, get = self._field(each, in_union=True)
            builder.field(each.name, schema)
            gets[each.name] = index, get
        schema, name = builder.build(), oneof.name

        def union(message: Any) -> Struct | None:
            which = message.WhichOneof(name)
            if which is None:
                return None
            index, get = gets[which]
            found = Struct(schema)
            found.values[index] = get(message)
            return found

        return schema, union

    def _field(self, field: Any, *, in_union: bool = False) -> tuple[Schema, Get]:
        """Return a field's schema, and what gives its values."""
        if field.type in _NESTED and _is_map(field.message_type) and field.is_repeated:
            builder, get = self._map(field)
        elif field.is_repeated:
            inner, read = self._single(field)
            builder = SchemaBuilder.array(inner.optional().build())
            get = _repeated(field.name, read)
        else:
            builder, read = self._single(field)
            get = self._getter(field, read, in_union=in_union)
        return self._described(field, builder, in_union), get

    def _described(self, field: Any, builder: SchemaBuilder, in_union: bool = False) -> Schema:
        if self._is_optional(field, in_union):
            builder.optional()
        return builder.parameter(TAG, str(field.number)).build()

    def _is_optional(self, field: Any, in_union: bool) -> bool:
        if field.is_repeated:
            return not self._options.optional_nullables
        if field.type in _NESTED or in_union:
            return True
        if self._options.optional_nullables:
            return self._has_label(field)
        return not self._options.wrapper_nullables

    def _has_label(self, field: Any) -> bool:
        """Return whether a field says `optional`."""
        if field.containing_oneof is not None:
            return _is_synthetic(field.containing_oneof)
        return bool(self._options.optional_proto2 and field.has_presence and not field.is_required)

    def _getter(self, field: Any, read: Read, *, in_union: bool) -> Get:
        name = field.name
        if field.type in _NESTED and self._options.struct_for_nulls and not in_union:
            return lambda message: read(getattr(message, name))
        if field.type in _NESTED or in_union or (field.has_presence and self._has_label(field)):
            return lambda message: read(getattr(message, name)) if message.HasField(name) else None
        return lambda message: read(getattr(message, name))

    def _single(self, field: Any) -> tuple[SchemaBuilder, Read]:
        if field.type not in _NESTED:
            return self._scalar(field)
        name = field.message_type.full_name
        match name:
            case "confluent.type.Decimal":
                return _decimal(_notes(field))
            case "google.type.Date":
                return SchemaBuilder.int32().name(DATE_SCHEMA.name).version(1), _date
            case "google.type.TimeOfDay":
                return SchemaBuilder.int32().name(TIME_SCHEMA.name).version(1), _time
            case "google.protobuf.Timestamp":
                return SchemaBuilder.int64().name(TIMESTAMP_SCHEMA.name).version(1), _timestamp
        if (self._options.wrapper_nullables or self._options.unwrapped) and name in _WRAPPER_NAMES:
            builder, read = self._scalar(field.message_type.fields[0], _notes(field))
            if self._options.unwrapped:
                builder.parameter(WRAPPED, "true")
            return builder, lambda message: read(message.value)
        return self._struct(field.message_type)

    def _scalar(self, field: Any, notes: dict[str, str] | None = None) -> tuple[SchemaBuilder, Read]:
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self._enum(field.enum_type)
        if field.type in _INTS:
            narrow = (_notes(field) if notes is None else notes).get("connect.type")
            kind = SchemaType(narrow) if narrow in ("int8", "int16") else SchemaType.INT32
            return SchemaBuilder(kind), int
        if field.type in _LONGS:
            return SchemaBuilder.int64(), _signed
        kind = _OTHERS[field.type]
        return SchemaBuilder(kind), Float32 if kind is SchemaType.FLOAT32 else lambda value: value

    def _enum(self, descriptor: Any) -> tuple[SchemaBuilder, Read]:
        builder = SchemaBuilder.int32() if self._options.int_enums else SchemaBuilder.string()
        name = descriptor.full_name if self._options.enhanced else descriptor.name
        builder.name(name)
        word = sum_types.ENUM if self._options.generalized else ENUM
        builder.parameters({word: name, **{f"{word}.{each.name}": str(each.number) for each in descriptor.values}})
        if self._options.int_enums:
            return builder, int
        names = {each.number: each.name for each in reversed(descriptor.values)}
        return builder, lambda number: names.get(number, f"UNKNOWN_ENUM_VALUE_{descriptor.name}_{number}")

    def _map(self, field: Any) -> tuple[SchemaBuilder, Get]:
        entry = field.message_type
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        of_key, read_key = self._single(key)
        of_value, read_value = self._single(value)
        key_schema, value_schema = self._described(key, of_key), self._described(value, of_value)
        builder = SchemaBuilder.map(key_schema, value_schema).name(_map_name(entry.name))
        name = field.name
        if entry.GetOptions().map_entry:
            return builder, lambda message: {
                read_key(each): read_value(found) for each, found in getattr(message, name).items()
            }
        return builder, lambda message: {read_key(each.key): read_value(each.value) for each in getattr(message, name)}


def _is_synthetic(oneof: Any) -> bool:
    """Return whether a oneof stands for the word `optional` only."""
    return len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}" and oneof.fields[0].has_presence


def _is_map(descriptor: Any) -> bool:
    names = [each.name for each in descriptor.fields]
    return descriptor.name.endswith("Entry") and names == ["key", "value"]


def _map_name(entry: str) -> str:
    """Return a map's name: that of its entries' message, as fields are named."""
    return re.sub(r"(?<=.)(?=[A-Z])", "_", entry.removesuffix("Entry")).lower()


def _notes(field: Any) -> dict[str, str]:
    """Return Confluent's notes on a field."""
    try:
        return dict(_Notes.FromString(field.GetOptions().SerializeToString()).meta.params)
    except DecodeError:
        return {}


def _repeated(name: str, read: Read) -> Get:
    return lambda message: [read(each) for each in getattr(message, name)]


def _signed(value: int) -> int:
    """Return a number of 64 bits as Java's long has it."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _decimal(notes: dict[str, str]) -> tuple[SchemaBuilder, Read]:
    scale = notes.get("scale", "0")
    scale = scale if re.fullmatch(r"-?[0-9]{1,9}", scale) else "0"
    builder = SchemaBuilder.bytes_().name(DECIMAL).version(1).parameter("scale", scale)
    if notes.get("precision", "").isdigit():
        builder.parameter(PRECISION_KEY, notes["precision"])
    return builder, lambda message: decimal_of_bytes(decimal_schema(message.scale), message.value)


def _date(message: Any) -> date:
    try:
        return date(message.year, message.month, message.day)
    except ValueError as error:
        raise DataError(f"There is no date {message.year}-{message.month}-{message.day}: {error}") from error


def _time(message: Any) -> Any:
    seconds = (message.hours * 60 + message.minutes) * 60 + message.seconds
    return time_of_ms(seconds * 1000 + message.nanos // _NANOS_PER_MS)


def _timestamp(message: Any) -> Any:
    return timestamp_of_ms(message.seconds * 1000 + message.nanos // _NANOS_PER_MS)
