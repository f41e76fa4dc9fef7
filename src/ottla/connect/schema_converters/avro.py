"""AvroConverter: Connect's values as Avro, their schemas in a registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from ottla.connect.config_def import ConfigDef
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import SchemaAndValue
from ottla.connect.schema_converters.avro_read import AvroReading
from ottla.connect.schema_converters.avro_write import AvroWriting
from ottla.connect.schema_converters.conversion import Conversion, Mapped, options, require, settings_of
from ottla.connect.version import STOCK_VERSION
from ottla.schemas import SchemaType
from ottla.serdes import Codec, SchemaText

__all__ = ["AvroConverter", "AvroMapping"]

_FLAGS = (
    ("connect.meta.data", True, "Whether Connect's names, versions and parameters stand in the Avro schema."),
    ("enhanced.avro.schema.support", False, "Whether unions' fields have their types' full names, and enums are kept."),
    ("scrub.invalid.names", False, "Whether signs that Avro's names may not have are replaced."),
    (
        "generalized.sum.type.support",
        False,
        "Whether unions and enums are told as the other formats' are, instead of in words of Avro's own.",
    ),
)


@dataclass(frozen=True)
class AvroMapping:
    """How AvroConverter tells Connect's schemas in Avro, by its options."""

    meta: bool
    enhanced: bool
    scrub: bool
    generalized: bool

    def writing(self, schema: Schema) -> Mapped:
        """See `FormatMapping`."""
        node, write = AvroWriting(meta=self.meta, scrub=self.scrub).of(schema)
        text = json.dumps(node, ensure_ascii=False, separators=(",", ":"))
        return Mapped(SchemaText(SchemaType.AVRO, text), write)

    def reading(self, codec: Codec, indexes: tuple[int, ...] | None) -> tuple[Schema, Callable[[Any], Any]]:
        """See `FormatMapping`."""
        full = cast(Any, codec).full
        return AvroReading(meta=self.meta, enhanced=self.enhanced, generalized=self.generalized).of(full)


class AvroConverter:
    """Avro in Confluent's format, as its converter of this name."""

    java_name: ClassVar[str] = "io.confluent.connect.avro.AvroConverter"
    version: ClassVar[str] = STOCK_VERSION
    config_def: ClassVar[ConfigDef] = options(_FLAGS)

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """See `Converter`; raises ConfigError for what is wrong, cannot be kept to, or lacks the extra `registry`."""
        given = self.config_def.parse({**props, "converter.type": "key" if is_key else "value"})
        settings = replace(
            settings_of(given, props, is_key=is_key),
            logical_types=False,  # Connect's own are made of the plain values, whatever years Python has
            named_unions=True,
        )
        require("fastavro", self.java_name)
        mapping = AvroMapping(
            given["connect.meta.data"],
            given["enhanced.avro.schema.support"],
            given["scrub.invalid.names"],
            given["generalized.sum.type.support"],
        )
        self._conversion = Conversion("Avro", SchemaType.AVRO, settings, mapping)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        return self._conversion.from_connect(topic, schema, value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        return self._conversion.to_connect(topic, data)
