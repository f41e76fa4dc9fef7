"""Serdes of Kafka Streams' DSL by a schema registry: what `KafkaAvroSerializer` and its kin are to Kafka Streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ottla.schemas import SchemaType
from ottla.serdes import Deserializer, SchemaText, SerdeError, Serializer, serde_settings
from ottla.spark.source.secured import looked_up
from ottla.streams import SerializationError

__all__ = ["RegistrySerde", "registry_serde"]

SERDES_MAX = 256
"""How many topics' serializers a process keeps ready."""


def registry_serde(
    options: Mapping[str, str],
    schema: str | SchemaText | None = None,
    *,
    topic: str | None = None,
    message: str | None = None,
) -> RegistrySerde:
    """Return a serde of keys or of values, wherever it is given.

    `options` are Confluent's properties; values may be `${env:NAME}` and the like, looked up where records are. `schema`, a
    text of Avro's or any `SchemaText`, is what is written with, without it the subject's latest one
    (`use.latest.version=true`). The topic is the one of the source, sink, store or internal topic that the serde is for;
    `topic` stands for it where there is none, as where a function names the topic. `message` names a Protobuf message that
    is not the first.
    """
    text = SchemaText(SchemaType.AVRO, schema) if isinstance(schema, str) else schema
    properties = tuple(sorted((key, str(value)) for key, value in options.items()))
    serde_settings(
        {"schema.registry.url": "http://localhost", **looked_up(options)}, is_key=False
    )  # says what is wrong
    return RegistrySerde(properties, text, message, topic)


@dataclass(frozen=True)
class RegistrySerde:
    """Values are dictionaries, lists and Python's own types; Protobuf's messages are dictionaries as their JSON has them."""

    properties: tuple[tuple[str, str], ...]
    schema: SchemaText | None = None
    message: str | None = None
    topic: str | None = None
    is_key: bool = False

    def __repr__(self) -> str:
        return f"RegistrySerde({self.name})"  # properties hold passwords

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "registry" if self.schema is None else f"registry {self.schema.schema_type.lower()}"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark: none, since Python decodes it."""
        return None

    def of_topic(self, topic: str, *, is_key: bool) -> RegistrySerde:
        """Return the serde of a topic's keys or values."""
        return replace(self, topic=topic, is_key=is_key)

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes; raises SerializationError."""
        if value is None:
            return None
        if self.topic is None:
            raise SerializationError(
                f"{self.name}: no topic is known here, and so no subject: give registry_serde topic="
            )
        try:
            return _serializer(self.properties, self.is_key).serialize(
                self.topic, value, self.schema, message=self.message
            )
        except SerdeError as error:
            raise SerializationError(f"{self.name}: {error}") from error

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of bytes; raises SerializationError."""
        if data is None:
            return None
        try:
            found = _deserializer(self.properties, self.is_key).deserialize(bytes(data))
            if found is None or found.schema.schema_type != SchemaType.PROTOBUF:
                return None if found is None else found.value
            codec: Any = found.codec
            return codec.to_dict(found.value)
        except SerdeError as error:
            raise SerializationError(f"{self.name}: {error}") from error

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        raise SerializationError(f"{self.name}: only Python can decode it")

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        raise SerializationError(f"{self.name}: only Python can encode it")


@lru_cache(SERDES_MAX)
def _serializer(properties: tuple[tuple[str, str], ...], is_key: bool) -> Serializer:
    return Serializer(serde_settings(looked_up(dict(properties)), is_key=is_key))


@lru_cache(SERDES_MAX)
def _deserializer(properties: tuple[tuple[str, str], ...], is_key: bool) -> Deserializer:
    return Deserializer(serde_settings(looked_up(dict(properties)), is_key=is_key))
