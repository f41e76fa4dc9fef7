"""Readers and writers of messages, made per class and version on first use from the class's `FIELDS`.

Each pair is a few Python functions, one per struct, in which runs of fixed-size fields are one `struct` call. A reader
believes nothing that it is told: a length or count is compared with the bytes that remain before anything is made of it,
unknown tagged fields are skipped, and whatever is malformed raises WireError. `records` come back as views into the frame
(no copy); strings, bytes and ids are copied, since they are small and outlive it.
"""

from __future__ import annotations

import struct as structs
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.base import ErrorCode, KafkaError, UnwritableError, WireError
from ottla.wire.message import Message
from ottla.wire.reader_source import reader_source
from ottla.wire.varint import read_uvarint, skip_tagged, uvarint
from ottla.wire.writer_source import writer_source

__all__ = ["decode", "encode", "reader", "writer"]

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview
Reader = Callable[[memoryview, int, int], tuple[Any, int]]
Writer = Callable[[Any, bytearray], None]

_READERS: dict[tuple[type[Message], int], Reader] = {}
_WRITERS: dict[tuple[type[Message], int], Writer] = {}


def decode(cls: type[M], data: Buffer, version: int, pos: int = 0) -> tuple[M, int]:
    """Read one message that begins at `pos`; return it and the position behind it.

    Raises WireError for anything that is not such a message, and AssertionError for a version that the class lacks.
    """
    view = data if isinstance(data, memoryview) else memoryview(data)
    read = _READERS.get((cls, version)) or reader(cls, version)
    try:
        return read(view, pos, len(view))
    except (structs.error, IndexError, ValueError, OverflowError) as error:
        raise WireError(f"{cls.__name__} version {version} is malformed: {error}") from error


def encode(message: Message, version: int) -> bytes:
    """Return a message's bytes in one version.

    Raises KafkaError (UNSUPPORTED_VERSION) where a field that the version lacks is set and may not be left out, and
    UnwritableError for a value that its field cannot carry.
    """
    out = bytearray()
    encode_into(out, message, version)
    return bytes(out)


def encode_into(out: bytearray, message: Message, version: int) -> None:
    """Append a message's bytes to `out`; raises as `encode`."""
    cls = type(message)
    write = _WRITERS.get((cls, version)) or writer(cls, version)
    try:
        write(message, out)
    except (structs.error, AttributeError, TypeError) as error:
        raise UnwritableError(f"{cls.__name__} version {version} cannot be written: {error}") from error


def reader(cls: type[Message], version: int) -> Reader:
    """Return the function (view, position, end) -> (message, position) for one version, making it on first use."""
    _assert_version(cls, version)
    namespace: dict[str, Any] = {
        "WireError": WireError,
        "read_uvarint": read_uvarint,
        "skip_tagged": skip_tagged,
        "unpack_from": structs.unpack_from,
    }
    source, constants = reader_source(cls, version)
    namespace.update(constants)
    made: Reader = _bound(source, namespace, "read_0", f"<reader of {cls.__name__} version {version}>")
    _READERS[cls, version] = made
    return made


def writer(cls: type[Message], version: int) -> Writer:
    """Return the function (message, out) for one version, making it on first use."""
    _assert_version(cls, version)
    namespace: dict[str, Any] = {
        "lacking": _lacking,
        "uvarint": uvarint,
        "pack": structs.pack,
    }
    source, constants = writer_source(cls, version)
    namespace.update(constants)
    made: Writer = _bound(source, namespace, "write_0", f"<writer of {cls.__name__} version {version}>")
    _WRITERS[cls, version] = made
    return made


def _bound(source: str, namespace: dict[str, Any], name: str, title: str) -> Any:
    exec(compile(source, title, "exec"), namespace)
    return namespace[name]


def _assert_version(cls: type[Message], version: int) -> None:
    first, last = cls.VERSIONS
    assert first <= version <= last, f"{cls.__name__} has versions {first} to {last}, not {version}"


def _lacking(struct: str, field: str, version: int) -> KafkaError:
    """Return the error for a field that is set and that this version cannot carry."""
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{struct} version {version} has no field {field}")
