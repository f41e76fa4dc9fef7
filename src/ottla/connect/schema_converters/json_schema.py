"""JsonSchemaConverter: Connect's values as JSON, their schemas as JSON Schema in a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from ottla.config import ConfigType
from ottla.connect.config_def import ConfigDef, Importance
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import SchemaAndValue
from ottla.connect.schema_converters.conversion import Conversion, Mapped, options, require, settings_of
from ottla.connect.schema_converters.json_schema_read import JsonSchemaReading
from ottla.connect.schema_converters.json_schema_write import schema_text, value_writer
from ottla.connect.validators import CaseInsensitiveValidString
from ottla.connect.version import STOCK_VERSION
from ottla.schemas import SchemaType
from ottla.serdes import Codec, SchemaText

__all__ = ["JsonMapping", "JsonSchemaConverter"]

_FLAGS = (
    ("json.fail.invalid.schema", False, "Whether values are checked by their JSON schema."),
    ("object.additional.properties", True, "Whether objects may have other properties than their schema's."),
    ("use.optional.for.nonrequired", False, "Whether properties that are not required are optional fields."),
    ("generalized.sum.type.support", False, "Whether unions and enums are told as the other formats' are."),
    (
        "json.oneof.for.nullables",
        True,
        "Has no effect: it is for schemas that are derived of Java's classes. Optional fields are a oneOf with null.",
    ),
    ("ignore.modern.dialects", False, "Has no effect: every draft is read."),
)


def _definition() -> ConfigDef:
    return options(_FLAGS).define(
        "decimal.format",
        ConfigType.STRING,
        "BASE64",
        importance=Importance.LOW,
        doc="Whether decimals are written as BASE64, the bytes of their unscaled value, or NUMERIC.",
        validator=CaseInsensitiveValidString("NUMERIC", "BASE64"),
    )


@dataclass(frozen=True)
class JsonMapping:
    """How JsonSchemaConverter tells Connect's schemas in JSON Schema, by its options."""

    numeric: bool
    additional: bool
    required_only: bool
    generalized: bool

    def writing(self, schema: Schema) -> Mapped:
        """See `FormatMapping`."""
        text = schema_text(schema, numeric=self.numeric, additional=self.additional)
        write = value_writer(schema, numeric=self.numeric)
        return Mapped(SchemaText(SchemaType.JSON, text), lambda value: write(value).encode())

    def reading(self, codec: Codec, indexes: tuple[int, ...] | None) -> tuple[Schema, Callable[[Any], Any]]:
        """See `FormatMapping`."""
        place = cast(Any, codec).schema.place
        return JsonSchemaReading(required_only=self.required_only, generalized=self.generalized).document(place)


class JsonSchemaConverter:
    """JSON Schema in Confluent's format, as its converter of this name."""

    java_name: ClassVar[str] = "io.confluent.connect.json.JsonSchemaConverter"
    version: ClassVar[str] = STOCK_VERSION
    config_def: ClassVar[ConfigDef] = _definition()

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """See `Converter`; raises ConfigError for what is wrong, cannot be kept to, or lacks the extra `registry`."""
        given = self.config_def.parse({**props, "converter.type": "key" if is_key else "value"})
        settings = replace(settings_of(given, props, is_key=is_key), json_bytes=True)
        require("jsonschema", self.java_name)
        mapping = JsonMapping(
            numeric=given["decimal.format"].upper() == "NUMERIC",
            additional=given["object.additional.properties"],
            required_only=given["use.optional.for.nonrequired"],
            generalized=given["generalized.sum.type.support"],
        )
        self._conversion = Conversion("JsonSchema", SchemaType.JSON, settings, mapping)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        return self._conversion.from_connect(topic, schema, value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        return self._conversion.to_connect(topic, data)
