"""Unsigned varints (protobuf's base 128) and the tagged sections built of them (KIP-482)."""

from __future__ import annotations

from ottla.base import WireError

__all__ = ["read_uvarint", "skip_tagged", "uvarint"]

UVARINT_BYTES_MAX = 5
"""Bytes of the longest unsigned 32-bit varint."""
_SMALL = [bytes((value,)) for value in range(128)]


def uvarint(value: int) -> bytes:
    """Return an unsigned varint; raises ValueError outside 0 to 2**32 - 1."""
    if 0 <= value < 128:
        return _SMALL[value]
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{value} is not an unsigned 32-bit number")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: memoryview, pos: int) -> tuple[int, int]:
    """Return (value, position behind it); raises WireError for more than 32 bits, IndexError at the data's end."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 32:
                raise WireError("a varint has more than 32 bits")
            return value, pos
        shift += 7
        if shift >= 7 * UVARINT_BYTES_MAX:
            raise WireError("a varint has more than 5 bytes")


def skip_tagged(data: memoryview, pos: int, end: int) -> int:
    """Return the position behind a tagged section, all of whose fields are unknown; raises WireError when it is torn."""
    count, pos = read_uvarint(data, pos)
    for _ in range(count):
        _, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        pos += size
        if pos > end:
            raise WireError("a tagged field is longer than its message")
    return pos
