"""AVRO, PROTOBUF, PROTOBUF_NOSR and JSON_SR: rows as bytes by schemas, which stand in a registry.

A record says by the id before its value which schema it was written with. The id 0 stands for the schema that columns
make by themselves, in topics that are inside a query and have none in the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, cast

from ottla.connect import DataError, Schema
from ottla.connect.schema_converters.avro import AvroMapping
from ottla.connect.schema_converters.conversion import FormatMapping, Mapped
from ottla.connect.schema_converters.json_schema import JsonMapping
from ottla.connect.schema_converters.protobuf import ProtobufMapping
from ottla.connect.schema_converters.protobuf_words import Options
from ottla.schemas import InvalidSchemaError, ParsedSchema, SchemaType, parse
from ottla.serdes import Codec as SchemaCodec
from ottla.serdes import SchemaId, SchemaText, SerdeError, codec_of, split_prefix
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.formats import connected
from ottla.sql.formats.codec import Codec, FormatError, Values
from ottla.sql.formats.json import json_codec
from ottla.sql.formats.registry import NAMESPACE, SchemaForm, SchemaRegistry
from ottla.sql.schema import SqlColumn

OWN_ID = 0
CODECS_MAX = 1_000
"""How many schemas are kept ready."""
_AVRO_NAME = f"{NAMESPACE}.KsqlDataSourceSchema"
_PREFIX_BYTES = 5
_FAILURES = (DataError, SerdeError, EvaluationError, ValueError, TypeError, ArithmeticError, RecursionError)


def mapping_of(format_: str, form: SchemaForm, *, unwrapped: bool = True) -> FormatMapping:
    """How a format tells Connect's schemas, with the options that ksqlDB has.

    Protobuf's wrapper messages are what they hold, unless not `unwrapped`: then they are structs.
    """
    if format_ == "AVRO":
        return AvroMapping(meta=False, enhanced=False, scrub=False, generalized=False)
    if format_ == "JSON_SR":
        return JsonMapping(numeric=True, additional=True, required_only=False, generalized=False)
    return ProtobufMapping(
        Options(
            enhanced=True,
            raw_primitives=False,
            optional_nullables=form.nullables == "OPTIONAL",
            wrapper_nullables=form.nullables == "WRAPPER",
            unwrapped=unwrapped,
        )
    )


@lru_cache(CODECS_MAX)
def _parsed(schema: SchemaText) -> ParsedSchema:
    try:
        return parse(schema.schema_type, schema.text)
    except InvalidSchemaError as error:
        raise SerdeError(f"The {schema.schema_type} schema cannot be used: {error}") from None


def schema_codec(schema: SchemaText, registry: SchemaRegistry | None) -> SchemaCodec:
    """The codec of a schema of a registry; raises SerdeError."""
    parsed = registry.parsed(schema) if registry is not None and schema.references else _parsed(schema)
    return _codec(parsed, schema)


@lru_cache(CODECS_MAX)
def _codec_of_text(schema: SchemaText) -> SchemaCodec:
    return codec_of(_parsed(schema), logical_types=False, named_unions=True, json_bytes=True)


def _codec(parsed: ParsedSchema, schema: SchemaText) -> SchemaCodec:
    if not schema.references:
        return _codec_of_text(schema)
    return codec_of(parsed, logical_types=False, named_unions=True, json_bytes=True)


def message_path(codec: SchemaCodec, name: str | None) -> tuple[int, ...] | None:
    """The path to a message's type, None for formats without; a name that is not there is the first message's."""
    try:
        return codec.path_to(name)
    except SerdeError:
        return codec.path_to(None)


def own_schema(format_: str, columns: Sequence[SqlColumn], *, wrapped: bool, form: SchemaForm) -> Mapped:
    """The schema that ksqlDB makes of columns; raises SqlError for what the format cannot tell."""
    return _own(format_, tuple(columns), wrapped, form.full_name, form.nullables)


@lru_cache(CODECS_MAX)
def _own(format_: str, columns: tuple[SqlColumn, ...], wrapped: bool, full_name: str | None, nullables: Any) -> Mapped:
    is_avro = format_ == "AVRO"
    name = full_name or (_AVRO_NAME if is_avro else None)
    try:
        schema = connected.row_schema(columns, wrapped=wrapped, name=name, named=is_avro)
        if is_avro:
            connected.check_avro_names(schema)
        return mapping_of(format_, SchemaForm(full_name, nullables)).writing(schema)
    except DataError as error:
        shown = {"AVRO": "Avro", "JSON_SR": "JSON Schema"}.get(format_, "Protobuf")
        raise SqlError(f"Schema is not compatible with {shown}: {error}") from None


def registered_codec(
    format_: str, columns: Sequence[SqlColumn], *, wrapped: bool, form: SchemaForm, registry: SchemaRegistry | None
) -> Codec:
    """How rows of these columns are bytes in a format with schemas; raises SqlError for what it cannot tell."""
    mapped = own_schema(format_, columns, wrapped=wrapped, form=form)
    side = _Side(format_, tuple(columns), wrapped, form, registry, mapped)
    if format_ == "JSON_SR":
        return _json_codec(side)
    return Codec(side.encode, side.decode)


@dataclass
class _Side:
    """Keys or values of a source: what is made ready for them, when it is first needed."""

    format: str
    columns: tuple[SqlColumn, ...]
    wrapped: bool
    form: SchemaForm
    registry: SchemaRegistry | None
    own: Mapped

    @property
    def has_prefix(self) -> bool:
        """Whether an id stands before a value."""
        return self.format != "PROTOBUF_NOSR"

    @cached_property
    def id(self) -> int:
        """The id of the schema that is written with: the registered one's, where it is what these columns make."""
        known = self.form.known
        same = known is not None and (self.form.schema_id is not None or known.schema.text == self.own.schema.text)
        return known.id or OWN_ID if known is not None and same else OWN_ID

    @cached_property
    def _writing(self) -> tuple[Callable[[Values], Any], SchemaCodec, tuple[int, ...] | None]:
        """What makes of a row what a codec encodes."""
        mapping = mapping_of(self.format, self.form)
        if self.form.schema_id is not None and self.form.known is not None:
            codec = schema_codec(self.form.known.schema, self.registry)
            path = message_path(codec, self.form.full_name)
            if isinstance(mapping, JsonMapping):  # what a schema of others does not require may be left out
                mapping = replace(mapping, required_only=True)
            schema, _ = mapping.reading(codec, path)
            made: Mapped = mapping.writing(schema)
        else:
            codec = schema_codec(self.own.schema, None)
            path = codec.path_to(self.own.message)
            schema, made = self._own_connect(), self.own
        to_connect = self._row_writer(schema)
        return lambda values: made.write(to_connect(values)), codec, path

    def _own_connect(self) -> Schema:
        is_avro = self.format == "AVRO"
        name = self.form.full_name or (_AVRO_NAME if is_avro else None)
        return connected.row_schema(self.columns, wrapped=self.wrapped, name=name, named=is_avro)

    def _row_writer(self, schema: Schema) -> Callable[[Values], Any]:
        if not self.wrapped:
            one = connected.writer(self.columns[0].type, schema)
            return lambda values: one(values[0])
        names = [column.name for column in self.columns]
        write = connected.struct_writer([(column.name, column.type) for column in self.columns], schema)
        return lambda values: write(dict(zip(names, values, strict=True)))

    def encode(self, values: Values | None) -> bytes | None:
        """See `Codec`."""
        if values is None or (not self.wrapped and values[0] is None):
            return None
        try:
            write, codec, path = self._writing
            data = codec.encode(write(values), path)
            return SchemaId(self.id, None, path).prefix() + data if self.has_prefix else data
        except FormatError:
            raise
        except _FAILURES as error:
            whole = tuple(map(_whole, values))
            if whole != values:
                return self.encode(whole)
            raise FormatError(f"Error serializing message to topic: {error}") from None

    def decode(self, data: bytes | None) -> Values | None:
        """See `Codec`."""
        if data is None:
            return None
        try:
            schema, codec, path, rest = self._found(data)
            _, read, to_row = self._reading(schema, path)
            return to_row(read(codec.decode(rest, path)))
        except FormatError:
            raise
        except _FAILURES as error:
            raise FormatError(f"Error deserializing message from topic: {error}") from None

    def _found(self, data: bytes) -> tuple[SchemaText, SchemaCodec, tuple[int, ...] | None, bytes]:
        """What a record was written with, and the bytes behind that."""
        if not self.has_prefix:
            codec = schema_codec(self.own.schema, None)
            return self.own.schema, codec, codec.path_to(self.own.message), data
        found, rest = split_prefix(data, has_indexes=self.format == "PROTOBUF")
        if found.id == OWN_ID or (found.id is not None and found.id == self.id and self.form.schema_id is None):
            schema = self.own.schema
        elif self.registry is None or found.id is None:
            raise SerdeError(f"There is no registry to look the schema {found.id} up in")
        else:
            schema = self.registry.by_id(found.id)
        return schema, schema_codec(schema, self.registry), found.indexes, rest

    def _reading(
        self, schema: SchemaText, path: tuple[int, ...] | None
    ) -> tuple[Schema, Callable[[Any], Any], Callable[[Any], Values | None]]:
        known = self._read_by.get((schema, path))
        if known is None:
            known = self._reading_by(schema_codec(schema, self.registry), path)
            self._read_by[schema, path] = known
        return known

    def _reading_by(
        self, codec: SchemaCodec, path: tuple[int, ...] | None
    ) -> tuple[Schema, Callable[[Any], Any], Callable[[Any], Values | None]]:
        """How rows are read by a schema; columns that are structs may be wrapper messages as they stand there."""
        connect, read = mapping_of(self.format, self.form).reading(codec, path)
        try:
            return connect, read, self._row_reader(connect)
        except FormatError:
            if schema_type(self.format) is not SchemaType.PROTOBUF:
                raise
        connect, read = mapping_of(self.format, self.form, unwrapped=False).reading(codec, path)
        return connect, read, self._row_reader(connect)

    @cached_property
    def _read_by(self) -> dict[Any, Any]:
        return {}

    def _row_reader(self, schema: Schema) -> Callable[[Any], Values | None]:
        if not self.wrapped:
            one = connected.reader(self.columns[0].type, schema)
            return lambda value: None if value is None else (one(value),)
        row = connected.sql_type(schema, upper=False)
        if row is None or row.base != "STRUCT":
            kind = schema.type.name.lower()
            raise FormatError(f"Cannot deserialize type {kind} as type struct for path: ")
        read = connected.struct_reader([(column.name, column.type) for column in self.columns], schema)
        return lambda value: None if value is None else tuple(cast(dict[str, Any], read(value)).values())


