"""The bytes by which a record says its schema: before the payload, or in a header.

Version 0 is a zero byte and the schema's id, 4 bytes big-endian; version 1 is a one and the 16 bytes of a GUID. Protobuf
has a path to the message's type behind either: how many steps, then the steps, as zigzag varints; a single zero stands
for the first message.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ottla.serdes.errors import SerdeError

__all__ = ["HEADERS", "SchemaId", "message_indexes", "split_header", "split_prefix"]

HEADERS = {True: "__key_schema_id", False: "__value_schema_id"}
"""Whether it is a key -> the header that may hold the GUID."""
_ID, _GUID = 0, 1
_ID_BYTES, _GUID_BYTES = 5, 17
_INDEXES_MAX = 100
_VARINT_BYTES_MAX = 5


@dataclass(frozen=True, slots=True)
class SchemaId:
    """A schema's id or GUID, and which of its messages."""

    id: int | None = None
    guid: UUID | None = None
    indexes: tuple[int, ...] | None = None
    """None for formats that have no messages."""

    def prefix(self) -> bytes:
        """Return the bytes before a payload: the id where there is one, else the GUID."""
        if self.id is not None:
            return b"\x00" + self.id.to_bytes(4) + self._indexes()
        return self.header()

    def header(self) -> bytes:
        """Return what the record's header holds; raises SerdeError without a GUID."""
        if self.guid is None:
            raise SerdeError("The registry gives no GUIDs, which schema ids in headers need")
        return b"\x01" + self.guid.bytes + self._indexes()

    def _indexes(self) -> bytes:
        if self.indexes is None:
            return b""
        if self.indexes == (0,):
            return b"\x00"
        return b"".join(map(_zigzag, (len(self.indexes), *self.indexes)))


def split_prefix(data: bytes, *, has_indexes: bool = False) -> tuple[SchemaId, bytes]:
    """Return the schema that a record's bytes begin with, and what is behind; raises SerdeError."""
    found, end = _id_of(data)
    if not has_indexes:
        return found, data[end:]
    indexes, end = message_indexes(data, end)
    return SchemaId(found.id, found.guid, indexes), data[end:]


def split_header(data: bytes, *, has_indexes: bool = False) -> SchemaId:
    """Return the schema that a header names; raises SerdeError."""
    found, rest = split_prefix(data, has_indexes=has_indexes)
    if rest:
        raise SerdeError(f"The header that names the schema has {len(rest)} bytes too many")
    return found


def _id_of(data: bytes) -> tuple[SchemaId, int]:
    magic = data[0] if data else -1
    if magic == _ID and len(data) >= _ID_BYTES:
        return SchemaId(int.from_bytes(data[1:_ID_BYTES], signed=True)), _ID_BYTES
    if magic == _GUID and len(data) >= _GUID_BYTES:
        return SchemaId(guid=UUID(bytes=bytes(data[1:_GUID_BYTES]))), _GUID_BYTES
    if magic not in (_ID, _GUID):
        begins = f"they begin with {magic:#04x}" if data else "there are none"
        raise SerdeError(f"The bytes name no schema (magic byte 0 or 1 is expected): {begins}")
    raise SerdeError(f"The bytes end within the schema's id: there are {len(data)}")


def message_indexes(data: bytes, at: int = 0) -> tuple[tuple[int, ...], int]:
    """Return the path to a Protobuf message's type, and where the payload begins; raises SerdeError."""
    count, at = _read_zigzag(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= _INDEXES_MAX:
        raise SerdeError(f"The path to the message's type cannot have {count} steps")
    found = []
    for _ in range(count):
        index, at = _read_zigzag(data, at)
        found.append(index)
    return tuple(found), at


def _zigzag(number: int) -> bytes:
    value = number << 1 if number >= 0 else ~(number << 1)
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(data):
            raise SerdeError("The bytes end within the path to the message's type")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at + place + 1
    raise SerdeError("The path to the message's type has a number of more than 32 bits")
