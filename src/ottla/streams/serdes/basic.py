"""Serdes: bytes of a topic ↔ Python values ↔ columns of Spark.

A serde has three faces: `serialize`/`deserialize` for Python functions and state, and `sql_type`, `sql_decode` and
`sql_encode` for column expressions. Serializers are compatible with Kafka's own of the same name
(`org.apache.kafka.common.serialization`); `json` writes UTF-8 text without spaces, as Jackson and Spark do.

Wherever a serde is expected, a name (`"string"`), a Python type (`str`, a dataclass) or a `Serde` will do: `serde_of`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from ottla.streams.errors import SerializationError

__all__ = [
    "BooleanSerde",
    "BytesSerde",
    "CustomSerde",
    "FixedSerde",
    "ListSerde",
    "Serde",
    "StringSerde",
    "UuidSerde",
    "VoidSerde",
    "of_topic",
]


@runtime_checkable
class Serde(Protocol):
    """How a key or a value is written in a topic. Instances are picklable and comparable."""

    @property
    def name(self) -> str:
        """A short name for plans and error messages: `string`, `long`, `json`, `Account`."""

    @property
    def sql_type(self) -> str | None:
        """The Spark SQL type (DDL text) of the decoded column, or None where only Python can decode it."""

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes; None stays None. Raises SerializationError."""

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of bytes; None stays None. Raises SerializationError, also for bytes that are no such value."""

    def sql_decode(self, column: str) -> str:
        """Return Spark SQL text that decodes a binary column to `sql_type`; bad bytes give null."""

    def sql_encode(self, column: str) -> str:
        """Return Spark SQL text that encodes a column of `sql_type` to binary."""


def of_topic(serde: Any, topic: str, *, is_key: bool) -> Any:
    """Return a serde that knows which topic it writes, where it asks for that by a method `of_topic`; else as it is."""
    if hasattr(serde, "inner"):  # of windowed keys
        inner = of_topic(serde.inner, topic, is_key=is_key)
        return serde if inner is serde.inner else replace(serde, inner=inner)
    ask = getattr(serde, "of_topic", None)
    return serde if ask is None else ask(topic, is_key=is_key)


@dataclass(frozen=True, slots=True)
class StringSerde:
    """UTF-8 text; malformed bytes become U+FFFD, as in Java."""

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "string"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return "string"

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise SerializationError(f"string: expected str, got {type(value).__name__}")
        return value.encode("utf-8", "replace")

    def deserialize(self, data: bytes | None) -> str | None:
        """Return the value of bytes."""
        return None if data is None else str(data, "utf-8", "replace")

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        return f"make_valid_utf8(cast({column} as string))"

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        return f"cast({column} as binary)"


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """The bytes as they are."""

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "bytes"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return "binary"

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None or type(value) is bytes:
            return value
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise SerializationError(f"bytes: expected bytes, got {type(value).__name__}")
        return bytes(value)

    def deserialize(self, data: bytes | None) -> bytes | None:
        """Return the value of bytes."""
        return data

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        return column

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        return column


_LONG = "cast(conv(hex({0}), 16, -10) as bigint)"
_INT = "cast(conv(hex(if(ascii(hex({0})) >= 56, concat(X'FFFFFFFF', {0}), {0})), 16, -10) as int)"
_SHORT = "cast(conv(hex(if(ascii(hex({0})) >= 56, concat(X'FFFFFFFFFFFF', {0}), {0})), 16, -10) as smallint)"
# The first hexadecimal digit tells the sign: '8' (56) and above are negative, and need their sign bits in front.


@dataclass(frozen=True, slots=True)
class FixedSerde:
    """A number of so many bytes, big-endian: Kafka's Short, Integer, Long, Float and Double."""

    name: str
    sql_type: str | None
    form: str
    """As in `struct`."""

    @property
    def size(self) -> int:
        """How many bytes."""
        return struct.calcsize(self.form)

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        try:
            return struct.pack(self.form, value)
        except (struct.error, OverflowError) as problem:
            raise SerializationError(f"{self.name}: {value!r}: {problem}") from None

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of bytes."""
        if data is None:
            return None
        try:
            return struct.unpack(self.form, data)[0]
        except struct.error:
            raise SerializationError(f"{self.name}: expected {self.size} bytes, got {len(data)}") from None

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        return f"if(length({column}) = {self.size}, {self._decode(column)}, null)"

    def _decode(self, column: str) -> str:
        if self.form == ">q":
            return _LONG.format(column)
        if self.form == ">i":
            return _INT.format(column)
        if self.form == ">h":
            return _SHORT.format(column)
        if self.form == ">f":
            return f"cast(java_method('java.lang.Float', 'intBitsToFloat', {_INT.format(column)}) as float)"
        return f"cast(java_method('java.lang.Double', 'longBitsToDouble', {_LONG.format(column)}) as double)"

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        bits = f"cast({column} as bigint)"
        if self.form == ">f":
            bits = f"cast(java_method('java.lang.Float', 'floatToIntBits', {column}) as bigint)"
        elif self.form == ">d":
            bits = f"cast(java_method('java.lang.Double', 'doubleToLongBits', {column}) as bigint)"
        return f"if({column} is null, null, unhex(right(lpad(hex({bits}), 16, '0'), {2 * self.size})))"


@dataclass(frozen=True, slots=True)
class BooleanSerde:
    """One byte, 0 or 1."""

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "boolean"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return "boolean"

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        if not isinstance(value, bool):
            raise SerializationError(f"boolean: expected bool, got {type(value).__name__}")
        return b"\x01" if value else b"\x00"

    def deserialize(self, data: bytes | None) -> bool | None:
        """Return the value of bytes."""
        if data is None:
            return None
        if data not in (b"\x00", b"\x01"):
            raise SerializationError(f"boolean: expected one byte, 0 or 1, got {bytes(data[:8]).hex()}")
        return data == b"\x01"

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        return f"case {column} when X'01' then true when X'00' then false end"

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        return f"case {column} when true then X'01' when false then X'00' end"


@dataclass(frozen=True, slots=True)
class UuidSerde:
    """A UUID as its text, as Kafka's UUIDSerializer writes it."""

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "uuid"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return "string"

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        if not isinstance(value, UUID):
            raise SerializationError(f"uuid: expected uuid.UUID, got {type(value).__name__}")
        return str(value).encode()

    def deserialize(self, data: bytes | None) -> UUID | None:
        """Return the value of bytes."""
        if data is None:
            return None
        try:
            return UUID(str(data, "utf-8"))
        except ValueError:
            raise SerializationError(f"uuid: {bytes(data[:40])!r} is no UUID") from None

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        text = f"cast({column} as string)"
        return f"if({text} rlike '^[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}$', {text}, null)"

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        return f"cast({column} as binary)"


