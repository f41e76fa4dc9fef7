"""Serdes of what only an application's own topics hold: a foreign-key join's questions and answers.

The formats are Kafka Streams' (SubscriptionWrapperSerde, SubscriptionResponseWrapperSerde, CombinedKeySchema), so that
changelogs and repartition topics look alike.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.streams.errors import SerializationError
from ottla.streams.serdes.basic import Serde

__all__ = [
    "DELETE_KEY_AND_PROPAGATE",
    "DELETE_KEY_NO_PROPAGATE",
    "PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE",
    "PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE",
    "CombinedKey",
    "CombinedKeySerde",
    "Response",
    "ResponseSerde",
    "Subscription",
    "SubscriptionSerde",
]

DELETE_KEY_NO_PROPAGATE = 0
DELETE_KEY_AND_PROPAGATE = 1
PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3

_VERSION = 1
_NO_HASH = 0x80
_HASH_SIZE = 16


class Subscription(NamedTuple):
    """What a left row tells the partition of its foreign key: who asks, for which version of itself, and what is wanted."""

    primary_key: Any
    instruction: int
    hash: bytes | None
    """16 bytes (Murmur3 of the left value's bytes); None where the left row is gone."""
    primary_partition: int | None = 0
    version: int = _VERSION


class Response(NamedTuple):
    """What comes back: the right value, and the hash that came with the question."""

    hash: bytes | None
    value: Any
    primary_partition: int | None = None
    """Where to; not written."""


class CombinedKey(NamedTuple):
    """Under what a subscription is kept, so that all of a foreign key are found together."""

    foreign_key: Any
    primary_key: Any


class _PythonOnly:
    """No columns: these never meet an expression."""

    __slots__ = ()

    @property
    def sql_type(self) -> str | None:
        return None

    def sql_decode(self, column: str) -> str:
        raise SerializationError(f"{type(self).__name__}: only Python can decode it")

    def sql_encode(self, column: str) -> str:
        raise SerializationError(f"{type(self).__name__}: only Python can encode it")


def _check_version(name: str, version: int) -> None:
    """Raise SerializationError for a form that is not known here: its fields may stand elsewhere."""
    if version > _VERSION:
        raise SerializationError(
            f"{name}: version {version} is not known here, up to {_VERSION} is; a newer program has written it: "
            "have that one process the rest of the application's topics, or run that version here"
        )


@dataclass(frozen=True, slots=True)
class SubscriptionSerde(_PythonOnly):
    """{no hash: 1 bit, version: 7 bits}{instruction}{hash: 16 bytes, perhaps}{primary key}{partition: 4 bytes}."""

    primary_key: Serde

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return f"subscription of {self.primary_key.name}"

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        key = self.primary_key.serialize(value.primary_key)
        if key is None:
            raise SerializationError(f"{self.name}: a null primary key")
        flag = value.version | (_NO_HASH if value.hash is None else 0)
        tail = b"" if value.version == 0 else struct.pack(">i", value.primary_partition)
        return bytes((flag, value.instruction)) + (value.hash or b"") + key + tail

    def deserialize(self, data: bytes | None) -> Subscription | None:
        """Return the value of bytes."""
        if data is None:
            return None
        version, start = data[0] & 0x7F, 2
        _check_version(self.name, version)
        found = None
        if not data[0] & _NO_HASH:
            found, start = data[2 : 2 + _HASH_SIZE], 2 + _HASH_SIZE
        end = len(data) - (4 if version else 0)
        partition = struct.unpack(">i", data[end:])[0] if version else None
        return Subscription(self.primary_key.deserialize(data[start:end]), data[1], found, partition, version)


@dataclass(frozen=True, slots=True)
class ResponseSerde(_PythonOnly):
    """{no hash: 1 bit, version: 7 bits}{hash: 16 bytes, perhaps}{right value, nothing for null}.

    The version is 0; an earlier Ottla wrote 1 for an answer without a right row to a question that wanted none.
    """

    value: Serde

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return f"response of {self.value.name}"

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        flag = _NO_HASH if value.hash is None else 0
        return bytes((flag,)) + (value.hash or b"") + (self.value.serialize(value.value) or b"")

    def deserialize(self, data: bytes | None) -> Response | None:
        """Return the value of bytes."""
        if data is None:
            return None
        _check_version(self.name, data[0] & 0x7F)
        found, start = (None, 1) if data[0] & _NO_HASH else (data[1 : 1 + _HASH_SIZE], 1 + _HASH_SIZE)
        value = self.value.deserialize(data[start:]) if len(data) > start else None
        return Response(found, value)


@dataclass(frozen=True, slots=True)
class CombinedKeySerde(_PythonOnly):
    """{length of the foreign key: 4 bytes}{foreign key}{primary key}."""

    foreign_key: Serde
    primary_key: Serde

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return f"{self.foreign_key.name} with {self.primary_key.name}"

    def prefix(self, foreign_key: Any) -> bytes:
        """Return what the keys of all subscriptions to a foreign key begin with."""
        data = self.foreign_key.serialize(foreign_key)
        if data is None:
            raise SerializationError(f"{self.name}: a null foreign key")
        return struct.pack(">i", len(data)) + data

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        return self.prefix(value.foreign_key) + (self.primary_key.serialize(value.primary_key) or b"")

    def deserialize(self, data: bytes | None) -> CombinedKey | None:
        """Return the value of bytes."""
        if data is None:
            return None
        end = 4 + struct.unpack(">i", data[:4])[0]
        return CombinedKey(self.foreign_key.deserialize(data[4:end]), self.primary_key.deserialize(data[end:]))
