"""ProtobufConverter: Connect's values as Protobuf's messages, their schemas in a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from ottla.connect.config_def import ConfigDef
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import SchemaAndValue
from ottla.connect.schema_converters.conversion import Conversion, Mapped, options, require, settings_of
from ottla.connect.schema_converters.protobuf_words import Options
from ottla.connect.version import STOCK_VERSION
from ottla.schemas import SchemaType
from ottla.serdes import Codec, SchemaText

__all__ = ["ProtobufConverter", "ProtobufMapping"]

_FLAGS = (
    ("enhanced.protobuf.schema.support", False, "Whether the names of structs and enums have their package."),
    ("scrub.invalid.names", False, "Whether signs that Protobuf's names may not have are replaced."),
    ("int.for.enums", False, "Whether enums are numbers and not strings."),
    ("optional.for.nullables", False, "Whether optional fields say `optional`, and only those are optional."),
    ("optional.for.proto2", True, "Whether that holds for the optional fields of proto2, too."),
    ("wrapper.for.nullables", False, "Whether optional fields of plain types are wrapper messages (Int32Value, …)."),
    ("wrapper.for.raw.primitives", True, "Whether a value that is no struct is a wrapper message."),
    ("generate.struct.for.nulls", False, "Whether messages that are not set become structs of nothing."),
    ("generate.index.for.unions", True, "Whether the field of a oneof has the oneof's place behind its name."),
    ("flatten.unions", False, "Whether the fields of a oneof stand among those of their message."),
    ("generalized.sum.type.support", False, "Whether unions and enums are told as the other formats' are."),
)


@dataclass(frozen=True)
class ProtobufMapping:
    """How ProtobufConverter tells Connect's schemas in Protobuf's language, by its options."""

    options: Options

    def writing(self, schema: Schema) -> Mapped:
        """See `FormatMapping`."""
        from ottla.connect.schema_converters.protobuf_write import ProtobufWriting

        text, name, write = ProtobufWriting(self.options).of(schema)
        return Mapped(SchemaText(SchemaType.PROTOBUF, text), write, name)

    def reading(self, codec: Codec, indexes: tuple[int, ...] | None) -> tuple[Schema, Callable[[Any], Any]]:
        """See `FormatMapping`."""
        from ottla.connect.schema_converters.protobuf_read import ProtobufReading

        descriptor = cast(Any, codec).descriptor(indexes)
        return ProtobufReading(self.options).of(descriptor)


class ProtobufConverter:
    """Protobuf in Confluent's format, as its converter of this name."""

    java_name: ClassVar[str] = "io.confluent.connect.protobuf.ProtobufConverter"
    version: ClassVar[str] = STOCK_VERSION
    config_def: ClassVar[ConfigDef] = options(_FLAGS)

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """See `Converter`; raises ConfigError for what is wrong, cannot be kept to, or lacks the extra `registry`."""
        given = self.config_def.parse({**props, "converter.type": "key" if is_key else "value"})
        settings = settings_of(given, props, is_key=is_key)
        require("google.protobuf", self.java_name)
        mapping = Options(
            enhanced=given["enhanced.protobuf.schema.support"],
            scrub=given["scrub.invalid.names"],
            int_enums=given["int.for.enums"],
            optional_nullables=given["optional.for.nullables"],
            optional_proto2=given["optional.for.proto2"],
            wrapper_nullables=given["wrapper.for.nullables"],
            raw_primitives=given["wrapper.for.raw.primitives"],
            struct_for_nulls=given["generate.struct.for.nulls"],
            union_index=given["generate.index.for.unions"],
            flatten_unions=given["flatten.unions"],
            generalized=given["generalized.sum.type.support"],
        )
        self._conversion = Conversion("Protobuf", SchemaType.PROTOBUF, settings, ProtobufMapping(mapping))

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        return self._conversion.from_connect(topic, schema, value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        return self._conversion.to_connect(topic, data)
