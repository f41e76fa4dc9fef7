"""What a schema of any format can do with values, and which module does it."""

from __future__ import annotations

from typing import Any, Protocol

from ottla.base import ConfigError, bring_extra
from ottla.schemas import ParsedSchema, SchemaType

__all__ = ["Codec", "codec_of"]


class Codec(Protocol):
    """One schema's encoder and decoder. All of it raises SerdeError, and nothing else."""

    def encode(self, value: Any, indexes: tuple[int, ...] | None = None) -> bytes:
        """Return a value's payload; `indexes` is the path to a Protobuf message's type."""

    def decode(self, data: bytes, indexes: tuple[int, ...] | None = None) -> Any:
        """Return the value of a payload."""

    def to_json(self, value: Any) -> str:
        """Return a decoded value as the text that consoles print, on one line."""

    def from_json(self, text: str, indexes: tuple[int, ...] | None = None) -> Any:
        """Return the value of such a text."""

    def path_to(self, name: str | None) -> tuple[int, ...] | None:
        """Return the path to a message's type, by default the first; None for formats without messages."""

    def name(self, indexes: tuple[int, ...] | None = None) -> str | None:
        """Return the full name of the type, for subjects."""


def codec_of(
    schema: ParsedSchema,
    *,
    validate_json: bool = False,
    logical_types: bool = True,
    named_unions: bool = False,
    json_bytes: bool = False,
) -> Codec:
    """Return a schema's codec; raises ConfigError where its library is not installed, SerdeError where it cannot be."""
    try:
        if schema.schema_type is SchemaType.AVRO:
            from ottla.serdes.codecs.avro import AvroCodec

            return AvroCodec(schema, logical_types=logical_types, named_unions=named_unions)
        if schema.schema_type is SchemaType.JSON:
            from ottla.serdes.codecs.json_schema import JsonSchemaCodec

            return JsonSchemaCodec(schema, validate=validate_json, as_bytes=json_bytes)
        from ottla.serdes.codecs.protobuf import ProtobufCodec

        return ProtobufCodec(schema)
    except ImportError as error:
        text = f"{schema.schema_type} needs the extra `registry`: {bring_extra('registry')} ({error})"
        raise ConfigError("schemaType", schema.schema_type, text, text) from error