def _whole(value: object) -> Any:
    """A value as Java writes it: half a character, which has no UTF-8, is a question mark."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case list():
            return [_whole(each) for each in value]
        case dict():
            return {_whole(key): _whole(each) for key, each in value.items()}
    return value


def _json_codec(side: _Side) -> Codec:
    """JSON behind the id of its schema; what is read is taken as JSON, whatever the schema says of it.

    The schema of a map whose keys may be null tells an array of entries, and readers of Connect hold it to that.
    """
    inner = json_codec(side.columns, wrapped=side.wrapped, entries=True)

    def encode(values: Values | None) -> bytes | None:
        if side.form.schema_id is not None:
            return side.encode(values)
        data = inner.encode(values)
        return None if data is None else SchemaId(side.id).prefix() + data

    def decode(data: bytes | None) -> Values | None:
        if data is None:
            return None
        if len(data) < _PREFIX_BYTES or data[0]:
            raise FormatError("Error deserializing JSON message from topic: Unknown magic byte!")
        return inner.decode(data[_PREFIX_BYTES:])

    return Codec(encode, decode)


def schema_type(format_: str) -> SchemaType:
    """The type of a format's schemas."""
    return {"AVRO": SchemaType.AVRO, "JSON_SR": SchemaType.JSON}.get(format_, SchemaType.PROTOBUF)
