"""AvroConverter: Connect's values as Avro, their schemas in a registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, cast

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect.config_def import ConfigDef, Importance
from ottla.connect.converters.plain import converter_def
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import SchemaAndValue, validate_value
from ottla.connect.errors import ConnectError, DataError, RetriableError
from ottla.connect.schema_converters.avro_read import AvroReading
from ottla.connect.schema_converters.avro_write import AvroWriting
from ottla.connect.version import STOCK_VERSION
from ottla.schemas import SchemaType
from ottla.serdes import KNOWN_KEYS, Deserializer, Registry, SchemaText, SerdeError, Serializer, serde_settings

__all__ = ["AvroConverter"]

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


def _definition() -> ConfigDef:
    found = converter_def()
    found.define(
        "schema.registry.url",
        ConfigType.LIST,
        importance=Importance.HIGH,
        doc="The addresses of the schema registry, separated by commas; the next one is asked where one does not answer.",
    )
    flags = (
        ("auto.register.schemas", True, "Whether a schema is registered when it is first written with."),
        (
            "use.latest.version",
            False,
            "Whether to write with the subject's latest schema (auto.register.schemas=false).",
        ),
        ("latest.compatibility.strict", True, "Whether the latest schema has to be able to stand for the one at hand."),
        ("normalize.schemas", False, "Whether schemas are normalized before they are compared."),
        ("connect.meta.data", True, "Whether Connect's names, versions and parameters stand in the Avro schema."),
        (
            "enhanced.avro.schema.support",
            False,
            "Whether unions' fields have their types' full names, and enums are kept.",
        ),
        ("scrub.invalid.names", False, "Whether signs that Avro's names may not have are replaced."),
        ("generalized.sum.type.support", False, "Not known here: only false."),
    )
    for name, default, doc in flags:
        found.define(name, ConfigType.BOOLEAN, default, importance=Importance.MEDIUM, doc=doc)
    for part in ("key", "value"):
        found.define(
            f"{part}.subject.name.strategy",
            ConfigType.STRING,
            "TopicNameStrategy",
            importance=Importance.MEDIUM,
            doc=f"Under which subject schemas of {part}s are registered.",
        )
    return found.define(
        "schemas.cache.config",
        ConfigType.INT,
        1000,
        importance=Importance.LOW,
        doc="How many schemas are kept ready.",
    )


class AvroConverter:
    """Avro in Confluent's format, as its converter of this name."""

    java_name: ClassVar[str] = "io.confluent.connect.avro.AvroConverter"
    version: ClassVar[str] = STOCK_VERSION
    config_def: ClassVar[ConfigDef] = _definition()

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """See `Converter`; raises ConfigError for what is wrong, cannot be kept to, or lacks the extra `registry`."""
        given = self.config_def.parse({**props, "converter.type": "key" if is_key else "value"})
        if given["generalized.sum.type.support"]:
            raise ConfigError("generalized.sum.type.support", "true", "only false is known here")
        known = {
            key: value for key, value in props.items() if key in KNOWN_KEYS or key.startswith("schema.registry.ssl.")
        }
        settings = replace(
            serde_settings(known, is_key=is_key),
            logical_types=False,  # Connect's own are made of the plain values, whatever years Python has
            named_unions=True,
            schemas_max=max(given["schemas.cache.config"], 1),
        )
        if settings.id_in_header:
            key = f"{given['converter.type']}.schema.id.serializer"
            raise ConfigError(key, props[key], "a converter sees no headers: PrefixSchemaIdSerializer")
        self._meta: bool = given["connect.meta.data"]
        self._scrub: bool = given["scrub.invalid.names"]
        self._enhanced: bool = given["enhanced.avro.schema.support"]
        self._require()
        registry = Registry(settings)
        self._serializer, self._deserializer = Serializer(settings, registry), Deserializer(settings, registry)
        self._written = lru_cache(settings.schemas_max)(self._writing)
        self._read = lru_cache(settings.schemas_max)(self._reading)

    def _require(self) -> None:
        try:
            import fastavro  # noqa: F401
        except ImportError as error:
            text = f"it needs the extra `registry`: pip install 'ottla[registry]' ({error})"
            raise ConfigError("converter", self.java_name, text, f"{self.java_name}: {text}") from error

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if value is None and (schema is None or schema.default is None):
            return None
        if schema is None:
            raise DataError("AvroConverter needs values with a schema, and this one has none")
        validate_value(schema, value)
        text, write = self._written(schema)
        try:
            return self._serializer.serialize(topic, write(value), text)
        except SerdeError as error:
            raise _told(f"Failed to serialize Avro data from topic {topic}", error) from error

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        try:
            found = self._deserializer.deserialize(data)
        except SerdeError as error:
            raise _told(f"Failed to deserialize data for topic {topic} to Avro", error) from error
        if found is None:
            return SchemaAndValue(None, None)
        if found.schema.schema_type is not SchemaType.AVRO:
            kind = found.schema.schema_type
            raise DataError(f"A record of topic {topic} is of a {kind} schema, and AvroConverter reads Avro's only")
        schema, read = self._read(found.schema)
        return SchemaAndValue(schema, read(found.value))

    def _writing(self, schema: Schema) -> tuple[SchemaText, Write]:
        node, write = AvroWriting(meta=self._meta, scrub=self._scrub).of(schema)
        return SchemaText(SchemaType.AVRO, json.dumps(node, ensure_ascii=False, separators=(",", ":"))), write

    def _reading(self, schema: SchemaText) -> tuple[Schema, Read]:
        full = cast(Any, self._deserializer.codec(schema)).full
        return AvroReading(meta=self._meta, enhanced=self._enhanced).of(full)


def _told(what: str, error: SerdeError) -> ConnectError:
    return (RetriableError if error.retriable else DataError)(f"{what}: {error}")
