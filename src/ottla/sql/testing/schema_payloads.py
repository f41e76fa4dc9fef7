"""Keys and values of formats with schemas, as cases show them ↔ bytes: by the topic's schema, whatever columns say."""

from __future__ import annotations

from typing import Any

from ottla.base import ExactDecoder
from ottla.connect import DataError
from ottla.serdes import Codec, KnownSchema, SchemaId, SchemaText, SerdeError, split_prefix
from ottla.sql.errors import SqlError
from ottla.sql.formats import connected
from ottla.sql.formats.json import compact_text
from ottla.sql.formats.registered import mapping_of, message_path, schema_codec
from ottla.sql.formats.registry import SchemaForm, SchemaRegistry

_PREFIX_BYTES = 5
_FAILURES = (DataError, SerdeError, ValueError, KeyError, TypeError, ArithmeticError, SqlError)


def encoded(
    value: object, format_: str, form: SchemaForm, schema: KnownSchema, registry: SchemaRegistry | None
) -> bytes:
    """The bytes of a value as a case shows it, written with a schema; raises SqlError for one that does not fit."""
    if format_ == "JSON_SR":
        return SchemaId(schema.id).prefix() + compact_text(value).encode()
    try:
        codec = schema_codec(schema.schema, registry)
        path = message_path(codec, form.full_name)
        mapping = mapping_of(format_, form)
        connect, _ = mapping.reading(codec, path)
        plain = mapping.writing(connect).write(connected.from_shown(value, connect))
        data = codec.encode(plain, path)
    except _FAILURES as error:
        raise SqlError(f"{value!r} cannot be written as {format_}: {error}") from None
    return data if format_ == "PROTOBUF_NOSR" else SchemaId(schema.id, None, path).prefix() + data


def decoded(data: bytes, format_: str, form: SchemaForm, own: SchemaText, registry: SchemaRegistry | None) -> object:
    """A value as a case shows it; `own` is the schema where the bytes name none."""
    if format_ == "JSON_SR":
        return _json_shown(data, format_, form, own, registry)
    schema, path, rest = own, None, data
    if format_ != "PROTOBUF_NOSR":
        found, rest = split_prefix(data, has_indexes=format_ == "PROTOBUF")
        path = found.indexes
        if found.id and registry is not None:
            schema = registry.by_id(found.id)
    codec = schema_codec(schema, registry)
    connect, read = mapping_of(format_, form).reading(codec, path)
    return connected.shown(read(_decoded(codec, rest, path)), connect)


def _json_shown(
    data: bytes, format_: str, form: SchemaForm, own: SchemaText, registry: SchemaRegistry | None
) -> object:
    """JSON as it is, but for maps, which the schema tells from arrays: they are objects, written as entries or not."""
    value: object = ExactDecoder(float).of_bytes(data[_PREFIX_BYTES:])
    id_ = split_prefix(data, has_indexes=False)[0].id
    schema = registry.by_id(id_) if id_ and registry is not None else own
    connect, _ = mapping_of(format_, form).reading(schema_codec(schema, registry), None)
    return connected.with_maps(value, connect)


def _decoded(codec: Codec, data: bytes, path: tuple[int, ...] | None) -> Any:
    return codec.decode(data, path)
