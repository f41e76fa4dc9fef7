"""The few primitives that the hand-written readers and writers share (KIP-482: compact lengths, tagged fields)."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.base import WireError
from ottla.wire.message import REQUEST_ELEMENTS_MAX

__all__ = [
    "EMPTY_TAGS",
    "nullable_compact_string",
    "nullable_string",
    "read_compact_string",
    "read_count",
    "read_string",
    "read_uvarint",
    "skip_tags",
    "too_many",
    "truncated",
    "uvarint",
]

EMPTY_TAGS: Final = b"\x00"
STRING_BYTES_MAX: Final = 32767
"""Kafka refuses longer strings in every version."""
_int16: Final = Struct(">h")
_int32: Final = Struct(">i")
read_int16: Final = _int16.unpack_from
read_int32: Final = _int32.unpack_from
pack_int16: Final = _int16.pack
pack_int32: Final = _int32.pack


def truncated() -> WireError:
    """Return the error for a message that ends before what it declares."""
    return WireError("the message ends inside a field")


def too_many() -> WireError:
    """Return the error for a request with more elements than REQUEST_ELEMENTS_MAX."""
    return WireError(f"arrays have more than {REQUEST_ELEMENTS_MAX} elements")


def read_uvarint(data: memoryview, pos: int) -> tuple[int, int]:
    """Return (unsigned varint of up to 32 bits, position after it); IndexError at the end of the data."""
    byte: int = data[pos]
    pos += 1
    if byte < 0x80:
        return byte, pos
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise WireError("a varint is longer than five bytes")
    if value > 0xFFFFFFFF:
        raise WireError("a varint exceeds 32 bits")
    return value, pos


def read_count(data: memoryview, pos: int, compact: bool) -> tuple[int, int]:
    """Return (an array's number of elements, position after it); -1 for null. More elements than bytes are refused."""
    if compact:
        count, pos = read_uvarint(data, pos)
        count -= 1
    else:
        count = read_int32(data, pos)[0]
        pos += 4
    if count > len(data) - pos:
        raise WireError(f"an array declares {count} elements in {len(data) - pos} bytes")
    if count > REQUEST_ELEMENTS_MAX:
        raise too_many()
    return count, pos


def read_compact_string(data: memoryview, pos: int) -> tuple[str | None, int]:
    """Return (compact nullable string, position after it)."""
    size, pos = read_uvarint(data, pos)
    if size == 0:
        return None, pos
    if size > STRING_BYTES_MAX + 1:
        raise WireError(f"a string is longer than {STRING_BYTES_MAX} bytes")
    end = pos + size - 1
    if end > len(data):
        raise truncated()
    return str(data[pos:end], "utf-8"), end


def read_string(data: memoryview, pos: int) -> tuple[str | None, int]:
    """Return (nullable string with an int16 length, position after it)."""
    size: int = read_int16(data, pos)[0]
    pos += 2
    if size < 0:
        return None, pos
    end = pos + size
    if end > len(data):
        raise truncated()
    return str(data[pos:end], "utf-8"), end


def skip_tags(data: memoryview, pos: int) -> int:
    """Return the position after a section of tagged fields of which none is known."""
    count, pos = read_uvarint(data, pos)
    while count > 0:
        _, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        pos += size
        if pos > len(data):
            raise truncated()
        count -= 1
    return pos


def uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    if value < 0x80:
        return _UVARINT[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_UVARINT: list[bytes] = [bytes((value,)) for value in range(0x80)]


def nullable_compact_string(text: str | None) -> bytes:
    """Return a compact string, or null."""
    if text is None:
        return b"\x00"
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def nullable_string(text: str | None) -> bytes:
    """Return a string with an int16 length, or null."""
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return pack_int16(len(encoded)) + encoded
