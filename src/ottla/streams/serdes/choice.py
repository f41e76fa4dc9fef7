"""Which serde is meant: by a name, by a Python type, by a function's return annotation."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
from typing import Any, Union, get_args, get_origin
from uuid import UUID

from ottla.streams.errors import TopologyError
from ottla.streams.serdes.basic import (
    BooleanSerde,
    BytesSerde,
    FixedSerde,
    ListSerde,
    Serde,
    StringSerde,
    UuidSerde,
    VoidSerde,
)
from ottla.streams.serdes.json import JsonSerde
from ottla.streams.serdes.json import _codec as _json_form
from ottla.streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde
from ottla.streams.windows import Windowed

__all__ = ["SerdeLike", "Serdes", "serde_of", "serde_of_annotation"]

SerdeLike = Serde | type | str
"""A serde, a Python type that has one, or a name: string, bytes, short, int, long, float, double, boolean, uuid, void,
json."""


class Serdes:
    """Kafka's serdes by name: `Serdes.string()`, `Serdes.json(Account)`."""

    @staticmethod
    def string() -> Serde:
        """UTF-8 text."""
        return StringSerde()

    @staticmethod
    def bytes() -> Serde:
        """The bytes as they are: Kafka's ByteArray, Bytes and ByteBuffer."""
        return BytesSerde()

    @staticmethod
    def short() -> Serde:
        """A whole number of 2 bytes."""
        return FixedSerde("short", "smallint", ">h")

    @staticmethod
    def int() -> Serde:
        """A whole number of 4 bytes: Kafka's Integer. Python's `int` stands for `long`."""
        return FixedSerde("int", "int", ">i")

    @staticmethod
    def long() -> Serde:
        """A whole number of 8 bytes."""
        return FixedSerde("long", "bigint", ">q")

    @staticmethod
    def float() -> Serde:
        """A floating-point number of 4 bytes. Python's `float` stands for `double`."""
        return FixedSerde("float", "float", ">f")

    @staticmethod
    def double() -> Serde:
        """A floating-point number of 8 bytes."""
        return FixedSerde("double", "double", ">d")

    @staticmethod
    def boolean() -> Serde:
        """One byte."""
        return BooleanSerde()

    @staticmethod
    def uuid() -> Serde:
        """A UUID as text."""
        return UuidSerde()

    @staticmethod
    def void() -> Serde:
        """Nothing but null."""
        return VoidSerde()

    @staticmethod
    def list(element: SerdeLike) -> Serde:
        """A list in Kafka's binary form."""
        return ListSerde(serde_of(element))

    @staticmethod
    def json(type: Any = None) -> Serde:
        """JSON; with a type (a dataclass, `list[int]` …) checked and typed."""
        if type is not None:
            _json_form(type)
        return JsonSerde(type)

    @staticmethod
    def time_windowed(inner: SerdeLike, size_ms: Any) -> Serde:
        """Keys within time windows of one size in milliseconds."""
        return TimeWindowedSerde(serde_of(inner), size_ms)

    @staticmethod
    def session_windowed(inner: SerdeLike) -> Serde:
        """Keys within sessions."""
        return SessionWindowedSerde(serde_of(inner))


_BY_NAME = {
    "string": Serdes.string(),
    "bytes": Serdes.bytes(),
    "bytearray": Serdes.bytes(),
    "bytebuffer": Serdes.bytes(),
    "short": Serdes.short(),
    "int": Serdes.int(),
    "integer": Serdes.int(),
    "long": Serdes.long(),
    "float": Serdes.float(),
    "double": Serdes.double(),
    "boolean": Serdes.boolean(),
    "bool": Serdes.boolean(),
    "uuid": Serdes.uuid(),
    "void": Serdes.void(),
    "json": Serdes.json(),
}
_BY_TYPE: dict[Any, Serde] = {
    str: Serdes.string(),
    bytes: Serdes.bytes(),
    bytearray: Serdes.bytes(),
    memoryview: Serdes.bytes(),
    int: Serdes.long(),
    float: Serdes.double(),
    bool: Serdes.boolean(),
    UUID: Serdes.uuid(),
    type(None): Serdes.void(),
    dict: Serdes.json(),
    list: Serdes.json(),
}
_KAFKA_CLASS = "Serdes$"


def serde_of(given: object, step: str = "") -> Serde:
    """Return the serde that is meant; raises TopologyError with the step's name where there is none.

    Kafka's class names (`org.apache.kafka.common.serialization.Serdes$StringSerde`) are names too.
    """
    if isinstance(given, str):
        name = (
            given.rpartition(_KAFKA_CLASS)[2].removesuffix("Serde").lower() if _KAFKA_CLASS in given else given.lower()
        )
        if name in _BY_NAME:
            return _BY_NAME[name]
        raise TopologyError(step, f"no serde is called {given!r}: expected one of {', '.join(sorted(_BY_NAME))}")
    if not isinstance(given, type) and isinstance(given, Serde):
        return given
    found = serde_of_annotation(given)
    if found is None:
        raise TopologyError(step, f"expected a serde, its name or a type, got {given!r}")
    return found


def serde_of_annotation(kind: object) -> Serde | None:
    """Return the serde of an annotated type, or None where it has none (`Any`, a type variable, an abstract type)."""
    if kind is None or kind is Any or kind is object:
        return None
    try:
        if kind in _BY_TYPE:
            return _BY_TYPE[kind]
    except TypeError:
        return None
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        others = [each for each in arguments if each is not type(None)]
        return serde_of_annotation(others[0]) if len(others) == 1 else None
    if origin is Windowed:
        return None
    plain = isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or issubclass(kind, (enum.Enum, tuple)) or not inspect.isabstract(kind)
    )
    if origin is None and not plain:
        return None
    try:
        _json_form(kind)
    except TypeError:
        return None
    return JsonSerde(kind)
