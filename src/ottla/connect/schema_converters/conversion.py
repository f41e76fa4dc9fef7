"""What all converters with a registry have in common: their options, and the way between a record's bytes and a mapping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from ottla.base import ConfigError, bring_extra
from ottla.config import ConfigType
from ottla.connect.config_def import ConfigDef, Importance
from ottla.connect.converters.plain import converter_def
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import SchemaAndValue, validate_value
from ottla.connect.errors import ConnectError, DataError, RetriableError
from ottla.schemas import SchemaType
from ottla.serdes import (
    KNOWN_KEYS,
    Codec,
    Deserializer,
    Registry,
    SchemaText,
    SerdeError,
    SerdeSettings,
    Serializer,
    serde_settings,
)

__all__ = ["Conversion", "FormatMapping", "Mapped", "options", "require", "settings_of"]

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Mapped:
    """A Connect schema in a registry's format."""

    schema: SchemaText
    write: Convert
    """Makes what the format's codec encodes of a value."""
    message: str | None = None
    """The Protobuf message that is written, where it is not the first."""


class FormatMapping(Protocol):
    """How one format tells Connect's schemas. What it cannot tell is a DataError."""

    def writing(self, schema: Schema) -> Mapped:
        """Return a Connect schema in this format."""

    def reading(self, codec: Codec, indexes: tuple[int, ...] | None) -> tuple[Schema, Convert]:
        """Return the Connect schema of what a codec decodes, and what makes Connect's values of that."""


def options(flags: tuple[tuple[str, bool, str], ...]) -> ConfigDef:
    """Return the options that every converter with a registry has, and some of its own: key, default, what it is for."""
    found = converter_def()
    found.define(
        "schema.registry.url",
        ConfigType.LIST,
        importance=Importance.HIGH,
        doc="The addresses of the schema registry, separated by commas; the next one is asked where one does not answer.",
    )
    shared = (
        ("auto.register.schemas", True, "Whether a schema is registered when it is first written with."),
        (
            "use.latest.version",
            False,
            "Whether to write with the subject's latest schema (auto.register.schemas=false).",
        ),
        ("latest.compatibility.strict", True, "Whether the latest schema has to be able to stand for the one at hand."),
        ("normalize.schemas", False, "Whether schemas are normalized before they are compared."),
    )
    for name, default, doc in (*shared, *flags):
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


def settings_of(given: Mapping[str, Any], props: Mapping[str, Any], *, is_key: bool) -> SerdeSettings:
    """Return the settings of a converter's properties; raises ConfigError for what is wrong or cannot be kept to."""
    known = {key: value for key, value in props.items() if key in KNOWN_KEYS or key.startswith("schema.registry.ssl.")}
    settings = replace(serde_settings(known, is_key=is_key), schemas_max=max(given["schemas.cache.config"], 1))
    if settings.id_in_header:
        key = f"{'key' if is_key else 'value'}.schema.id.serializer"
        raise ConfigError(key, props[key], "a converter sees no headers: PrefixSchemaIdSerializer")
    return settings


def require(library: str, java_name: str) -> None:
    """Raise ConfigError where a format's library is not installed."""
    try:
        __import__(library)
    except ImportError as error:
        text = f"it needs the extra `registry`: {bring_extra('registry')} ({error})"
        raise ConfigError("converter", java_name, text, f"{java_name}: {text}") from error


class Conversion:
    """Writes and reads records of one format by a mapping; what it makes for a schema is kept."""

    def __init__(self, named: str, kind: SchemaType, settings: SerdeSettings, mapping: FormatMapping) -> None:
        """Ask nothing yet. `named` is the format's name in messages; its library has to be installed."""
        self._named, self._kind, self._mapping = named, kind, mapping
        registry = Registry(settings)
        self._serializer, self._deserializer = Serializer(settings, registry), Deserializer(settings, registry)
        self._written = lru_cache(settings.schemas_max)(mapping.writing)
        self._read = lru_cache(settings.schemas_max)(self._reading)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if value is None and (schema is None or schema.default is None):
            return None
        if schema is None:
            raise DataError(f"{self._named}Converter needs values with a schema, and this one has none")
        if value is not None:
            validate_value(schema, value)
        mapped = self._written(schema)
        try:
            return self._serializer.serialize(topic, mapped.write(value), mapped.schema, message=mapped.message)
        except SerdeError as error:
            raise _told(f"Failed to serialize {self._named} data from topic {topic}", error) from error

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        try:
            found = self._deserializer.deserialize(data)
            if found is None:
                return SchemaAndValue(None, None)
            if found.schema.schema_type is not self._kind:
                kind = found.schema.schema_type
                raise DataError(
                    f"A record of topic {topic} is of a {kind} schema, and {self._named}Converter reads {self._kind} only"
                )
            schema, read = self._read(found.schema, found.id.indexes)
        except SerdeError as error:
            raise _told(f"Failed to deserialize data for topic {topic} to {self._named}", error) from error
        return SchemaAndValue(schema, read(found.value))

    def _reading(self, schema: SchemaText, indexes: tuple[int, ...] | None) -> tuple[Schema, Convert]:
        return self._mapping.reading(self._deserializer.codec(schema), indexes)


def _told(what: str, error: SerdeError) -> ConnectError:
    return (RetriableError if error.retriable else DataError)(f"{what}: {error}")
