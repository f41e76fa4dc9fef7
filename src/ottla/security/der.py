"""The little of DER (X.690) that key stores and names need: one element after the other."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["OBJECT_IDENTIFIER", "OCTET_STRING", "SEQUENCE", "SET", "DerError", "elements", "identifier", "inside"]

SEQUENCE = 0x30
SET = 0x31
OBJECT_IDENTIFIER = 0x06
OCTET_STRING = 0x04


class DerError(ValueError):
    """Bytes that are not DER, or not what is looked for."""


def elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield tag, content and the whole of each element; raises DerError."""
    at = 0
    while at < len(data):
        start, tag = at, data[at]
        length, at = _length(data, at + 1)
        if tag & 0x1F == 0x1F or at + length > len(data):
            raise DerError("not DER")
        yield tag, data[at : at + length], data[start : at + length]
        at += length


def _length(data: bytes, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise DerError("not DER: it ends in a length")
    first = data[at]
    if first < 0x80:
        return first, at + 1
    size = first & 0x7F
    if not 1 <= size <= 4 or at + 1 + size > len(data):
        raise DerError("not DER: a length of a length")
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def inside(data: bytes, *tags: int) -> bytes:
    """Return the content of the one element, and of the first one in it, and so on; raises DerError for other tags."""
    for tag in tags:
        found = next(elements(data), None)
        if found is None or found[0] != tag:
            raise DerError(f"not DER: no element of tag {tag}")
        data = found[1]
    return data


def identifier(content: bytes) -> str:
    """Return an object identifier with dots; raises DerError."""
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers or content[-1] & 0x80:
        raise DerError("not DER: an object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
