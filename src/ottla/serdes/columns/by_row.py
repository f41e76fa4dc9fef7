"""JSON Schema's and Protobuf's values as columns' values, one after another, by their codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.schemas import SchemaType
from ottla.serdes.codecs import codec_of
from ottla.serdes.errors import SerdeError
from ottla.serdes.registry import Registry, SchemaText
from ottla.serdes.settings import SerdeSettings
from ottla.serdes.wire import SchemaId, message_indexes

__all__ = ["RowReader"]


class RowReader:
    """Reads rows by the wanted schema: JSON says itself what it holds, and Protobuf's fields have their numbers."""

    def __init__(self, registry: Registry, settings: SerdeSettings, wanted: SchemaText) -> None:
        """Raises SerdeError for a schema that has no column."""
        parsed = registry.parsed(wanted)
        self._is_protobuf = wanted.schema_type == SchemaType.PROTOBUF
        self._type = wanted.schema_type
        codec: Any = codec_of(parsed, validate_json=settings.validate_json)
        self._codec = codec
        if self._is_protobuf:
            from ottla.serdes.columns.protobuf_shapes import shape_of_message

            self._shape = shape_of_message(self._codec.descriptor())
        else:
            from ottla.serdes.columns.json_shapes import shape_of_document

            self._shape = shape_of_document(self._codec.document)
        self.type = self._shape.column

    def reads(self, named: SchemaId, written: SchemaText, *, in_header: bool) -> Callable[[bytes], Any]:
        """Return what makes a column's value of a row's payload, the path to a message's type in front of it."""
        if written.schema_type != self._type:
            text = f"The record was written with a schema of {written.schema_type}, and {self._type} is expected"
            raise SerdeError(text)
        value, decode = self._shape.value, self._codec.decode
        if not self._is_protobuf or in_header:
            return lambda data: value(decode(data))
        return lambda data: value(decode(data[message_indexes(data)[1] :]))