@dataclass(frozen=True, slots=True)
class VoidSerde:
    """Nothing but null."""

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "void"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return "void"

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is not None:
            raise SerializationError(f"void: expected None, got {type(value).__name__}")
        return None

    def deserialize(self, data: bytes | None) -> None:
        """Return the value of bytes."""
        if data is not None:
            raise SerializationError(f"void: expected null, got {len(data)} bytes")

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        return "cast(null as void)"

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        return "cast(null as binary)"


_CONSTANT_SIZE, _VARIABLE_SIZE = 0, 1
_NULL_SIZE = -1


@dataclass(frozen=True, slots=True)
class ListSerde:
    """A list of one kind of element, as Kafka's ListSerializer writes it (KIP-466)."""

    element: Serde

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return f"list<{self.element.name}>"

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return None

    @property
    def _constant_size(self) -> int | None:
        """Elements of a fixed size carry none, and nulls are told by their indexes."""
        if isinstance(self.element, FixedSerde):
            return self.element.size
        return 36 if isinstance(self.element, UuidSerde) else None

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            raise SerializationError(f"{self.name}: expected a list, got {type(value).__name__}")
        parts = [self.element.serialize(each) for each in value]
        if self._constant_size is None:
            body = b"".join(
                struct.pack(">i", _NULL_SIZE) if part is None else struct.pack(">i", len(part)) + part for part in parts
            )
            return struct.pack(">bi", _VARIABLE_SIZE, len(parts)) + body
        nulls = [index for index, part in enumerate(parts) if part is None]
        head = struct.pack(f">bi{len(nulls)}i", _CONSTANT_SIZE, len(nulls), *nulls)
        return head + struct.pack(">i", len(parts)) + b"".join(part for part in parts if part is not None)

    def deserialize(self, data: bytes | None) -> list[Any] | None:
        """Return the value of bytes."""
        if data is None:
            return None
        try:
            return self._read(data)
        except (struct.error, IndexError):
            raise SerializationError(f"{self.name}: {len(data)} bytes that are no list") from None

    def _read(self, data: bytes) -> list[Any]:
        if data[0] == _VARIABLE_SIZE:
            nulls, position = (), 1
        else:
            (missing,) = struct.unpack_from(">i", data, 1)
            nulls = struct.unpack_from(f">{missing}i", data, 5)
            position = 5 + 4 * missing
        (count,) = struct.unpack_from(">i", data, position)
        position += 4
        found: list[Any] = []
        for index in range(count):
            if index in nulls:
                found.append(None)
                continue
            size = self._constant_size
            if data[0] == _VARIABLE_SIZE:
                (size,) = struct.unpack_from(">i", data, position)
                position += 4
                if size == _NULL_SIZE:
                    found.append(None)
                    continue
            assert size is not None
            if size < 0 or position + size > len(data):
                raise IndexError(position)
            found.append(self.element.deserialize(data[position : position + size]))
            position += size
        return found

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        raise SerializationError(f"{self.name}: only Python can decode it")

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        raise SerializationError(f"{self.name}: only Python can encode it")


@dataclass(frozen=True, slots=True)
class CustomSerde:
    """A serde of one's own from two functions: `bytes_of(value)` and `value_of(bytes)`; null stays null."""

    name: str
    bytes_of: Callable[[Any], bytes]
    value_of: Callable[[bytes], Any]

    @property
    def sql_type(self) -> str | None:
        """What its column is in Spark, if it has one."""
        return None

    def serialize(self, value: Any) -> bytes | None:
        """Return a value's bytes."""
        return None if value is None else self.bytes_of(value)

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of bytes."""
        return None if data is None else self.value_of(data)

    def sql_decode(self, column: str) -> str:
        """Return SQL text that reads a binary column."""
        raise SerializationError(f"{self.name}: only Python can decode it")

    def sql_encode(self, column: str) -> str:
        """Return SQL text that writes a binary column."""
        raise SerializationError(f"{self.name}: only Python can encode it")
