"""Avro without a registry: Connect's values as bytes of a schema that stands beside them, as in files, and back.

Schemas and values are those of AvroConverter, so that what goes through a file is what went through a topic.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, cast

from ottla.base import ConfigError
from ottla.connect.data.schema import Schema
from ottla.connect.errors import ConnectError, DataError
from ottla.connect.schema_converters.avro_read import AvroReading
from ottla.connect.schema_converters.avro_write import AvroWriting
from ottla.schemas import InvalidSchemaError, SchemaType, parse
from ottla.serdes import SerdeError, codec_of

__all__ = ["AvroReader", "AvroWriter", "avro_reader", "avro_writer"]


@dataclass(frozen=True)
class AvroWriter:
    """A Connect schema in Avro, and what writes its values."""

    text: str
    """The Avro schema."""
    encode: Callable[[Any], bytes]
    """Returns a value's bytes; raises DataError for one that Avro cannot hold."""


@dataclass(frozen=True)
class AvroReader:
    """An Avro schema in Connect, and what reads its values."""

    schema: Schema
    next: Callable[[IO[bytes]], Any]
    """Reads one value, and leaves the stream behind it; raises DataError for bytes that are none."""


def avro_writer(schema: Schema, *, meta: bool = True, scrub: bool = False) -> AvroWriter:
    """Return what writes values of a schema; raises DataError for what Avro does not allow."""
    node, write = AvroWriting(meta=meta, scrub=scrub, in_files=True).of(schema)
    text = json.dumps(node, ensure_ascii=False, separators=(",", ":"))
    codec = _codec(text, "The schema cannot be written as Avro")

    def encode(value: Any) -> bytes:
        try:
            found: bytes = codec.write(write(value))
        except SerdeError as error:
            raise DataError(f"The value cannot be written as Avro: {error}") from error
        return found

    return AvroWriter(text, encode)


def avro_reader(text: str, *, meta: bool = True, enhanced: bool = False) -> AvroReader:
    """Return what reads values of a schema; raises DataError for what is no Avro schema, or has none in Connect."""
    codec = _codec(text, "The Avro schema cannot be read")
    schema, read = AvroReading(meta=meta, enhanced=enhanced).of(codec.full)

    def take(stream: IO[bytes]) -> Any:
        try:
            found = codec.read(stream)
        except SerdeError as error:
            raise DataError(str(error)) from error
        return read(found)

    return AvroReader(schema, take)


def _codec(text: str, what: str) -> Any:
    try:
        return cast(Any, codec_of(parse(SchemaType.AVRO, text, new=False), logical_types=False, named_unions=True))
    except (InvalidSchemaError, SerdeError) as error:
        raise DataError(f"{what}: {error}") from error
    except ConfigError as error:
        raise ConnectError(str(error)) from error
