"""A change of a table as bytes: what Kafka writes to the repartition topic of a re-grouped table.

ChangedSerializer: the new value and 1, or the old value and 0, or (KIP-904) the new value's length as a zigzag varint, the
new value, the old value and 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.interface import Change
from ottla.streams.serdes.basic import Serde

__all__ = ["changed_decoder", "changed_encoder"]


def _varint(number: int) -> bytes:
    """Return a non-negative number as ByteUtils.writeVarint writes it (zigzag)."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    """Return a varint's number and length in bytes."""
    number = shift = 0
    for at, byte in enumerate(data[:5]):
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1, at + 1
        shift += 7
    raise ValueError("a change's length has more than five bytes")


def changed_encoder(serialize: Callable[[Any], bytes | None]) -> Callable[[Change], bytes]:
    """Return a change's serializer; raises ValueError for one that has neither side."""

    def encode(change: Change) -> bytes:
        new = None if change.new is None else serialize(change.new)
        old = None if change.old is None else serialize(change.old)
        if new is not None and old is not None:
            return _varint(len(new)) + new + old + b"\x02"
        if new is not None:
            return new + b"\x01"
        if old is not None:
            return old + b"\x00"
        raise ValueError("a change without old and new value cannot be written")

    return encode


def changed_decoder(serde: Serde) -> Callable[[bytes | None], Change | None]:
    """Return a change's deserializer; raises ValueError for bytes that are none."""
    deserialize = serde.deserialize

    def decode(data: bytes | None) -> Change | None:
        if data is None:
            return None
        flag, body, latest = data[-1] if data else -1, data[:-1], True
        if flag in (3, 4, 5):
            flag, body, latest = flag - 3, body[:-1], body[-1] == 1
        if flag == 0:
            return Change(deserialize(body), None, latest)
        if flag == 1:
            return Change(None, deserialize(body), latest)
        if flag == 2:
            length, start = _read_varint(body)
            return Change(deserialize(body[start + length :]), deserialize(body[start : start + length]), latest)
        raise ValueError(f"a change ends with {flag}, expected 0 to 5")

    return decode
