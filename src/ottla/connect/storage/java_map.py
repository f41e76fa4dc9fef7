"""A Java-serialised `HashMap<byte[], byte[]>`: the file in which Kafka's standalone worker keeps its offsets.

Only this one shape is read; anything else is refused, so no file can make us build anything but bytes. The format is
Java's Object Serialization Stream Protocol, version 5.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ottla.connect.errors import DataError

__all__ = ["read_java_map", "write_java_map"]

_HEADER = bytes.fromhex("aced0005")
_NULL, _REFERENCE, _CLASS, _OBJECT = b"\x70", b"\x71", b"\x72", b"\x73"
_ARRAY, _BLOCK, _END = b"\x75", b"\x77", b"\x78"
_MAP_CLASS = (
    _CLASS
    + b"\x00\x11java.util.HashMap"
    + bytes.fromhex("0507dac1c31660d1")  # its serialVersionUID
    + b"\x03\x00\x02F\x00\nloadFactorI\x00\tthreshold"
    + _END
    + _NULL
)
_BYTES_CLASS = _CLASS + b"\x00\x02[B" + bytes.fromhex("acf317f8060854e0") + b"\x02\x00\x00" + _END + _NULL
_FIRST_HANDLE = 0x7E0000
_BYTES_HANDLE = struct.pack(">I", _FIRST_HANDLE + 2)
_LOAD_FACTOR = 0.75


def write_java_map(entries: Mapping[bytes | None, bytes | None]) -> bytes:
    """Return the bytes that Java's ObjectOutputStream would write for a map of byte arrays."""
    capacity = 16
    while capacity * _LOAD_FACTOR < len(entries):
        capacity *= 2
    threshold = int(capacity * _LOAD_FACTOR) if entries else 0  # of a map that has had no entry
    parts = [_HEADER, _OBJECT, _MAP_CLASS, struct.pack(">fi", _LOAD_FACTOR, threshold)]
    parts += [_BLOCK, b"\x08", struct.pack(">ii", capacity, len(entries))]
    described = False
    for each in (item for pair in entries.items() for item in pair):
        if each is None:
            parts.append(_NULL)
            continue
        parts += [_ARRAY, _REFERENCE + _BYTES_HANDLE if described else _BYTES_CLASS, struct.pack(">i", len(each)), each]
        described = True
    return b"".join([*parts, _END])


class _Stream:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.handles: dict[int, bytes | None] = {}

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise DataError("The offsets file ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def integer(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def expect(self, expected: bytes, what: str) -> None:
        if self.take(len(expected)) != expected:
            raise DataError(f"Expected {what} in the offsets file, at byte {self.at - len(expected)}")

    def add(self, value: bytes | None) -> None:
        self.handles[_FIRST_HANDLE + len(self.handles)] = value


def read_java_map(data: bytes) -> dict[bytes | None, bytes | None]:
    """Return the map of a file that Kafka's FileOffsetBackingStore wrote; raises DataError for anything else."""
    stream = _Stream(data)
    stream.expect(_HEADER + _OBJECT, "a serialised Java object")
    stream.expect(_MAP_CLASS, "a java.util.HashMap")
    stream.add(None)  # the class
    stream.add(None)  # the map
    stream.take(8)  # load factor and threshold
    stream.expect(_BLOCK + b"\x08", "the map's size")
    stream.take(4)
    count = stream.integer()
    found = {}
    for _ in range(count):
        key = _array(stream)
        found[key] = _array(stream)
    stream.expect(_END, "the map's end")
    return found


def _array(stream: _Stream) -> bytes | None:
    """Read a byte array, null, or one that was read before."""
    kind = stream.take(1)
    if kind == _NULL:
        return None
    if kind == _REFERENCE:
        handle = stream.integer()
        if stream.handles.get(handle) is None:
            raise DataError("The offsets file refers to what is no byte array")
        return stream.handles[handle]
    if kind != _ARRAY:
        raise DataError(f"Expected a byte array in the offsets file, at byte {stream.at - 1}")
    if stream.data.startswith(_BYTES_CLASS, stream.at):
        stream.take(len(_BYTES_CLASS))
        stream.add(None)  # the class
    else:
        stream.expect(_REFERENCE + _BYTES_HANDLE, "a byte array")
    value = stream.take(stream.integer())
    stream.add(value)
    return value
